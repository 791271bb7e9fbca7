"""Every call of the API answers, in its envelope and its fields, and refuses what is wrong."""

import json
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from bot.broker.drift import Drift, drift_of
from bot.domain.account import SubAccount
from bot.protocol.calls import CODECS
from bot.protocol.day_order_book import decode_order_row, decode_todays_orders
from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.endpoints.endpoint import Endpoint, build_target, path_parameters, query_faults
from bot.protocol.envelope import Answer, Payload, open_envelope
from bot.protocol.orders import decode_order_results
from bot.protocol.query import Kind, Parameter
from bot.protocol.two_factor import decode_otp_ticket, decode_two_factor_token
from bot.sandbox.library.library import Library
from tests.rows import every_row
from tests.sandbox.client import (
    ACCOUNT,
    EXTENDED,
    Bench,
    bench,
    order_body,
    orders_path,
    ready,
    scenario,
)

GOOD_PATHS = {
    "user_id": "900001",
    "sub_account_id": ACCOUNT,
    "slug": "financials",
    "news_id": "1000",
    "indicator": "cpi_yoy",
    "fund_name": "DEMOEQ",
    "code": "DEMO_BAR_1L",
}
SYMBOL_OF = {
    "index": "VNINDEX",
    "forex": "USDVND",
    "crypto": "BTC",
    "commodity": "GOLD",
    "dealer": "GOLD",
    "fund": "DEMOEQ",
    "bond": "CSB125001",
    "etf": "E1VFVN30",
}
GOOD_VALUES = {
    "orderSide": "BUY",
    "symbol": "HPG",
    "quotePrice": "27000",
    "fromDate": "2026-11-01",
    "toDate": "2026-11-19",
    "exchange": "HOSE",
    "from": "1790000000",
    "to": "1795100000",
    "index": "VNINDEX,NOPE",
    "type": "income-statement",
    "fund-type": "STOCK_FUND",
    "fund-names": "DEMOEQ,DEMOBF",
    "amount": "10000000",
    "period": "ONE_YEAR",
    "resolution": "1D",
    "country": "Vietnam",
}
GOOD_FOR = {
    "earlier_stock_realtime": {"symbol": "HPG"},
    "fund_benchmark_nav": {"period": "ONE_YEAR"},
    "fund_benchmark_operation": {"from-month": "2026-01", "to-month": "2026-10"},
    "earlier_macro": {"type": "CPI", "country": "VN"},
    "earlier_market": {"type": "SP500"},
    "screener": {
        "fields": ",".join(
            one
            for one in next(
                each.values for each in ENDPOINTS["screener"].takes if each.name == "fields"
            )
        )
    },
}
SPARSE = {
    "bond_history": {"series[].yield"},
    "financial_analysis": {"[].quarter"},
    "stock_technicals": {"indicators[].data[].direction"},
}
"""What stands in some answers of a call only: a bond has prices or a yield, a year no quarter, and
few indicators a direction.
"""
WRONG_OF_KIND = {
    Kind.WHOLE: "one",
    Kind.NUMBER: "many",
    Kind.DAY: "2026-02-30",
    Kind.SLASHED_DAY: "2026-02-01",
    Kind.MONTH: "2026-13",
    Kind.PERIOD: "2026-Q5",
    Kind.UNIX_SECONDS: "-1",
    Kind.INDICATOR: "NOPE(3)",
    Kind.TEXT: "",
}
OWNER = SubAccount(ACCOUNT, EXTENDED, "Normal")
WITHOUT_ROW = ENDPOINTS.keys() - CODECS.keys()
READS = [name for name in ENDPOINTS if name in CODECS]
TAKING = [name for name in READS if ENDPOINTS[name].takes]
TRADED: list[Bench] = []
"""A market in which an order was filled, for questions only; made by the first who asks."""


def good_query(name: str) -> dict[str, str]:
    needed = {one.name: GOOD_VALUES[one.name] for one in ENDPOINTS[name].takes if one.is_required}
    return needed | GOOD_FOR.get(name, {})


def target(name: str, query: dict[str, str] | None = None, **path: str) -> str:
    endpoint, kind = ENDPOINTS[name], name.split("_", maxsplit=1)[0]
    values = GOOD_PATHS | {"symbol": SYMBOL_OF.get(kind, "HPG"), "order_id": "ORD10000001"} | path
    holes = {hole: values[hole] for hole in path_parameters(endpoint)}
    given = good_query(name) if query is None else query
    return build_target(endpoint, holes, tuple(given.items()))


