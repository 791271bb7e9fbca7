"""A3: after two 401s nothing signed leaves for five minutes, then one call may try."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest

from bot.broker.calls import EXCUSED_MAX, REFUSED_KEY_PAUSE, Barred, Proof
from bot.broker.errors import KeyRefused, Refused
from bot.clock import wire_ms
from bot.protocol import calls
from bot.protocol.envelope import Answer, NoAnswer
from bot.protocol.secret import Secret
from tests.broker.loopback import START
from tests.broker.played_broker import ACCOUNT, Desk, Reply, desk

USER = Reply({"error_code": "0", "data": {"user_id": 42}})
NO = Reply({"error_code": "AUTH_SIGNATURE_INVALID", "message": "no"}, 401)
QUOTE = Reply({"error_code": "0", "data": {"symbol": "HPG", "exchange": "HOSE", "price": 1}})


async def refuse(bench: Desk, times: int = 2) -> None:
    for _ in range(times):
        with pytest.raises(Refused):
            await bench.broker.client.user()


async def test_two_refusals_stop_every_signed_call() -> None:
    bench = desk(NO)
    await refuse(bench)

    with pytest.raises(KeyRefused) as caught:
        await bench.broker.client.portfolio(ACCOUNT)

    assert len(bench.played.asked) == 2
    assert caught.value.retry_at == START + REFUSED_KEY_PAUSE
    assert caught.value.reason.endswith("(401); nothing is sent before 09:19:55")


def amend(bench: Desk) -> Awaitable[Answer | NoAnswer]:
    bench.broker.two_factor.set_token(Secret("canary-token"))
    writer = bench.broker.writer
    return writer.send(writer.prepare_amend(ACCOUNT, "ORD1", limit_price=27_000, quantity=None))


def cancel(bench: Desk) -> Awaitable[Answer | NoAnswer]:
    bench.broker.two_factor.set_token(Secret("canary-token"))
    writer = bench.broker.writer
    return writer.send(writer.prepare_cancel(ACCOUNT, "ORD1"))


async def test_no_order_leaves_while_the_key_is_refused() -> None:
    bench = desk(NO)
    await refuse(bench)

    changed, burned = await amend(bench), await bench.broker.writer.burn("nonce")

    assert len(bench.played.asked) == 2
    assert [isinstance(each, NoAnswer) and not each.is_sent for each in (changed, burned)] == [
        True
    ] * 2


async def test_a_cancel_leaves_while_the_key_is_refused_and_one_that_is_taken_clears_it() -> None:
    """Ruling 49: nothing but 2FA and the exchange's rules holds a cancel back."""
    bench = desk(NO, NO, NO, NO, NO, Reply({"error_code": "0", "data": {}}), USER)
    await refuse(bench)

    for _ in range(3):
        await cancel(bench)
    with pytest.raises(KeyRefused):
        await bench.broker.client.user()
    await cancel(bench)

    assert (await bench.broker.client.user()).user_id == 42


async def test_refused_cancels_stop_no_read() -> None:
    bench = desk(NO, NO, NO, USER)

    for _ in range(3):
        await cancel(bench)

    assert (await bench.broker.client.user()).user_id == 42


async def test_refused_orders_stop_orders_and_nothing_else() -> None:
    """A key may be allowed to read and not to trade; good reads in between prove nothing else."""
    bench = desk(NO, USER, NO, USER)
    told: list[object] = []
    bench.broker.breaker._on_bar = lambda: told.append(bench.broker.breaker.barred())
    bench.broker.breaker._on_free = lambda: told.append("over")

    for _ in range(2):
        await amend(bench)
        await bench.broker.client.user()
    bench.played.replies = [USER]
    kept_back = await amend(bench)
    await bench.broker.client.user()

    assert isinstance(kept_back, Barred)
    assert told == [(Proof.ORDERS, START + REFUSED_KEY_PAUSE)]
    bench.clock.advance_to(bench.clock.now() + REFUSED_KEY_PAUSE)
    for _ in range(2):
        assert isinstance(await amend(bench), Answer)
    assert bench.broker.breaker.barred() is None
    assert told[1:] == ["over"]


async def test_no_one_time_code_is_asked_for_while_the_key_is_refused() -> None:
    bench = desk(NO)
    await refuse(bench)

    with pytest.raises(KeyRefused):
        await bench.broker.client.request_otp()

    assert len(bench.played.asked) == 2


@pytest.mark.parametrize("status", [400, 401, 403, 429])
@pytest.mark.parametrize("code", ["OTP_INVALID", "OTP_LOCKED", "OTP_CONTACT_UNAVAILABLE"])
async def test_a_wrong_one_time_code_says_nothing_of_key_orders_or_quota(
    status: int, code: str
) -> None:
    wrong = Reply({"error_code": code, "message": "wrong code, 2 tries left"}, status)
    bench = desk(*[wrong] * 4, USER)
    told: list[object] = []
    bench.broker.breaker._on_bar = lambda: told.append(bench.broker.breaker.barred())

    for _ in range(4):
        with pytest.raises(Refused):
            await bench.broker.client.verify_otp("T-1", Secret("111111"))
    answers = [await amend(bench), await cancel(bench)]

    assert [isinstance(each, Answer) for each in answers] == [True, True]
    assert (bench.broker.breaker.barred(), told, bench.waiter.waits) == (None, [], [])


