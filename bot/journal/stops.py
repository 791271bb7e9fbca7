"""Why nothing was even asked for: the times in which a bot, a strategy or a symbol stood still.

A decision needs a strategy that was woken. Where the bot did not run, was halted or paused, where a
strategy was off or a symbol was set aside, no decision says so: the runs, the changes of state and
the alerts do.
"""

import json
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import Final

import sqlalchemy as sa

from bot.domain.entry import ACCOUNT_SCOPE, ENTRIES_SCOPE, RunState
from bot.journal import tables
from bot.journal.encoding import instant_of
from bot.journal.values import LASTS, PRUNING, STOPPED, DecisionGroup

NOT_RUNNING: Final = "NOT_RUNNING"
GOES_ON: Final = frozenset({"RUNNING", "STARTING", "STOPPING", "STOPPED", "on"})
"""The states in which a scope keeps nobody from ordering; the runs say when the bot was off."""
ALL: Final = ("all", "operator")
STRATEGY: Final = "strategy:"
ALERT: Final = "ALERT"
_ANY: Final = "-"


def stops(
    connection: sa.Connection, symbol: str, *, strategy: str | None, since: datetime | None
) -> list[DecisionGroup]:
    """Return each time in which the symbol could not be ordered, the earliest first."""
    found = [
        *_between_runs(connection, symbol),
        *_halted(connection, symbol, strategy),
        *_alerts(connection, symbol),
    ]
    lasting = [each for each in found if since is None or each.last_at >= since]
    return sorted(lasting, key=lambda each: each.first_at)


def _between_runs(connection: sa.Connection, symbol: str) -> Iterator[DecisionGroup]:
    """From the end of a run to the start of the next; of one that was killed, from its last row."""
    runs = tables.runs
    every = connection.execute(sa.select(runs).order_by(runs.c.run_id))
    rows = [row for row in every if row.end_reason != PRUNING]
    last_row = sa.select(sa.func.max(tables.notes.c.at))
    for run, following in pairwise(rows):
        ended, began = run.ended_at, following.started_at
        if ended is None:
            ended = connection.execute(last_row.where(tables.notes.c.at < began)).scalar()
            ended = ended or run.started_at
        why = f"the bot did not run ({run.end_reason or 'it was killed'})"
        yield _stop(symbol, ended, began, code=NOT_RUNNING, why=why)
    if rows and rows[-1].ended_at is not None:
        ended = rows[-1].ended_at
        why = f"the bot has not run since ({rows[-1].end_reason})"
        yield _stop(symbol, ended, None, code=NOT_RUNNING, why=why)


def _halted(
    connection: sa.Connection, symbol: str, strategy: str | None
) -> Iterator[DecisionGroup]:
    halts = tables.halts
    is_ours = (
        halts.c.scope.in_((*ALL, f"symbol:{symbol}"))
        | halts.c.scope.startswith(STRATEGY)
        | halts.c.scope.startswith(ACCOUNT_SCOPE)
        | halts.c.scope.startswith(ENTRIES_SCOPE)
    )
    since: dict[str, tuple[str, str, str]] = {}
    for row in connection.execute(sa.select(halts).where(is_ours).order_by(halts.c.seq)):
        of = row.scope.removeprefix(STRATEGY) if row.scope.startswith(STRATEGY) else _ANY
        if strategy is not None and of not in {strategy, _ANY}:
            continue
        begun = since.pop(row.scope, None)
        if begun is not None:
            yield _stop(symbol, begun[0], row.at, code=begun[1], why=begun[2], strategy=of)
        if row.to_state not in GOES_ON:
            what = "" if row.scope in ALL else f"{row.scope.partition(':')[0]}: "
            is_reduced = row.scope.startswith(ENTRIES_SCOPE)
            state = RunState.REDUCING.value if is_reduced else row.to_state.upper()
            said = f": {row.reason}" if row.reason else ""
            since[row.scope] = (row.at, state, f"{what}{state} by {row.by_whom}{said}")
    for scope, (at, code, why) in since.items():
        of = scope.removeprefix(STRATEGY) if scope.startswith(STRATEGY) else _ANY
        yield _stop(symbol, at, None, code=code, why=why, strategy=of)


def _alerts(connection: sa.Connection, symbol: str) -> Iterator[DecisionGroup]:
    notes = tables.notes
    about = sa.select(notes).where(notes.c.kind == ALERT, notes.c.symbol == symbol)
    for row in connection.execute(about.order_by(notes.c.seq)):
        code = json.loads(row.numbers).get("alert")
        yield _stop(symbol, row.at, row.at, code=str(code or ALERT), why=row.text)


def _stop(
    symbol: str, first: str, last: str | None, *, code: str, why: str, strategy: str = _ANY
) -> DecisionGroup:
    """One time; without an end it lasts."""
    first_at = instant_of(first)
    last_at = instant_of(last) if last is not None else LASTS
    facts = {"strategy": strategy, "symbol": symbol, "verdict": STOPPED, "code": code}
    return DecisionGroup(first_at=first_at, last_at=last_at, **facts, count=1, why=why, ranges={})
