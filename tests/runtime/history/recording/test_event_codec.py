"""Whatever goes into the engine, or comes out of it, is read back as it was written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, make_dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import Enum, StrEnum
from random import Random
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest

from bot.config.rulebook import load_rulebook
from bot.domain.message import Command, Event, ReadOrderToCancel
from bot.domain.rulebook import Rulebook
from bot.engine.engine import HANDLERS
from bot.engine.settings import EngineSettings
from bot.runtime.history.recording.event_codec import Codec, UnknownShape
from bot.runtime.history.recording.recordings import Codecs
from tests.rows import every_row

CODECS = Codecs()
AT = datetime(2026, 11, 19, 2, 30, tzinfo=UTC)
SEEDS = 20
TEXTS = ("", "HPG", "thép 'Hòa Phát'", "\x1f\x1e\n\x00", "\ud800", "😀")
PLAIN: Mapping[Any, Sequence[object]] = {
    NoneType: (None,),
    bool: (True, False),
    int: (0, -1, 10**15),
    float: (0.1, -1e300, 2.5),
    str: TEXTS,
    datetime: (AT, AT + timedelta(microseconds=1), datetime.max.replace(tzinfo=UTC)),
    date: (date(2026, 11, 19), date.min),
    time: (time(9, 15), time(14, 45, 0, 1)),
    timedelta: (timedelta(0), timedelta(days=-1, microseconds=7)),
}


def made(hint: Any, random: Random) -> Any:
    """Make a value of an annotation, another one by each seed."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in PLAIN:
        return random.choice(PLAIN[hint])
    if origin in (Union, UnionType):
        return made(random.choice(arguments), random)
    if origin is tuple and arguments[-1] is not ...:
        return tuple(made(each, random) for each in arguments)
    if origin in (tuple, frozenset):
        return origin(made(arguments[0], random) for _ in range(random.randrange(3)))
    if origin is not None and issubclass(origin, Mapping):
        return {made(arguments[0], random): made(arguments[1], random) for _ in range(3)}
    if issubclass(hint, Enum):
        return random.choice(list(hint))
    hints = get_type_hints(hint)
    return hint(**{each.name: made(hints[each.name], random) for each in fields(hint)})


class Colour(StrEnum):
    RED = "RED"


@dataclass(frozen=True, slots=True)
class Old:
    at: datetime
    colours: frozenset[Colour]
    pairs: tuple[tuple[date, int], ...] = ()


def test_every_event_that_the_engine_handles_can_be_recorded() -> None:
    assert set(HANDLERS) == set(get_args(Event))
    assert {each.__name__ for each in HANDLERS} <= set(CODECS.event.shapes)


@every_row("kind", get_args(Event))
def test_an_event_is_read_as_it_was_written(kind: type) -> None:
    for seed in range(SEEDS):
        event = made(kind, Random(f"{seed} {kind.__name__}"))

        again = CODECS.event.read(CODECS.event.write(event))

        assert again == event
        assert type(again) is kind


@every_row("kind", (*get_args(Command), ReadOrderToCancel))
def test_a_command_is_read_as_it_was_written(kind: type) -> None:
    for seed in range(SEEDS):
        commands = (made(kind, Random(f"{seed} {kind.__name__}")),)

        again = CODECS.commands.read(CODECS.commands.write(commands))

        assert again == commands
        assert type(again[0]) is kind


def test_rules_and_settings_are_read_as_they_were_written() -> None:
    rules, own = Codec(Rulebook), Codec(EngineSettings)

    assert rules.read(rules.write(load_rulebook())) == load_rulebook()
    assert own.read(own.write(EngineSettings())) == EngineSettings()


def test_a_set_is_written_in_one_order_whatever_its_own() -> None:
    codec = Codec(frozenset[date])
    days = [date(2026, 11, day) for day in range(1, 20)]

    assert codec.write(frozenset(days)) == codec.write(frozenset(reversed(days)))


def test_a_field_that_came_later_takes_its_default() -> None:
    written = Codec(Old).write(Old(AT, frozenset({Colour.RED}), ((date(2026, 1, 1), 1),)))
    newer = make_dataclass(
        "Old",
        [
            ("at", datetime),
            ("colours", frozenset[Colour]),
            ("pairs", tuple[tuple[date, int], ...]),
            ("new", int, 7),
        ],
    )

    found = Codec(newer, Codec(Old).shapes).read(written)

    assert (found.at, found.new) == (AT, 7)


def test_a_field_that_is_gone_or_missing_is_named() -> None:
    gone = make_dataclass("Old", [("at", datetime)])
    needed = make_dataclass("Old", [("at", datetime), ("by", str)])

    with pytest.raises(UnknownShape, match="a Old with colours, pairs"):
        Codec(gone, Codec(Old).shapes)
    with pytest.raises(UnknownShape, match="a Old without by"):
        Codec(needed, {"Old": ("at",)})


def test_a_class_of_another_release_is_named() -> None:
    with pytest.raises(UnknownShape, match="a Novelty"):
        CODECS.event.read('["Novelty","2026-11-19T02:30:00+00:00"]')


def test_what_no_codec_knows_is_refused_when_it_is_made() -> None:
    with pytest.raises(TypeError, match="can't be recorded"):
        Codec(tuple[complex, ...])
    with pytest.raises(TypeError, match="can't tell these apart"):
        Codec(date | timedelta | int)
