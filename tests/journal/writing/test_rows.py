"""The writer's quick way to rows and hashes gives what the plain way gives, whatever it is fed."""

import json
import math
import typing
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.domain.account import AccountSnapshot, Holding
from bot.domain.entry import AccountSeen, CheckResult, Entry, IntentRecorded, Verdict
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.order import Intent
from bot.journal.database import tables
from bot.journal.database.encoding import Plain, instant_text, json_text, link, plain
from bot.journal.writing.rows import (
    row_of,
    seal_of,
    sealed_content,
    written_hash_of,
    written_seal_of,
)
from tests.journal.facts import T0

ANYTHING = st.text(st.characters(), max_size=12)
NUMBERS = st.dictionaries(
    ANYTHING,
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | ANYTHING
    | st.sampled_from([*Verdict]),
    max_size=4,
)
WAYS: dict[Any, st.SearchStrategy[Any]] = {
    str: ANYTHING,
    int: st.integers(-(2**63), 2**63 - 1),
    bool: st.booleans(),
    date: st.dates(),
    datetime: st.builds(
        lambda us, zone: (T0 + timedelta(microseconds=us)).astimezone(zone),
        st.integers(-(10**15), 10**15),
        st.sampled_from([UTC, EXCHANGE_TZ]),
    ),
    timedelta: st.timedeltas(timedelta(0), timedelta(days=99)),
    type(None): st.none(),
    tuple[str, ...]: st.lists(ANYTHING, max_size=3).map(tuple),
    tuple[CheckResult, ...]: st.lists(
        st.builds(CheckResult, ANYTHING, st.booleans(), NUMBERS, ANYTHING), max_size=3
    ).map(tuple),
    Mapping[str, Holding]: st.dictionaries(
        ANYTHING, st.builds(Holding, ANYTHING, *[st.integers()] * 4), max_size=2
    ),
}


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Any value that a field of this type may hold."""
    if hint in WAYS:
        return WAYS[hint]
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return st.sampled_from(list(hint))
    if typing.get_origin(hint) is not None and hint.__class__.__name__ == "_GenericAlias":
        return NUMBERS
    if isinstance(hint, type):
        return made(hint)
    if typing.get_args(hint) and "Mapping" not in str(hint):
        return st.one_of(*map(values_of, typing.get_args(hint)))
    return NUMBERS


EXAMPLES = settings(max_examples=40)


def made(kind: type) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(kind)
    return st.builds(kind, **{field.name: values_of(hints[field.name]) for field in fields(kind)})


def plainly(value: object) -> Plain:
    """A value of the domain as what a column holds, said in the plainest way."""
    if value is None:
        return None
    if isinstance(value, str):
        return str(value).replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, int):
        return int(value)
    if isinstance(value, datetime):
        return instant_text(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    return json_text(value)


NESTED = {IntentRecorded: Intent, AccountSeen: AccountSnapshot}
KINDS = [NESTED.get(kind, kind) for kind in typing.get_args(Entry)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_row_is_made_field_by_field(kind: type) -> None:
    @EXAMPLES
    @given(made(kind))
    def check(entry: Any) -> None:
        wanted = {field.name: plainly(getattr(entry, field.name)) for field in fields(kind)}

        row = row_of(entry)

        assert row == wanted
        assert {type(value) for value in row.values()} <= {int, str, type(None)}

    check()


@pytest.mark.parametrize("text", ["NUL \x00", "lone \ud800", "\\u0000", "giá", ""])
def test_figures_with_any_words_are_written_as_the_long_way_writes_them(text: str) -> None:
    for figures in ({text: 1}, {"b": text, "a": True}, {"a": None, "b": 10**20}):
        assert plain(figures) == json_text(figures)


@pytest.mark.parametrize(
    "figure", [1, 1.5, math.nan, math.inf, True, None, "NUL \x00", "lone \ud800"]
)
def test_checks_with_any_figures_are_written_as_the_long_way_writes_them(figure: Any) -> None:
    plainest = CheckResult("R01", True, {"limit": 5_000}, "quantity 100 of 5,000")

    odd: Any = {2: 1, 10: 1}

    for other in (
        replace(plainest, numbers={"b": figure, "a": 1}),
        replace(plainest, numbers=odd),
        replace(plainest, text=str(figure)),
        replace(plainest, code=Verdict.BLOCKED),
        replace(plainest, text="giá \\u0000"),
    ):
        assert plain((plainest, other)) == json_text((plainest, other))


@given(NUMBERS, st.lists(ANYTHING, max_size=3))
def test_json_is_what_the_library_writes(figures: dict[str, Any], words: list[str]) -> None:
    finite = {key: 0 if type(it) is float else it for key, it in figures.items()}

    written = json_text({"figures": finite, "words": words, "none": {}})

    clean = {plainly(key): plainly(it) if isinstance(it, str) else it for key, it in finite.items()}
    value = {"figures": clean, "words": [*map(plainly, words)], "none": {}}
    assert written == json.dumps(value, sort_keys=True, ensure_ascii=False)


@pytest.mark.parametrize(
    "other",
    [
        *("NUL \x00", "lone \ud800", "\\u0000", "giá", "", 1, Verdict.BLOCKED),
        *('"', '", "', "\\", "line\n", "\x7f"),
    ],
)
def test_words_in_a_row_are_written_as_the_long_way_writes_them(other: Any) -> None:
    for words in (("ORD1", "ORD2"), ("ORD1", other), (other, "ORD1")):
        assert plain(words) == json_text(words)


@pytest.mark.parametrize("table", [*tables.CHAINED, *tables.SEALED], ids=lambda table: table.name)
def test_the_writer_hashes_a_row_as_a_reader_does(table: sa.Table) -> None:
    column = st.none() | st.integers() | ANYTHING.map(plainly)

    @EXAMPLES
    @given(st.fixed_dictionaries(dict.fromkeys(table.c.keys(), column)))
    def check(row: dict[str, Plain]) -> None:
        assert written_seal_of(table, row) == seal_of(table, row)
        if "prev_hash" in row:
            hashed = link(str(row["prev_hash"]), sealed_content(table, row))
            assert written_hash_of(table, row) == hashed

    check()
