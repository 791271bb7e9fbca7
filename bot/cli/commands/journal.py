"""`bot journal verify`, `bot journal head` and `bot journal export`."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from bot.cli.command import child, group
from bot.cli.invocation import Invocation
from bot.cli.places import readable
from bot.cli.rows import fields_of
from bot.cli.show import print_json, print_lines, print_text, say
from bot.cli.since import since_of, since_option
from bot.cli.telling.wording import counted, day_and_clock_of
from bot.clock import SystemClock
from bot.config.problems import ExitCode, OperatorMistake, Problem
from bot.journal.export import Format, What, export_directory, export_stream
from bot.journal.heads import HeadsFile, KeptHeads, kept_of, read_heads_file
from bot.journal.reader import JournalReader
from bot.journal.verify import VerifyReport, heads_now
from bot.journal.verify import verify as verify_journal
from bot.runtime.journal_file import journal_errors

ALL: Final = "all"
WHATS: Final = tuple(each.value for each in What)
FORMS: Final = tuple(each.value for each in Format)
STDOUT: Final = Path("-")
RESTORED: Final = (
    "Did you put an older copy back yourself, or begin anew? Then move {files} away: the next run "
    "begins a new one"
)
NO_FILE: Final = (
    "If you moved the journal, bring that file along. If it is lost, the next run begins a new "
    "one; what was changed before shows only against a printed head (bot journal verify --head)"
)


@group("journal", example="bot journal verify")
def journal() -> None:
    """Check the journal, print its heads for safe keeping, and take it out."""


@child(journal, "verify", example="bot journal verify")
@click.option("--head", metavar="TEXT", help="Compare with what bot journal head printed; - stdin.")
@click.pass_obj
def verify(invocation: Invocation, head: str | None) -> None:
    """Check every chain, seal and sum, and compare with the heads that were kept.

    Runs keep the heads in heads.jsonl, in the state directory. Exit code 12 when anything differs.
    """
    loaded = readable(invocation)
    given = () if head is None else _given(head)
    kept = read_heads_file(loaded.state_dir, loaded.journal_url)
    with journal_errors(loaded.origin_of("journal.url")):
        report = verify_journal(loaded.journal_url, (*kept.kept, *given))
    if invocation.json:
        compared = {"kept_heads": len(kept.kept), "given_heads": len(given)}
        print_json({**fields_of(report), "is_whole": report.is_whole, **compared})
    else:
        print_text(verdict_of(report))
        print_lines(comparison_of(kept, len(given)))
    if problems := list(_problems(report, kept, has_given=bool(given))):
        raise OperatorMistake(problems, ExitCode.DIFFERS)


def _problems(report: VerifyReport, kept: HeadsFile, *, has_given: bool) -> Iterator[Problem]:
    yield from (Problem("E-JNL-001", text) for text in report.problems)
    yield from (Problem("E-JNL-002", text) for text in report.differences)
    if report.differences:
        yield Problem("E-JNL-002", RESTORED.format(files=" and ".join(map(str, kept.files))))
    if kept.trouble:
        yield Problem("E-JNL-003", f"{kept.path} can't be read ({kept.trouble})")
    elif report.keeps_heads and not (kept.kept or has_given):
        here = "is about other journals only" if kept.others else "is missing"
        yield Problem(
            "E-JNL-003", f"{kept.path} {here}, though runs kept the heads of this one. {NO_FILE}"
        )


def _given(head: str) -> tuple[KeptHeads, ...]:
    text = sys.stdin.read() if head == "-" else head
    try:
        given = tuple(kept_of(line) for line in text.splitlines() if line.strip())
    except ValueError as error:
        text = "wanted the line that `bot journal head` prints"
        raise click.BadParameter(text, param_hint="--head") from error
    if not given:
        raise click.BadParameter(
            "wanted the line that `bot journal head` prints, got nothing", param_hint="--head"
        )
    return given


def comparison_of(kept: HeadsFile, given: int) -> Iterator[str]:
    """What the journal was compared with, in words."""
    if kept.kept:
        since = day_and_clock_of(kept.kept[0].at)
        lines = counted(len(kept.kept), "line")
        yield f"compared with the heads in {kept.path}: {lines} since {since}"
    elif not given:
        yield f"compared with itself only: there are no heads in {kept.path}"
    if given:
        yield "compared with the head given"
    if kept.unreadable:
        yield f"{counted(kept.unreadable, 'line')} of {kept.path} can't be read"


def verdict_of(report: VerifyReport) -> str:
    """`2,931 events, chain whole, 214 orders balance with 187 fills`."""
    if report.is_whole:
        events = counted(report.events, "event")
        orders, fills = counted(report.orders, "order"), counted(report.fills, "fill")
        balance = "balances" if report.orders == 1 else "balance"
        return f"{events}, chain whole, {orders} {balance} with {fills}"
    found = len(report.problems) + len(report.differences)
    return f"{counted(report.events, 'event')}, {counted(found, 'problem')}"


@child(journal, "head", example="bot journal head")
@click.pass_obj
def head(invocation: Invocation) -> None:
    """Print where the chains end now: one line, to be kept out of the machine's reach.

    bot journal verify --head finds whatever was changed before it was printed.
    """
    loaded = readable(invocation)
    with journal_errors(loaded.origin_of("journal.url")):
        print_text(heads_now(loaded.journal_url, SystemClock().now()).line)


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
    with journal_errors(loaded.origin_of("journal.url")):
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
