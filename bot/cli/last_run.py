"""What the journal of a bot that is not running says: how its run ended, and what it left open."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bot.cli import messages
from bot.cli.command import Invocation
from bot.cli.show import show_mistake
from bot.cli.target import SQLITE, open_journal, own_state_dir
from bot.cli.telling.languages import Say
from bot.cli.telling.wording import order_in
from bot.config.problems import OperatorMistake
from bot.config.settings.places import KNOWN, last_journal
from bot.domain.local_time import clock_of, day_and_clock_of, local_date

if TYPE_CHECKING:
    from bot.journal.errors import Holder
    from bot.journal.reading.reader import JournalReader


def open_orders(reader: "JournalReader") -> list[str]:
    """Describe the own orders that are open or unknown."""
    rows = [row for row in reader.orders(open_only=True) if row.local_id is not None]
    return [
        f"{row.id} {order_in(row)}, {row.executed_quantity:,} filled, {row.status}" for row in rows
    ]


def lines_left_open(invocation: Invocation) -> list[str]:
    """Say what a bot that has just stopped leaves open; nothing if it leaves nothing."""
    try:
        with _journal_of_last_run(invocation) as reader:
            orders = [] if reader is None or _writer(reader) else open_orders(reader)
    except OperatorMistake as unread:
        show_mistake(unread)
        return []
    named = [messages.HALT_OPEN.format(order=order) for order in orders]
    return [*named, messages.LEFT_OPEN] if named else []


def rows_of_stopped(invocation: Invocation, say: Say) -> Iterator[tuple[str, str]]:
    """Yield name and text of each row of `bot status` where no bot runs."""
    try:
        with _journal_of_last_run(invocation) as reader:
            if reader is None or not (runs := reader.runs()):
                return
            last, orders, writer = runs[-1], open_orders(reader), _writer(reader)
    except OperatorMistake as unread:
        show_mistake(unread)
        return
    began, ended = day_and_clock_of(last.started_at), last.ended_at
    if writer is not None:
        yield "last run", say(messages.IS_ANOTHERS, began=began, writer=writer)
        return
    if ended is None:
        yield "last run", say(messages.HAS_NO_END, began=began)
    else:
        is_same_day = local_date(last.started_at) == local_date(ended)
        when = clock_of(ended) if is_same_day else day_and_clock_of(ended)
        why = last.end_reason or ""
        yield "last run", say(messages.HAS_ENDED, began=began, ended=when, why=why)
    for order in orders:
        yield "open", order
    if orders:
        yield "", say(messages.LEFT_OPEN)


def _writer(reader: "JournalReader") -> "Holder | None":
    """Return who goes on with the last run of a journal: it is another bot's, whose standby or
    former primary this one is.
    """
    from bot.journal.writing.lease import writer_of  # as slow to import as the reader

    runs = reader.runs()
    return writer_of(reader.url) if runs and runs[-1].ended_at is None else None


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
