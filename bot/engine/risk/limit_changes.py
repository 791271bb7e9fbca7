"""Which limits have changed since the last run: journalled, and told with who has started this one.

A limit is changed in a file and counts from the next start, so that is where a change is seen.
"""

from collections.abc import Iterator
from dataclasses import fields
from datetime import timedelta
from typing import Final

from bot.domain.entry import LIMITS_NOTE, Numbers
from bot.engine.risk.codes import or_none
from bot.engine.state import State

Limit = int | str | None
CHANGES_TOLD_MAX: Final = 8
"""So many changes are told in full; all of them are in the journal."""


def tell(state: State, before: Numbers, by: str) -> None:
    """Keep the limits of this run where they differ from those of the last one, and say how."""
    now = dict(_limits(state))
    changes = [
        f"{key} {or_none(_plain(before.get(key)))} -> {or_none(now.get(key))}"
        for key in sorted({*before, *now})
        if before.get(key) != now.get(key)
    ]
    if not changes:
        return
    state.note(LIMITS_NOTE, f"limits of the run that {by} has started", now)
    if before:
        more = len(changes) - CHANGES_TOLD_MAX
        told = ", ".join(changes[:CHANGES_TOLD_MAX]) + (f" and {more} more" if more > 0 else "")
        text = (
            f"limits have changed since the last run: {told}. They hold from now on, {by} has "
            "started this run. Nothing to do if it was meant; see bot limits"
        )
        facts: Numbers = {"changes": told, "by": by, "count": len(changes)}
        state.alert("LIMITS_CHANGED", text, facts)


def _limits(state: State) -> Iterator[tuple[str, Limit]]:
    """Yield each limit that is set: those of the account, and what holds for each strategy."""
    shared = state.settings.account_limits
    for field in fields(shared):
        if (value := getattr(shared, field.name)) is not None:
            yield f"account.{field.name}", _plain(value)
    for strategy in state.strategies.values():
        for field in fields(strategy.limits):
            if (value := getattr(strategy.limits, field.name)) is not None:
                yield f"{strategy.plan.name}.{field.name}", value


def _plain(value: object) -> Limit:
    if isinstance(value, timedelta):
        return round(value.total_seconds())
    if isinstance(value, frozenset):
        return " ".join(sorted(value))
    return value if isinstance(value, int) or value is None else str(value)
