"""The straight readers of common answers say nothing that strict parser and models would not say.

Good answers are changed at random, as values and as bytes; the slow reader is the judge of each.
"""

import json
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from bot.protocol.day_order_book import read_row, validate_row
from bot.protocol.endpoints.endpoint import Endpoint
from bot.protocol.endpoints.trading import ORDER_DETAIL, PLACE_ORDER, STOCK_DEPTH, STOCK_QUOTE
from bot.protocol.envelope import Payload, seal
from bot.protocol.errors import MalformedAnswer
from bot.protocol.orders import read_result, validate_result
from bot.protocol.quotes import read_depth, read_quote, validate_depth, validate_quote
from bot.protocol.strict_json import NotJson, compact, parse_common, parse_strictly
from tests.protocol.samples import ACCOUNT, NOW, RESULT_JSON, ROW_JSON
from tests.rows import every_row

SHARE = int(os.environ.get("ANSWERS_SHARE", "4"))
"""Every fourth of the changed answers is tried; `make prove` tries them all."""
STAMP = "2026-08-21T09:20:11+07:00"
LEVELS = [{"price": 25_500 - 50 * at, "volume": 1_000 + at} for at in range(3)]

QUOTE: dict[str, Any] = {
    "symbol": "HPG",
    "name": "Hòa Phát",
    "exchange": "HOSE",
    "currency": "VND",
    "price": 25_500,
    "open": 25_450,
    "high": 25_600,
    "low": 25_400,
    "reference": 25_350,
    "ceiling": 27_100,
    "floor": 23_600,
    "change": 150,
    "change_percent": 0.59,
    "volume": 1_000,
    "updated_at": STAMP,
}
DEPTH: dict[str, Any] = {
    "symbol": "HPG",
    "currency": "VND",
    "bids": LEVELS,
    "asks": [{"price": 25_550, "volume": 0}, {"price": 0, "volume": 700}],
    "updated_at": STAMP,
}


@dataclass(frozen=True)
class Pair:
    """A reader of common answers beside the one that decides, and answers that both must read."""

    endpoint: Endpoint
    read: Callable[[Any], object]
    validate: Callable[[Payload], object]
    good: tuple[Any, ...]
    changes: int

    def __str__(self) -> str:
        return self.endpoint.name


