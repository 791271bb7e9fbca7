"""Typed reads: signed anew each time, tried again within a limit, and a typed error otherwise."""

import threading
from dataclasses import replace
from datetime import date, timedelta

import pytest

from bot.broker.calls import READ_TRIES_MAX
from bot.broker.errors import BrokerError, Malformed, RateLimited, Refused
from bot.domain.account import Holding, ShareholderRight, SubAccount
from bot.domain.instrument import Exchange, Phase
from bot.domain.order import OrderState, OrderType
from bot.protocol import calls
from bot.protocol.envelope import FOR_A_MOMENT, SMALL, NoAnswer, Payload
from bot.protocol.secret import Secret
from bot.protocol.values.border import OtpTicket, User
from bot.protocol.values.quotes import CatalogueItem
from tests.broker.loopback import START
from tests.broker.played_broker import ACCOUNT, Reply, desk
from tests.protocol.samples import INTENT

USER = {"error_code": "0", "message": "success", "data": {"user_id": 42}}
ACCOUNTS = {
    "error_code": "0",
    "result": [{"id": "0001234567", "sub_account_ext": "120C000008.1", "type": "Normal"}],
}
ROW = {
    "orderid": "ORD700001",
    "txdate": "2026-11-19",
    "txtime": "09:14:58",
    "symbol": "HPG",
    "side": "BUY",
    "price": 25500,
    "pricetype": "LO",
    "qtty": 300,
    "execqtty": 100,
    "execprice": 25500,
    "execamt": 2550000,
    "remainqtty": 200,
    "cancelqtty": 0,
    "status": "SENT",
    "status_code": "02",
    "allowcancel": "Y",
    "allowamend": "Y",
}
QUOTE = {
    "symbol": "HPG",
    "exchange": "HOSE",
    "price": 25500,
    "reference": 25400,
    "ceiling": 27150,
    "floor": 23650,
    "volume": 1000,
}
TOKEN = {
    "session_token": "canary-token",
    "expires_at": "2026-11-19T23:59:59.000+07:00",
    "expires_at_epoch": 1795107599,
}
RESET = str(int(START.timestamp()) + 30)
LIMIT = Reply(
    {"error_code": "RATE_LIMIT_EXCEEDED", "message": "Too many requests"},
    429,
    {"X-RateLimit-Reset": RESET},
)


def error(status: int, code: str) -> Reply:
    return Reply({"error_code": code, "message": "no"}, status)


async def test_a_read_of_the_account_is_signed_over_its_very_target():
    bench = desk(Reply({"error_code": "0", "result": {"pp0": 5_000_000, "trade": 100}}))

    query = (("orderSide", "BUY"), ("symbol", "HPG"), ("quotePrice", "27000"))
    trade = await bench.broker.client.read(
        calls.CODECS["available_trade"], {"sub_account_id": ACCOUNT.id}, query
    )

    [asked] = bench.played.asked
    assert asked.target == (
        "/trading/v2/accounts/0001234567/available-trade?orderSide=BUY&symbol=HPG&quotePrice=27000"
    )
    assert asked.is_signed
    assert (trade.buying_power, trade.sellable) == (5_000_000, 100)


async def test_market_data_carries_the_key_and_nothing_else_of_ours():
    bench = desk(Reply({"error_code": "0", "data": QUOTE}))

    quote = await bench.broker.client.quote("HPG")

    ours = {name for name in bench.played.asked[0].headers if name.startswith("x-fh")}
    assert ours == {"x-fh-apikey"}
    assert (quote.last, quote.exchange) == (25_500, Exchange.HOSE)


async def test_rights_come_in_the_words_of_trading():
    right = {"symbol": "HPG", "type": "STOCK_DIVIDEND", "ratio": "100:15", "caMastId": "000012"}
    numbers = {"ownNumberOfShare": 200, "numberOfWaitingStock": 30, "finishDate": "2026-12-01"}
    bench = desk(Reply({"error_code": "0", "result": [right | numbers]}))

    found = await bench.broker.client.rights(ACCOUNT)

    paid_on = date(2026, 12, 1)
    ours = ShareholderRight("000012", "HPG", "STOCK_DIVIDEND", "100:15", 200, 0, 30, paid_on)
    assert found == (ours,)


