"""What happened to a bot, apart from its orders: 2FA, states, alerts, runs, and the times in which
it, a strategy or a symbol was stopped.

A decision needs a strategy that was woken. If the bot did not run or was halted or paused, if a
strategy was off or a symbol set aside, there is no decision to say so; the runs, the changes of
state and the alerts do. Orders have their own story (`timeline`); market events and decisions are
not part of this one.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, time, timedelta
from enum import StrEnum
from heapq import merge
from itertools import pairwise, zip_longest
from typing import Any, Final

import sqlalchemy as sa

from bot.domain.account import masked_scope
from bot.domain.entry import (
    ACCOUNT_SCOPE,
    AUTH_DROPPED,
    AUTH_TAKEN,
    AUTH_TYPED,
    DAY_NOTE,
    ENTRIES_SCOPE,
    KILLED_NOTE,
    LATE_NOTE,
    MISSED_NOTE,
    PRUNED_NOTE,
    REDUCED_SCOPE,
    Note,
    RunState,
)
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.local_time import instant_of as local_instant
from bot.domain.local_time import local_date
from bot.journal.database import tables
from bot.journal.database.encoding import instant_of, instant_text
from bot.journal.database.schema import reading_current
from bot.journal.reading.values import LASTS, PRUNING, STOPPED, DecisionGroup, EventRow, MissedRow


class EventKind(StrEnum):
    """The part of the story that a row belongs to."""

    TWO_FACTOR = "2fa"
    STATE = "state"
    ALERT = "alert"


AUTH_WORDS: Final[Mapping[str, str]] = {
    "needed": "needed",
    "CODE_REQUESTED": "code asked for",
    AUTH_TYPED: "code typed",
    "CODE_REFUSED": "code refused",
    "TOO_LATE": "too late",
    AUTH_TAKEN: "token taken",
    "TOKEN_NOT_KEPT": "not kept",
    "ready": "ready",
    "proved": "first write",
    AUTH_DROPPED: "token dropped",
    "TOKEN_NOT_REMOVED": "not removed",
    "REVOKED": "revoked",
}
"""Every kind of 2FA row, as a person reads it."""
REFUSED: Final = "write refused"
_ALERTS: Final = ("ALERT", "FAULT", KILLED_NOTE)
NOT_COMPARED: Final = "DAY_NOT_COMPARED"
CLOSES_DAY: Final = (DAY_NOTE, NOT_COMPARED)
"""What is told of a day, by kind or alert, once nothing of it is compared any more."""


def events(
    url: str, kinds: Collection[EventKind], since: datetime | None = None
) -> Iterator[EventRow]:
    """Yield what happened, oldest first; without `since`, on the last day that has a row.

    Raises Unreachable or NeedsMigration.
    """
    auth, halts, notes = tables.auth_events, tables.halts, tables.notes
    is_missed_timer = (notes.c.kind == MISSED_NOTE) & notes.c.numbers.contains('"alert"')
    of_kind = {
        EventKind.TWO_FACTOR: sa.select(auth),
        EventKind.STATE: sa.select(halts).where(~halts.c.scope.startswith(tables.BASE)),
        EventKind.ALERT: sa.select(notes).where(notes.c.kind.in_(_ALERTS) | is_missed_timer),
    }
    with reading_current(url) as connection:
        if since is None:
            newest = [
                connection.execute(sa.select(sa.func.max(of_kind[each].subquery().c.at))).scalar()
                for each in kinds
            ]
            last = max((instant_of(at) for at in newest if at is not None), default=None)
            if last is None:
                return
            since = datetime.combine(last.astimezone(EXCHANGE_TZ).date(), time(), EXCHANGE_TZ)
        found = []
        for kind in kinds:
            query = of_kind[kind]
            at, seq = query.selected_columns["at"], query.selected_columns["seq"]
            rows = connection.execute(query.where(at >= instant_text(since)).order_by(seq))
            found.append([_event(kind, row) for row in rows.mappings()])
        yield from merge(*found, key=lambda row: row.at)


def _event(kind: EventKind, row: sa.RowMapping) -> EventRow:
    code = about = what = text = ""
    match kind:
        case EventKind.TWO_FACTOR:
            code, about, text = row["code"], row["intent_id"] or "", row["detail"]
            is_refused = row["kind"] == "needed" and about
            what = REFUSED if is_refused else AUTH_WORDS.get(row["kind"], row["kind"])
        case EventKind.STATE:
            about = "" if row["scope"] == "all" else masked_scope(row["scope"])
            by = f"(by {row['by_whom']})" if row["by_whom"] else ""
            what, text = row["to_state"], f"{row['reason']} {by}".strip()
            if what == RunState.HALTED and row["scope"].startswith(ENTRIES_SCOPE):
                what = RunState.REDUCING.value  # the word that every screen shows for it
        case EventKind.ALERT:
            code = str(json.loads(row["numbers"]).get("alert") or "")
            what, about, text = row["kind"], row["symbol"] or "", row["text"]
    return EventRow(instant_of(row["at"]), kind, what, code, about, text)


def last_moment(url: str) -> datetime | None:
    """Return when a bot last wrote to a journal, judging by the entries that each run keeps
    writing; None if none has. Pruning is no sign of life. Raises Unreachable or NeedsMigration.
    """
    notes, runs = tables.notes, tables.runs
    wrote = [
        sa.select(each.c.at, each.c.seq) for each in (tables.decisions, tables.account_snapshots)
    ]
    wrote.append(sa.select(notes.c.at, notes.c.seq).where(notes.c.kind != PRUNED_NOTE))
    newest = [each.order_by(each.selected_columns.seq.desc()).limit(1) for each in wrote]
    ended = sa.select(sa.func.max(runs.c.ended_at)).where(runs.c.end_reason != PRUNING)
    with reading_current(url) as connection:
        found = [connection.execute(query).scalar() for query in (*newest, ended)]
    return max((instant_of(at) for at in found if at is not None), default=None)


def is_day_open(url: str, ended: datetime, last: datetime) -> bool:
    """Return whether a day's last comparison, due at `ended`, was begun and neither finished nor
    told as not made: a bot that was there before wrote after it, on that day. `last` is when one
    wrote last. Raises as `last_moment`.
    """
    notes, runs = tables.notes, tables.runs
    day = local_date(ended)
    midnight = local_instant(day + timedelta(days=1), time())
    is_run = runs.c.end_reason.is_distinct_from(PRUNING)
    since = notes.c.at >= instant_text(ended)
    wrote = since & (notes.c.at < instant_text(midnight)) & (notes.c.kind != PRUNED_NOTE)
    said = since & notes.c.kind.in_((DAY_NOTE, ALERT))
    with reading_current(url) as connection:
        first = connection.execute(sa.select(sa.func.min(runs.c.started_at)).where(is_run)).scalar()
        if first is None or instant_of(first) >= ended:
            return False
        there = sa.select(sa.exists().where(wrote))
        if last >= midnight and not connection.execute(there).scalar():
            return False
        told = connection.execute(sa.select(notes.c.kind, notes.c.numbers).where(said)).all()
    for kind, numbers in told:
        known = json.loads(numbers)
        if known.get("day") == day.isoformat() and known.get("alert", kind) in CLOSES_DAY:
            return False
    return True


def missed_runs(url: str, since: datetime | None = None) -> Iterator[MissedRow]:
    """Yield missed and late runs of the timetable, oldest first. Raises as `last_moment`."""
    notes = tables.notes
    columns = notes.c.at, notes.c.kind, notes.c.text, notes.c.numbers
    query = sa.select(*columns).where(notes.c.kind.in_((MISSED_NOTE, LATE_NOTE)))
    if since is not None:
        query = query.where(notes.c.at >= instant_text(since))
    with reading_current(url) as connection:
        for at, kind, text, numbers in connection.execute(query.order_by(notes.c.seq)):
            known = json.loads(numbers)
            if "job" not in known:
                continue  # an older program did not store late runs
            yield MissedRow(
                at=instant_of(at),
                job=known["job"],
                first=datetime.fromisoformat(known["first"]),
                last=datetime.fromisoformat(known["last"]),
                count=known["count"],
                then=known["then"],
                why=known["why"],
                text=text,
                is_missed=kind == MISSED_NOTE,
            )


def last_notes(url: str, kind: str, *, limit: int) -> list[Note]:
    """Return the last notes of a kind, newest last. Raises as `last_moment`."""
    notes = tables.notes
    query = sa.select(notes.c.at, notes.c.text, notes.c.numbers).where(notes.c.kind == kind)
    with reading_current(url) as connection:
        found = connection.execute(query.order_by(notes.c.seq.desc()).limit(limit)).all()
    return [Note(instant_of(at), kind, text, json.loads(it)) for at, text, it in found[::-1]]


NOT_RUNNING: Final = "NOT_RUNNING"
HELD_FROM: Final = timedelta(minutes=1)
"""A start that takes no longer than this is not worth telling."""
BREAKS: Final = "break:"
GOES_ON: Final = frozenset({"RUNNING", "STARTING", "STOPPING", "STOPPED", "on"})
"""The states in which a scope blocks no orders, or in which something else says so: the runs when
the bot was off, `_starts` how long it began.
"""
SHOWS_ITSELF: Final = frozenset({"RUNNING", "PAUSED", "HALTED"})
"""The states of the whole bot that hide no pause of an operator any more."""
ALL: Final = ("all", "operator")
STRATEGY: Final = "strategy:"
ALERT: Final = "ALERT"
_ANY: Final = "-"


def stops(
    connection: sa.Connection, symbol: str, *, strategy: str | None, since: datetime | None
) -> list[DecisionGroup]:
    """Return each time in which the symbol could not be ordered, earliest first."""
    found = [
        *_between_runs(connection, symbol),
        *_starts(connection, symbol),
        *_halted(connection, symbol, strategy),
        *_alerts(connection, symbol),
    ]
    lasting = [each for each in found if since is None or each.last_at >= since]
    return sorted(lasting, key=lambda each: each.first_at)


def _between_runs(connection: sa.Connection, symbol: str) -> Iterator[DecisionGroup]:
    """From the end of a run (of a killed one: its last row) to the start of the next."""
    rows = _runs(connection)
    for run, following in pairwise(rows):
        ended, began = _ended(connection, run, following), following.started_at
        why = f"the bot did not run ({run.end_reason or 'it was killed'})"
        yield _stop(symbol, ended, began, code=NOT_RUNNING, why=why)
    if rows and rows[-1].ended_at is not None:
        ended = rows[-1].ended_at
        why = f"the bot has not run since ({rows[-1].end_reason})"
        yield _stop(symbol, ended, None, code=NOT_RUNNING, why=why)


def _runs(connection: sa.Connection) -> list[sa.Row[Any]]:
    every = connection.execute(sa.select(tables.runs).order_by(tables.runs.c.run_id))
    return [row for row in every if row.end_reason != PRUNING]


def _ended(connection: sa.Connection, run: sa.Row[Any], following: sa.Row[Any]) -> str:
    """Return when a run ended; of a killed one its last row."""
    if run.ended_at is not None:
        return str(run.ended_at)
    last_row = sa.select(sa.func.max(tables.notes.c.at))
    found = connection.execute(last_row.where(tables.notes.c.at < following.started_at)).scalar()
    return max(str(found or ""), str(run.started_at))


def _starts(connection: sa.Connection, symbol: str) -> Iterator[DecisionGroup]:
    """From the start of a run, or of a day, until orders could be sent, or something else is said
    to have stopped them; with the breaks that held it.
    """
    halts = tables.halts
    told = (halts.c.scope == "all") | halts.c.scope.startswith(BREAKS)
    events = list[tuple[str, int, str, str]]()
    runs = _runs(connection)
    for run, following in zip_longest(runs, runs[1:]):
        ended = _ended(connection, run, following) if following is not None else run.ended_at
        if run.started_at != ended:
            events.append((run.started_at, 1, "all", RunState.STARTING))
        if ended is not None:
            events.append((ended, 0, "all", RunState.STOPPED))
    for row in connection.execute(sa.select(halts).where(told).order_by(halts.c.seq)):
        is_last_of_run = row.to_state == RunState.STOPPING  # the next may start at that instant
        events.append((row.at, 0 if is_last_of_run else 2, row.scope, row.to_state))
    begun, unaccepted, held_by = "", dict[str, None](), dict[str, None]()
    for at, _, scope, state in sorted(events, key=lambda each: each[:2]):
        if scope != "all":
            name = scope.removeprefix(BREAKS)
            if state == RunState.HALTED:
                held_by[name] = unaccepted[name] = None
            else:
                unaccepted.pop(name, None)
            continue
        if begun and instant_of(at) - instant_of(begun) >= HELD_FROM:
            yield _held_start(symbol, begun, at, held_by)
        begun = at if state == RunState.STARTING else ""
        held_by = dict(unaccepted)
    if begun:
        yield _held_start(symbol, begun, None, held_by)


def _held_start(
    symbol: str, begun: str, ended: str | None, breaks: Collection[str]
) -> DecisionGroup:
    why = "the start waits for order history, day order book and account"
    if breaks:
        why = f"the start is held: journal and broker do not agree on {', '.join(breaks)}"
    return _stop(symbol, begun, ended, code=RunState.STARTING.value, why=why)


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
        ended = [row.scope]
        if row.scope == "all" and row.to_state in SHOWS_ITSELF:
            ended.append("operator")
        for scope in ended:
            if (begun := since.pop(scope, None)) is not None:
                last = _end_of(scope, begun[0], row.at)
                yield _stop(symbol, begun[0], last, code=begun[1], why=begun[2], strategy=of)
        if row.to_state not in GOES_ON:
            what = "" if row.scope in ALL else f"{row.scope.partition(':')[0]}: "
            is_reduced = row.scope.startswith(ENTRIES_SCOPE)
            state = RunState.REDUCING.value if is_reduced else row.to_state.upper()
            said = f": {row.reason}" if row.reason else ""
            since[row.scope] = (row.at, state, f"{what}{state} by {row.by_whom}{said}")
    for scope, (at, code, why) in since.items():
        of = scope.removeprefix(STRATEGY) if scope.startswith(STRATEGY) else _ANY
        yield _stop(symbol, at, _end_of(scope, at, None), code=code, why=why, strategy=of)


def _end_of(scope: str, begun: str, ended: str | None) -> str | None:
    """Return when a stop ended: one for a day's loss with its day, which no row need say."""
    if not scope.startswith(ENTRIES_SCOPE) or scope == REDUCED_SCOPE:
        return ended
    midnight = local_instant(local_date(instant_of(begun)) + timedelta(days=1), time())
    return min(filter(None, (ended, instant_text(midnight))))


def _alerts(connection: sa.Connection, symbol: str) -> Iterator[DecisionGroup]:
    notes = tables.notes
    about = sa.select(notes).where(notes.c.kind == ALERT, notes.c.symbol == symbol)
    for row in connection.execute(about.order_by(notes.c.seq)):
        code = json.loads(row.numbers).get("alert")
        yield _stop(symbol, row.at, row.at, code=str(code or ALERT), why=row.text)


def _stop(
    symbol: str, first: str, last: str | None, *, code: str, why: str, strategy: str = _ANY
) -> DecisionGroup:
    """One such time; without an end it continues."""
    first_at = instant_of(first)
    last_at = instant_of(last) if last is not None else LASTS
    facts = {"strategy": strategy, "symbol": symbol, "verdict": STOPPED, "code": code}
    return DecisionGroup(first_at=first_at, last_at=last_at, **facts, count=1, why=why, ranges={})