def opened(endpoint: Endpoint, answer: Any) -> Payload:
    headers = {key.lower(): value for key, value in answer.headers.items()}
    return open_envelope(endpoint, Answer(answer.status_code, headers, answer.content, 0))


async def read(b: Bench, name: str) -> Payload:
    answer = await asked(b, target(name))
    assert answer.status_code == 200, f"{target(name)}: {answer.text}"
    return opened(ENDPOINTS[name], answer)


@cache
def untouched() -> Bench:
    """A market as it starts, for questions only: what one test reads, no other can see."""
    return bench()


async def traded() -> Bench:
    if not TRADED:
        made = await ready()
        await made.place()
        TRADED.append(made)
    return TRADED[0]


async def asked(b: Bench, path: str) -> Any:
    """Ask, in a minute of the quota's own: a bench that tests share must not run out of it."""
    b.wire.advance_to(b.wire.now() + timedelta(minutes=1))
    return await b.call("GET", path)


# --------------------------------------------------------------------------------- good answers


@every_row("name", READS)
async def test_a_good_question_is_answered_in_every_field_of_the_document(name: str) -> None:
    b = await traded()

    payload = await read(b, name)

    CODECS[name].decode(payload)
    drift = drift_of(CODECS[name], payload)
    assert drift == Drift(gone=tuple(SPARSE.get(name, ())))
    body = json.loads(payload.raw)
    assert set(body) == {"error_code", "message", ENDPOINTS[name].payload_key}


async def test_what_has_no_codec_is_read_by_its_own_decoder() -> None:
    b = bench()
    ticket = decode_otp_ticket(
        opened(
            ENDPOINTS["request_otp"],
            await b.call("POST", "/auth/v1/openapi/2fa/request", {"channel": "EMAIL"}),
        )
    )
    code = {"ticket_id": ticket.ticket_id, "otp_code": "424242"}
    verified = await b.call("POST", "/auth/v1/openapi/2fa/verify", code)
    token = decode_two_factor_token(opened(ENDPOINTS["verify_otp"], verified))
    b.token = token.token.reveal()

    placed = opened(ENDPOINTS["place_order"], await b.call("POST", orders_path(), order_body()))
    resting = await b.place(limit_price=26_900)
    change = {"quantity": 200}
    amended = await b.call("PUT", orders_path(resting["order_id"]), change)
    cancelled = await b.call("DELETE", orders_path(resting["order_id"]), {"sub_account": EXTENDED})
    book = f"/trading/v1/accounts/{ACCOUNT}/order-book"
    rows = opened(ENDPOINTS["todays_orders"], await b.call("GET", book))
    row = opened(ENDPOINTS["order_detail"], await b.call("GET", f"{book}/ORD10000001"))
    body = {"session_token": b.token}
    revoked = await b.call("POST", "/auth/v1/openapi/2fa/revoke", body)

    assert len(decode_order_results(placed)) == 1
    for name, answer in (("amend_order", amended), ("cancel_order", cancelled)):
        assert len(decode_order_results(opened(ENDPOINTS[name], answer))) == 1
    now = datetime(2026, 11, 19, tzinfo=UTC)
    assert len(decode_todays_orders(rows, account=OWNER, requested_at=now).reports) == 2
    assert decode_order_row(row, account=OWNER, requested_at=now).executed_quantity == 100
    assert revoked.status_code == 200
    assert {
        "request_otp",
        "verify_otp",
        "revoke_token",
        "place_order",
        "amend_order",
        "cancel_order",
        "todays_orders",
        "order_detail",
    } == WITHOUT_ROW


async def test_the_same_seed_answers_every_question_alike() -> None:
    first, second = [bench(scenario(seed=11)) for _ in range(2)]

    for name in READS:
        one, two = [await each.call("GET", target(name)) for each in (first, second)]

        assert one.content == two.content, name


# ---------------------------------------------------------------------------------- bad questions


def wrong(parameter: Parameter) -> str:
    return "NO-SUCH-WORD" if parameter.values else WRONG_OF_KIND[parameter.kind]