OF_THE_ACCOUNT = {
    "the day order book": (
        {"error_code": "0", "result": [ROW]},
        lambda client: client.todays_orders(ACCOUNT, START),
    ),
    "an order": (
        {"error_code": "0", "data": ROW},
        lambda client: client.order(ACCOUNT, "ORD700001", START),
    ),
    "an order to cancel": (
        {"error_code": "0", "data": ROW},
        lambda client: client.order_to_cancel(ACCOUNT, "ORD700001", START),
    ),
    "the shares": (
        {"error_code": "0", "data": {"portfolio": []}},
        lambda client: client.portfolio(ACCOUNT),
    ),
    "the money": (
        {"error_code": "0", "result": {"cibalance": 5_000_000}},
        lambda client: client.summary(ACCOUNT),
    ),
}


@pytest.mark.parametrize("read", OF_THE_ACCOUNT)
@pytest.mark.parametrize(("age", "is_taken"), [("0", True), ("1", False), ("120", False)])
async def test_what_a_cache_says_of_the_account_is_not_taken_for_now(read, age, is_taken):
    body, ask = OF_THE_ACCOUNT[read]
    bench = desk(Reply(body, headers={"Age": age}))

    if is_taken:
        await ask(bench.broker.client)
        return
    with pytest.raises(Malformed, match="a cache answered for the broker"):
        await ask(bench.broker.client)
    assert len(bench.played.asked) == 1


async def test_a_cache_that_does_not_know_an_order_says_nothing_of_it():
    unknown = {"error_code": "404", "message": "Not found"}
    bench = desk(Reply(unknown, status=404, headers={"Age": "30"}))

    with pytest.raises(Malformed, match="a cache answered"):
        await bench.broker.client.order(ACCOUNT, "ORD700001", START)


async def test_what_is_not_of_the_account_may_come_from_a_cache():
    bench = desk(Reply({"error_code": "0", "data": QUOTE}, headers={"Age": "3"}))

    assert (await bench.broker.client.quote("HPG")).last == 25_500


async def test_every_attempt_has_a_nonce_and_a_timestamp_of_its_own():
    bench = desk(error(503, "500"), error(503, "500"), Reply(USER))

    user = await bench.broker.client.user()

    nonces = {asked.headers["x-fh-nonce"] for asked in bench.played.asked}
    stamps = {asked.headers["x-fh-timestamp"] for asked in bench.played.asked}
    assert user == User(42)
    assert (len(nonces), len(stamps)) == (3, 3)
    assert all(asked.is_signed for asked in bench.played.asked)


async def test_reads_are_tried_three_times_and_no_more():
    bench = desk(error(500, "500"))

    with pytest.raises(Refused) as caught:
        await bench.broker.client.user()

    assert (caught.value.http_status, caught.value.error_code) == (500, "500")
    assert len(bench.played.asked) == READ_TRIES_MAX


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_a_refusal_is_not_tried_again(status):
    bench = desk(error(status, "CODE"))

    with pytest.raises(Refused) as caught:
        await bench.broker.client.quote("HPG")

    assert (caught.value.call, caught.value.http_status) == ("stock_quote", status)
    assert len(bench.played.asked) == 1


async def test_a_used_nonce_is_replaced():
    bench = desk(error(401, "AUTH_NONCE_REUSED"), Reply(USER))

    assert await bench.broker.client.user() == User(42)


