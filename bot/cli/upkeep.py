"""`bot journal backup`, `prune` and `sql`: maintenance of a journal."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from bot import __version__
from bot.cli.command import Invocation, define_command
from bot.cli.rows import BYTE_ORDER_MARK, csv_lines
from bot.cli.show import UNCUT, print_json, print_result, print_table, say, write_json, write_line
from bot.cli.target import load, readable, which_bot
from bot.cli.telling.wording import counted
from bot.clock import SystemClock
from bot.config.masking import masked_url
from bot.config.problems import ExitCode, OperatorMistake
from bot.domain.instrument import EXCHANGE_TZ

if TYPE_CHECKING:
    from bot.config.settings.load import Loaded
    from bot.journal.reading.asking import Answer
    from bot.journal.upkeep.copying import Copied
    from bot.journal.upkeep.retention import Pruned

ROWS: Final = 1_000
"""How many rows `bot journal sql` shows by default."""
NOT_SHRUNK: Final = (
    "warning: the file keeps its size ({}): shrinking takes about as much free space again on its "
    "disk, and nobody else may be writing it. New rows fill the freed pages first"
)
FORMS: Final = ("table", "csv", "jsonl")


@define_command("backup", example="bot journal backup journal-2026-11-19.db")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), required=False)
@click.pass_obj
def backup(invocation: Invocation, file: Path | None) -> None:
    """Copy the journal into a new file, even while the bot is running, and check the copy.

    FILE is always SQLite, mode 0600; to read it, set journal.url to it. Without FILE a new one is
    made in the folder journal.backups.
    """
    loaded = readable(invocation)
    file = file or _new_backup(loaded)
    copied = _back_up(loaded, file)
    report = copied.report
    text = (
        f"{file}: {copied.size:,} bytes, {counted(report.events, 'event')}, chain whole, "
        f"{counted(report.orders, 'order')}, {counted(report.fills, 'fill')}"
    )
    print_result(invocation, {"file": str(file), "size": copied.size, "rows": copied.rows}, [text])


def _new_backup(loaded: "Loaded") -> Path:
    """Return today's file in the folder of backups, which is created as a private folder."""
    folder = loaded.backups_dir
    if folder is None:
        raise click.UsageError("name a FILE, or set the folder journal.backups in bot.yaml")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        text = f"journal.backups: {folder} can't be made ({error.strerror or error})"
        raise OperatorMistake.of("E-JNL-005", text, ExitCode.USAGE) from error
    now = SystemClock().now().astimezone(EXCHANGE_TZ)
    return folder / f"journal-{now:%Y-%m-%d-%H%M%S-%f}.db"


def _back_up(loaded: "Loaded", file: Path) -> "Copied":
    from bot.journal.database.schema import reading_current
    from bot.journal.errors import Corrupt, NeedsMigration
    from bot.journal.reading.recovering_state import was_accepted
    from bot.journal.upkeep.copying import back_up
    from bot.journal.writing.heads import read_heads_file
    from bot.runtime.journal_file import journal_errors

    kept = read_heads_file(loaded.state_dir, loaded.journal_url).kept
    with journal_errors(loaded.origin_of("journal.url")):
        try:
            with reading_current(loaded.journal_url) as connection:
                if was_accepted(connection):
                    kept = kept[-1:]  # earlier ones may be of the journal that was given up for it
            return back_up(loaded.journal_url, file.absolute(), kept)
        except Corrupt as error:
            text = f"no backup was kept: {error}. Look at the journal itself: bot journal verify"
            raise OperatorMistake.of("E-JNL-001", text, ExitCode.DIFFERS) from error
        except NeedsMigration as error:
            text = (
                f"{error}. A backup is made with the program that wrote it: install that version "
                "again for the moment; or copy journal.db with any -wal and -shm beside it, while "
                "no bot runs (PostgreSQL: pg_dump)"
            )
            raise OperatorMistake.of("E-DB-002", text, ExitCode.DATABASE) from error
        except FileExistsError as error:
            text = f"{file} already exists and was left untouched: name another file"
            raise OperatorMistake.of("E-JNL-005", text, ExitCode.USAGE) from error
        except OSError as error:
            text = f"{file} can't be written ({error.strerror or error}); nothing was kept"
            raise OperatorMistake.of("E-JNL-005", text, ExitCode.USAGE) from error


