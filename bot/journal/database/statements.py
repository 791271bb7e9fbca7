"""Statements in the driver's form, compiled once, and which of them may be combined. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from bot.journal.database.encoding import Plain
from bot.journal.database.tables import chains

Values = tuple[Plain, ...]
Statement = sa.Select[Any] | sa.CompoundSelect[Any] | sa.Insert | sa.Update


def given(name: str) -> sa.BindParameter[Any]:
    """A parameter of a compiled statement; a missing one is reported by name."""
    return sa.bindparam(name, required=False)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A statement in the driver's dialect, with the names of its parameters in order.

    `fixed` are parameters added by the compiler itself.
    """

    text: str
    names: tuple[str, ...]
    fixed: Mapping[str, Plain]
    table: str
    is_update: bool
    read: Callable[[Mapping[str, Plain]], Values]
    """Takes the values of the names, all at once."""

    def bound(self, values: Mapping[str, Plain]) -> Values:
        """The parameters in order. Raises KeyError for a missing one."""
        if self.fixed:
            values = {**self.fixed, **values}
        return self.read(values)


def reader_of(names: tuple[str, ...]) -> Callable[[Mapping[str, Plain]], Values]:
    """Return what takes the values of some names out of a mapping, in their order."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda values: tuple([values[name] for name in names])


@dataclass(frozen=True, slots=True)
class Step:
    """A pending statement, with the values of each execution."""

    statement: Compiled
    times: list[Values] = field(default_factory=list)


class Together:
    """Changes combined into one statement: the step of each, its text, and the values of all."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.texts: list[str] = []
        self.values: list[Plain] = []
        self._tables: set[str] = set()

    def takes(self, statement: Compiled) -> bool:
        """Return whether none of the rows it changes is touched before; each row of `chains` moves
        once.
        """
        table = statement.table
        return not statement.is_update or table == chains.name or table not in self._tables

    def add(self, number: int, statement: Compiled, values: Values) -> None:
        """Add one change, from the step `number`."""
        self.numbers.append(number)
        self.texts.append(statement.text)
        self.values.extend(values)
        self._tables.add(statement.table)


def as_one(texts: Sequence[str]) -> str:
    """Return a query unchanged; changes as one statement that returns how many rows
    each touched.
    """
    if texts[0].startswith(("SELECT", "(SELECT")):
        return texts[0]
    changes = ", ".join(f"c{n} AS ({text} RETURNING 1)" for n, text in enumerate(texts))
    counts = ", ".join(f"(SELECT count(*) FROM c{n})" for n in range(len(texts)))  # noqa: S608
    return f"WITH {changes} SELECT {counts}"