async def test_a_200_with_an_error_code_is_a_refusal():
    bench = desk(Reply({"error_code": "-1", "message": "no", "data": {"user_id": 42}}))

    with pytest.raises(Refused):
        await bench.broker.client.user()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>please log in</html>",
        b'{"error_code":"0","data":{"user_id":',
        b'{"error_code":"0","data":{"user_id":NaN}}',
        b'{"error_code":"0","data":{"user_id":1,"user_id":2}}',
        b'{"error_code":"0","data":[1]}',
        b'{"error_code":"0"}',
        b"[" * 100_000,
        b'{"error_code":"0","data":{"user_id":' + b"9" * 10_000 + b"}}",
        b"\xff\xfe",
    ],
    ids=lambda body: repr(body[:24]),
)
async def test_garbage_is_a_typed_error_that_names_the_call(body):
    bench = desk(Reply(body))

    with pytest.raises(Malformed) as caught:
        await bench.broker.client.user()

    assert caught.value.call == "user"
    assert len(caught.value.raw.encode()) <= 16 * 1024


async def test_an_error_page_is_not_taken_for_the_brokers_word():
    bench = desk(Reply(b"<html>not found</html>", 404))

    with pytest.raises(Malformed):
        await bench.broker.client.order(ACCOUNT, "ORD1", START)


async def test_a_429_waits_for_its_reset_and_goes_on():
    told = []
    bench = desk(LIMIT, Reply(USER), on_wait=lambda *said: told.append(said))

    await bench.broker.client.user()

    assert bench.clock.now() >= START + timedelta(seconds=30, milliseconds=50)
    assert [(waiting, call) for _, waiting, call in told] == [(1, "user")]
    assert not bench.broker.budget.is_degraded


async def test_a_429_after_each_wait_gives_up_degraded():
    bench = desk(LIMIT)

    with pytest.raises(RateLimited) as caught:
        await bench.broker.client.user()

    assert len(bench.played.asked) == READ_TRIES_MAX
    assert bench.broker.budget.is_degraded
    assert caught.value.retry_at > bench.clock.now()


async def test_a_401_for_a_user_reads_the_user_again_once():
    bench = desk(error(401, "401"), Reply(USER), Reply(ACCOUNTS))

    accounts = await bench.broker.client.sub_accounts(7)

    assert accounts == (SubAccount("0001234567", "120C000008.1", "Normal"),)
    assert [asked.target for asked in bench.played.asked] == [
        "/users/v1/users/7/sub-accounts",
        "/users/v1/users/me",
        "/users/v1/users/42/sub-accounts",
    ]


async def test_a_second_401_for_a_user_is_final():
    bench = desk(error(401, "401"), Reply(USER), error(401, "401"))

    with pytest.raises(Refused):
        await bench.broker.client.sub_accounts(7)

    assert len(bench.played.asked) == 3


async def test_the_day_book_comes_fresh_and_stamped():
    bench = desk(Reply({"error_code": "0", "result": [ROW]}))

    [report] = (await bench.broker.client.todays_orders(ACCOUNT, START)).reports

    assert bench.played.asked[0].target == (
        "/trading/v1/accounts/0001234567/order-book?cache-control=NOCACHE"
    )
    assert (report.order_id, report.executed_quantity, report.requested_at) == (
        "ORD700001",
        100,
        START,
    )


async def test_an_order_is_its_row_or_none_when_the_broker_does_not_know_it():
    bench = desk(Reply({"error_code": "0", "data": ROW}), error(404, "404"))

    known = await bench.broker.client.order(ACCOUNT, "ORD700001", START)
    unknown = await bench.broker.client.order(ACCOUNT, "ORD9", START)

    assert known is not None
    assert known.state is OrderState.ACCEPTED
    assert unknown is None


async def test_a_phase_comes_with_the_order_types_listed():
    body = {
        "exchange": "HOSE",
        "exchange_session": "PROGRESS",
        "available_order_types": ["LO", "MP"],
    }
    bench = desk(Reply({"error_code": "0", "result": body}))

    phase = await bench.broker.client.market_phase(Exchange.HOSE)

    assert bench.played.asked[0].target == "/trading/market/session?exchange=HOSE"
    assert (phase.phase, phase.available) == (
        Phase.PROGRESS,
        frozenset({OrderType.LO, OrderType.MP}),
    )


