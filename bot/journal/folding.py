"""Decisions that say the same but for their figures: folded before they are written, and grouped
for reading on a screen.

Of equal refusals and skips the first is written whole and at once. Those that follow are counted,
and the last of them is written whole for all of them: its `numbers` say how many it stands for,
since when, and what the figures ranged over. That happens every `PERIOD`, when the strategy asks
for an order in the symbol, and at the end of a run. A decision with a request number is a row about
an order, and is never folded.

What is counted and not yet written is lost with the process: at most the number of equal decisions
in the last `PERIOD`. Groups close by the time of the entries that follow, never by another clock,
so that the same entries make the same rows. Only the edges of a group are kept: a million decisions
take no more room than ten.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Final, NamedTuple

import sqlalchemy as sa

from bot.domain.entry import Decision, Entry, Number, Numbers, Verdict
from bot.journal.encoding import instant_of, instant_text
from bot.journal.tables import Whole, decisions
from bot.journal.values import DecisionGroup, DecisionRow, ReasonRow

PERIOD: Final = timedelta(minutes=5)
"""How long a group is counted before it is written, in market time."""
GROUPS_MAX: Final = 10_000
"""With more groups open than that, all of them are written."""
FOLDED: Final = "folded"
"""The number of decisions that a row stands for, itself among them."""
SINCE: Final = "folded since"
LEAST: Final = "folded least "
MOST: Final = "folded most "
WHY: Final = "why"
"""The reason with every figure at its least, and at its most."""
OF_A_STRATEGY: Final = "its "
"""Stands before a strategy's number whose name is one of those."""

Key = tuple[str, str, str, str, str | None, tuple[str, ...], tuple[str, ...]]


@dataclass(slots=True)
class _Group:
    """Equal decisions since a row was written of them. `alike` is None while there were none."""

    written_at: datetime
    opened_at: datetime
    alike: "Alike | None" = None
    last: Decision | None = None


