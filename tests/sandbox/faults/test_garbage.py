"""Good bodies spoilt: in each of the named ways, always the same, and never a good answer."""

import json

import pytest

from bot.protocol.endpoints.trading import STOCK_DEPTH
from bot.protocol.envelope import seal
from bot.protocol.strict_json import NotJson, parse
from bot.sandbox.faults.garbage import GarbageKind, spoil
from tests.rows import every_row

GOOD = seal(STOCK_DEPTH, {"symbol": "HPG", "bids": [{"price": 1, "volume": 2}], "asks": []})
SAYS_NONSENSE = {
    GarbageKind.NULL,
    GarbageKind.NUMBER,
    GarbageKind.TEXT,
    GarbageKind.ARRAY,
    GarbageKind.NO_PAYLOAD,
    GarbageKind.PAYLOAD_NULL,
    GarbageKind.PAYLOAD_TEXT,
    GarbageKind.PAYLOAD_NUMBER,
    GarbageKind.OTHER_CONTAINER,
    GarbageKind.ROWS_OF_NULL,
    GarbageKind.VALUES_NESTED,
    GarbageKind.VALUES_TRUE,
    GarbageKind.VALUES_NULL,
    GarbageKind.NUMBERS_AS_WORDS,
    GarbageKind.KEYS_RENAMED,
}
"""JSON that any reader reads; what it says is absurd."""
each_kind = every_row("kind", GarbageKind)


def test_there_are_at_least_forty_kinds_with_the_huge_the_bomb_and_the_slow():
    assert len(GarbageKind) + 3 >= 40


@each_kind
def test_a_spoilt_body_is_another_one_and_always_the_same(kind):
    assert spoil(kind, GOOD) == spoil(kind, GOOD) != GOOD


@every_row("kind", sorted(set(GarbageKind) - SAYS_NONSENSE))
def test_a_broken_text_is_not_read(kind):
    with pytest.raises(NotJson):
        parse(spoil(kind, GOOD))


@every_row("kind", sorted(SAYS_NONSENSE))
def test_absurd_json_is_json_and_says_something_else(kind):
    assert parse(spoil(kind, GOOD)) != json.loads(GOOD)


@each_kind
def test_an_answer_without_a_payload_key_and_an_empty_one_are_spoilt_too(kind):
    assert spoil(kind, b'{"ticket_id":"T-1","tries":3}') != b'{"ticket_id":"T-1","tries":3}'
    assert isinstance(spoil(kind), bytes)
