"""Puts decisions that say the same but for their figures together, for a person to read."""

import re
from collections.abc import Iterable
from typing import Final

from bot.domain.entry import Numbers
from bot.journal.values import DecisionGroup, DecisionRow

FIGURE: Final = re.compile(r"[-+]?\d[\d.,:]*")

Key = tuple[str, str, str, str, str]


def group(decisions: Iterable[DecisionRow]) -> list[DecisionGroup]:
    """Group by strategy, symbol, verdict, code and the words of the reason; by first appearance."""
    found: dict[Key, list[DecisionRow]] = {}
    for row in decisions:
        words = FIGURE.sub("#", row.why)
        found.setdefault((row.strategy, row.symbol, row.verdict, row.code, words), []).append(row)
    return [_told_together(rows) for rows in found.values()]


def _told_together(rows: list[DecisionRow]) -> DecisionGroup:
    first, last = rows[0], rows[-1]
    return DecisionGroup(
        first_at=first.at,
        last_at=last.at,
        strategy=last.strategy,
        symbol=last.symbol,
        verdict=last.verdict,
        code=last.code,
        count=len(rows),
        why=last.why,
        ranges=_ranges([row.numbers for row in rows]),
    )


def _ranges(all_numbers: list[Numbers]) -> dict[str, tuple[float, float]]:
    """The least and the most of every figure that any of them has."""
    values: dict[str, list[float]] = {}
    for numbers in all_numbers:
        for name, value in numbers.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                values.setdefault(name, []).append(value)
    return {name: (min(seen), max(seen)) for name, seen in sorted(values.items())}