async def test_a_401_about_the_second_factor_is_the_word_of_a_broker_that_takes_the_key() -> None:
    ended = Reply({"error_code": "OTP_SESSION_EXPIRED", "message": "no"}, 401)
    bench = desk(NO, ended, NO, ended, USER)

    for _ in range(4):
        await amend(bench)

    assert isinstance(await amend(bench), Answer)


async def test_a_refused_request_for_a_code_counts_as_a_signature() -> None:
    bench = desk(NO)

    for _ in range(2):
        with pytest.raises(Refused):
            await bench.broker.client.request_otp()

    assert bench.broker.breaker.barred() == (Proof.SIGNATURE, START + REFUSED_KEY_PAUSE)


async def test_codes_are_mailed_to_a_key_that_may_not_trade_and_prove_nothing_of_its_orders() -> (
    None
):
    ticket = Reply({"ticket_id": "T-1", "masked_destination": "u***@example.com"})
    bench = desk(NO, NO, ticket)
    told: list[str] = []
    bench.broker.breaker._on_bar = lambda: told.append("barred")
    bench.broker.breaker._on_free = lambda: told.append("over")
    for _ in range(2):
        await amend(bench)

    mailed = await bench.broker.client.request_otp()

    assert mailed.ticket_id == "T-1"
    assert told == ["barred"]
    assert isinstance(await amend(bench), Barred)


async def test_a_refused_write_counts_as_well() -> None:
    bench = desk(NO)

    for _ in range(3):
        await amend(bench)

    assert len(bench.played.asked) == 2


async def test_market_data_without_a_signature_goes_on() -> None:
    bench = desk(NO, NO, QUOTE)
    await refuse(bench)

    assert (await bench.broker.client.quote("HPG")).last == 1


async def test_a_key_that_is_refused_without_a_signature_stops_everything() -> None:
    bench = desk(NO)

    for _ in range(2):
        with pytest.raises(Refused):
            await bench.broker.client.read(calls.CODECS["stock_catalogue"])
    for call in (bench.broker.client.user(), bench.broker.client.quote("HPG")):
        with pytest.raises(KeyRefused):
            await call

    assert len(bench.played.asked) == 2


async def test_an_hour_of_polling_sends_at_most_two_calls_in_five_minutes() -> None:
    bench = desk(NO)

    for _ in range(360):
        with pytest.raises((Refused, KeyRefused)):
            await bench.broker.client.user()
        bench.clock.advance_to(bench.clock.now() + timedelta(seconds=10))

    assert len(bench.played.asked) <= 2 + 60 // 5


async def test_a_key_that_is_taken_again_is_used_again() -> None:
    bench = desk(NO, NO, USER)
    await refuse(bench)
    bench.clock.advance_to(START + REFUSED_KEY_PAUSE)

    for _ in range(3):
        await bench.broker.client.user()

    assert len(bench.played.asked) == 5


async def test_one_refusal_between_good_answers_stops_nothing() -> None:
    bench = desk(NO, USER, NO, USER)

    for _ in range(2):
        await refuse(bench, times=1)
        await bench.broker.client.user()

    assert len(bench.played.asked) == 4


async def test_a_used_nonce_is_no_refusal_of_the_key() -> None:
    used = Reply({"error_code": "AUTH_NONCE_REUSED", "message": "no"}, 401)
    bench = desk(used, used, used, USER)

    with pytest.raises(Refused):
        await bench.broker.client.user()

    assert (await bench.broker.client.user()).user_id == 42


async def test_refusals_of_a_wrong_clock_are_forgotten_when_the_clock_is_known() -> None:
    date = {"Date": "Thu, 19 Nov 2026 02:15:35 GMT"}
    late = Reply({"error_code": "401", "message": "timestamp"}, 401, date)
    bench = desk(late, late, USER)
    await refuse(bench)

    assert (await bench.broker.client.user()).user_id == 42


async def test_a_refusal_whose_date_speaks_against_our_clock_is_not_held_against_the_key() -> None:
    date = {"Date": "Thu, 19 Nov 2026 02:15:35 GMT"}
    late = Reply({"error_code": "401", "message": "timestamp"}, 401, date)
    bench = desk(NO, late, late, USER)
    await refuse(bench, times=3)

    assert (await bench.broker.client.user()).user_id == 42


async def test_what_was_under_way_when_the_clock_was_found_is_excused_as_one() -> None:
    date = {"Date": "Thu, 19 Nov 2026 02:15:35 GMT"}
    late = Reply({"error_code": "401", "message": "timestamp"}, 401, date)
    bench = desk(*[late] * 8, USER)
    client = bench.broker.client

    found = await asyncio.gather(*(client.user() for _ in range(8)), return_exceptions=True)

    assert [type(each) for each in found] == [Refused] * 8
    assert (await client.user()).user_id == 42


