"""What the journal of a bot that is not running says: how its run ended, and what it left open."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING
from urllib.parse import quote

from bot.cli import messages
from bot.cli.command import Invocation
from bot.cli.show import show_mistake
from bot.cli.target import SQLITE, open_journal, own_state_dir
from bot.cli.telling.languages import Say
from bot.cli.telling.wording import order_in
from bot.config.problems import OperatorMistake
from bot.config.settings.places import KNOWN, last_journal, last_pid
from bot.domain.local_time import clock_of, day_and_clock_of, local_date

if TYPE_CHECKING:
    from bot.journal.errors import Holder
    from bot.journal.reading.reader import JournalReader
    from bot.journal.reading.values import OrderRow


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last run of a bot that is not running. If it has no end, it was killed, or `writer`,
    another bot, is at it. `is_relieved`: a standby goes on, or is about to.
    """

    started_at: datetime
    ended_at: datetime | None
    reason: str
    writer: "Holder | None" = None
    orders: "Sequence[OrderRow]" = ()
    """Own orders that are open or unknown, unless another bot is at them."""
    is_relieved: bool = False


def open_orders(reader: "JournalReader") -> list[str]:
    """Describe the own orders that are open or unknown, at the broker: not those held here."""
    return [_order_words(row) for row in _open_rows(reader)]


def _open_rows(reader: "JournalReader") -> "list[OrderRow]":
    found = reader.orders(open_only=True)
    return [row for row in found if row.local_id is not None and row.is_open]


def _order_words(row: "OrderRow") -> str:
    return f"{row.id} {order_in(row)}, {row.executed_quantity:,} filled, {row.status}"


def lines_left_open(invocation: Invocation) -> list[str]:
    """Say what a bot that has just stopped leaves open, and who goes on; nothing if it leaves
    nothing to anybody.
    """
    try:
        with _journal_of_last_run(invocation) as reader:
            is_left = reader is not None and _writer(reader, invocation) is None
            orders = open_orders(reader) if reader is not None and is_left else []
            is_relieved = is_left and reader is not None and _is_relieved(reader.url, invocation)
    except OperatorMistake as unread:
        show_mistake(unread)
        return []
    named = [messages.HALT_OPEN.format(order=order) for order in orders]
    if is_relieved:
        return [*named, messages.GOES_ON]
    return [*named, messages.LEFT_OPEN] if named else []


def has_begun_here(invocation: Invocation) -> bool | None:
    """Return whether the bot here, which has taken the journal, has begun its run; None if it has
    taken none. Between the two it does not listen: it reads the journal, which may take long.
    """
    pid = last_pid(own_state_dir(invocation))
    if pid is None or not Path("/proc", str(pid)).exists():
        return None  # without the slow imports
    from bot.journal.writing.lease import has_begun

    try:
        with _journal_of_last_run(invocation) as reader:
            is_ours = reader is not None and _holds(pid, reader.url)
            return has_begun(reader.url) if reader is not None and is_ours else None
    except OperatorMistake:
        return None  # told by whoever reads on


def _holds(pid: int, url: str) -> bool:
    from bot.journal.writing.lease import writer_of

    holder = writer_of(url)
    return holder is not None and (holder.pid, holder.host) == (pid, gethostname())


def rows_of_stopped(invocation: Invocation, say: Say) -> Iterator[tuple[str, str]]:
    """Yield name and text of each row of `bot status` where no bot runs."""
    if (last := _last_run(invocation)) is None:
        return
    began, ended = day_and_clock_of(last.started_at), last.ended_at
    if last.writer is not None:
        yield "last run", say(messages.IS_ANOTHERS, began=began, writer=last.writer)
    elif ended is None:
        yield "last run", say(messages.HAS_NO_END, began=began)
    else:
        yield "last run", _end_words(say, last.started_at, ended, last.reason)
    for row in last.orders:
        yield "open", _order_words(row)
    if last.is_relieved:
        yield "", say(messages.GOES_ON)
    elif last.orders:
        yield "", say(messages.LEFT_OPEN)


def fields_of_stopped(invocation: Invocation) -> dict[str, object]:
    """Return what those rows say, ready for JSON, under the names that a running bot uses."""
    if (last := _last_run(invocation)) is None:
        return {}
    run = {
        "started_at": last.started_at.isoformat(),
        "ended_at": last.ended_at.isoformat() if last.ended_at else None,
        "reason": last.reason,
        "writer": str(last.writer or ""),
    }
    return {
        "last_run": run,
        "open_orders": [_order_fields(row) for row in last.orders if row.order_id],
        "unknown": [row.local_id for row in last.orders if not row.order_id],
    }


