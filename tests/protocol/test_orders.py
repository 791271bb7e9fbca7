from dataclasses import replace
from decimal import Decimal

import pytest

from bot.domain.order import OrderState
from bot.protocol.errors import MalformedAnswer
from bot.protocol.orders import decode_order_results, encode_order_result
from tests.protocol.samples import RESULT, RESULT_JSON, payload, without_raw
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
