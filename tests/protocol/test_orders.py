"""Orders as they go out and come back: what is written, what is read, what is refused."""

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from bot.domain.order import OrderState, OrderType, Side
from bot.protocol.day_order_book import decode_order_row
from bot.protocol.errors import MalformedAnswer, MalformedRequest
from bot.protocol.orders import (
    decode_amend,
    decode_cancel,
    decode_order_results,
    decode_place,
    encode_amend,
    encode_cancel,
    encode_order_result,
    encode_place,
    figures_in,
)
from bot.protocol.values.border import AmendRequest, PlaceRequest
from tests.protocol.samples import (
    ACCOUNT,
    INTENT,
    NOW,
    RESULT,
    RESULT_JSON,
    ROW_JSON,
    payload,
    without_raw,
)
from tests.rows import every_row


def read_one(**changes: object):
    (found,) = decode_order_results(payload([RESULT_JSON | changes]))
    return found


def test_the_document_s_example_is_read_and_written():
    assert without_raw(read_one()) == RESULT
    assert encode_order_result(RESULT) == RESULT_JSON
    assert list(encode_order_result(RESULT)) == list(RESULT_JSON)


def test_none_and_several_results_are_read_as_such():
    assert decode_order_results(payload([])) == ()
    assert len(decode_order_results(payload([RESULT_JSON, RESULT_JSON]))) == 2


@pytest.mark.parametrize("code", [None, "", "0", 0])
def test_null_empty_and_zero_are_no_error(code):
    assert read_one(code=code).code is None


@pytest.mark.parametrize("code", ["-400116", "FAILED", -400116])
def test_any_other_code_is_kept(code):
    assert read_one(code=code).code == str(code)


def test_a_rejection_may_have_no_order_id():
    found = read_one(order_id=None, order_status="REJECTED", code="-1", rejected_reason="Hết hạn")

    assert (found.order_id, found.state, found.reason) == ("", OrderState.REJECTED, "Hết hạn")


def test_an_unknown_status_is_live():
    found = read_one(order_status="DREAMING")

    assert (found.status, found.state) == ("DREAMING", OrderState.ACCEPTED)


def test_a_full_execution_is_filled_whatever_the_status_says():
    found = read_one(execute_quantity=300, execute_price=Decimal("25499.7"), execute_amount=7649900)

    assert (found.state, found.average_price, found.executed_amount) == (
        OrderState.FILLED,
        25_499,
        7_649_900,
    )


@pytest.mark.parametrize(
    "lacking",
    [
        {"execute_quantity": None},
        {"execute_amount": None},
        {"execute_amount": 0, "execute_price": 0},
    ],
)
def test_an_answer_that_leaves_out_fills_or_their_amount_leaves_them_to_the_row(lacking):
    whole = {"order_status": "MATCHED_ALL", "execute_quantity": 300, "execute_price": 25_500}
    found = read_one(**whole | {"execute_amount": 7_650_000} | lacking)

    assert (found.state, found.executed_quantity) == (OrderState.ACCEPTED, 0)


def test_fee_and_tax_are_rounded_half_up():
    found = read_one(fee_amount=Decimal("1147.5"), tax_amount="0.4")

    assert (found.fee, found.tax) == (1_148, 0)


def test_what_is_kept_of_the_answer_hides_the_account():
    assert "120C000008" not in read_one().raw
    assert '"order_id":"ORD700001"' in read_one().raw


@every_row(
    ("field", "value"),
    [
        ("order_quantity", "300.5"),
        ("order_quantity", 0),
        ("limit_price", Decimal("25500.5")),
        ("limit_price", -1),
        ("order_side", "UNKNOWN"),
        ("order_side", None),
        ("account_id", 120),
        ("account_id", "1" * 201),
        ("order_id", "1" * 201),
        ("transaction_date", "21/08/2026"),
        ("transaction_date", 20260821),
        ("symbol", ""),
        ("order_status", None),
        ("order_status", 1),
        ("order_type", []),
        ("execute_quantity", {}),
        ("code", {}),
        ("code", True),
    ],
)
def test_a_result_that_cannot_be_used_is_malformed(field, value):
    with pytest.raises(MalformedAnswer, match=field):
        decode_order_results(payload([RESULT_JSON, RESULT_JSON | {field: value}]))


def test_a_market_order_answers_its_routed_type():
    found = read_one(limit_price=0, market_price="mp", order_type="mtl")

    assert (found.limit_price, found.market_price, found.order_type) == (None, "MP", "MTL")
    assert replace(found, raw="").lot == "EVEN"


VECTORS = YAML(typ="safe").load(Path(__file__).with_name("signing_vectors.yaml"))["right"]
GOOD = {
    "sub_account": "120C000008.1",
    "side": "BUY",
    "symbol": "HPG",
    "quantity": 100,
    "type": "LIMIT",
    "limit_price": 25500,
    "market_price": None,
    "stock_type": "STOCK",
}


