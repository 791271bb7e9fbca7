"""What a query may say is one table, asked by both ends."""

from hypothesis import given
from hypothesis import strategies as st

from bot.protocol import words
from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.endpoints.endpoint import query_faults, unknown_parameters, with_defaults
from bot.protocol.query import Kind, Parameter, faults_of
from tests.rows import every_row

ANY_DAYS = {"from": "2026-01-01", "to": "2026-02-01"}
ANY_SECONDS = {"from": "1787191200", "to": "1787277600"}

ANY_TRADE = {"orderSide": "BUY", "symbol": "HPG", "quotePrice": "0"}

GOOD: list[tuple[str, dict[str, str]]] = [
    ("stock_history", {**ANY_SECONDS, "resolution": "4H"}),
    ("fund_history", ANY_SECONDS),
    ("index_realtime", {"index": "VNINDEX,HNX30"}),
    ("market_phase", {"exchange": "HCX"}),
    ("available_trade", {"orderSide": "BUY", "symbol": "HPG", "quotePrice": "0"}),
    ("order_history", {"fromDate": "2026-01-01", "toDate": "2026-01-31", "page": "2"}),
    ("user_rights", {"catType": "CASH_DIVIDEND,STOCK_DIVIDEND", "status": "ALL"}),
    ("screener", {}),
    ("screener", {"price_gt": "ma50", "pe_lt": "12.5", "sort": "-market_cap"}),
    ("screener", {"date": "2026-08-20", "sort": "-volume", "foreign_net_value_gt": "-1000"}),
    ("screener", {"fields": "symbol,ma50,ma200", "page_size": "50"}),
    ("stock_technicals", {"indicators": "RSI(14),MACD(12,26,9),OBV", **ANY_DAYS}),
    ("stock_trading_history", {}),
    ("stock_trading_history", {"from": "2021-03-01", "to": "2026-03-01"}),
    ("market_news", {"topic": "stock", "symbol": "HPG"}),
    ("macro_indicator", {"from": "2025", "to": "2026-Q2", "limit": "500"}),
    ("macro_indicator", {"from": "2025-01"}),
    ("fund_benchmark_nav", {"fund-names": "VESAF,DCDS", "period": "ONE_YEAR"}),
    ("fund_benchmark_nav", {"fund-names": "A", "from-month": "2025-01", "to-month": "2025-12"}),
    ("earlier_stock_realtime", {"symbols": "VNM,FPT"}),
    ("earlier_news", {"from_date": "31/12/2025"}),
]
BAD: list[tuple[str, dict[str, str], str, str]] = [
    ("stock_history", {"from": "1"}, "to", "required"),
    ("stock_history", {"from": "-1", "to": "2"}, "from", "not Unix seconds"),
    ("stock_history", {**ANY_SECONDS, "resolution": "2H"}, "resolution", "not one of 1D"),
    ("index_history", {**ANY_SECONDS, "resolution": "5"}, "resolution", "not one of 1D"),
    ("crypto_history", {**ANY_SECONDS, "resolution": "1H"}, "resolution", "not one of 1D"),
    ("index_realtime", {}, "index", "required"),
    ("index_realtime", {"index": "VNINDEX,,HNX30"}, "index", "empty"),
    (
        "available_trade",
        {"orderSide": "B", "symbol": "A", "quotePrice": "1"},
        "orderSide",
        "not one",
    ),
    (
        "available_trade",
        {"orderSide": "BUY", "symbol": "A", "quotePrice": "1.5"},
        "quotePrice",
        "whole",
    ),
    ("order_history", {"fromDate": "2026-01-01"}, "toDate", "required"),
    ("order_history", {"fromDate": "2026-02-30", "toDate": "2026-03-01"}, "fromDate", "not a day"),
    ("user_rights", {"catType": "CASH_DIVIDEND,NOVEL"}, "catType", "not one of"),
    ("screener", {"window": "1D", "date": "2026-08-20"}, "date", "only one of"),
    ("screener", {"date": "2026-08-20", "sort": "-pe"}, "sort", "not by pe"),
    ("screener", {"date": "2026-08-20", "value_gt": "1"}, "value_gt", "not with date"),
    ("screener", {"date": "2026-08-20", "price_lt": "ma200"}, "price_lt", "not with date"),
    ("screener", {"sort": "ma50"}, "sort", "not one of"),
    ("screener", {"fields": "symbol,novel"}, "fields", "not one of"),
    ("screener", {"pe_gt": "ma50"}, "pe_gt", "not a number"),
    ("screener", {"page_size": "51"}, "page_size", "above 50"),
    ("screener", {"page": "0"}, "page", "below 1"),
    ("screener", {"sector": "steel"}, "sector", "not one of"),
    ("stock_technicals", {"indicators": "NOVEL(3)"}, "indicators", "not an indicator"),
    ("stock_technicals", {"indicators": ",".join(["OBV"] * 21)}, "indicators", "more than 20"),
    ("stock_trading_history", {"from": "2026-01-01"}, "to", "goes with"),
    ("stock_trading_history", {"from": "2026-02-01", "to": "2026-01-01"}, "to", "before from"),
    ("stock_trading_history", {"from": "2021-03-01", "to": "2026-03-02"}, "to", "more than 5"),
    ("market_news", {"symbol": "HPG"}, "symbol", "only with topic=stock"),
    ("macro_indicator", {"from": "2026-13"}, "from", "YYYY"),
    ("financial_statement", {"symbol": "HPG", "type": "x"}, "type", "not one of"),
    ("fund_benchmark_nav", {"fund-names": "A", "from-month": "2025-01"}, "period", "either this"),
    ("fund_certificates", {}, "fund-type", "required"),
    ("earlier_stock_realtime", {}, "symbol", "exactly one of"),
    ("earlier_stock_realtime", {"symbol": "A", "exchange": "HNX"}, "exchange", "exactly one of"),
    ("earlier_news", {"to_date": "2025-12-31"}, "to_date", "DD/MM/YYYY"),
]


