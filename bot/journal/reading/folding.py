"""Decisions that are equal except for their figures: folded before they are written, and grouped
for display.

Of equal refusals and skips the first is written in full at once. Those that follow are counted, and
the last of them is written in full for all: its `numbers` say how many it stands for, since when,
and the ranges of the figures. That happens every `PERIOD`, when the strategy requests an order in
the symbol, and at the end of a run. A decision with a request number is a row about an order, and
is never folded.

What is counted but not yet written is lost if the process dies: at most the number of equal
decisions in the last `PERIOD`. Groups close by the time of later entries, never by another clock,
so that the same entries give the same rows. Only the extremes of a group are kept: a million
decisions take no more room than ten.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Final, NamedTuple

import sqlalchemy as sa

from bot.domain.entry import Decision, Entry, Number, Numbers, Verdict
from bot.journal.database.encoding import instant_of, instant_text
from bot.journal.database.tables import Whole, decisions
from bot.journal.reading.values import DecisionGroup, DecisionRow, ReasonRow

PERIOD: Final = timedelta(minutes=5)
"""How long a group is counted before it is written, in market time."""
GROUPS_MAX: Final = 10_000
"""With more open groups than this, all of them are written."""
FOLDED: Final = "folded"
"""Key of the number of decisions that a row stands for, including itself."""
SINCE: Final = "folded since"
LEAST: Final = "folded least "
MOST: Final = "folded most "
WHY: Final = "why"
"""Key of the reason with every figure at its lowest, and at its highest."""
OF_A_STRATEGY: Final = "its "
"""Prefix of a strategy's number whose name clashes with one of these."""

Key = tuple[str, str, str, str, str | None, tuple[str, ...], tuple[str, ...]]


@dataclass(slots=True)
class _Group:
    """Equal decisions since the last row was written for them. `alike` is None if
    there were none.
    """

    opened_at: datetime
    alike: "Alike | None" = None
    last: Decision | None = None


