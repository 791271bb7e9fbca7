"""Puts decisions that say the same but for their figures together, for a person to read."""

import re
from collections.abc import Iterable
from typing import Final

from bot.domain.entry import Numbers, Verdict
from bot.journal.values import DecisionGroup, DecisionRow

FIGURE: Final = re.compile(r"[-+]?\d[\d.,:]*")

Key = tuple[str, str, str, str, str]


def group(decisions: Iterable[DecisionRow]) -> list[DecisionGroup]:
    """Group by strategy, symbol, verdict, code and the words of the reason; by first appearance."""
    found: dict[Key, list[DecisionRow]] = {}
    for row in decisions:
        words = FIGURE.sub("#", reason_of(row))
        found.setdefault((row.strategy, row.symbol, row.verdict, row.code, words), []).append(row)
    return [_told_together(rows) for rows in found.values()]


def reason_of(row: DecisionRow) -> str:
    """The reason, after what the refusing check compared or what else stood in the way."""
    stood = [check.text for check in row.checks if not check.passed and check.text]
    if row.verdict == Verdict.HELD:
        stood.append("waits for 2FA")
    elif row.numbers.get("reason") is not None:
        stood.append(str(row.numbers["reason"]))
    return " · ".join([*stood, row.why])


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
        why=_spread([reason_of(row) for row in rows]),
        ranges=_ranges([row.numbers for row in rows]),
    )


def _spread(whys: list[str]) -> str:
    """The words that all have, each figure as the least and the most of it: `gap 0.05 to 0.40%`."""
    columns = zip(*(FIGURE.findall(why) for why in whys), strict=True)
    spans = iter([_span(figures) for figures in columns])
    return FIGURE.sub(lambda _: next(spans), whys[-1])


def _span(figures: tuple[str, ...]) -> str:
    """`131,660 to 133,060`; what is no number, a time of day say, is as it was last."""
    try:
        ordered = sorted(figures, key=lambda each: float(each.rstrip(".,:").replace(",", "")))
    except ValueError:
        return figures[-1]
    least, most = ordered[0].rstrip(".,:"), ordered[-1]
    return most if least == most.rstrip(".,:") else f"{least} to {most}"


def _ranges(all_numbers: list[Numbers]) -> dict[str, tuple[float, float]]:
    """The least and the most of every figure that any of them has."""
    values: dict[str, list[float]] = {}
    for numbers in all_numbers:
        for name, value in numbers.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                values.setdefault(name, []).append(value)
    return {name: (min(seen), max(seen)) for name, seen in sorted(values.items())}
