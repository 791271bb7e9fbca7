"""Puts decisions together that say the same but for their figures, for reading on a screen.

Only what the groups hold is kept of them: a million decisions take no more room than ten. A GROUP
BY in the database would not save the walk: nearly every reason has figures of its own.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from bot.domain.entry import Verdict
from bot.journal.values import DecisionGroup, DecisionRow, ReasonRow

FIGURE: Final = re.compile(r"[-+]?\d[\d.,:]*")

Key = tuple[str, str, str, str, str]


def group(decisions: Iterable[ReasonRow]) -> list[DecisionGroup]:
    """Group by strategy, symbol, verdict, code and the words of the reason; by first appearance."""
    found: dict[Key, _Alike] = {}
    for row in decisions:
        why = reason_of(row)
        key = (row.strategy, row.symbol, row.verdict, row.code, FIGURE.sub("#", why))
        alike = found.get(key)
        if alike is None:
            alike = found[key] = _Alike(row.at)
        alike.add(row, why)
    return [alike.told(key) for key, alike in found.items()]


class _Alike:
    """Decisions with one reason, as far as they have come."""

    def __init__(self, first_at: datetime) -> None:
        self._first_at = self._last_at = first_at
        self._count = 0
        self._why = ""
        self._figures: list[_Span] = []
        self._ranges: dict[str, tuple[float, float]] = {}

    def add(self, row: ReasonRow, why: str) -> None:
        self._last_at = row.at
        self._count += 1
        if why != self._why:
            self._why = why
            figures = FIGURE.findall(why)
            if self._count == 1:
                self._figures = [_Span() for _ in figures]
            for span, figure in zip(self._figures, figures, strict=True):
                span.add(figure)
        for name, value in row.numbers.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                least, most = self._ranges.get(name, (value, value))
                if name not in self._ranges or not least <= value <= most:
                    self._ranges[name] = (min(least, value), max(most, value))

    def told(self, key: Key) -> DecisionGroup:
        """The words that all have, each figure as the range it spans: `gap 0.05 to 0.40%`."""
        strategy, symbol, verdict, code, _ = key
        spans = iter(self._figures)
        return DecisionGroup(
            first_at=self._first_at,
            last_at=self._last_at,
            strategy=strategy,
            symbol=symbol,
            verdict=verdict,
            code=code,
            count=self._count,
            why=FIGURE.sub(lambda _: next(spans).told(), self._why),
            ranges=dict(sorted(self._ranges.items())),
        )


class _Span:
    """The least and the most of a figure; what is no number, such as a time of day, has none."""

    def __init__(self) -> None:
        self._last = ""
        self._least: tuple[float, str] | None = None
        self._most: tuple[float, str] | None = None
        self._is_number = True

    def add(self, figure: str) -> None:
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

    def told(self) -> str:
        """`131,660 to 133,060`; what is no number is shown as it was last."""
        if not self._is_number or self._least is None or self._most is None:
            return self._last
        least, most = self._least[1].rstrip(".,:"), self._most[1]
        return most if least == most.rstrip(".,:") else f"{least} to {most}"


def reason_of(row: ReasonRow | DecisionRow) -> str:
    """The reason, after what the refusing check compared or what else kept the order back."""
    kept_back = [check.text for check in row.checks if not check.passed and check.text]
    if row.verdict == Verdict.HELD:
        kept_back.append("waits for 2FA")
    elif row.numbers.get("reason") is not None:
        kept_back.append(str(row.numbers["reason"]))
    return " · ".join([*kept_back, row.why])
