"""Whatever the other end sends, a typed error naming call and reason comes out, or a good value."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from bot.protocol.accounts import (
    decode_available_trade,
    decode_portfolio,
    decode_sub_accounts,
    decode_summary,
    decode_user,
)
from bot.protocol.calls import CODECS
from bot.protocol.day_order_book import decode_order_row, decode_todays_orders
from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.endpoints.endpoint import Endpoint
from bot.protocol.envelope import Answer, open_envelope
from bot.protocol.errors import BrokerRefusal, MalformedAnswer
from bot.protocol.orders import decode_order_results
from bot.protocol.quotes import decode_depth, decode_market_phase, decode_quote
from bot.protocol.strict_json import compact
from bot.protocol.two_factor import decode_otp_ticket, decode_two_factor_token
from tests.protocol.samples import ACCOUNT, NOW, RESULT_JSON, ROW_JSON, sealed
from tests.rows import every_row

ANSWERS: dict[str, Any] = json.loads(Path(__file__).with_name("answers.json").read_text("utf-8"))
SUB_ACCOUNT = {"id": "0001234567", "sub_account_ext": "120C000008.1", "type": "Normal"}
LEVEL = {"price": 25_500, "volume": 100}
HOLDING = {"symbol": "HPG", "total": 300, "available": 100, "cost_price": 25_000}
STAMP = "2026-08-21T09:20:11+07:00"

GOOD: dict[str, Any] = {
    "user": {"user_id": 7},
    "sub_accounts": [SUB_ACCOUNT],
    "place_order": [RESULT_JSON],
    "amend_order": [RESULT_JSON],
    "cancel_order": [RESULT_JSON],
    "todays_orders": [ROW_JSON],
    "order_detail": ROW_JSON,
    "portfolio": {"is_snapshot": False, "portfolio": [HOLDING]},
    "summary": {"ci_balance": 1, "balance": 2, "net_asset_value": 3, "baldefovd": "4"},
    "available_trade": {"pp0": 1, "trade": 2},
    "market_phase": {
        "exchange": "HOSE",
        "exchange_session": "PROGRESS",
        "available_order_types": ["LO"],
    },
    "stock_quote": {"symbol": "HPG", "exchange": "HOSE", "price": 25_500, "updated_at": STAMP},
    "stock_depth": {"symbol": "HPG", "bids": [LEVEL], "asks": [LEVEL], "updated_at": STAMP},
    "request_otp": {"ticket_id": "T-1", "masked_destination": "a***@example.com"},
    "verify_otp": {"session_token": "eyJ.x.y", "expires_at": STAMP, "expires_at_epoch": 1787331599},
    "revoke_token": {},
}
ROWS: dict[str, Any] = {"account": ACCOUNT, "requested_at": NOW}
DECODERS: dict[str, Any] = {
    "user": decode_user,
    "sub_accounts": decode_sub_accounts,
    "place_order": decode_order_results,
    "amend_order": decode_order_results,
    "cancel_order": decode_order_results,
    "todays_orders": lambda payload: decode_todays_orders(payload, **ROWS),
    "order_detail": lambda payload: decode_order_row(payload, **ROWS),
    "portfolio": decode_portfolio,
    "summary": decode_summary,
    "available_trade": decode_available_trade,
    "market_phase": decode_market_phase,
    "stock_quote": decode_quote,
    "stock_depth": decode_depth,
    "request_otp": decode_otp_ticket,
    "verify_otp": decode_two_factor_token,
    "revoke_token": lambda payload: payload.value,
}
GENERATED = {name: codec for name, codec in CODECS.items() if name not in DECODERS}
GOOD |= {name: ANSWERS.get(name, [{"anything": 1}]) for name in GENERATED}
DECODERS |= {name: codec.decode for name, codec in GENERATED.items()}
DIFFERENT = {
    str(CODECS[name].kind if name in GENERATED and CODECS[name].kind else name): endpoint
    for name, endpoint in ENDPOINTS.items()
}
"""One call of all those that the same table reads."""
each_table = every_row("endpoint", DIFFERENT.values())
BROKEN_BYTES = 120
CUTS = 100
every_call = every_row("endpoint", ENDPOINTS.values())

ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    2**62,
    "",
    "x",
    "9" * 30,
    "\ud7ff",
    [],
    {},
    [[]],
    [None],
    {"a": {}},
    1.5,
]


def read(endpoint: Endpoint, answer: Answer) -> object:
    return DECODERS[endpoint.name](open_envelope(endpoint, answer))


def is_read_or_names_the_call(endpoint: Endpoint, body: bytes) -> bool:
    """Any exception but these two fails the test."""
    try:
        read(endpoint, Answer(200, {}, body))
    except MalformedAnswer as error:
        return error.call == endpoint.name and error.reason != "" and len(error.raw) <= 16 * 1024
    except BrokerRefusal as error:
        return error.call == endpoint.name
    return True


def test_every_call_has_a_decoder_and_a_sample():
    assert set(GOOD) == set(DECODERS) == set(ENDPOINTS)


@every_call
def test_a_good_answer_is_read(endpoint):
    read(endpoint, sealed(endpoint, GOOD[endpoint.name]))


@every_call
def test_unknown_fields_everywhere_change_nothing(endpoint):
    good = GOOD[endpoint.name]

    widened = read(endpoint, sealed(endpoint, widen(good)))

    assert repr_without_raw(widened) == repr_without_raw(read(endpoint, sealed(endpoint, good)))


def widen(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: widen(inner) for name, inner in value.items()} | {"novelty": {"a": [1]}}
    return [widen(inner) for inner in value] if isinstance(value, list) else value


def repr_without_raw(value: object) -> str:
    return repr(value).split(", raw=")[0] if "raw=" in repr(value) else str(type(value))


@each_table
def test_an_answer_cut_short_anywhere_is_an_error_naming_the_call(endpoint):
    whole = sealed(endpoint, GOOD[endpoint.name]).body

    for length in range(1, len(whole), 1 + len(whole) // CUTS):
        with pytest.raises(MalformedAnswer, match=endpoint.name):
            read(endpoint, Answer(200, {}, whole[:length]))


@each_table
def test_a_changed_byte_never_escapes_as_another_error(endpoint):
    whole = sealed(endpoint, GOOD[endpoint.name]).body
    chance = random.Random(7)

    for _ in range(BROKEN_BYTES):
        broken = bytearray(whole)
        broken[chance.randrange(len(whole))] = chance.randrange(256)
        assert is_read_or_names_the_call(endpoint, bytes(broken))


@each_table
def test_an_odd_value_in_any_field_never_escapes_as_another_error(endpoint):
    for changed in odd_versions(GOOD[endpoint.name]):
        key = endpoint.payload_key
        body = compact({key: changed} if key else changed).encode()

        assert is_read_or_names_the_call(endpoint, body)


def odd_versions(value: Any) -> list[Any]:
    """The value itself, each of its fields and each of its elements replaced by something odd."""
    versions = list(ODD)
    if isinstance(value, dict):
        for name, inner in value.items():
            versions += [value | {name: odd} for odd in odd_versions(inner)]
    elif isinstance(value, list):
        versions += [[odd] for inner in value for odd in odd_versions(inner)]
    return versions
