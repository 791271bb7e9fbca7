import re

import pytest

from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.endpoints.endpoint import Lane, Tier, build_target, tier_of
from bot.protocol.endpoints.trading import (
    AVAILABLE_TRADE,
    CANCEL_ORDER,
    STOCK_QUOTE,
    SUB_ACCOUNTS,
    USER,
)
from bot.protocol.errors import UnusableTarget


def test_nothing_of_tier_one_changes_anything():
    tier_one = [endpoint for endpoint in ENDPOINTS.values() if endpoint.tier is Tier.ONE]

    assert {endpoint.method for endpoint in tier_one} == {"GET"}
    assert not any(endpoint.is_write for endpoint in tier_one)


def test_every_call_has_the_tier_of_its_method_and_path():
    rows = ENDPOINTS.values()

    assert [row.name for row in rows if tier_of(row.method, row.path) is not row.tier] == []
    assert (tier_of("GET", "/market/x"), tier_of("GET", "/marketing")) == (Tier.ONE, Tier.TWO)


def test_only_the_three_order_calls_are_writes():
    writes = {name: call.method for name, call in ENDPOINTS.items() if call.is_write}

    assert writes == {"place_order": "POST", "amend_order": "PUT", "cancel_order": "DELETE"}
    assert CANCEL_ORDER.lane is Lane.CANCEL


def test_no_two_calls_share_method_and_path():
    routes = {(call.method, re.sub(r"\{\w+\}", "{}", call.path)) for call in ENDPOINTS.values()}

    assert len(routes) == len(ENDPOINTS)


def test_a_target_without_a_query_has_no_question_mark():
    assert build_target(USER) == "/users/v1/users/me"


def test_leading_zeros_and_the_order_of_a_query_are_kept():
    target = build_target(
        AVAILABLE_TRADE,
        {"sub_account_id": "0001234569"},
        [("orderSide", "BUY"), ("symbol", "HPG"), ("quotePrice", "27000")],
    )

    assert target == (
        "/trading/v2/accounts/0001234569/available-trade?orderSide=BUY&symbol=HPG&quotePrice=27000"
    )


def test_a_query_is_encoded_once():
    target = build_target(USER, query=[("catType", "A,B"), ("name", "a b&c=đ")])

    assert target == "/users/v1/users/me?catType=A%2CB&name=a%20b%26c%3D%C4%91"


def test_a_path_value_cannot_leave_its_place():
    assert build_target(STOCK_QUOTE, {"symbol": "A/../B?x#y"}) == (
        "/market/quotes/stocks/A%2F..%2FB%3Fx%23y"
    )


@pytest.mark.parametrize("value", ["", ".", ".."])
def test_a_path_value_that_names_another_path_is_refused(value):
    with pytest.raises(UnusableTarget, match="symbol"):
        build_target(STOCK_QUOTE, {"symbol": value})


def test_a_hole_without_a_value_is_our_bug():
    with pytest.raises(KeyError):
        build_target(SUB_ACCOUNTS, {})


def test_the_second_factor_goes_before_what_is_polled():
    lanes = {ENDPOINTS[name].lane for name in ("request_otp", "verify_otp", "revoke_token")}

    assert lanes == {Lane.PLACE}
