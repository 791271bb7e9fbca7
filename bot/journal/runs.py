"""When a bot was there, which runs of its timetable it has missed, and whom it told what."""

import json
from collections.abc import Iterator
from datetime import datetime

import sqlalchemy as sa

from bot.domain.entry import LATE_NOTE, MISSED_NOTE, Note
from bot.journal import tables
from bot.journal.encoding import instant_of, instant_text
from bot.journal.schema import reading_current
from bot.journal.values import MissedRow


def last_moment(url: str) -> datetime | None:
    """Return when a bot wrote to a journal last, by the entries that each run goes on writing; None
    where none has. Raises Unreachable or NeedsMigration.
    """
    chains = (tables.decisions, tables.notes, tables.account_snapshots)
    newest = [sa.select(each.c.at).order_by(each.c.seq.desc()).limit(1) for each in chains]
    with reading_current(url) as connection:
        found = [connection.execute(query).scalar() for query in newest]
        ended = connection.execute(sa.select(sa.func.max(tables.runs.c.ended_at))).scalar()
    return max((instant_of(at) for at in (*found, ended) if at is not None), default=None)


def missed_runs(url: str, since: datetime | None = None) -> Iterator[MissedRow]:
    """Yield what the timetable has missed or run late, oldest first. Raises as `last_moment`."""
    notes = tables.notes
    columns = notes.c.at, notes.c.kind, notes.c.text, notes.c.numbers
    query = sa.select(*columns).where(notes.c.kind.in_((MISSED_NOTE, LATE_NOTE)))
    if since is not None:
        query = query.where(notes.c.at >= instant_text(since))
    with reading_current(url) as connection:
        for at, kind, text, numbers in connection.execute(query.order_by(notes.c.seq)):
            known = json.loads(numbers)
            if "job" not in known:
                continue  # an older program did not keep what was late
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
    """Return the last notes of a kind, the newest last. Raises as `last_moment`."""
    notes = tables.notes
    query = sa.select(notes.c.at, notes.c.text, notes.c.numbers).where(notes.c.kind == kind)
    with reading_current(url) as connection:
        found = connection.execute(query.order_by(notes.c.seq.desc()).limit(limit)).all()
    return [Note(instant_of(at), kind, text, json.loads(it)) for at, text, it in found[::-1]]
