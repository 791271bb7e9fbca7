"""Order writes: the bytes that were hashed go out, once, or it is certain that they did not."""

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from uuid import RFC_4122, UUID

import pytest

from bot.broker.budget import WINDOW
from bot.broker.errors import Malformed, RateLimited
from bot.broker.signer import Credentials, random_nonce
from bot.clock import wire_ms
from bot.domain.instrument import Exchange
from bot.domain.order import Intent, OrderType, Side
from bot.domain.outcome import Refused
from bot.engine.orders.cancels import LOOK_PATIENCE, LOOKS_MAX
from bot.protocol.classify import classify_cancel
from bot.protocol.endpoints.endpoint import Lane
from bot.protocol.envelope import Answer, NoAnswer
from bot.protocol.secret import Secret
from tests.broker.loopback import START
from tests.broker.played_broker import ACCOUNT, KEY, SECRET, Desk, Reply, desk

INTENT = Intent(
    intent_id="L-0001",
    signal_id="S-1",
    strategy="sma",
    account=ACCOUNT.extended_id,
    trading_date=START.date(),
    symbol="HPG",
    exchange=Exchange.HOSE,
    side=Side.BUY,
    quantity=100,
    order_type=OrderType.LO,
    limit_price=25_500,
    why="test",
    created_at=START,
    ttl_at=START + timedelta(seconds=5),
)
OK = Reply({"error_code": "0", "result": []})
AHEAD = {"Date": "Thu, 19 Nov 2026 02:15:35 GMT"}


def ready(*replies: Reply, per_minute: int = 600) -> Desk:
    bench = desk(*replies, per_minute=per_minute)
    bench.broker.two_factor.set_token(Secret("canary-token"))
    return bench


def limited(seconds: int) -> Reply:
    reset = str(int(START.timestamp()) + seconds)
    body = {"error_code": "RATE_LIMIT_EXCEEDED", "message": "Too many requests"}
    return Reply(body, 429, {"X-RateLimit-Reset": reset})


def test_a_nonce_is_a_random_uuid():
    nonces = [random_nonce() for _ in range(1_000)]

    assert len(set(nonces)) == 1_000
    assert {(UUID(each).version, str(UUID(each)) == each) for each in nonces} == {(4, True)}
    assert {UUID(each).variant for each in nonces} == {RFC_4122}


async def test_a_place_sends_the_very_bytes_that_were_signed():
    bench = ready(OK)
    writer = bench.broker.writer

    signed = writer.prepare_place(ACCOUNT, INTENT)
    answer = await writer.send(signed)

    [asked] = bench.played.asked
    assert isinstance(answer, Answer)
    assert (asked.method, asked.target) == (
        "POST",
        "/trading/oa/sub-accounts/0001234567/orders",
    )
    assert asked.body == signed.body
    assert asked.headers["x-fh-bodyhash"] == signed.body_sha256 == sha256(asked.body).hexdigest()
    assert asked.headers["x-fh-nonce"] == signed.nonce
    assert asked.headers["x-fh-timestamp"] == str(signed.timestamp_ms) == str(wire_ms(START))
    assert asked.headers["x-fh-2fa-token"] == "canary-token"
    assert asked.headers["device-id"] == "test-device"
    assert asked.headers["content-length"] == str(len(signed.body))
    assert asked.is_signed


async def test_a_cancel_and_an_amendment_name_their_order():
    bench = ready(OK)
    writer = bench.broker.writer

    cancel = writer.prepare_cancel(ACCOUNT, "ORD1")
    amend = writer.prepare_amend(ACCOUNT, "ORD1", limit_price=26_000, quantity=None)
    await writer.send(cancel)
    await writer.send(amend)

    path = "/trading/oa/sub-accounts/0001234567/orders/ORD1"
    assert [(asked.method, asked.target) for asked in bench.played.asked] == [
        ("DELETE", path),
        ("PUT", path),
    ]
    assert [json.loads(asked.body) for asked in bench.played.asked] == [
        {"sub_account": "120C000008.1"},
        {"price": 26_000},
    ]
    assert all(asked.is_signed for asked in bench.played.asked)


async def test_every_prepared_write_has_a_nonce_of_its_own():
    writer = ready(OK).broker.writer

    nonces = {writer.prepare_place(ACCOUNT, INTENT).nonce for _ in range(100)}

    assert len(nonces) == 100


@pytest.mark.parametrize("status", [200, 307, 400, 401, 403, 404, 429, 500, 502, 503, 504])
async def test_a_write_is_sent_exactly_once_whatever_the_answer(status):
    bench = ready(Reply({"error_code": "X"}, status))
    writer = bench.broker.writer

    answer = await writer.send(writer.prepare_place(ACCOUNT, INTENT))

    assert isinstance(answer, Answer)
    assert answer.http_status == status
    assert len(bench.played.asked) == 1


NONE_GOOD = "TWO_FACTOR: there is no token that has not ended"


