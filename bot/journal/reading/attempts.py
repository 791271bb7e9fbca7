"""Reads attempts as a start needs them: each with every order id that was known before it."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, time

import sqlalchemy as sa

from bot.domain import local_time
from bot.domain.entry import AttemptStarted
from bot.journal.database import tables
from bot.journal.database.encoding import instant_of, instant_text, made


def attempts_of(
    connection: sa.Connection, rows: Sequence[sa.RowMapping]
) -> dict[str, AttemptStarted]:
    """Return the attempts of these rows, by their ids.

    A row has the ids that none before it has, of the same run (`epoch`) and local day. Former
    versions stored all of them in each row, which gives the same.
    """
    wanted = {row["seq"]: made(AttemptStarted, row) for row in rows}
    if not wanted:
        return {}
    table = tables.attempts
    first = local_time.local_date(min(attempt.at for attempt in wanted.values()))
    since = instant_text(local_time.instant_of(first, time()))
    stored = (
        sa.select(table.c.seq, table.c.epoch, table.c.at, table.c.known_ids)
        .where(table.c.at >= since, table.c.seq <= max(wanted))
        .order_by(table.c.seq)
    )
    known: defaultdict[tuple[int, date], dict[str, None]] = defaultdict(dict)
    found = {}
    for seq, epoch, at, new in connection.execute(stored):
        so_far = known[epoch, local_time.local_date(instant_of(at))]
        so_far.update(dict.fromkeys(json.loads(new)))
        if (attempt := wanted.get(seq)) is not None:
            found[attempt.attempt_id] = replace(attempt, known_ids=tuple(so_far))
    return found