class Fold:
    """Turns what a run decided into what is written of it."""

    def __init__(self) -> None:
        self._groups: dict[Key, _Group] = {}
        """The one that was opened first comes first."""
        self._about: dict[tuple[str, str], dict[Key, None]] = {}
        """Which of them are about a strategy and a symbol, in the same order."""

    def take(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return what is written now: all that can't be folded, and what was folded and is due."""
        written: list[Entry] = []
        for entry in entries:
            written += self._due(entry.at)
            if not isinstance(entry, Decision):
                written.append(entry)
                continue
            decision = entry
            if any(map(is_ours, entry.numbers)):  # a strategy may call its numbers what it likes
                facts = entry.numbers.items()
                own = {OF_A_STRATEGY * is_ours(name) + name: value for name, value in facts}
                decision = replace(entry, numbers=own)
            if is_foldable(decision):
                written += self._counted(decision)
            else:
                written += self._ended(entry.strategy, entry.symbol)
                written.append(decision)
        return written

    def rest(self) -> list[Entry]:
        """Return what was folded and is not written yet: the run ends."""
        groups, self._groups, self._about = self._groups, {}, {}
        return [row for group in groups.values() for row in _rows(group)]

    def _counted(self, entry: Decision) -> list[Entry]:
        """Count a "no" with those like it; the first of them is written."""
        said, kept_back = apart(entry.why), entry.numbers.get("reason")
        why = () if kept_back is None else apart(str(kept_back)).words
        named = (entry.strategy, entry.symbol, entry.verdict, entry.code, entry.side)
        key = (*named, said.words, why)
        group = self._groups.get(key)
        if group is None:
            full = self.rest() if len(self._groups) >= GROUPS_MAX else []
            self._groups[key] = _Group(entry.at, entry.at)
            self._about.setdefault(key[:2], {})[key] = None
            return [*full, entry]
        if group.alike is None:
            group.alike = Alike(entry.at)
        group.alike.add(entry.at, entry.numbers, said)
        group.last = entry
        return []

    def _due(self, at: datetime) -> Iterator[Entry]:
        """Close the groups that were open for long enough. One that lives goes on being counted."""
        while self._groups:
            key, group = next(iter(self._groups.items()))
            if at - group.opened_at < PERIOD:
                return
            alike = self._about[key[:2]]
            del self._groups[key], alike[key]
            if group.last is not None:
                yield from _rows(group)
                self._groups[key], alike[key] = _Group(group.last.at, at), None

    def _ended(self, strategy: str, symbol: str) -> Iterator[Entry]:
        """Close what led up to something that is no "no"."""
        for key in self._about.pop((strategy, symbol), {}):
            yield from _rows(self._groups.pop(key))


def is_foldable(entry: Decision) -> bool:
    """Whether it is a "no" that no order comes of, nor a row of a refused one."""
    return entry.request_id is None and entry.verdict in {Verdict.SKIPPED, Verdict.BLOCKED}


def is_ours(name: str) -> bool:
    """Whether a number has one of the names that are given here."""
    return name.startswith(FOLDED) and (name in {FOLDED, SINCE} or name.startswith((LEAST, MOST)))


def _rows(group: _Group) -> Iterator[Decision]:
    """The last decision of a group, whole, with what it stands for; nothing: none was counted."""
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
    """What a row stands for: `count` decisions since `first_at`, by two of them, at the edges.

    `numbers` are the row's own figures alone.
    """

    count: int
    first_at: datetime
    numbers: Numbers
    edges: tuple[tuple[Numbers, str], ...]


def unfolded(at: datetime, numbers: Numbers, why: str) -> Unfolded:
    """Read what a row of decisions stands for; one that was not folded stands for itself."""
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
    """How many decisions a row of them stands for, in the words of the database at hand."""
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
    """A reason taken apart: the words around its figures, one more than there are figures."""

    words: tuple[str, ...]
    figures: tuple[str, ...]


def apart(why: str) -> Reason:
    """Take a reason apart. Those with equal words have as many figures."""
    parts = FIGURE.split(why)
    return Reason(tuple(parts[::2]), tuple(parts[1::2]))


class Alike:
    """Decisions with one reason, as far as they have come."""

    def __init__(self, first_at: datetime) -> None:
        self.first_at = self.last_at = first_at
        self.count = 0
        self.ranges: dict[str, tuple[float, float]] = {}
        """The least and the most of each figure that has a name."""
        self._said = Reason(("",), ())
        self._figures: list[_Span] = []

    def add(self, at: datetime, numbers: Numbers, said: Reason) -> None:
        """Count one more. Its reason has the words of the others, with figures of its own."""
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
        """The words that all have, each figure as the range it spans: `gap 0.05 to 0.40%`."""
        return self._filled(span.told() for span in self._figures)

    def whys(self) -> tuple[str, str]:
        """The same with each figure at its least, and with each at its most."""
        edges = [span.edges() for span in self._figures]
        return self._filled(least for least, _ in edges), self._filled(most for _, most in edges)

    def _filled(self, figures: Iterable[str]) -> str:
        first, *others = self._said.words
        return first + "".join(chain.from_iterable(zip(figures, others, strict=True)))


class _Span:
    """The least and the most of a figure; what is no number, such as a time of day, has none."""

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
        """As they were written; what is no number is both times as it was last."""
        if not self._is_number or self._least is None or self._most is None:
            return self._last, self._last
        return self._least[1], self._most[1]

    def told(self) -> str:
        """`131,660 to 133,060`; what is no number is shown as it was last."""
        if not self._is_number or self._least is None or self._most is None:
            return self._last
        least, most = self._least[1].rstrip(".,:"), self._most[1]
        return most if least == most.rstrip(".,:") else f"{least} to {most}"


_Said = tuple[str, str, str, str, tuple[str, ...]]


def group(decisions: Iterable[ReasonRow]) -> list[DecisionGroup]:
    """Group by strategy, symbol, verdict, code and the words of the reason; by first appearance.

    A row that stands for many (`folding`) counts as so many.
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
    """The reason, after what the refusing check compared or what else kept the order back."""
    kept_back = [check.text for check in row.checks if not check.passed and check.text]
    if row.verdict == Verdict.HELD:
        kept_back.append("waits for 2FA")
    elif row.numbers.get("reason") is not None:
        kept_back.append(str(row.numbers["reason"]))
    return " · ".join([*kept_back, row.why])
