"""The limits of a run as the journal keeps them, and how they differ from those of the last run.

A limit is changed in a file and applies from the next start, so a change since the last run is
journalled at a start, and reported with who started it. With real money the start has a person
type those that allow more (`runtime/start/raised.py`).

A name is that of a strategy, or `account`, a dot, and the limit's field. The limits of a strategy
that does not run stay those of its last run, so that it cannot come back with others unseen. What
else decides how much is allowed has the name of its key in bot.yaml.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from datetime import timedelta
from typing import Final

from bot.domain.entry import LIMITS_NOTE, Numbers
from bot.domain.plan import AccountLimits, Limits
from bot.engine.risk.codes import or_none
from bot.engine.settings import EngineSettings
from bot.engine.state import State

Limit = int | str | None
ACCOUNT: Final = "account"
CHANGES_TOLD_MAX: Final = 8
"""How many changes are listed in full; all of them are in the journal."""
SETTINGS: Final[Mapping[str, str]] = {
    "clock.max_offset_s": "clock_max_offset",
    "risk.duplicate_window_s": "duplicate_window",
    "risk.exit_on_held_data": "exit_on_held_data",
    "risk.max_quote_age_s": "max_quote_age",
    "risk.max_source_age_s.depth": "max_depth_source_age",
    "risk.max_source_age_s.quote": "max_quote_source_age",
    "risk.max_unknown": "max_unknown_per_account",
    "risk.pause_on_cash_difference_vnd": "pause_on_cash_difference",
    "risk.signal_ttl_s": "signal_ttl",
}
"""Settings that limit what is sent: their keys in bot.yaml, and their fields here."""
_MINIMA: Final = frozenset({"min_cash", "last_entry", "duplicate_window_s"})
"""Limits of which a smaller value allows more."""


def note_limits(state: State, before: Numbers, by: str) -> None:
    """Store the limits of this run if they differ from the last one's, and report how."""
    strategies = {each.plan.name: each.limits for each in state.strategies.values()}
    owners = {ACCOUNT, *strategies}
    is_kept = (name for name in before if name not in SETTINGS and _owner(name) not in owners)
    kept = {name: before[name] for name in is_kept}
    now = {**kept, **limits_of(state.settings, strategies)}
    if now == dict(before):
        return
    state.note(LIMITS_NOTE, f"limits of the run that {by} has started", now)
    knew_settings = any(key in before for key in SETTINGS)  # an earlier program stored none
    changes = [
        f"{key} {or_none(_plain(before.get(key)))} -> {or_none(_plain(now.get(key)))}"
        for key in sorted({*before, *now})
        if before.get(key) != now.get(key) and (knew_settings or key not in SETTINGS)
    ]
    if before and changes:
        more = len(changes) - CHANGES_TOLD_MAX
        told = ", ".join(changes[:CHANGES_TOLD_MAX]) + (f" and {more} more" if more > 0 else "")
        text = (
            f"limits have changed since the last run: {told}. They hold from now on; {by} "
            "started this run. If you meant it, there is nothing to do; see bot limits"
        )
        facts: Numbers = {"changes": told, "by": by, "count": len(changes)}
        state.alert("LIMITS_CHANGED", text, facts)


def limits_of(settings: EngineSettings, strategies: Mapping[str, Limits]) -> dict[str, Limit]:
    """Return each limit that is set: those in effect of each strategy, and the account's."""
    of_owner: Mapping[str, AccountLimits | Limits] = {
        **strategies,
        ACCOUNT: settings.account_limits,
    }
    every = [
        *((key, getattr(settings, field)) for key, field in SETTINGS.items()),
        *(
            (f"{owner}.{field.name}", getattr(limits, field.name))
            for owner, limits in of_owner.items()
            for field in fields(limits)
        ),
    ]
    return {name: _plain(value) for name, value in every if value is not None}


def looser(
    before: Numbers, now: Mapping[str, Limit], owners: Collection[str]
) -> Iterator[tuple[str, Limit, Limit]]:
    """Yield what allows more than before, or is gone, of `owners` and SETTINGS: name, old and new.

    What had no limit before is stricter with one.
    """
    for name, value in before.items():
        old, new = _plain(value), now.get(name)
        is_ours = name in SETTINGS or _owner(name) in owners
        if is_ours and old is not None and _allows_more(name, old, new):
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
