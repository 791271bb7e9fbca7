"""Drift is told once for each call and field, and is no failure."""

import random

import pytest

from bot.broker.drift import (
    KNOWN_MAX,
    SHAPE_CHARACTERS_MAX,
    SHAPES_MAX,
    Change,
    Drifted,
    DriftWatch,
    drifted_in,
    shape_of,
)
from bot.protocol.envelope import Payload
from tests.broker.played_broker import ACCOUNT, Reply, desk
from tests.protocol.samples import ROW_JSON

QUOTE = {
    "symbol": "HPG",
    "name": "Hoa Phat",
    "exchange": "HOSE",
    "currency": "VND",
    "price": 25_500,
    "open": 25_500,
    "high": 25_500,
    "low": 25_500,
    "reference": 25_400,
    "ceiling": 27_150,
    "floor": 23_650,
    "change": 100,
    "change_percent": 0.39,
    "volume": 1_000,
    "updated_at": "2026-11-19T09:14:55+07:00",
}


def without(name: str) -> dict[str, object]:
    return {key: value for key, value in QUOTE.items() if key != name}


def test_an_answer_as_documented_has_no_drift() -> None:
    assert drifted_in(Payload("stock_quote", QUOTE)) == ()
    assert drifted_in(Payload("todays_orders", [ROW_JSON])) == ()


@pytest.mark.parametrize(
    ("payload", "drift"),
    [
        ({**QUOTE, "lot_size": 100}, Drifted("stock_quote", Change.ADDED, "lot_size")),
        (without("floor"), Drifted("stock_quote", Change.GONE, "floor")),
        (
            {**without("change_percent"), "changePercent": 0.39},
            Drifted("stock_quote", Change.RENAMED, "changePercent", "change_percent"),
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, Drifted) else "",
)
def test_added_gone_and_renamed_are_told_apart(payload: object, drift: Drifted) -> None:
    assert drifted_in(Payload("stock_quote", payload)) == (drift,)


def test_a_field_of_a_row_read_by_hand_drifts_too() -> None:
    row = {**ROW_JSON, "tax": 1}

    assert [str(each) for each in drifted_in(Payload("order_detail", row))] == [
        "order_detail tax added"
    ]


def test_the_reader_is_told_once_for_each_field() -> None:
    told: list[tuple[Drifted, ...]] = []
    watch = DriftWatch(told.append)

    for payload in ({**QUOTE, "lot_size": 100}, {**QUOTE, "lot_size": 1}, {**QUOTE, "lot": 1}):
        watch.note(drifted_in(Payload("stock_quote", payload)))

    assert [[each.field for each in news] for news in told] == [["lot_size"], ["lot"]]
    assert [each.field for each in watch.seen] == ["lot_size", "lot"]


def test_endless_new_names_are_not_kept() -> None:
    watch = DriftWatch()

    for number in range(KNOWN_MAX + 50):
        watch.note(drifted_in(Payload("stock_quote", {**QUOTE, f"field{number}": 1})))

    assert len(watch.seen) == KNOWN_MAX


@pytest.mark.parametrize("at_once", [1, 7])
def test_that_no_more_is_told_is_the_last_thing_told(at_once: int) -> None:
    told: list[tuple[Drifted, ...]] = []
    watch = DriftWatch(told.append)

    for number in range(0, KNOWN_MAX + 50, at_once):
        names = {f"field{each}": 1 for each in range(number, number + at_once)}
        watch.note(drifted_in(Payload("stock_quote", {**QUOTE, **names})))

    assert sum(map(len, told)) == KNOWN_MAX
    assert told[-1] == watch.seen[-1:]
    assert str(watch.seen[-1]) == "the broker's API further differences are not told"


async def test_what_a_read_brings_beyond_the_document_is_seen_and_does_no_harm() -> None:
    bench = desk(Reply({"error_code": "0", "data": {**QUOTE, "lot_size": 100}}))

    quote = await bench.broker.client.quote("HPG")

    assert quote.last == 25_500
    assert [str(each) for each in bench.broker.drift.seen] == ["stock_quote lot_size added"]


async def test_a_row_with_fields_of_its_own_is_seen() -> None:
    bench = desk(Reply({"error_code": "0", "result": [{**ROW_JSON, "tax": 1}]}))

    await bench.broker.client.todays_orders(ACCOUNT, bench.clock.now())

    assert [each.field for each in bench.broker.drift.seen] == ["[].tax"]


LEVEL = {"price": 25_500, "volume": 100}
DEPTH = {
    "symbol": "HPG",
    "currency": "VND",
    "bids": [LEVEL, LEVEL],
    "asks": [LEVEL],
    "updated_at": "2026-11-19T09:14:55+07:00",
}
ODD: tuple[object, ...] = (
    None,
    1,
    [],
    {},
    [1],
    [{}],
    [[]],
    [[LEVEL]],
    [{"price": 1}],
    [{**LEVEL, "orders": 3}],
)
ODD += ({"x": {"y": 1}}, [LEVEL, {"price": {"x": 1}}], [LEVEL, 1], [{**LEVEL, "x": [{"y": 1}]}])


def test_what_is_remembered_of_a_shape_is_what_looking_again_would_find() -> None:
    watch, chance = DriftWatch(), random.Random(7)
    names = (*DEPTH, "Bids", "asks.price", "items", "fidelity")

    for _ in range(3_000):
        value: dict[str, object] = dict(DEPTH)
        for _ in range(chance.randrange(3)):
            value.pop(chance.choice(names), None)
        for _ in range(chance.randrange(3)):
            value[chance.choice(names)] = chance.choice(ODD)
        payload = Payload("stock_depth", value)
        assert watch.found_in(payload) == drifted_in(payload), value


def test_another_call_with_the_same_names_is_looked_into() -> None:
    watch = DriftWatch()

    assert watch.found_in(Payload("stock_quote", QUOTE)) == ()
    assert watch.found_in(Payload("order_detail", QUOTE)) != ()


def test_of_hostile_shapes_few_and_small_ones_are_kept() -> None:
    watch = DriftWatch()

    for number in range(SHAPES_MAX * 2):
        watch.found_in(Payload("stock_depth", {**DEPTH, f"x{number}": 1}))
    watch.found_in(Payload("stock_depth", {**DEPTH, "x" * SHAPE_CHARACTERS_MAX: 1}))

    assert 0 < len(watch._of_shape) <= SHAPES_MAX
    assert max(len(repr(shape)) for shape in watch._of_shape) <= SHAPE_CHARACTERS_MAX


def test_rows_of_the_same_names_have_the_shape_of_one() -> None:
    assert shape_of([ROW_JSON] * 3) == shape_of([ROW_JSON])
    assert shape_of([ROW_JSON, {**ROW_JSON, "x": 1}]) != shape_of([ROW_JSON])
    assert shape_of([{"a": 1}]) != shape_of([{"b": 1}])
    assert shape_of({"a": [1]}) != shape_of({"a": {}})
    assert shape_of({"a": {"b": 1}}) != shape_of({"a": {"c": 1}})
