"""The rows of `runs`: when the bot began and ended, sealed as an order's row is."""

from collections.abc import Mapping
from datetime import datetime

import sqlalchemy as sa

from bot.journal import tables
from bot.journal.batch import Batch, lock_heads
from bot.journal.encoding import Plain, instant_text, json_text
from bot.journal.heads import plain_heads


def add_run(connection: sa.Connection, facts: Mapping[str, Plain]) -> int:
    """Note that a run begins; returns its number, counted over the life of the journal."""
    runs = tables.runs
    last = connection.execute(sa.select(sa.func.max(runs.c.run_id))).scalar() or 0
    batch = Batch(connection, ())
    batch.add_sealed(runs, {"run_id": last + 1, **facts})
    batch.store()
    return int(last) + 1


def add_run_with_heads(connection: sa.Connection, facts: Mapping[str, Plain]) -> int:
    """The same, with the heads that the run finds: an older copy that goes on is known by them."""
    heads = json_text(plain_heads(lock_heads(connection)))
    return add_run(connection, {**facts, "heads": heads})


def end_run(connection: sa.Connection, run_id: int, reason: str, at: datetime) -> None:
    """Note that a run ended, and why."""
    batch = Batch(connection, ())
    end = {"ended_at": instant_text(at), "end_reason": reason}
    batch.change(tables.runs, {"run_id": run_id}, end)
    batch.store()