async def test_without_a_token_no_write_leaves():
    bench = desk(OK)
    writer = bench.broker.writer

    answer = await writer.send(writer.prepare_place(ACCOUNT, INTENT))

    assert answer == NoAnswer(NONE_GOOD, is_sent=False)
    assert bench.played.asked == []
    assert writer.lack == "OTP_SESSION_REQUIRED"


async def test_an_answer_to_what_had_an_earlier_token_says_so():
    bench = ready(Reply({"error_code": "OTP_SESSION_EXPIRED"}, 403))
    writer, two_factor = bench.broker.writer, bench.broker.two_factor
    found = []

    for meanwhile in (
        lambda: None,
        lambda: two_factor.set_token(Secret("canary-newer")),
        two_factor.drop,
    ):
        bench.played.while_asked = meanwhile
        signed = writer.prepare_cancel(ACCOUNT, "ORD1")
        outcome = classify_cancel("ORD1", await writer.send(signed))
        assert isinstance(outcome, Refused)
        found.append(outcome.is_of_old_token)

    assert found == [False, True, False]


@pytest.mark.parametrize("after", ["replaced", "dropped", "ended"])
async def test_a_token_that_is_not_the_good_one_any_more_is_not_sent(after):
    bench = ready(OK)
    writer, two_factor = bench.broker.writer, bench.broker.two_factor
    signed = writer.prepare_place(ACCOUNT, INTENT)

    if after == "replaced":
        two_factor.set_token(Secret("canary-newer"))
    elif after == "dropped":
        two_factor.drop()
    else:
        bench.clock.advance_to(datetime(2026, 11, 19, 17, 0, 0, tzinfo=UTC))
    answer = await writer.send(signed)

    assert isinstance(answer, NoAnswer)
    assert not answer.is_sent
    assert answer.reason.startswith("TWO_FACTOR: ")
    assert bench.played.asked == []


async def test_a_token_of_an_earlier_day_is_never_sent():
    bench = ready(OK)
    writer = bench.broker.writer
    bench.clock.advance_to(datetime(2026, 11, 19, 17, 0, 0, tzinfo=UTC))

    answer = await writer.send(writer.prepare_place(ACCOUNT, INTENT))

    assert answer == NoAnswer(NONE_GOOD, is_sent=False)
    assert bench.played.asked == []
    assert writer.lack == "OTP_SESSION_EXPIRED"


async def test_midnight_is_the_brokers_also_for_a_clock_that_is_15_s_behind():
    midnight = {"Date": "Thu, 19 Nov 2026 17:00:05 GMT"}
    bench = ready(Reply({"error_code": "0", "data": {"user_id": 1}}, headers=midnight))
    writer = bench.broker.writer
    bench.clock.advance_to(datetime(2026, 11, 19, 16, 59, 50, tzinfo=UTC))
    assert writer.lack == ""

    for _ in range(3):
        await bench.broker.client.user()
    reads = len(bench.played.asked)
    answer = await writer.send(writer.prepare_place(ACCOUNT, INTENT))

    assert answer == NoAnswer(NONE_GOOD, is_sent=False)
    assert len(bench.played.asked) == reads


async def test_a_429_of_a_write_closes_the_budget_and_is_not_sent_again():
    bench = ready(limited(5))
    writer = bench.broker.writer

    answer = await writer.send(writer.prepare_place(ACCOUNT, INTENT))

    assert isinstance(answer, Answer)
    assert answer.http_status == 429
    assert (len(bench.played.asked), bench.waiter.waits) == (1, [])
    assert bench.broker.budget.opens_at(Lane.PLACE) > START + timedelta(seconds=5)


async def test_a_write_waits_for_the_budget_while_its_signature_is_fresh():
    bench = ready(limited(5), OK)
    writer = bench.broker.writer
    await writer.send(writer.prepare_place(ACCOUNT, INTENT))

    answer = await writer.send(writer.prepare_cancel(ACCOUNT, "ORD1"))

    assert isinstance(answer, Answer)
    assert START + timedelta(seconds=5) < bench.clock.now() < START + timedelta(seconds=10)


async def test_a_write_that_would_wait_too_long_is_certainly_not_sent():
    bench = ready(limited(30))
    writer = bench.broker.writer
    await writer.send(writer.prepare_place(ACCOUNT, INTENT))

    answer = await writer.send(writer.prepare_place(ACCOUNT, INTENT))

    assert isinstance(answer, NoAnswer)
    assert not answer.is_sent
    assert len(bench.played.asked) == 1


async def test_places_leave_a_fifth_of_the_budget_for_cancels():
    bench = ready(OK, per_minute=10)
    writer = bench.broker.writer
    for _ in range(8):
        await writer.send(writer.prepare_place(ACCOUNT, INTENT))

    place = await writer.send(writer.prepare_place(ACCOUNT, INTENT))
    cancel = await writer.send(writer.prepare_cancel(ACCOUNT, "ORD1"))

    assert isinstance(place, NoAnswer)
    assert isinstance(cancel, Answer)


