"""Good answers that say something false: rows of other orders, impossible states, rows in disorder.

They work on the sealed body of a success. What a field is called differs between the answer to an
order write and a row of the day order book; a change is made under every name that the row has.
"""

import json
from collections.abc import Mapping
from random import Random
from typing import Final

from pydantic import JsonValue

from bot.protocol.strict_json import compact
from bot.sandbox.faults.rule import RowField, SetFields, StatusOverride, SwapRow

Row = dict[str, JsonValue]

_PAYLOAD_KEYS: Final = ("data", "result")
_NAMES: Final[Mapping[RowField, tuple[str, ...]]] = {
    "order_id": ("order_id", "orderid", "rootorderid"),
    "account": ("account_id", "afacctno", "afacctno_ext"),
    "date": ("transaction_date", "txdate"),
    "symbol": ("symbol",),
    "side": ("order_side", "side", "side_", "side_code"),
    "quantity": ("order_quantity", "qtty"),
    "price": ("limit_price", "limitprice", "price"),
    "type": ("order_type", "pricetype", "market_price"),
}
_OTHERS: Final[Mapping[RowField, JsonValue]] = {
    "order_id": "ORD1",
    "account": "120C999999.1",
    "date": "2020-01-02",
    "symbol": "VNM",
    "type": "ATC",
}
_OTHER_SIDE: Final = {"BUY": "SELL", "SELL": "BUY", "NB": "NS", "NS": "NB"}
_STATUS_NAMES: Final = ("order_status", "status", "status_")
_MORE: Final = 100


def swap(action: SwapRow, body: bytes) -> bytes:
    """Return the body with its first row swapped, or with none or two rows."""
    answer = json.loads(body)
    if action.rows is not None:
        _resize(answer, action.rows)
    for row in _rows(answer)[:1]:
        _swap_field(row, action)
    return compact(answer).encode()


def _resize(answer: Row, count: int) -> None:
    for key in _PAYLOAD_KEYS:
        if isinstance(rows := answer.get(key), list):
            answer[key] = (rows[:1] * count)[:count]


def _swap_field(row: Row, action: SwapRow) -> None:
    if action.field is None:
        return
    for name in _NAMES[action.field]:
        if row.get(name) is not None:
            row[name] = _other(action, row[name])


def _other(action: SwapRow, value: JsonValue) -> JsonValue:
    assert action.field is not None, "a swap without a field swaps nothing"
    if action.value is not None:
        return action.value
    if action.field == "side":
        return _OTHER_SIDE.get(str(value), value)
    if isinstance(value, int | float):
        return value + _MORE
    return _OTHERS.get(action.field, value)


def override_status(action: StatusOverride, body: bytes) -> bytes:
    """Return the body with this status in every row."""
    answer = json.loads(body)
    values = dict.fromkeys(_STATUS_NAMES, action.status) | {"status_code": action.code}
    for row in _rows(answer):
        row.update({name: value for name, value in values.items() if name in row})
    return compact(answer).encode()


def set_fields(action: SetFields, body: bytes) -> bytes:
    """Return the body with these values in every row."""
    answer = json.loads(body)
    for row in _rows(answer):
        row.update(action.fields)
    return compact(answer).encode()


def shuffle(chance: Random, body: bytes) -> bytes:
    """Return the body with the rows of its list in some order."""
    answer = json.loads(body)
    for key in _PAYLOAD_KEYS:
        if isinstance(rows := answer.get(key), list):
            chance.shuffle(rows)
    return compact(answer).encode()


def _rows(answer: Row) -> list[Row]:
    """The objects of the payload; without a payload key, the answer itself."""
    found = [answer[key] for key in _PAYLOAD_KEYS if answer.get(key) is not None] or [answer]
    return [
        row
        for value in found
        for row in (value if isinstance(value, list) else [value])
        if isinstance(row, dict)
    ]