async def test_an_account_snapshot_is_shares_and_money():
    shares = {"symbol": "HPG", "total": 300, "available": 200, "receiving_t0": 100}
    bench = desk(
        Reply({"error_code": "0", "data": {"is_snapshot": False, "portfolio": [shares]}}),
        Reply({"error_code": "0", "result": {"ci_balance": 5, "balance": 5, "net_asset_value": 9}}),
    )

    snapshot = await bench.broker.client.account_snapshot(ACCOUNT, START)

    assert (snapshot.cash, snapshot.net_asset_value, snapshot.at) == (5, 9, START)
    assert snapshot.holdings["HPG"] == Holding("HPG", 300, 200, 100, 0)


@pytest.mark.parametrize(
    ("money", "expected"),
    [
        ({"balance": 30, "td_balance": 20, "securities_amt": 7, "total_debt_amt": 2}, (10, 15)),
        ({"ci_balance": 5, "net_asset_value": 0}, (5, 0)),
        ({"ci_balance": 5, "receiving_amt": 3, "securities_amt": 7}, (5, 15)),
    ],
)
async def test_money_that_the_broker_leaves_out_is_made_from_the_rest(
    money: dict[str, int], expected: tuple[int, int]
) -> None:
    bench = desk(
        Reply({"error_code": "0", "data": {"portfolio": []}}),
        Reply({"error_code": "0", "result": money}),
    )

    snapshot = await bench.broker.client.account_snapshot(ACCOUNT, START)

    assert (snapshot.cash, snapshot.net_asset_value) == expected


SOLD = {
    "ci_balance": 18_900_000,
    "balance": 18_900_000,
    "securities_amt": 8_040_000,
    "ca_receiving": 100_000,
    "receiving_t2": 80_199_000,
    "receiving_amt": 80_199_000,
}


@pytest.mark.parametrize(
    ("shown", "changes"),
    [
        (27_040_000, {}),  # as the broker's own formula for a sub-account makes it
        (107_239_000, {}),  # sale money due is in it
        (27_040_000, {"receiving_amt": 0}),
        (27_040_000, {"receiving_t2": 0}),
        (27_040_000, {"balance": None}),
        (77_040_000, {"balance": 68_900_000, "td_balance": 50_000_000}),
        (77_040_000, {"balance": None, "td_balance": 50_000_000}),
        (25_040_000, {"hold_balance": 1_500_000, "total_debt_amt": 500_000}),
        (26_900_000, {}),  # its shares are valued at another price than its sum
    ],
)
async def test_net_assets_contain_sale_money_due_once(shown: int, changes: dict[str, int]) -> None:
    money = {**SOLD, "net_asset_value": shown, **changes}
    bench = desk(
        Reply({"error_code": "0", "data": {"portfolio": []}}),
        Reply({"error_code": "0", "result": money}),
    )

    snapshot = await bench.broker.client.account_snapshot(ACCOUNT, START)

    due = 0 if shown > 100_000_000 else 80_199_000
    assert (snapshot.cash, snapshot.net_asset_value) == (18_900_000, shown + due)


async def test_an_account_without_its_cash_cannot_be_used() -> None:
    bench = desk(
        Reply({"error_code": "0", "data": {"portfolio": []}}),
        Reply({"error_code": "0", "result": {"net_asset_value": 9}}),
    )

    with pytest.raises(Malformed, match="neither ci_balance nor balance"):
        await bench.broker.client.account_snapshot(ACCOUNT, START)


@pytest.mark.parametrize("name", ["securities_amt", "total_debt_amt"])
async def test_an_account_whose_net_assets_no_database_holds_cannot_be_used(name: str) -> None:
    shares = Reply({"error_code": "0", "data": {"portfolio": []}})
    cash = 9 * 10**18 if name == "securities_amt" else -(9 * 10**18)
    money = Reply({"error_code": "0", "result": {"ci_balance": cash, name: 9 * 10**18}})

    with pytest.raises(Malformed, match="its net assets are beyond 64 bits"):
        await desk(shares, money).broker.client.account_snapshot(ACCOUNT, START)