async def test_no_place_leaves_while_our_clock_is_twenty_seconds_off():
    bench = ready(Reply({"error_code": "0", "data": {"user_id": 1}}, headers=AHEAD))
    for _ in range(3):
        await bench.broker.client.user()

    answer = await bench.broker.writer.send(bench.broker.writer.prepare_place(ACCOUNT, INTENT))

    assert isinstance(answer, NoAnswer)
    assert not answer.is_sent
    assert answer.reason == "our clock is 40 s behind the broker's"
    assert len(bench.played.asked) == 3


async def test_a_cancel_leaves_however_far_our_clock_is_off():
    bench = ready(Reply({"error_code": "0", "data": {"user_id": 1}}, headers=AHEAD))
    for _ in range(3):
        await bench.broker.client.user()

    await bench.broker.writer.send(bench.broker.writer.prepare_cancel(ACCOUNT, "ORD1"))

    asked = bench.played.asked[-1]
    assert (asked.method, len(bench.played.asked)) == ("DELETE", 4)
    at = bench.clock.now() + timedelta(seconds=40)
    assert abs(int(asked.headers["x-fh-timestamp"]) - wire_ms(at)) <= 1_000


async def test_a_burn_is_a_read_of_the_user_with_the_nonce_given_and_a_new_timestamp():
    bench = ready(Reply({"error_code": "0", "data": {"user_id": 1}}))
    bench.clock.advance_to(START + timedelta(seconds=20))

    await bench.broker.writer.burn("the-nonce-of-a-lost-place")

    [asked] = bench.played.asked
    assert (asked.method, asked.target, asked.body) == ("GET", "/users/v1/users/me", b"")
    assert asked.headers["x-fh-nonce"] == "the-nonce-of-a-lost-place"
    assert asked.headers["x-fh-timestamp"] == str(wire_ms(START + timedelta(seconds=20)))
    assert asked.is_signed


def test_secrets_stay_out_of_reprs():
    bench = ready(OK)
    signed = bench.broker.writer.prepare_place(ACCOUNT, INTENT)

    told = f"{signed!r} {bench.broker!r} {vars(bench.broker.writer)}"

    assert [secret for secret in (KEY, SECRET, "canary-token") if secret in told] == []


@pytest.mark.parametrize("device_id", ["", "x" * 65])
def test_a_device_id_has_1_to_64_characters(device_id):
    with pytest.raises(ValueError, match="1 to 64"):
        Credentials(Secret(KEY), Secret(SECRET), device_id)


async def test_ten_cancels_and_the_reads_before_them_leave_at_once_beside_polls_at_their_limit():
    bench = ready(Reply({"error_code": "404", "message": "unknown"}, 404), per_minute=60)
    client, writer = bench.broker.client, bench.broker.writer
    for _ in range(39):  # as many polls as may fill the window
        await bench.broker.budget.take(Lane.QUOTE, "stock_quote", wait_max=timedelta())

    for _ in range(LOOKS_MAX):
        await client.order_to_cancel(ACCOUNT, "ORD1", START)
    for _ in range(10):
        await writer.send(writer.prepare_cancel(ACCOUNT, "ORD1"))

    asked = [one.method for one in bench.played.asked]
    assert asked == ["GET"] * LOOKS_MAX + ["DELETE"] * 10
    assert bench.waiter.waits == []
    with pytest.raises(RateLimited):
        await bench.broker.budget.take(Lane.ORDER_POLL, "order_detail", wait_max=timedelta())


async def test_the_read_before_a_cancel_waits_for_the_quota_no_longer_than_the_cancel_for_it():
    """Later it would only keep the list back, which shows what came of all of them."""
    bench = ready(OK, per_minute=60)
    for _ in range(57):
        await bench.broker.budget.take(Lane.BOOK, "todays_orders", wait_max=timedelta())

    with pytest.raises(RateLimited):
        await bench.broker.client.order_to_cancel(ACCOUNT, "ORD1", START)
    bench.clock.advance_to(START + WINDOW - LOOK_PATIENCE)
    with suppress(Malformed):
        await bench.broker.client.order_to_cancel(ACCOUNT, "ORD1", START)

    assert len(bench.waiter.waits) == len(bench.played.asked) == 1


async def test_a_cancel_leaves_at_once_where_the_read_before_it_would_wait():
    bench = ready(OK, per_minute=60)
    await bench.broker.budget.take(Lane.CANCEL, "cancel_order", wait_max=timedelta())
    for _ in range(56):
        await bench.broker.budget.take(Lane.BOOK, "todays_orders", wait_max=timedelta())

    with pytest.raises(RateLimited):
        await bench.broker.budget.take(Lane.BOOK, "order_detail", wait_max=timedelta())
    await bench.broker.writer.send(bench.broker.writer.prepare_cancel(ACCOUNT, "ORD1"))

    assert [asked.method for asked in bench.played.asked] == ["DELETE"]
    assert bench.waiter.waits == []