@define_command(
    "prune", changes=True, example="bot journal prune --before 2026-08-01 --backup old.db"
)
@click.option("--before", metavar="DAY", help="Delete rows of earlier days; default: journal.keep.")
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@click.option(
    "--backup",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where the journal is backed up first; default: a new file in journal.backups.",
)
@click.pass_obj
def prune(invocation: Invocation, before: str | None, dry_run: bool, file: Path | None) -> None:
    """Delete old reasons not to order, raw answers, snapshots and notes, while no bot is running.

    Orders, requests, fills and halts always stay, and so does anything about an order that may
    still trade. bot journal verify still proves what is left.
    """
    from bot.journal.database.schema import reading_current
    from bot.journal.errors import Unreachable
    from bot.journal.reading.reader import JournalReader
    from bot.journal.upkeep.retention import PRUNABLE, due_in
    from bot.runtime.journal_file import journal_errors
    from bot.runtime.upkeep import cuts, prune_alone, require_undoubted, shrink

    loaded = readable(invocation) if dry_run else load(invocation)
    if not dry_run and file is None and loaded.backups_dir is None:
        text = (
            "a backup is made first: name it with --backup FILE. What would be deleted: --dry-run"
        )
        raise OperatorMistake.of("E-JNL-005", text, ExitCode.USAGE)
    url, origin = loaded.journal_url, loaded.origin_of("journal.url")
    with journal_errors(origin):
        with JournalReader(url) as reader:
            newest = reader.last_decision_at()
        now = min(newest or SystemClock().now(), SystemClock().now())
        if before is not None:
            instants = dict.fromkeys(PRUNABLE, _day_of(before, now))
        else:
            instants = cuts(loaded.settings.journal.keep, now)
        if dry_run:
            with reading_current(url) as connection:
                found = [due_in(connection, name, cut) for name, cut in instants.items()]
            _print_pruned(invocation, found, "would be deleted", freed=0)
            return
        say(invocation, f"{which_bot(invocation)}: {masked_url(url)}")
        require_undoubted(loaded, "nothing was deleted")  # nor backed up as the newest
        file = file or _new_backup(loaded)
        copied = _back_up(loaded, file)
        say(invocation, f"backed up in {file}: {copied.size:,} bytes, chain whole")
        done = asyncio.run(prune_alone(loaded, instants, __version__, partial(say, invocation)))
        try:
            freed = shrink(url)
        except Unreachable as error:  # the rows are deleted all the same, and are told
            freed = 0
            say(invocation, NOT_SHRUNK.format(error.reason))
    _print_pruned(invocation, done, "deleted", freed=freed)


def _day_of(written: str, now: datetime) -> datetime:
    """Return the beginning of a day. The journal's last two days stay complete: a start continues
    from them.
    """
    try:
        day = datetime.fromisoformat(written)
    except ValueError as error:
        raise click.BadParameter(
            f"{written!r}: wanted a day like 2026-11-19", param_hint="--before"
        ) from error
    if day.tzinfo is None:
        day = datetime.combine(day.date(), time(), EXCHANGE_TZ)
    today = now.astimezone(EXCHANGE_TZ)
    if day >= datetime.combine(today.date(), time(), EXCHANGE_TZ):
        raise click.BadParameter(
            f"{written!r}: a start needs {today:%Y-%m-%d}, the last day in the journal, and the "
            "day before: name an earlier day",
            param_hint="--before",
        )
    return day.astimezone(UTC)


def _print_pruned(invocation: Invocation, found: "list[Pruned]", what: str, *, freed: int) -> None:
    rows = [{"table": each.table, "rows": each.deleted, "size": each.size} for each in found]
    lines = [f"{each.table:<18} {each.deleted:>10,} rows {each.size:>14,} bytes" for each in found]
    total = f"{sum(each.deleted for each in found):,} rows {what}"
    lines.append(f"{total}; the file is {freed:,} bytes smaller" if freed else total)
    print_result(invocation, {"what": what, "tables": rows, "freed": freed}, lines)


@define_command("sql", example='bot journal sql "SELECT time, id, status FROM v_orders"')
@click.argument("query", required=False)
@click.option("--limit", type=click.IntRange(min=1), default=ROWS, show_default=True)
@click.option("-o", "--output", "form", type=click.Choice(FORMS), default="table")
@click.pass_obj
def sql(invocation: Invocation, query: str | None, limit: int, form: str) -> None:
    """Query the journal in SQL: read-only, at most 30 seconds. Without QUERY: list its tables.

    docs/journal.md describes the tables and views.
    """
    from bot.journal.reading.asking import Unanswered, ask
    from bot.runtime.journal_file import journal_errors

    if invocation.json and form != "table":
        raise click.UsageError(f"--json and -o {form} contradict each other: use one of them")
    loaded = readable(invocation)
    if query is None:
        from bot.journal.database import tables

        views = (tables.v_orders, tables.v_timeline, tables.v_decisions, tables.v_pnl)
        described = (*views, *tables.metadata.sorted_tables)
        every = {each.name: list(each.c.keys()) for each in described}
        lines = (f"{name:<18} {' '.join(columns)}" for name, columns in every.items())
        print_result(invocation, {"tables": every}, lines)
        return
    with journal_errors(loaded.origin_of("journal.url")):
        try:
            answer = ask(loaded.journal_url, query, limit=limit)
        except Unanswered as error:
            text = f"{error}. Wanted a single query that only reads; the tables: bot journal sql"
            raise OperatorMistake.of("E-JNL-004", text, ExitCode.USAGE) from error
    _print_answer(invocation, answer, form)
    if answer.has_more:
        say(invocation, f"… there are more rows: --limit N (now {limit:,})")


def _print_answer(invocation: Invocation, answer: "Answer", form: str) -> None:
    named: list[dict[str, object]] = [
        dict(zip(answer.names, row, strict=True)) for row in answer.rows
    ]
    if invocation.json:
        print_json({"columns": answer.names, "rows": named, "has_more": answer.has_more})
    elif form == "csv":
        for number, line in enumerate(csv_lines(named, answer.names)):
            mark = "" if number else BYTE_ORDER_MARK
            write_line(line, limit=len(line), dye=mark.__add__)
    elif form == "jsonl":
        for row in named:
            write_json(json.dumps(row, ensure_ascii=False))
    elif answer.names:
        rows = [[str(it) if isinstance(it, float) else it for it in row] for row in answer.rows]
        print_table(invocation, answer.names, rows, limit=UNCUT)
        write_line(counted(len(rows), "row"))


@contextmanager
def progress(label: str, length: int) -> Iterator[Callable[[int], object]]:
    """Show the progress of a long operation on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with click.progressbar(length=length, label=label, file=sys.stderr) as bar:
        yield bar.update
