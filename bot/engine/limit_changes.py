"""The limits of a run as the journal keeps them, and how they differ from those of the last run.

A limit is changed in a file and applies from the next start, so a change since the last run is
journalled at a start, and reported with who started it. With real money the start has a person
type those that allow more (`runtime/start/raised.py`).

A name is that of a strategy, or `account`, a dot, and the limit's field. The limits of a strategy
that does not run stay those of its last run, so that it cannot come back with others unseen.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from datetime import timedelta
from typing import Final

from bot.domain.entry import LIMITS_NOTE, Numbers
from bot.domain.plan import AccountLimits, Limits
from bot.engine.risk.codes import or_none
from bot.engine.state import State

Limit = int | str | None
ACCOUNT: Final = "account"
CHANGES_TOLD_MAX: Final = 8
"""How many changes are listed in full; all of them are in the journal."""
_MINIMA: Final = frozenset({"min_cash", "last_entry"})
"""Limits of which a smaller value allows more."""


def note_limits(state: State, before: Numbers, by: str) -> None:
    """Store the limits of this run if they differ from the last one's, and report how."""
    strategies = {each.plan.name: each.limits for each in state.strategies.values()}
    owners = {ACCOUNT, *strategies}
    kept = {name: value for name, value in before.items() if _owner(name) not in owners}
    now = {**kept, **limits_of(state.settings.account_limits, strategies)}
    changes = [
        f"{key} {or_none(_plain(before.get(key)))} -> {or_none(_plain(now.get(key)))}"
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


def limits_of(account: AccountLimits, strategies: Mapping[str, Limits]) -> dict[str, Limit]:
    """Return each limit that is set: those in effect of each strategy, and the account's."""
    of_owner: Mapping[str, AccountLimits | Limits] = {**strategies, ACCOUNT: account}
    return {
        f"{owner}.{field.name}": _plain(value)
        for owner, limits in of_owner.items()
        for field in fields(limits)
        if (value := getattr(limits, field.name)) is not None
    }


def looser(
    before: Numbers, now: Mapping[str, Limit], owners: Collection[str]
) -> Iterator[tuple[str, Limit, Limit]]:
    """Yield the limits of `owners` that allow more than before, or are gone: name, old and new.

    What had no limit before is stricter with one.
    """
    for name, value in before.items():
        old, new = _plain(value), now.get(name)
        if _owner(name) in owners and old is not None and _allows_more(name, old, new):
            yield name, old, new


def _allows_more(name: str, old: int | str, new: Limit) -> bool:
    if isinstance(old, int) and isinstance(new, int):
        return new < old if name.rpartition(".")[2] in _MINIMA else new > old
    allowed, asked = str(old).split(), str(new or "").split()
    return new is None or not set(asked) <= set(allowed)


def _owner(name: str) -> str:
    return name.rpartition(".")[0]


def _plain(value: object) -> Limit:
    if isinstance(value, timedelta):
        return round(value.total_seconds())
    if isinstance(value, frozenset):
        return " ".join(sorted(value))
    return value if isinstance(value, int) or value is None else str(value)
