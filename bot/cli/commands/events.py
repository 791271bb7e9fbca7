"""`bot events`: what happened to the bot: 2FA, states, alerts."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain, count, islice
from time import sleep
from typing import TYPE_CHECKING, Final

import click

from bot.cli.command import Invocation, define_command
from bot.cli.options import form_option, since_of, since_option
from bot.cli.rows import fields_of, print_machine
from bot.cli.show import UNCUT, print_table, write_json, write_line
from bot.cli.target import open_journal, readable
from bot.cli.telling.wording import counted
from bot.domain.local_time import clock_of, day_and_clock_of

if TYPE_CHECKING:
    from bot.journal.reading.values import EventRow

KINDS: Final = ("2fa", "state", "alert")
HEADS: Final = ("TIME", "KIND", "WHAT", "CODE", "ABOUT", "TEXT")
SPARE: Final = ("ABOUT", "CODE")
LOOK_EVERY_S: Final = 0.5
OVERLAP: Final = timedelta(minutes=1)
"""How much later than a younger event one may be written and still be shown by --follow."""


@define_command("events", example="bot events --kind 2fa")
@click.option("--kind", type=click.Choice(KINDS), help="Only this kind; default: all.")
@click.option("-f", "--follow", is_flag=True, help="Keep printing new ones until Ctrl-C.")
@click.option("--looks", type=click.IntRange(1), hidden=True)
@since_option
@form_option
@click.pass_obj
def command(
    invocation: Invocation,
    kind: str | None,
    follow: bool,
    looks: int | None,
    since: str | None,
    form: str,
) -> None:
    """List what happened: second factor, state changes, alerts. By default, on the last day.

    For the second factor: codes requested and typed, tokens received and dropped (by their last
    four characters, never more), orders refused for lack of one, and the first order accepted.
    """
    # The database is slow to import, and help pages do not need it.
    from bot.journal.reading.events import EventKind, events
    from bot.journal.reading.values import EventRow
    from bot.runtime.journal_file import journal_errors

    if follow and form == "csv":
        raise click.UsageError("--follow has no CSV output: use -o jsonl")
    with open_journal(invocation) as reader:
        begin = since_of(since, reader)
    loaded = readable(invocation)
    kinds = [EventKind(kind)] if kind else [*EventKind]

    def look(since: datetime | None) -> list["EventRow"]:
        with journal_errors(loaded.origin_of("journal.url")):
            return list(events(loaded.journal_url, kinds, since))

    found = look(begin)
    if follow and (invocation.json or form == "jsonl"):
        for row in chain(found, followed(look, found, looks)):
            write_json(json.dumps(fields_of(row), ensure_ascii=False))
        return
    if print_machine(invocation, found, form, what="events", kind=EventRow):
        return
    has_days = form == "wide" or len({day_and_clock_of(row.at)[:10] for row in found}) > 1
    time_of = day_and_clock_of if has_days else clock_of
    rows = [
        (time_of(row.at), row.kind, row.what, row.code or None, row.about or None, row.text)
        for row in found
    ]
    print_table(invocation, HEADS, rows, limit=UNCUT if form == "wide" else None, spare=SPARE)
    if not follow:
        write_line(counted(len(found), "event"))
        return
    for row in followed(look, found, looks):
        words = (time_of(row.at), f"{row.kind:<5}", row.what, row.code, row.about, row.text)
        write_line(" ".join(filter(None, words)))


def followed(
    look: Callable[[datetime | None], Sequence["EventRow"]],
    shown: Sequence["EventRow"],
    looks: int | None = None,
    *,
    every_s: float = LOOK_EVERY_S,
) -> Iterator["EventRow"]:
    """Yield each event written from here on, once, even if two are written out of order."""
    told = Counter(shown)
    for _ in islice(count(), looks):
        sleep(every_s)
        last = max((row.at for row in told), default=None)
        found = look(last and last - OVERLAP)
        for row in found:
            told[row] -= 1
            if told[row] < 0:
                yield row
        told = Counter(found)