class DecisionFolder:
    """Turns a run's decisions into the rows to write."""

    def __init__(self) -> None:
        self._groups: dict[Key, _Group] = {}
        """In the order of opening."""
        self._about: dict[tuple[str, str], dict[Key, None]] = {}
        """Which of them concern a strategy and a symbol, in the same order."""

    def take(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return what is written now: everything that cannot be folded, and folded rows that are
        due.
        """
        written: list[Entry] = []
        for entry in entries:
            written += self._due(entry.at)
            if not isinstance(entry, Decision):
                written.append(entry)
                continue
            decision = entry
            if any(map(is_ours, entry.numbers)):  # a strategy may name its numbers as it likes
                facts = entry.numbers.items()
                own = {OF_A_STRATEGY * is_ours(name) + name: value for name, value in facts}
                decision = replace(entry, numbers=own)
            if is_foldable(decision):
                written += self._counted(decision)
            else:
                # The groups that led up to a decision with a request are closed before it.
                for key in self._about.pop((entry.strategy, entry.symbol), {}):
                    written += _rows(self._groups.pop(key))
                written.append(decision)
        return written

    @property
    def waiting(self) -> list[Entry]:
        """What was folded and is not written yet."""
        return [row for group in self._groups.values() for row in _rows(group)]

    def rest(self) -> list[Entry]:
        """Return what waits, and close all groups: the run ends."""
        rows = self.waiting
        self._groups, self._about = {}, {}
        return rows

    def _counted(self, entry: Decision) -> list[Entry]:
        """Count a decision without a request with others like it; the first of them is written."""
        said, kept_back = apart(entry.why), entry.numbers.get("reason")
        why = () if kept_back is None else apart(str(kept_back)).words
        named = (entry.strategy, entry.symbol, entry.verdict, entry.code, entry.side)
        key = (*named, said.words, why)
        group = self._groups.get(key)
        if group is None:
            full = self.rest() if len(self._groups) >= GROUPS_MAX else []
            self._groups[key] = _Group(entry.at)
            self._about.setdefault(key[:2], {})[key] = None
            return [*full, entry]
        if group.alike is None:
            group.alike = Alike(entry.at)
        group.alike.add(entry.at, entry.numbers, said)
        group.last = entry
        return []

    def _due(self, at: datetime) -> Iterator[Entry]:
        """Close the groups that were open long enough. One still in use continues to be counted."""
        while self._groups:
            key, group = next(iter(self._groups.items()))
            if at - group.opened_at < PERIOD:
                return
            alike = self._about[key[:2]]
            del self._groups[key], alike[key]
            if group.last is not None:
                yield from _rows(group)
                self._groups[key], alike[key] = _Group(at), None


def is_foldable(entry: Decision) -> bool:
    """Return whether it leads to no order and is not a refused order's row."""
    return entry.request_id is None and entry.verdict in {Verdict.SKIPPED, Verdict.BLOCKED}


def is_ours(name: str) -> bool:
    """Return whether a number has one of the names used here."""
    return name.startswith(FOLDED) and (name in {FOLDED, SINCE} or name.startswith((LEAST, MOST)))


def _rows(group: _Group) -> Iterator[Decision]:
    """Return the last decision of a group in full, with what it stands for; empty if none was
    counted.
    """
    if group.last is None or group.alike is None:
        return
    if group.alike.count == 1:
        yield group.last
        return
    facts: dict[str, Number] = {
        **group.last.numbers,
        FOLDED: group.alike.count,
        SINCE: instant_text(group.alike.first_at),
    }
    least, most = group.alike.whys()
    if least != most:
        facts |= {LEAST + WHY: least, MOST + WHY: most}
    for name, (low, high) in group.alike.ranges.items():
        if low != high:
            facts |= {LEAST + name: low, MOST + name: high}
    yield replace(group.last, numbers=facts)


@dataclass(frozen=True, slots=True)
class Unfolded:
    """What a row stands for: `count` decisions since `first_at`, given by the two extremes.

    `numbers` are only the row's own figures.
    """

    count: int
    first_at: datetime
    numbers: Numbers
    edges: tuple[tuple[Numbers, str], ...]


def unfolded(at: datetime, numbers: Numbers, why: str) -> Unfolded:
    """Parse what a row of decisions stands for; one that was not folded stands for itself."""
    count, since = numbers.get(FOLDED), numbers.get(SINCE)
    if type(count) is not int or not isinstance(since, str):
        return Unfolded(1, at, numbers, ((numbers, why),))
    own = {name: value for name, value in numbers.items() if not is_ours(name)}
    edges = []
    for prefix in (LEAST, MOST):
        figures = {name: numbers.get(prefix + name, value) for name, value in own.items()}
        edges.append((figures, str(numbers.get(prefix + WHY, why))))
    return Unfolded(count, instant_of(since), own, tuple(edges))


def times_of(connection: sa.Connection) -> sa.ColumnElement[int]:
    """An SQL expression for how many decisions a row stands for, in the present
    database's dialect.
    """
    numbers = decisions.c.numbers
    times: sa.ColumnElement[int]
    since: sa.ColumnElement[str]
    if connection.dialect.name == "sqlite":
        times = sa.func.json_extract(numbers, f"$.{FOLDED}")
        since = sa.func.json_extract(numbers, f'$."{SINCE}"')
    else:
        figures = sa.cast(numbers, sa.JSON())
        times = sa.cast(figures.op("->>")(FOLDED), Whole)
        since = figures.op("->>")(SINCE)
    return sa.case((since.is_not(None), times), else_=1)


FIGURE: Final = re.compile(r"([-+]?[0-9][0-9.,:]*)")


class Reason(NamedTuple):
    """A reason split up: the words around its figures, one more than there are figures."""

    words: tuple[str, ...]
    figures: tuple[str, ...]


def apart(why: str) -> Reason:
    """Split a reason. Reasons with equal words have equally many figures."""
    parts = FIGURE.split(why)
    return Reason(tuple(parts[::2]), tuple(parts[1::2]))


class Alike:
    """Decisions with the same reason, so far."""

    def __init__(self, first_at: datetime) -> None:
        self.first_at = self.last_at = first_at
        self.count = 0
        self.ranges: dict[str, tuple[float, float]] = {}
        """The lowest and highest value of each named figure."""
        self._said = Reason(("",), ())
        self._figures: list[_Span] = []

    def add(self, at: datetime, numbers: Numbers, said: Reason) -> None:
        """Count one more. Its reason has the same words, with its own figures."""
        if at > self.last_at:
            self.last_at = at
        elif at < self.first_at:
            self.first_at = at
        self.count += 1
        if said != self._said:
            self._said = said
            if not self._figures:
                self._figures = [_Span() for _ in said.figures]
            for span, figure in zip(self._figures, said.figures, strict=True):
                span.add(figure)
        ranges = self.ranges
        for name, value in numbers.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                least, most = ranges.get(name, (value, value))
                if name not in ranges or not least <= value <= most:
                    ranges[name] = (min(least, value), max(most, value))

    @property
    def why(self) -> str:
        """The shared words, with each figure as its range: `gap 0.05 to 0.40%`."""
        return self._filled(span.told() for span in self._figures)

    def whys(self) -> tuple[str, str]:
        """The same with each figure at its lowest, and at its highest."""
        edges = [span.edges() for span in self._figures]
        return self._filled(least for least, _ in edges), self._filled(most for _, most in edges)

    def _filled(self, figures: Iterable[str]) -> str:
        first, *others = self._said.words
        return first + "".join(chain.from_iterable(zip(figures, others, strict=True)))


class _Span:
    """The lowest and highest value of a figure; something that is not a number, like a time of day,
    has none.
    """

    def __init__(self) -> None:
        self._last = ""
        self._least: tuple[float, str] | None = None
        self._most: tuple[float, str] | None = None
        self._is_number = True

    def add(self, figure: str) -> None:
        if figure == self._last:
            return
        self._last = figure
        try:
            value = float(figure.rstrip(".,:").replace(",", ""))
        except ValueError:
            self._is_number = False
            return
        if self._least is None or value < self._least[0]:
            self._least = (value, figure)
        if self._most is None or value >= self._most[0]:
            self._most = (value, figure)

    def edges(self) -> tuple[str, str]:
        """Both as written; for something that is not a number, twice the last value."""
        if not self._is_number or self._least is None or self._most is None:
            return self._last, self._last
        return self._least[1], self._most[1]

    def told(self) -> str:
        """`131,660 to 133,060`; something that is not a number is shown as it was last."""
        if not self._is_number or self._least is None or self._most is None:
            return self._last
        least, most = self._least[1].rstrip(".,:"), self._most[1]
        return most if least == most.rstrip(".,:") else f"{least} to {most}"


_Said = tuple[str, str, str, str, tuple[str, ...]]


def group(decisions: Iterable[ReasonRow]) -> list[DecisionGroup]:
    """Group by strategy, symbol, verdict, code and the words of the reason; by first appearance.

    A row that stands for many counts as that many.
    """
    found: dict[_Said, Alike] = {}
    for row in decisions:
        stands = unfolded(row.at, row.numbers, row.why)
        said = apart(reason_of(row))
        key = (row.strategy, row.symbol, row.verdict, row.code, said.words)
        alike = found.get(key)
        if alike is None:
            alike = found[key] = Alike(stands.first_at)
        alike.first_at = min(alike.first_at, stands.first_at)
        for numbers, why in stands.edges:
            edge = said if why == row.why else apart(reason_of(replace(row, why=why)))
            alike.add(row.at, numbers, edge if edge.words == said.words else said)
        alike.count += stands.count - len(stands.edges)
    return [
        DecisionGroup(
            first_at=alike.first_at,
            last_at=alike.last_at,
            strategy=strategy,
            symbol=symbol,
            verdict=verdict,
            code=code,
            count=alike.count,
            why=alike.why,
            ranges=dict(sorted(alike.ranges.items())),
        )
        for (strategy, symbol, verdict, code, _), alike in found.items()
    ]


def reason_of(row: ReasonRow | DecisionRow) -> str:
    """The reason, preceded by what the refusing check compared or what else held the order back."""
    kept_back = [check.text for check in row.checks if not check.passed and check.text]
    if row.verdict == Verdict.HELD:
        kept_back.append("waits for 2FA")
    elif row.numbers.get("reason") is not None:
        kept_back.append(str(row.numbers["reason"]))
    return " · ".join([*kept_back, row.why])
