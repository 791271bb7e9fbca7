"""Well-formed answers with false content: wrong rows, impossible states, stale data.

The changes work on the sealed body of a success. Field names differ between the answer to an order
write and a row of the day order book; a change is made under every name the row has.
"""

import json
from collections import OrderedDict, deque
from collections.abc import Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Final

from pydantic import JsonValue

from bot.protocol.strict_json import compact
from bot.sandbox.faults.script import RowField, SetFields, StatusOverride, SwapRow

Row = dict[str, JsonValue]

ANSWERS_MAX: Final = 256
"""Answers kept for one target."""
TARGETS_MAX: Final = 64
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
    """Return the body with its first row replaced, or with none or two rows."""
    answer = json.loads(body)
    if action.rows is not None:
        for key, rows in _lists(answer):
            answer[key] = (rows[:1] * action.rows)[: action.rows]
    for row in _rows(answer)[:1]:
        for name in _NAMES[action.field] if action.field is not None else ():
            if row.get(name) is not None:
                row[name] = _other(action, row[name])
    return compact(answer).encode()


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
    answer = json.loads(body)
    values = dict.fromkeys(_STATUS_NAMES, action.status) | {"status_code": action.code}
    for row in _rows(answer):
        row.update({name: value for name, value in values.items() if name in row})
    return compact(answer).encode()


def set_fields(action: SetFields, body: bytes) -> bytes:
    answer = json.loads(body)
    for row in _rows(answer):
        row.update(action.fields)
    return compact(answer).encode()


def shuffle(chance: Random, body: bytes) -> bytes:
    answer = json.loads(body)
    for _, rows in _lists(answer):
        chance.shuffle(rows)
    return compact(answer).encode()


def _lists(answer: Row) -> list[tuple[str, list[JsonValue]]]:
    """Return the payloads that are lists, by their keys."""
    found = [(key, answer.get(key)) for key in _PAYLOAD_KEYS]
    return [(key, rows) for key, rows in found if isinstance(rows, list)]


def _rows(answer: Row) -> list[Row]:
    """Return the objects of the payload; without a payload key, the answer itself."""
    found = [answer[key] for key in _PAYLOAD_KEYS if answer.get(key) is not None] or [answer]
    return [
        row
        for value in found
        for row in (value if isinstance(value, list) else [value])
        if isinstance(row, dict)
    ]


class EarlierAnswers:
    """Past answers by target and market time, for `stale_read`.

    It is bounded to the newest answers of the most recent targets. A restart clears it: a stale
    read then gets the true answer.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[str, deque[tuple[datetime, bytes]]] = OrderedDict()

    def keep(self, target: str, at: datetime, body: bytes) -> None:
        self._kept.setdefault(target, deque(maxlen=ANSWERS_MAX)).append((at, body))
        self._kept.move_to_end(target)
        if len(self._kept) > TARGETS_MAX:
            self._kept.popitem(last=False)

    def find(self, target: str, age: timedelta, at: datetime) -> bytes | None:
        """Return the newest answer at least `age` old, else the oldest, None without any."""
        answers = self._kept.get(target)
        if not answers:
            return None
        old = [body for answered_at, body in answers if answered_at + age <= at]
        return old[-1] if old else answers[0][1]
