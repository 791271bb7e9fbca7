"""Every path of the document is there, and its table reads and writes what the document shows."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from bot.broker.drift import Drift, drift_of
from bot.protocol.calls import CODECS
from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.endpoints.endpoint import Endpoint, Shape, Tier, path_parameters
from bot.protocol.envelope import Payload, open_envelope, seal
from bot.protocol.errors import MalformedAnswer
from bot.protocol.shaped import Codec
from bot.protocol.strict_json import compact, parse
from bot.protocol.values.border import Unshaped
from tests.protocol.samples import sealed
from tests.protocol.tables import json_values, values_for
from tests.rows import every_row

HERE = Path(__file__).parent
PATHS: dict[str, list[str]] = YAML(typ="safe").load((HERE / "paths.yaml").read_text("utf-8"))
ANSWERS: dict[str, Any] = json.loads((HERE / "answers.json").read_text("utf-8"))
"""An answer of every call whose shape a source shows, with every field of the document."""

WITH_MORE_THAN_A_PAYLOAD = {
    "place_order",
    "amend_order",
    "cancel_order",
    "todays_orders",
    "order_detail",
    "request_otp",
    "verify_otp",
    "revoke_token",
}
UNSHOWN = {
    "index_list",
    "index_breadth",
    "index_constituents",
    "index_foreign",
    "index_foreign_history",
    "sector_list",
    "sector_breadth",
    "sector_constituents",
    "sector_foreign",
    "sector_foreign_history",
    "sector_performance",
    "sector_performance_history",
    "stock_events",
    "stock_insider",
    "stock_analyst_reports",
    "fund_portfolio",
    "fund_asset_allocation",
    "fund_sector_allocation",
    "fund_benchmark_operation",
    "earlier_gold_chart",
    "earlier_silver_chart",
}
SHAPED = {name: codec for name, codec in CODECS.items() if codec.kind is not None}
BY_HAND = set(CODECS) - set(SHAPED) - UNSHOWN
each_shape = every_row("codec", SHAPED.values())


def read(codec: Codec[Any], value: object) -> Any:
    return codec.decode(open_envelope(codec.endpoint, sealed(codec.endpoint, value)))


def as_read(codec: Codec[Any], value: object) -> Payload:
    return open_envelope(codec.endpoint, sealed(codec.endpoint, value))


def route(endpoint: Endpoint) -> str:
    return f"{endpoint.method} {re.sub('{.*?}', '{}', endpoint.path)}"


# -------------------------------------------------------------------------------- completeness


def test_every_path_of_the_document_is_a_row_and_no_row_is_without_one():
    documented = [re.sub("{.*?}", "{}", line) for lines in PATHS.values() for line in lines]

    assert sorted(documented) == sorted(map(route, ENDPOINTS.values()))
    assert len(documented) == 120


def test_the_sectors_have_the_seven_paths_of_the_document_and_no_proprietary_pair():
    named = [one.path for name, one in ENDPOINTS.items() if name.startswith("sector_")]

    assert sorted(path.removeprefix("/market/sectors") for path in named) == [
        "",
        "/{slug}/breadth",
        "/{slug}/constituents",
        "/{slug}/performance",
        "/{slug}/performance/history",
        "/{slug}/trading/foreign",
        "/{slug}/trading/foreign/history",
    ]


def test_every_call_has_parameters_and_a_shape_or_says_that_none_is_shown():
    assert set(CODECS) | WITH_MORE_THAN_A_PAYLOAD == set(ENDPOINTS)
    assert set(ANSWERS) | UNSHOWN == set(CODECS)
    assert {
        "user",
        "sub_accounts",
        "portfolio",
        "summary",
        "available_trade",
        "market_phase",
    } == BY_HAND


def test_market_data_needs_the_key_only_and_everything_else_a_signature():
    free = re.compile(r"GET (/market/|/trading/market/|/trading/securities/|/fund-trading/public/)")

    for endpoint in ENDPOINTS.values():
        is_free = free.match(f"{endpoint.method} {endpoint.path}") is not None
        assert endpoint.tier is (Tier.ONE if is_free else Tier.TWO), endpoint.name


def test_the_payload_key_is_the_one_of_the_document():
    arrays_of_result = {
        name for name, one in ENDPOINTS.items() if one.payload_key == "result"
    } - WITH_MORE_THAN_A_PAYLOAD

    assert arrays_of_result == {
        "sub_accounts",
        "summary",
        "user_rights",
        "available_trade",
        "market_phase",
        "order_history",
        "index_realtime",
        "earlier_stock_realtime",
        "earlier_news",
    }


def test_the_holes_of_a_path_are_named():
    assert path_parameters(ENDPOINTS["dealer_product_history"]) == ("symbol", "code")
    assert path_parameters(ENDPOINTS["user"]) == ()


# --------------------------------------------------------------------------------- round trips


@each_shape
@settings(max_examples=10)
@given(data=st.data())
def test_what_one_end_writes_the_other_reads(codec, data):
    value = data.draw(values_for(codec.kind))

    assert read(codec, codec.encode(value)) == value


@each_shape
def test_an_answer_of_the_document_is_read_whole_and_written_again(codec):
    answer = parse(compact(ANSWERS[codec.endpoint.name]).encode())

    written = codec.encode(read(codec, answer))

    assert lacks_nothing(answer, parse(compact(written).encode())), written


def lacks_nothing(shown: Any, written: Any) -> bool:
    """True when all that is shown is written, a null perhaps as an empty text or list."""
    if isinstance(shown, dict):
        return all(lacks_nothing(inner, written.get(name, None)) for name, inner in shown.items())
    if isinstance(shown, list):
        return len(shown) == len(written) and all(map(lacks_nothing, shown, written))
    if shown is None:
        return written in (None, "", [])
    return bool(shown == written) or is_same_instant(shown, written)


def is_same_instant(shown: object, written: object) -> bool:
    """The sandbox writes Vietnam time, whatever the offset of the example."""
    return isinstance(shown, str) and shown.endswith("Z") and str(written).endswith("+07:00")


@every_row("name", sorted(UNSHOWN))
@settings(max_examples=5)
@given(payload=st.lists(json_values, max_size=3))
def test_a_call_of_unshown_shape_hands_out_the_checked_payload(name, payload):
    codec = CODECS[name]

    found = read(codec, payload)

    assert found == Unshaped(parse(compact(payload).encode()))
    assert codec.encode(found) == found.payload
    assert ENDPOINTS[name].shape is Shape.EITHER


# ----------------------------------------------------------------------------------- tolerance


@each_shape
def test_every_number_may_be_a_text(codec):
    answer = ANSWERS[codec.endpoint.name]

    assert read(codec, numbers_as_texts(answer)) == read(codec, answer)


def numbers_as_texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: numbers_as_texts(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [numbers_as_texts(inner) for inner in value]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else value


@each_shape
def test_null_is_as_good_as_absent(codec):
    answer = ANSWERS[codec.endpoint.name]
    optional = [name for name in fields_of(answer) if is_optional(codec, answer, name)]

    for name in optional:
        nulled, left_out = changed(answer, name, None), changed(answer, name, ...)
        assert read(codec, nulled) == read(codec, left_out), name


def fields_of(answer: Any) -> list[str]:
    row = answer[0] if isinstance(answer, list) else answer
    return list(row)


def changed(answer: Any, name: str, value: object) -> Any:
    row = dict(answer[0] if isinstance(answer, list) else answer)
    del row[name]
    new = row if value is ... else {**row, name: value}
    return [new] if isinstance(answer, list) else new


def is_optional(codec: Codec[Any], answer: Any, name: str) -> bool:
    try:
        read(codec, changed(answer, name, ...))
    except MalformedAnswer:
        return False
    return True


@pytest.mark.parametrize(
    "name",
    [
        "assets_summary", "order_history", "pnl_today", "screener", "stock_depth_history",
        "stock_foreign_history", "stock_foreign_room_history", "stock_orders_history",
        "stock_proprietary_history", "stock_trading_history", "summary",
    ],
)  # fmt: skip
def test_fields_that_the_document_does_not_require_may_be_left_out(name):
    codec = CODECS[name]
    least = {"symbol": "HPG"} if "history" in name else {}

    assert codec.decode(Payload(name, least)) is not None


@each_shape
def test_what_must_be_there_is_missed_by_name(codec):
    answer = ANSWERS[codec.endpoint.name]
    needed = [name for name in fields_of(answer) if not is_optional(codec, answer, name)]

    for name in needed:
        with pytest.raises(MalformedAnswer, match=name):
            read(codec, changed(answer, name, None))


def test_an_unknown_word_is_kept():
    odd = {**ANSWERS["user_rights"][0], "status": "NOVEL", "type": "NOVEL"}

    (right,) = read(CODECS["user_rights"], [odd])

    assert (right.status, right.type) == ("NOVEL", "NOVEL")


# --------------------------------------------------------------------------------------- drift


@each_shape
def test_an_answer_of_the_document_has_nothing_new(codec):
    assert drift_of(codec, as_read(codec, ANSWERS[codec.endpoint.name])).added == ()


def test_drift_names_what_came_and_what_went():
    answer = {**ANSWERS["stock_ownership"], "novel": {"deep": 1}, "major_shareholders": []}
    answer["structure"] = {"state": {"volume": 1, "kind": "x"}, "foreign": None}

    found = drift_of(CODECS["stock_ownership"], as_read(CODECS["stock_ownership"], answer))

    assert found == Drift(
        added=("novel", "structure.state.kind"), gone=("structure.other", "structure.state.pct")
    )


def test_metrics_are_never_drift():
    rows = [{"year": 2025, "quarter": None, "novel_metric": 1}]

    assert drift_of(CODECS["financial_statement"], Payload("x", rows)) == Drift()


def test_of_a_shape_not_shown_nothing_can_be_said():
    assert drift_of(CODECS["sector_list"], Payload("x", [{"a": 1}])) == Drift()
    assert drift_of(CODECS["earlier_stock_realtime"], Payload("x", [{"a": 1}])) == Drift()


# ---------------------------------------------------------------------------- single oddities


def test_a_series_is_ascending_whatever_the_order_sent():
    sent = {"symbol": "fpt", "series": [{"t": 20, "c": 2}, {"t": 10, "c": 1}]}

    found = read(CODECS["stock_history"], sent)

    assert [bar.close for bar in found.bars] == [1, 2]
    assert found.symbol == "FPT"


def test_depth_is_best_first_and_has_no_level_without_a_price():
    levels = [{"price": p, "volume": 100} for p in (25_400, 0, 25_500, None)]

    found = read(CODECS["etf_depth"], {"symbol": "E1", "bids": levels, "asks": levels})

    assert [level.price for level in found.bids] == [25_500, 25_400]
    assert [level.price for level in found.asks] == [25_400, 25_500]


@pytest.mark.parametrize("nothing", [None, []])
def test_no_report_is_null_or_an_empty_list(nothing):
    codec = CODECS["recommendation_reports"]

    found = read(codec, nothing)

    assert (found.recommendation, found.reports) == (None, ())
    assert codec.encode(found) == []


def test_another_call_is_malformed_without_its_payload():
    codec = CODECS["stock_profile"]

    with pytest.raises(MalformedAnswer, match="there is no data"):
        read(codec, None)


@pytest.mark.parametrize(
    ("item", "detail"),
    [
        ({"unit": "%"}, {"actual": "5.25"}),
        ({}, {"actual": "5.25%"}),
        ({}, {"unit": "%", "actual": "5.25"}),
    ],
)
def test_the_unit_of_an_event_is_found_wherever_it_stands(item, detail):
    at = {"date": "2026-08-29T09:00:00+07:00"}
    page = {"total": 1, "current_page": 1, "page_size": 20}

    found = read(
        CODECS["economic_calendar"], {**page, "results": [{**item, "detail": {**at, **detail}}]}
    )

    assert [(one.unit, one.detail.actual) for one in found.items] == [("%", "5.25")]


def test_one_stock_is_an_object_and_several_are_a_list():
    codec = CODECS["earlier_stock_realtime"]

    one, several = read(codec, {"symbol": "VNM"}), read(codec, [{"symbol": "VNM"}])

    assert (one.is_single, several.is_single) == (True, False)
    assert isinstance(codec.encode(one), dict)
    assert isinstance(codec.encode(several), list)


def test_bank_rates_may_be_empty_and_a_dash_is_no_rate():
    banks = [{"bank_name": "ACB", "rates": [{"percent": "-", "effective_date": "soon"}]}]

    empty = read(CODECS["bank_rates"], {})
    found = read(CODECS["bank_rates"], {"bank_interest_rates": banks})

    assert empty.banks == ()
    assert (found.banks[0].rates[0].percent, found.banks[0].rates[0].effective_date) == (None, None)


def test_who_owns_the_account_is_in_no_repr():
    (right,) = read(CODECS["user_rights"], ANSWERS["user_rights"])
    history = read(CODECS["order_history"], ANSWERS["order_history"])

    shown = f"{right!r} {history!r}"

    assert "HPG" in shown
    assert not any(secret in shown for secret in ("0001234567", "120C001234", "NGUYEN"))


def test_nothing_is_sealed_that_json_cannot_say():
    for name, answer in ANSWERS.items():
        written = CODECS[name].encode(read(CODECS[name], answer))

        assert json.loads(seal(ENDPOINTS[name], written))
