"""Puts decisions together that say the same but for their figures, for reading on a screen.

Only what the groups hold is kept of them. A GROUP BY in the database would not save the walk:
nearly every reason has figures of its own.
"""

from collections.abc import Iterable
from dataclasses import replace

from bot.domain.entry import Verdict
from bot.journal.alike import Alike, apart
from bot.journal.folding import unfolded
from bot.journal.values import DecisionGroup, DecisionRow, ReasonRow

Key = tuple[str, str, str, str, tuple[str, ...]]


def group(decisions: Iterable[ReasonRow]) -> list[DecisionGroup]:
    """Group by strategy, symbol, verdict, code and the words of the reason; by first appearance.

    A row that stands for many (`folding`) counts as so many.
    """
    found: dict[Key, Alike] = {}
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