PAIRS: tuple[Pair, ...] = (
    Pair(
        STOCK_QUOTE,
        read_quote,
        validate_quote,
        (QUOTE, {**QUOTE, "open": 0, "volume": None}),
        30_000,
    ),
    Pair(
        STOCK_DEPTH, read_depth, validate_depth, (DEPTH, {**DEPTH, "bids": [], "asks": []}), 30_000
    ),
)
ROWS: dict[str, Any] = {"account": ACCOUNT, "requested_at": NOW}
PAIRS += (
    Pair(
        PLACE_ORDER,
        read_result,
        validate_result,
        (
            RESULT_JSON,
            {**RESULT_JSON, "order_status": "MATCHED", "execute_quantity": 300, "code": "0"},
            {**RESULT_JSON, "execute_quantity": 100, "execute_amount": 2_550_000},
            {**RESULT_JSON, "order_status": "REJECTED", "code": "-1", "rejected_reason": "không"},
            {**RESULT_JSON, "limit_price": None, "market_price": "MP", "fidelity": "queue"},
        ),
        25_000,
    ),
    Pair(
        ORDER_DETAIL,
        partial(read_row, **ROWS),
        partial(validate_row, **ROWS),
        (
            ROW_JSON,
            {**ROW_JSON, "execprice": Decimal("25466.67"), "fidelity": "queue"},
            {**ROW_JSON, "execqtty": None, "remainqtty": 300, "txdate": None, "afacctno": "x"},
            {**ROW_JSON, "status": "", "side": "", "price": 0, "txtime": "", "allowcancel": ""},
            {**ROW_JSON, "side": " sell ", "side_code": "NB", "allowcancel": " y "},
        ),
        15_000,
    ),
)
each_pair = every_row("pair", PAIRS)

ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**63 - 1, 2**63, -(2**63), 10**18, 10**30, 1.5, 25_500.0, 1e30,
    "", " ", "0", "1", "-1", "25500", "25500.0", " 25500", "9" * 30, "x", "hpg", " HPG ", "Đồng",
    "\u00a0", "\u2003HPG", "ß", "ŉ", "\ud7ff", "a\\u0000b", '"', "a\":b", "{[", "HNX", "upcom",
    "BUY", "sell", "NB", "LO", "REJECTED", "SENT", "MATCHED", "CANCELLED", "Y", "n", "true",
    STAMP, "2026-08-21T09:20:11", "2026-08-21", "20260821", "2026-W34-5", "09:20:11", "24:00:00",
    "0001-01-01T00:00:00+07:00", "9999-12-31T23:59:59-07:00", "2026-08-21T09:20:11Z",
    [], {}, [None], [[]], {"a": 1}, [{}], [{"price": 1}], [{"price": 1, "volume": 1, "x": 1}],
    [{"price": None, "volume": 1}], [{"price": "1", "volume": 1}], [{"price": 1, "volume": -1}],
    [{"price": -1, "volume": 1}], [{"price": 2**63, "volume": 1}], [{"price": 1, "volume": 2**63}],
    [{"price": True, "volume": 1}], [{"price": 1, "volume": True}], [{"price": 1.5, "volume": 1}],
    [{"price": 1, "Volume": 1}], LEVELS * 34,
)  # fmt: skip


def changed(value: Any, chance: random.Random) -> Any:
    """Return the value with one thing in it replaced."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        name = chance.choice(list(value))
        how = chance.randrange(8)
        if how == 0:
            return {key: one for key, one in value.items() if key != name}
        if how == 1:
            return {
                **value,
                chance.choice(("novelty", "Price", "fidelity", "")): chance.choice(ODD),
            }
        if how == 2:
            other = chance.choice(list(value))
            return {**value, name: value[other]}
        if how == 3:
            return dict(chance.sample(list(value.items()), len(value)))
        if how == 4 and isinstance(value[name], int):
            return {**value, name: str(value[name])}
        return {**value, name: changed(value[name], chance)}
    if isinstance(value, list) and value and chance.random() < 0.9:
        at = chance.randrange(len(value))
        return [*value[:at], changed(value[at], chance), *value[at + 1 :]]
    if isinstance(value, int) and chance.random() < 0.3:
        return chance.choice((-value, value + 1, value * 10**13, float(value), not value))
    return chance.choice(ODD)


TEXTS: tuple[str, ...] = (
    " ",
    "\n",
    "\t",
    "0",
    "9" * 19,
    "-",
    ".5",
    "e5",
    "e400",
    "NaN",
    "\\u0041",
    "\\ud800",
    "ö",
)
TEXTS += ('"', ",", ":", " :", '":', "{", "[", "]", "}", "[" * 40, '"symbol":"HPG",', '"price":1,')


def scarred(body: bytes, chance: random.Random) -> bytes:
    """Return the body with a few bytes changed, put in, left out, or cut off at the end."""
    at, text = chance.randrange(len(body)), chance.choice(TEXTS).encode()
    how = chance.randrange(5)
    if how == 0:
        return body[:at]
    if how == 1:
        return body[:at] + bytes((chance.randrange(256),)) + body[at + 1 :]
    if how == 2:
        return body[:at] + body[at + chance.randrange(1, 9) :]
    if how == 3:
        at = body.find(chance.choice((b'"', b",", b":", b"}", b"{")), at)
    return body[:at] + text + body[at:]


def answers(pair: Pair) -> Iterator[bytes]:
    chance = random.Random(str(pair))
    for _ in range(pair.changes // SHARE):
        value = chance.choice(pair.good)
        for _ in range(chance.choice((0, 1, 1, 1, 2, 3))):
            value = changed(value, chance)
        ascii_only = chance.random() < 0.1
        body = json.dumps(value, default=float).encode() if ascii_only else compact(value).encode()
        for _ in range(chance.choice((0, 0, 1))):
            body = scarred(body, chance)
        yield body


def is_same(one: object, other: object) -> bool:
    """Tell whether two values are equal; a number never equals a boolean."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    if is_dataclass(one) and type(one) is type(other):
        names = [each.name for each in fields(one)]
        return all(is_same(getattr(one, name), getattr(other, name)) for name in names)
    return type(one) is type(other) and one == other


