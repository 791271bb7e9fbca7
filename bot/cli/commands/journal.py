"""`bot journal verify`, `head` and `export`; the others are in `bot.cli.upkeep`."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from bot.cli.command import Invocation, define_command, define_group
from bot.cli.options import since_of, since_option, written_to
from bot.cli.rows import fields_of
from bot.cli.show import print_json, print_result, say, write_line
from bot.cli.target import readable_journal
from bot.cli.telling.wording import counted
from bot.cli.upkeep import backup, prune, sql
from bot.clock import SystemClock
from bot.config.problems import ExitCode, OperatorMistake, Problem
from bot.domain.local_time import day_and_clock_of
from bot.journal.reading.values import Format, What

if TYPE_CHECKING:
    from bot.journal.upkeep.verify import VerifyReport
    from bot.journal.writing.heads import HeadsFile

ALL: Final = "all"
WHATS: Final = tuple(each.value for each in What)
FORMS: Final = tuple(each.value for each in Format)
STDOUT: Final = Path("-")
RESTORED: Final = (
    "Did you restore an older copy, or start a new journal? Leave {files} in place, so that the "
    "next start holds its orders (JOURNAL_DAMAGED): compare bot reconcile and bot orders with the "
    "broker's app, cancel there what this journal has not seen and nobody wants, then: bot "
    "reconcile --accept JOURNAL --reason TEXT. Once it is accepted, and the bot stopped, those "
    "files may be moved away: until then this is said again"
)
NO_FILE: Final = (
    "If you moved the journal, bring that file along. If it is lost, the next run begins a new "
    "one; earlier changes then show only against a printed head (bot journal verify --head)"
)


@define_group("journal", example="bot journal verify")
def command() -> None:
    """Check, back up, prune, query and export the journal."""


@define_command("verify", group=command, example="bot journal verify")
@click.option("--head", metavar="TEXT", help="Compare with what bot journal head printed; - stdin.")
@click.pass_obj
def verify(invocation: Invocation, head: str | None) -> None:
    """Check every chain, seal and sum, and compare with the saved heads.

    Runs save the heads in heads.jsonl, in the state directory. Exit code 12 when anything differs.
    """
    # Here and below: a database's library is slow to import, and help pages do not need it.
    from bot.journal.upkeep.verify import verify as verify_journal
    from bot.journal.writing.heads import KeptHeads, kept_of, read_heads_file

    with readable_journal(invocation) as loaded:
        given: tuple[KeptHeads, ...] = ()
        if head is not None:
            text = sys.stdin.read() if head == "-" else head
            wanted = "wanted the line that `bot journal head` prints"
            try:
                given = tuple(kept_of(line) for line in text.splitlines() if line.strip())
            except ValueError as error:
                raise click.BadParameter(wanted, param_hint="--head") from error
            if not given:
                raise click.BadParameter(f"{wanted}, got nothing", param_hint="--head")
        kept = read_heads_file(loaded.state_dir, loaded.journal_url)
        report = verify_journal(loaded.journal_url, (*kept.kept, *given))
    compared = {"kept_heads": len(kept.kept), "given_heads": len(given)}
    found = {**fields_of(report), "is_whole": report.is_whole, **compared}
    print_result(invocation, found, [verdict_of(report), *comparison_of(kept, len(given))])
    problems = [Problem("E-JNL-001", text) for text in report.problems]
    differences = list(report.differences)
    if differences and kept.files:
        differences.append(RESTORED.format(files=" and ".join(map(str, kept.files))))
    problems += [Problem("E-JNL-002", text) for text in differences]
    if kept.trouble:
        problems.append(Problem("E-JNL-003", f"{kept.path} can't be read ({kept.trouble})"))
    elif report.keeps_heads and not (kept.kept or given):
        here = "is only about other journals" if kept.others else "is missing"
        missing = f"{kept.path} {here}, although runs saved the heads of this one. {NO_FILE}"
        problems.append(Problem("E-JNL-003", missing))
    if problems:
        raise OperatorMistake(problems, ExitCode.DIFFERS)


def comparison_of(kept: "HeadsFile", given: int) -> Iterator[str]:
    """Describe what the journal was compared with."""
    if kept.kept:
        since = day_and_clock_of(kept.kept[0].at)
        lines = counted(len(kept.kept), "line")
        yield f"compared with the heads in {kept.path}: {lines} since {since}"
    elif not given:
        yield f"compared only with itself: no heads in {kept.path}"
    if given:
        yield "compared with the head you gave"
    if kept.unreadable:
        yield f"{counted(kept.unreadable, 'line')} of {kept.path} can't be read"


def verdict_of(report: "VerifyReport") -> str:
    """`2,931 events, chain whole, 214 orders balance with 187 fills`."""
    if report.is_whole:
        events = counted(report.events, "event")
        orders, fills = counted(report.orders, "order"), counted(report.fills, "fill")
        balance = "balances" if report.orders == 1 else "balance"
        return f"{events}, chain whole, {orders} {balance} with {fills}"
    found = len(report.problems) + len(report.differences)
    return f"{counted(report.events, 'event')}, {counted(found, 'problem')}"


@define_command("head", group=command, example="bot journal head")
@click.pass_obj
def head(invocation: Invocation) -> None:
    """Print where the chains end now: one line, to be kept on another machine.

    bot journal verify --head then finds anything that was changed before it was printed.
    """
    from bot.journal.upkeep.verify import heads_now

    with readable_journal(invocation) as loaded:
        write_line(heads_now(loaded.journal_url, SystemClock().now()).line)


@define_command(
    "export", group=command, example="bot journal export --what all --format csv -o november/"
)
@click.option("--what", type=click.Choice((*WHATS, ALL)), default=ALL, help="What to export.")
@click.option("--format", "form", type=click.Choice(FORMS), default="csv", help="The file format.")
@since_option
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default="-", help="A folder, or - (stdout)."
)
@click.pass_obj
def export(invocation: Invocation, what: str, form: str, since: str | None, output: Path) -> None:
    """Export the journal as CSV or JSON Lines files, described in README.txt."""
    from bot.journal.reading.export import export_directory, export_stream
    from bot.journal.reading.reader import JournalReader

    whats = tuple(What) if what == ALL else (What(what),)
    with readable_journal(invocation) as loaded:
        url = loaded.journal_url
        with JournalReader(url) as reader:
            start = since_of(since, reader)
        if output == STDOUT:
            if len(whats) > 1:
                raise click.UsageError("--what all is several files: give a folder with -o DIR")
            export_stream(url, sys.stdout, what=whats[0], form=Format(form), since=start)
            return
        with written_to(f"-o {output}"):
            written = export_directory(url, output, whats=whats, form=Format(form), since=start)
        if invocation.json:
            print_json(written)
        else:
            files = " · ".join(f"{name} {rows:,}" for name, rows in written.items())
            say(invocation, f"{files} · README.txt · sha256sums")


command.add_command(backup)
command.add_command(prune)
command.add_command(sql)