@every_row("name", TAKING)
async def test_a_bad_parameter_is_a_400_whatever_it_is(name: str) -> None:
    b = untouched()

    for parameter in ENDPOINTS[name].takes:
        query = good_query(name) | {parameter.name: wrong(parameter)}
        if parameter.kind is Kind.NUMBER:
            query[parameter.name] = "NO-SUCH-WORD"
        assert query_faults(ENDPOINTS[name], query), parameter
        answer = await asked(b, target(name, query))

        assert (answer.status_code, answer.json()["error_code"]) == (400, "400"), parameter.name
        assert parameter.name in answer.json()["message"]


@every_row(
    "name", [name for name in TAKING if any(one.is_required for one in ENDPOINTS[name].takes)]
)
async def test_a_missing_parameter_is_a_400(name: str) -> None:
    b = bench(scenario(switches={"error_codes": "named"}))

    answer = await b.call("GET", target(name, {}))

    assert (answer.status_code, answer.json()["error_code"]) == (400, "INVALID_PARAMETER")


NAMING = [name for name in READS if path_parameters(ENDPOINTS[name])]


@every_row("name", NAMING)
async def test_a_name_that_is_none_is_a_404_and_another_user_a_401(name: str) -> None:
    b = untouched()

    for hole in path_parameters(ENDPOINTS[name]):
        answer = await asked(b, target(name, None, **{hole: "no-such-name"}))

        wanted = 401 if hole == "user_id" else 404
        assert (answer.status_code, answer.json()["error_code"]) == (wanted, str(wanted)), hole


@every_row(
    "name", [name for name in READS if any(one.name == "date" for one in ENDPOINTS[name].takes)]
)
async def test_a_day_in_the_future_is_a_400(name: str) -> None:
    b = untouched()

    answer = await asked(b, target(name, {"date": "2026-11-20"}))

    assert answer.status_code == 400


DAY_RANGES = [
    name
    for name in READS
    if {("from", Kind.DAY), ("to", Kind.DAY)}
    <= {(one.name, one.kind) for one in ENDPOINTS[name].takes}
]


@every_row("name", DAY_RANGES)
async def test_a_range_of_days_comes_whole_the_right_way_round_and_has_begun(name: str) -> None:
    b = untouched()

    for query in (
        {"from": "2026-11-02"},
        {"from": "2026-11-02", "to": "2026-11-01"},
        {"from": "2020-11-02", "to": "2026-11-19"},
        {"from": "2026-11-20", "to": "2026-11-21"},
    ):
        answer = await asked(b, target(name, query))

        assert answer.status_code == 400, query


async def test_what_has_no_depth_says_so() -> None:
    b = bench()

    for path in ("stocks/AAPL", "bonds/VN10Y"):
        answer = await b.call("GET", f"/market/quotes/{path}/order-book")

        assert answer.status_code == 404
        assert answer.json()["error_code"] == "ORDER_BOOK_NOT_SUPPORTED"


async def test_a_foreign_share_has_days_a_quote_in_dollars_and_nothing_else() -> None:
    b = bench()
    span = "from=1790000000&to=1795100000"

    quote = await b.get("/market/quotes/stocks/aapl")
    history = await b.get(f"/market/quotes/stocks/AAPL/history?{span}")
    refused = [
        (await b.call("GET", f"/market/quotes/stocks/AAPL/{rest}")).status_code
        for rest in (f"history?{span}&resolution=5", "order-book/history")
    ]

    assert (quote["currency"], quote["ceiling"], quote["floor"]) == ("USD", None, None)
    assert history["series"]
    assert refused == [400, 400]


def test_the_library_knows_every_call_that_is_left_to_it() -> None:
    b = bench()
    library = Library(b.sandbox._house, b.sandbox._gate)

    named = {"user", "sub_accounts", "portfolio", "summary", "available_trade", "market_phase"}
    named |= {"stock_quote", "stock_depth"} | WITHOUT_ROW
    assert set(library.answers()) == ENDPOINTS.keys() - named


async def test_a_restart_over_the_ledger_answers_as_before(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    played = scenario(start="09:58", switches={"row_visible_after_s": 1})
    first = await ready(played, ledger)
    await first.place()
    first.pass_time(400)
    before = {name: (await first.call("GET", target(name))).content for name in READS}
    first.sandbox.close()

    second = bench(played, ledger)
    second.numbers = first.numbers

    for name, content in before.items():
        assert (await second.call("GET", target(name))).content == content, name
