"""What happened to a bot, as one story in order of time: its second factor, its states, its alerts.

Orders have stories of their own (`timeline`); what the market did and what was decided are no part
of this one.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, time
from enum import StrEnum
from heapq import merge
from typing import Final

import sqlalchemy as sa

from bot.domain.account import masked_scope
from bot.domain.entry import AUTH_DROPPED, AUTH_TAKEN, AUTH_TYPED, ENTRIES_SCOPE, RunState
from bot.domain.instrument import EXCHANGE_TZ
from bot.journal import tables
from bot.journal.encoding import instant_of, instant_text
from bot.journal.retention import BASE
from bot.journal.schema import reading_current
from bot.journal.values import EventRow


class EventKind(StrEnum):
    """Which part of the story a row is of."""

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
"""Every kind of row of the second factor, as a person reads it."""
REFUSED: Final = "write refused"
_ALERTS: Final = ("ALERT", "FAULT")


def events(
    url: str, kinds: Collection[EventKind], since: datetime | None = None
) -> Iterator[EventRow]:
    """Yield what happened, oldest first: without `since` on the last day that has a row.

    Raises Unreachable or NeedsMigration.
    """
    auth, halts, notes = tables.auth_events, tables.halts, tables.notes
    of_kind = {
        EventKind.TWO_FACTOR: sa.select(auth),
        EventKind.STATE: sa.select(halts).where(~halts.c.scope.startswith(BASE)),
        EventKind.ALERT: sa.select(notes).where(notes.c.kind.in_(_ALERTS)),
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
                what = RunState.REDUCING.value  # the word that every screen shows of it
        case EventKind.ALERT:
            code = str(json.loads(row["numbers"]).get("alert") or "")
            what, about, text = row["kind"], row["symbol"] or "", row["text"]
    return EventRow(instant_of(row["at"]), kind, what, code, about, text)
