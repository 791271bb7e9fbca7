import json
from dataclasses import replace
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from bot.domain.order import OrderType, Side
from bot.protocol.errors import MalformedRequest
from bot.protocol.orders import (
    decode_amend,
    decode_cancel,
    decode_place,
    encode_amend,
    encode_cancel,
    encode_place,
)
from bot.protocol.values.border import AmendRequest, PlaceRequest
from tests.protocol.samples import ACCOUNT, INTENT
from tests.rows import every_row

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