def _order_fields(row: "OrderRow") -> dict[str, object]:
    return {
        "order_id": row.order_id,
        "intent_id": row.local_id,
        "strategy": row.strategy,
        "symbol": row.symbol,
        "side": row.side,
        "quantity": row.quantity,
        "price": row.price,
        "order_type": row.order_type,
        "executed": row.executed_quantity,
        "state": row.state,
        "broker_status": row.status,
    }


def _last_run(invocation: Invocation) -> LastRun | None:
    """Return it; None if none is known. A journal that can't be read is told."""
    if (seen := _ended_with_nothing_open(invocation)) is not None:
        return LastRun(*seen)
    try:
        with _journal_of_last_run(invocation) as reader:
            if reader is None or not (runs := reader.runs()):
                return None
            last, writer = runs[-1], _writer(reader, invocation)
            orders = () if writer else _open_rows(reader)
            is_relieved = writer is None and _is_relieved(reader.url, invocation)
    except OperatorMistake as unread:
        show_mistake(unread)
        return None
    why = last.end_reason or ""
    return LastRun(last.started_at, last.ended_at, why, writer, orders, is_relieved)


def _end_words(say: Say, began: datetime, ended: datetime, why: str) -> str:
    is_same_day = local_date(began) == local_date(ended)
    when = clock_of(ended) if is_same_day else day_and_clock_of(ended)
    return say(messages.HAS_ENDED, began=day_and_clock_of(began), ended=when, why=why)


def _ended_with_nothing_open(invocation: Invocation) -> tuple[datetime, datetime, str] | None:
    """Return begin, end and reason of the last run if it ended and left nothing open: the usual
    case, which needs none of the slow imports of a closer look. None asks for that.
    """
    url = last_journal(own_state_dir(invocation))
    if url is None or not url.startswith(SQLITE):
        return None
    file = Path(url.removeprefix(SQLITE)).resolve()
    if file.with_name(f"{file.name}-wal").exists():
        return None  # somebody has it open, or was killed
    try:
        address = f"file:{quote(str(file))}?mode=ro&immutable=1"
        with closing(sqlite3.connect(address, uri=True)) as journal:
            if journal.execute("SELECT 1 FROM v_orders WHERE is_open = 1 LIMIT 1").fetchone():
                return None
            runs = "SELECT started_at, ended_at, end_reason FROM runs ORDER BY run_id DESC LIMIT 1"
            began, ended, why = journal.execute(runs).fetchone()
        return datetime.fromisoformat(began), datetime.fromisoformat(ended), why or ""
    except (sqlite3.Error, TypeError, ValueError):
        return None


def _writer(reader: "JournalReader", invocation: Invocation) -> "Holder | None":
    """Return who goes on with the last run of a journal: it is another bot's, whose standby or
    former primary this one is.
    """
    from bot.journal.writing.lease import writer_of  # as slow to import as the reader

    runs, pid = reader.runs(), last_pid(own_state_dir(invocation))
    if not runs or runs[-1].ended_at is not None or (pid and _holds(pid, reader.url)):
        return None
    return writer_of(reader.url)


def _is_relieved(url: str, invocation: Invocation) -> bool:
    """Return whether another bot waits for a journal, or has it by now."""
    if url.startswith(SQLITE):
        return False  # none can wait for a file
    from bot.journal.database.schema import reading_current
    from bot.journal.writing.lease import WATCH, count_of, writer_of

    with reading_current(url) as stored:
        if stored.scalar(count_of(WATCH)):
            return True
    pid = last_pid(own_state_dir(invocation))
    return writer_of(url) is not None and not (pid and _holds(pid, url))


@contextmanager
def _journal_of_last_run(invocation: Invocation) -> "Iterator[JournalReader | None]":
    """Open the journal that the last run here has written; None if none has run. A file's settings
    are not loaded for it: they may have been broken since. Raises OperatorMistake.
    """
    state_dir = own_state_dir(invocation)
    url = last_journal(state_dir)
    if url is None:
        yield None
    elif url.startswith(SQLITE):
        from bot.journal.reading.reader import JournalReader  # slow to import
        from bot.runtime.journal_file import journal_errors

        with journal_errors(str(state_dir / KNOWN)), JournalReader(url) as reader:
            yield reader
    else:
        with open_journal(invocation) as reader:
            yield reader
