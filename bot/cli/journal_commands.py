"""`bot journal verify` and `bot journal export`."""

import sys
from pathlib import Path
from typing import Final

import click

from bot.cli.command import child, group
from bot.cli.invocation import Invocation
from bot.cli.places import readable
from bot.cli.rows import fields_of
from bot.cli.show import print_json, print_text, say
from bot.cli.since import since_of, since_option
from bot.cli.wording import counted
from bot.journal.export import Format, What, export_directory, export_stream
from bot.journal.reader import JournalReader
from bot.journal.verify import VerifyReport
from bot.journal.verify import verify as verify_journal
from bot.runtime.journal_file import told
from bot.runtime.problems import ExitCode, OperatorMistake, Problem

ALL: Final = "all"
WHATS: Final = tuple(each.value for each in What)
FORMS: Final = tuple(each.value for each in Format)
STDOUT: Final = Path("-")


@group("journal", example="bot journal verify")
def journal() -> None:
    """Check the journal against itself, and take it out."""


@child(journal, "verify", example="bot journal verify")
@click.pass_obj
def verify(invocation: Invocation) -> None:
    """Check every chain, seal and sum. Exit code 12 when anything differs."""
    loaded = readable(invocation)
    with told(loaded.origin_of("journal.url")):
        report = verify_journal(loaded.journal_url)
    if invocation.json:
        print_json({**fields_of(report), "is_whole": report.is_whole})
    else:
        print_text(verdict_of(report))
    if not report.is_whole:
        problems = [Problem("E-JNL-001", text) for text in report.problems]
        raise OperatorMistake(problems, ExitCode.DIFFERS)


def verdict_of(report: VerifyReport) -> str:
    """`2,931 events, chain whole, 214 orders balance with 187 fills`."""
    if report.is_whole:
        events = counted(report.events, "event")
        orders, fills = counted(report.orders, "order"), counted(report.fills, "fill")
        balance = "balances" if report.orders == 1 else "balance"
        return f"{events}, chain whole, {orders} {balance} with {fills}"
    return f"{counted(report.events, 'event')}, {counted(len(report.problems), 'problem')}"


@child(journal, "export", example="bot journal export --what all --format csv -o november/")
@click.option("--what", type=click.Choice((*WHATS, ALL)), default=ALL, help="What to take out.")
@click.option("--format", "form", type=click.Choice(FORMS), default="csv", help="How.")
@since_option
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default="-", help="A folder, or - (stdout)."
)
@click.pass_obj
def export(invocation: Invocation, what: str, form: str, since: str | None, output: Path) -> None:
    """Take the journal out as files of CSV or JSON lines, described in README.txt."""
    loaded = readable(invocation)
    whats = tuple(What) if what == ALL else (What(what),)
    with told(loaded.origin_of("journal.url")):
        with JournalReader(loaded.journal_url) as reader:
            start = since_of(since, reader)
        if output != STDOUT:
            written = export_directory(
                loaded.journal_url, output, whats=whats, form=Format(form), since=start
            )
            _tell(invocation, written)
        elif len(whats) > 1:
            raise click.UsageError("--what all is several files: give a folder with -o DIR")
        else:
            export_stream(
                loaded.journal_url, sys.stdout, what=whats[0], form=Format(form), since=start
            )


def _tell(invocation: Invocation, written: dict[str, int]) -> None:
    if invocation.json:
        print_json(written)
        return
    files = " · ".join(f"{name} {rows:,}" for name, rows in written.items())
    say(invocation, f"{files} · README.txt · sha256sums")