async def test_the_otp_exchange_is_signed_over_its_body():
    ticket = {"ticket_id": "T-1", "masked_destination": "a***@example.com"}
    bench = desk(Reply(ticket), Reply(TOKEN))
    client = bench.broker.client

    got = await client.request_otp()
    token = await client.verify_otp(got.ticket_id, Secret("123456"))

    assert got == OtpTicket("T-1", "a***@example.com")
    assert token.token == Secret("canary-token")
    assert [asked.body for asked in bench.played.asked] == [
        b'{"channel":"EMAIL"}',
        b'{"ticket_id":"T-1","otp_code":"123456"}',
    ]
    assert all(asked.is_signed for asked in bench.played.asked)


@pytest.mark.parametrize("status", [500, 503, 429])
async def test_a_one_time_code_is_never_asked_for_twice_by_itself(status):
    bench = desk(error(status, "500"))

    with pytest.raises(BrokerError):
        await bench.broker.client.request_otp()

    assert len(bench.played.asked) == 1


async def test_codes_that_are_used_up_do_not_close_the_request_budget():
    bench = desk(error(429, "OTP_RATE_LIMIT_EXCEEDED"), Reply(USER))

    with pytest.raises(Refused) as caught:
        await bench.broker.client.request_otp()
    await bench.broker.client.user()

    assert caught.value.error_code == "OTP_RATE_LIMIT_EXCEEDED"
    assert bench.waiter.waits == []


async def test_dates_of_answers_teach_the_clock_offset():
    ahead = Reply(USER, headers={"Date": "Thu, 19 Nov 2026 02:15:35 GMT"})
    bench = desk(ahead)

    for _ in range(3):
        await bench.broker.client.user()

    assert abs(bench.broker.offset.value - timedelta(seconds=40)) <= timedelta(seconds=1)
    stamp = int(bench.played.asked[-1].headers["x-fh-timestamp"])
    assert abs(stamp / 1000 - START.timestamp() - 40) <= 1


async def test_no_secret_stands_in_an_error():
    bench = desk(Reply(b'{"session_token":"canary-token"'))

    with pytest.raises(BrokerError) as caught:
        await bench.broker.client.verify_otp("T-1", Secret("canary-code"))

    assert "canary" not in f"{caught.value!r} {vars(caught.value)}"


async def test_an_answer_beyond_its_size_is_refused_at_once_and_not_asked_for_again() -> None:
    bench = desk(Reply(b'{"x":"' + b"x" * SMALL.bytes_max + b'"}'), Reply({}))

    with pytest.raises(Malformed, match="wanted at most 65,536 bytes, found more"):
        await bench.broker.client.depth("HPG")

    assert len(bench.played.asked) == 1


async def test_an_order_whose_answer_is_too_long_is_unknown_as_before() -> None:
    bench = desk(Reply(b"x" * (SMALL.bytes_max + 1)))
    bench.broker.two_factor.set_token(Secret("canary-token"), START + timedelta(hours=1))

    answer = await bench.broker.writer.send(bench.broker.writer.prepare_place(ACCOUNT, INTENT))

    assert isinstance(answer, NoAnswer)
    assert (answer.is_sent, answer.reason) == (True, "wanted at most 65,536 bytes, found more")


@pytest.mark.parametrize(
    ("text", "is_in_thread"), [("x", False), ("x" * FOR_A_MOMENT.bytes_max, True)]
)
async def test_a_large_answer_is_read_where_nothing_waits_for_it(
    text: str, is_in_thread: bool
) -> None:
    seen: list[int] = []

    def decode(_: Payload) -> tuple[CatalogueItem, ...]:
        seen.append(threading.get_ident())
        return ()

    codec = replace(calls.CODECS["stock_catalogue"], decode=decode)
    bench = desk(Reply({"error_code": "0", "data": [{"symbol": text}]}))

    await bench.broker.client.read(codec)

    assert [each != threading.get_ident() for each in seen] == [is_in_thread]


async def test_a_large_answer_is_read_although_no_thread_can_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    rows = [{**ROW, "orderid": f"ORD7{number:05}"} for number in range(60)]
    bench = desk(Reply({"error_code": "0", "result": rows}))

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        found = await bench.broker.client.todays_orders(ACCOUNT, START)

    assert len(found.reports) == 60
