"""Says which entries the emergency journal keeps, writes them as a line of it, and reads such a
line.

The version that reads a line need not be the one that wrote it: what a line has too much is left,
and what it lacks takes its default. A line is all or nothing. It counts as damaged where its
checksum is wrong, and also where an entry of it is of no known kind, lacks something without a
default, or has a value that the journal would refuse: a start must get past any line.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, replace
from datetime import datetime
from functools import cache
from types import UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints
from zlib import crc32

from bot.domain.entry import (
    EXPLAINED,
    FAULT_NOTE,
    FLATTEN_NOTE,
    AttemptFinished,
    AttemptStarted,
    Decision,
    Entry,
    Fill,
    IntentMoved,
    Note,
    OrderResultSeen,
    OrderUpdated,
    StateChanged,
    StrategySwitched,
    Transition,
    Verdict,
)
from bot.journal.database import tables
from bot.journal.database.encoding import WHOLE_MAX, Plain, made, plain
from bot.journal.writing import rows
from bot.journal.writing.batch import POLLS

KINDS: Final[dict[str, type[Entry]]] = {
    kind.__name__: kind
    for kind in (
        AttemptStarted,
        AttemptFinished,
        Decision,
        IntentMoved,
        OrderResultSeen,
        OrderUpdated,
        Transition,
        Fill,
        StateChanged,
        StrategySwitched,
        Note,
    )
}
WORDS: Final[Mapping[tuple[type[Entry], str], Sequence[str]]] = {
    (AttemptStarted, "verb"): tables.VERBS,
    (AttemptFinished, "outcome"): tables.OUTCOMES,
    (OrderResultSeen, "source"): tables.RESULT_SOURCES,
    (StrategySwitched, "state"): tables.STRATEGY_STATES,
}
"""The texts of which a table takes only some; all others of that kind have an enum of their own."""


RAW_MAX: Final = 2_000
"""Characters of an answer of the broker, or of a part of it; an ordinary one has a thousand."""


def must_survive(entry: Entry) -> bool:
    """Return whether an entry is kept there: of KINDS, but not a polled row, which can be read
    again, nor that an account's figures count, which are not there; of decisions only that an order
    is to be cancelled, and of notes only those on a flatten, on breaks, and on a broken invariant.
    """
    if isinstance(entry, StateChanged) and entry.scope.startswith(tables.BASE):
        return False
    if isinstance(entry, Decision):
        return (entry.code, entry.verdict) == ("CANCEL", Verdict.PASSED)
    if isinstance(entry, Note):
        is_of_break = entry.numbers.get("alert") == "BREAK" or EXPLAINED in entry.numbers
        is_of_invariant = entry.kind == FAULT_NOTE and bool(entry.numbers.get("invariant"))
        return entry.kind == FLATTEN_NOTE or is_of_break or is_of_invariant
    is_poll = isinstance(entry, OrderResultSeen) and entry.source in POLLS
    return type(entry).__name__ in KINDS and not is_poll


def line_of(entries: Sequence[Entry]) -> str:
    """Write entries that belong together, like an order's row and its fill, as one line, so that
    truncation cannot separate them. Of the broker's own text only the beginning is kept: answers
    as long as the journal takes them would leave no room for further cancels.
    """
    stored = [[type(entry).__name__, rows.row_of(_shortened(entry))] for entry in entries]
    text = json.dumps(stored, ensure_ascii=False)
    return f"{crc32(text.encode()):08x} {text}\n"


def _shortened(entry: Entry) -> Entry:
    if not isinstance(entry, AttemptFinished | OrderResultSeen) or len(entry.raw) <= RAW_MAX:
        return entry
    more = len(entry.raw) - RAW_MAX
    return replace(entry, raw=f"{entry.raw[:RAW_MAX]}… ({more:,} characters more)")


def entries_of(line: str) -> list[Entry] | None:
    """Parse a line; None if it is damaged, or something in it is no entry."""
    checksum, _, text = line.partition(" ")
    if checksum != f"{crc32(text.encode()):08x}":
        return None
    try:
        stored = json.loads(text)
        if stored and isinstance(stored[0], str):  # a line of an earlier version: one entry
            stored = [stored]
        return [_entry_of(KINDS[kind], row) for kind, row in stored]
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return None


def _entry_of(kind: type[Entry], row: Mapping[str, Plain]) -> Entry:
    """Make an entry. Raises what `entries_of` expects if a part of it is missing or wrong."""
    entry = made(kind, {**_defaults(kind), **row})  # type: ignore[arg-type]
    for name, hint in get_type_hints(kind).items():
        value = getattr(entry, name)
        if not _is_of(hint, value) or value not in WORDS.get((kind, name), (value,)):
            raise ValueError(f"{name} of {kind.__name__} is {value!r}")
    if isinstance(entry, Fill) and entry.quantity <= 0:
        raise ValueError(f"a fill of {entry.quantity}")
    return entry


@cache
def _defaults(kind: type[Entry]) -> Mapping[str, Plain]:
    """The columns that an entry need not have, as they are stored where it has the default."""
    found = {each.name: _default(each) for each in fields(kind)}
    return {name: plain(value) for name, value in found.items() if value is not MISSING}


def _default(field: "Field[Any]") -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _is_of(hint: Any, value: object) -> bool:
    """Return whether a value is what a field is declared to be, and fits into its column."""
    if isinstance(hint, UnionType):
        return any(_is_of(each, value) for each in get_args(hint))
    if hint is int:
        return type(value) is int and abs(value) <= WHOLE_MAX
    if hint is datetime:
        return isinstance(value, datetime) and value.tzinfo is not None
    if isinstance(value, tuple):
        return all(isinstance(each, get_args(hint)[0]) for each in value)
    return isinstance(value, get_origin(hint) or hint)
