"""Puts decisions together that say the same but for their figures, for reading on a screen."""

import re
from collections.abc import Iterable
from typing import Final

from bot.domain.entry import Verdict
from bot.journal.values import DecisionGroup, DecisionRow

FIGURE: Final = re.compile(r"[-+]?\d[\d.,:]*")

Key = tuple[str, str, str, str, str]


def group(decisions: Iterable[DecisionRow]) -> list[DecisionGroup]:
    """Group by strategy, symbol, verdict, code and the words of the reason; by first appearance."""
    found: dict[Key, list[DecisionRow]] = {}
    for row in decisions:
        words = FIGURE.sub("#", reason_of(row))
        found.setdefault((row.strategy, row.symbol, row.verdict, row.code, words), []).append(row)
    groups = []
    for rows in found.values():
        figures: dict[str, list[float]] = {}
        for name, value in (item for row in rows for item in row.numbers.items()):
            if isinstance(value, int | float) and not isinstance(value, bool):
                figures.setdefault(name, []).append(value)
        first, last = rows[0], rows[-1]
        groups.append(
            DecisionGroup(
                first_at=first.at,
                last_at=last.at,
                strategy=last.strategy,
                symbol=last.symbol,
                verdict=last.verdict,
                code=last.code,
                count=len(rows),
                why=_spread([reason_of(row) for row in rows]),
                ranges={name: (min(seen), max(seen)) for name, seen in sorted(figures.items())},
            )
        )
    return groups


def reason_of(row: DecisionRow) -> str:
    """The reason, after what the refusing check compared or what else kept the order back."""
    kept_back = [check.text for check in row.checks if not check.passed and check.text]
    if row.verdict == Verdict.HELD:
        kept_back.append("waits for 2FA")
    elif row.numbers.get("reason") is not None:
        kept_back.append(str(row.numbers["reason"]))
    return " · ".join([*kept_back, row.why])


def _spread(whys: list[str]) -> str:
    """The words that all have, each figure as the range it spans: `gap 0.05 to 0.40%`."""
    columns = zip(*(FIGURE.findall(why) for why in whys), strict=True)
    spans = iter([_span(figures) for figures in columns])
    return FIGURE.sub(lambda _: next(spans), whys[-1])


def _span(figures: tuple[str, ...]) -> str:
    """`131,660 to 133,060`; what is no number, such as a time of day, is shown as it was last."""
    try:
        ordered = sorted(figures, key=lambda each: float(each.rstrip(".,:").replace(",", "")))
    except ValueError:
        return figures[-1]
    least, most = ordered[0].rstrip(".,:"), ordered[-1]
    return most if least == most.rstrip(".,:") else f"{least} to {most}"