@pytest.mark.sampled(2)
@pytest.mark.parametrize("pair", PAIRS, ids=str)  # a test for each, so that two workers share them
def test_whatever_is_read_straight_is_what_the_model_makes_of_it(pair):
    read = 0

    for body in answers(pair):
        value = parse_common(body)
        if value is None:
            continue
        assert repr(value) == repr(parse_strictly(body)), body
        found = pair.read(value)
        if found is not None:
            read += 1
            assert is_same(found, pair.validate(Payload("call", value))), body

    assert read > pair.changes // SHARE // 10


@each_pair
def test_a_common_answer_is_read_straight(pair):
    for value in pair.good:
        body = seal(pair.endpoint, value)

        assert parse_common(body) == parse_strictly(body)
        assert pair.read(value) is not None


@each_pair
def test_the_model_decides_wherever_the_straight_reader_says_nothing(pair):
    surprises: tuple[object, ...] = ({**pair.good[0], "novelty": 1}, {}, [], None, "x")

    for odd in surprises:
        assert pair.read(odd) is None


@pytest.mark.parametrize(
    "body",
    [
        '{"a":1,"a":1}', '{"a" :1,"a":1}', '{"a":1,"a"\n:1}', '{"x":"\\":","a":1,"a" :2}',
        '{"a":NaN}', '{"a":-Infinity}', '{"a":9223372036854775808}', '{"a":1e400}',
        '{"a":"\\u0000"}', '{"a":"\\ud800"}', '{"a":"\n"}', "null", "", "{", "[]]",
        "[" * 34 + "]" * 34, "[" * 10_000, '{"a":' * 34 + "1" + "}" * 34,
    ],
)  # fmt: skip
def test_what_the_strict_parser_looks_for_is_left_to_it(body):
    assert parse_common(body.encode()) is None


@pytest.mark.parametrize(
    "body", ['{"a": {"b": [1, "x"]}}', '{"a":"x : y"}', "[[1],[]]", '[{"a":1.5}]', "{}", "1"]
)
def test_what_is_common_is_parsed_at_once(body):
    assert repr(parse_common(body.encode())) == repr(parse_strictly(body.encode()))


def test_a_doubtful_text_is_parsed_all_the_same():
    doubtful = '{"a":"say \\":\\"","b":"[{"}'

    assert parse_common(doubtful.encode()) is None
    assert parse_strictly(doubtful.encode()) == {"a": 'say ":"', "b": "[{"}
    with pytest.raises(NotJson):
        parse_strictly(b'{"a":1,"a":1}')


def test_a_level_with_more_in_it_is_left_to_the_model():
    level = {"price": 25_500, "volume": 100, "orders": 3}

    assert read_depth({**DEPTH, "bids": [level]}) is None


def test_an_average_beyond_64_bits_is_left_to_the_model():
    assert read_row({**ROW_JSON, "execprice": Decimal("1e19")}, **ROWS) is None


@each_pair
def test_nonsense_is_refused_in_the_words_of_the_model(pair):
    with pytest.raises(MalformedAnswer, match="call: the answer cannot be used"):
        pair.validate(Payload("call", {"symbol": 1}))