async def test_dates_that_never_agree_excuse_a_few_refusals_alone() -> None:
    dates = [{"Date": f"Thu, 19 Nov 2026 {hour:02}:15:35 GMT"} for hour in range(3, 3 + 10)]
    bench = desk(*(Reply({"error_code": "401", "message": "no"}, 401, date) for date in dates))

    await refuse(bench, times=EXCUSED_MAX + 2)
    with pytest.raises(KeyRefused):
        await bench.broker.client.user()

    assert len(bench.played.asked) == EXCUSED_MAX + 2


def dated(reply: Reply, minute: int) -> Reply:
    """The same, by another server's clock."""
    return replace(reply, headers={"Date": f"Thu, 19 Nov 2026 02:{minute:02}:{START.second} GMT"})


@pytest.mark.parametrize("in_a_row", [1, 2])
async def test_other_servers_with_other_clocks_excuse_a_wrong_key_a_few_times_alone(
    in_a_row: int,
) -> None:
    bench = desk(NO)

    for _ in range(20):
        bench.played.replies = [dated(NO, START.minute + 1)]
        for _ in range(in_a_row):
            with suppress(Refused, KeyRefused):
                await bench.broker.client.user()
        signed = len(bench.played.asked)
        bench.played.replies = [dated(QUOTE, START.minute)]
        for _ in range(in_a_row):
            await bench.broker.client.quote("HPG")
        del bench.played.asked[signed:]

    assert len(bench.played.asked) <= 2 * (EXCUSED_MAX + 1)


@pytest.mark.parametrize("hour", ["01", "03"])
async def test_a_date_that_is_an_hour_wrong_on_every_answer_keeps_no_cancel_back(hour: str) -> None:
    date = {"Date": f"Thu, 19 Nov 2026 {hour}:14:55 GMT"}
    bench = desk(USER)
    bench.broker.two_factor.set_token(Secret("canary-token"))

    def judge() -> None:
        stamp = int(bench.played.asked[-1].headers["x-fh-timestamp"])
        is_near = abs(stamp - wire_ms(bench.clock.now())) <= 30_000
        bench.played.replies = [replace(USER if is_near else NO, headers=date)]

    bench.played.while_asked = judge
    read = bench.broker.client.user

    found = [await asyncio.gather(*(read() for _ in range(6)), return_exceptions=True)]
    found.append(await asyncio.gather(*(read() for _ in range(6)), return_exceptions=True))
    sent = await bench.broker.writer.send(bench.broker.writer.prepare_cancel(ACCOUNT, "ORD1"))

    assert bench.broker.offset.blocks_writes
    assert isinstance(sent, Answer)
    assert sent.http_status == 200
    assert not [each for each in found[1] if isinstance(each, KeyRefused)]


@pytest.mark.parametrize("status", [429, 503])
async def test_an_answer_that_says_nothing_of_the_key_does_not_clear_it(status: int) -> None:
    bench = desk(NO, Reply({"message": "busy"}, status), NO)

    for _ in range(4):
        await amend(bench)
        bench.clock.advance_to(bench.clock.now() + timedelta(seconds=61))

    assert len(bench.played.asked) == 3


PAGE = b"<!DOCTYPE html><title>Log in to this network</title>"


@pytest.mark.parametrize("status", [200, 302, 403, 404, 407])
@pytest.mark.parametrize("page", [PAGE, b"", b" \n" + PAGE, b"[1]"])
async def test_a_page_of_a_portal_or_a_proxy_does_not_clear_a_refused_key(
    status: int, page: bytes
) -> None:
    bench = desk(NO, Reply(page, status), NO, Reply(page, status))
    told: list[str] = []
    bench.broker.breaker._on_bar = lambda: told.append("barred")
    bench.broker.breaker._on_free = lambda: told.append("over")

    for _ in range(3):
        await amend(bench)
    barred = bench.broker.breaker.barred()
    bench.clock.advance_to(START + REFUSED_KEY_PAUSE)
    tried = await amend(bench)

    assert barred == (Proof.ORDERS, START + REFUSED_KEY_PAUSE)
    assert isinstance(tried, Answer)
    assert told == ["barred"]


@pytest.mark.parametrize("status", [200, 400, 403, 404])
async def test_the_brokers_own_word_clears_a_key_that_was_refused(status: int) -> None:
    word = Reply({"error_code": "NO_SUCH_ORDER", "message": "no"}, status)
    bench = desk(NO, word, NO, word)

    for _ in range(4):
        await amend(bench)

    assert len(bench.played.asked) == 4
    assert bench.broker.breaker.barred() is None


async def test_of_many_calls_under_way_one_tells_of_the_bar_and_one_tries_the_key_again() -> None:
    bench, told = desk(NO), list[object]()
    bench.broker.breaker._on_bar = lambda: told.append(None)

    async def many() -> int:
        before = len(bench.played.asked)
        calls = (bench.broker.client.user() for _ in range(12))
        await asyncio.gather(*calls, return_exceptions=True)
        return len(bench.played.asked) - before

    first = await many()
    bench.clock.advance_to(bench.clock.now() + REFUSED_KEY_PAUSE)
    second = await many()

    assert (first, second, len(told)) == (12, 1, 1)