@every_row(("name", "query"), GOOD)
def test_what_the_document_allows_has_no_fault(name, query):
    assert query_faults(ENDPOINTS[name], query) == ()
    assert unknown_parameters(ENDPOINTS[name], query) == ()


@every_row(("name", "query", "parameter", "reason"), BAD)
def test_what_the_document_refuses_is_named_with_its_reason(name, query, parameter, reason):
    (fault,) = query_faults(ENDPOINTS[name], query)

    assert fault.name == parameter
    assert reason in fault.reason


def test_every_fault_is_told_at_once():
    faults = query_faults(ENDPOINTS["available_trade"], {"orderSide": "HOLD"})

    assert {fault.name for fault in faults} == {"orderSide", "symbol", "quotePrice"}


@every_row("name", ENDPOINTS)
def test_defaults_are_good_and_names_are_given_once(name):
    parameters = ENDPOINTS[name].takes

    assert len({one.name for one in parameters}) == len(parameters)
    for one in parameters:
        assert one.default is None or list(faults_of(one, one.default)) == []
        assert not (one.is_required and one.default is not None and one.name != "resolution")


def test_rules_speak_of_parameters_that_their_call_takes():
    for endpoint in ENDPOINTS.values():
        known = {one.name for one in endpoint.takes}
        for rule in endpoint.rules:
            for query in ({}, dict.fromkeys(known, "2026-01-01")):
                assert {fault.name for fault in rule.faults(query)} <= known


def test_a_left_out_parameter_has_its_default():
    assert dict(with_defaults(ENDPOINTS["portfolio"], {})) == {"cache-control": "NOCACHE"}
    assert dict(with_defaults(ENDPOINTS["assets_summary"], {})) == {"cache-control": "CACHE"}
    assert with_defaults(ENDPOINTS["stock_history"], {"resolution": "5"})["resolution"] == "5"


def test_the_screener_s_window_gives_way_to_a_date():
    assert with_defaults(ENDPOINTS["screener"], {})["window"] == "1D"
    assert "window" not in with_defaults(ENDPOINTS["screener"], {"date": "2026-08-20"})


def test_a_slip_in_a_name_is_found_for_the_client():
    assert unknown_parameters(ENDPOINTS["screener"], {"page": "1", "sortt": "x"}) == ("sortt",)


def test_the_screener_bounds_every_field_of_the_document():
    filters = {one.name for one in ENDPOINTS["screener"].takes if one.name.endswith(("_gt", "_lt"))}

    assert len(filters) == 2 * len(words.SCREENED_FIELDS) == 38


@given(text=st.text(max_size=30))
def test_any_text_is_judged_without_an_error(text):
    for kind in Kind:
        for is_list in (True, False):
            one = Parameter("x", kind, is_list=is_list, values=("A",), minimum=1, maximum=9)
            assert all(fault.name == "x" for fault in faults_of(one, text))