def body_of(**changes: object) -> bytes:
    return json.dumps(GOOD | changes).encode()


def test_the_client_s_bodies_are_those_of_the_vectors():
    intent = replace(INTENT, quantity=100)

    assert encode_place(intent, ACCOUNT) == VECTORS["V4 POST"]["body"].encode()
    assert encode_amend(limit_price=26_000, quantity=200) == VECTORS["V5 PUT"]["body"].encode()
    assert encode_cancel(ACCOUNT) == VECTORS["V6 DELETE with a body"]["body"].encode()


def test_a_market_order_sends_both_price_keys():
    intent = replace(INTENT, order_type=OrderType.ATC, limit_price=None)

    body = json.loads(encode_place(intent, ACCOUNT))

    assert (body["type"], body["limit_price"], body["market_price"]) == ("MARKET", None, "ATC")


def test_an_amendment_of_one_field_sends_one_field():
    assert encode_amend(limit_price=26_000, quantity=None) == b'{"price":26000}'
    assert encode_amend(limit_price=None, quantity=200) == b'{"quantity":200}'


def test_an_impossible_body_is_our_bug():
    with pytest.raises(AssertionError):
        encode_amend(limit_price=None, quantity=None)
    with pytest.raises(AssertionError):
        encode_place(replace(INTENT, limit_price=None), ACCOUNT)


@every_row("kind", list(OrderType))
def test_the_server_reads_what_the_client_writes(kind):
    price = 25_500 if kind is OrderType.LO else None
    intent = replace(INTENT, order_type=kind, limit_price=price, side=Side.SELL)

    assert decode_place(encode_place(intent, ACCOUNT)) == PlaceRequest(
        "120C000008.1", Side.SELL, "HPG", 300, kind, price
    )
    assert decode_amend(encode_amend(limit_price=price, quantity=5)) == AmendRequest(5, price)
    assert decode_cancel(encode_cancel(ACCOUNT)) == "120C000008.1"


def test_only_side_symbol_quantity_type_and_price_are_required():
    body = {key: GOOD[key] for key in ("side", "symbol", "quantity", "type", "limit_price")}

    assert decode_place(json.dumps(body).encode()).sub_account is None


@every_row(
    ("changes", "field"),
    [
        ({"side": "HOLD"}, "side"),
        ({"side": None}, "side"),
        ({"symbol": ""}, "symbol"),
        ({"symbol": "H" * 65}, "symbol"),
        ({"quantity": 0}, "quantity"),
        ({"quantity": "100"}, "quantity"),
        ({"quantity": 100.0}, "quantity"),
        ({"quantity": True}, "quantity"),
        ({"type": "STOP"}, "type"),
        ({"limit_price": None}, "limit_price"),
        ({"limit_price": 0}, "limit_price"),
        ({"limit_price": 25500.5}, "limit_price"),
        ({"market_price": "MP"}, "market_price"),
        ({"type": "MARKET", "market_price": "MP"}, "limit_price"),
        ({"type": "MARKET", "limit_price": None}, "market_price"),
        ({"type": "MARKET", "limit_price": None, "market_price": "LO"}, "market_price"),
        ({"type": "MARKET", "limit_price": None, "market_price": "XX"}, "market_price"),
        ({"stock_type": "CW"}, "stock_type"),
    ],
)
def test_a_place_that_the_api_refuses_names_its_field(changes, field):
    with pytest.raises(MalformedRequest, match=field):
        decode_place(body_of(**changes))


@every_row("body", [b"", b"null", b"[]", b"{", b'{"side":"BUY","side":"SELL"}'])
@every_row("decode", [decode_place, decode_amend, decode_cancel])
def test_what_is_no_object_is_refused(decode, body):
    with pytest.raises(MalformedRequest):
        decode(body)


@pytest.mark.parametrize("body", [b"{}", b'{"quantity":null}', b'{"price":0}', b'{"price":"1"}'])
def test_an_empty_or_impossible_amendment_is_refused(body):
    with pytest.raises(MalformedRequest):
        decode_amend(body)


def test_a_row_that_was_kept_as_text_has_the_figures_that_it_had():
    row = decode_order_row(payload(ROW_JSON), account=ACCOUNT, requested_at=NOW)
    [result] = decode_order_results(payload([RESULT_JSON]))

    assert figures_in(row.raw) == row.figures
    assert figures_in(result.raw) == (
        *(result.status, result.quantity, result.limit_price),
        *(result.executed_quantity, 0, result.executed_amount),
    )


@pytest.mark.parametrize(
    "raw", ["", "not JSON", "null", "[]", '{"call":"order_history"}', '{"order_id":"ORD1"}']
)
def test_a_text_that_is_no_row_has_no_figures(raw):
    assert figures_in(raw) is None
