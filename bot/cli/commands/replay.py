"""`bot replay`: a recorded day through the same engine again."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING

import click

from bot.cli.command import Invocation, define_command
from bot.cli.rows import fields_of
from bot.cli.show import print_result
from bot.cli.target import readable
from bot.cli.telling.wording import clock_of, counted
from bot.config.problems import ExitCode, OperatorMistake, Problem

if TYPE_CHECKING:
    from bot.runtime.history.replay import DayReplayed, Difference, Progress, RunReplayed


def a_day(written: str) -> date:
    """Read a day like 2026-11-19."""
    try:
        return date.fromisoformat(written)
    except ValueError as error:
        raise click.BadParameter(f"{written!r}: wanted a day like 2026-11-19") from error


@define_command("replay", example="bot replay 2026-11-19")
@click.argument("day", type=a_day, metavar="DAY")
@click.pass_obj
def command(invocation: Invocation, day: date) -> None:
    """Feed a recorded day to the engine again, and compare what it decides, call by call.

    Record with `record: on` in bot.yaml. Exit code 12 when a decision differs, or a part of the
    recording is damaged.
    """
    # A recording's readers are slow to import, and no help page needs them.
    from bot.runtime.history.recordings import Unusable
    from bot.runtime.history.replay import replay_day

    loaded = readable(invocation)
    try:
        with progress_bar(invocation, f"replaying {day}") as progress:
            found = replay_day(loaded.state_dir, day, progress)
    except Unusable as error:
        raise OperatorMistake.of("E-REC-002", str(error), ExitCode.USAGE) from error
    fields = {**fields_of(found), "digest": found.digest, "is_equal": found.is_equal}
    print_result(invocation, fields, lines_of(found))
    if problems := list(problems_of(found)):
        raise OperatorMistake(problems, ExitCode.DIFFERS)


@contextmanager
def progress_bar(invocation: Invocation, label: str) -> Iterator["Progress"]:
    """Show on a terminal how much is done; nothing in a pipe."""
    if invocation.quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    steps = 1_000
    with click.progressbar(length=steps, label=label, file=sys.stderr) as bar:

        def show(done: float) -> None:
            bar.update(int(done * steps) - bar.pos)

        yield show


def lines_of(found: "DayReplayed") -> Iterator[str]:
    """What the replay of a day came to, a line for each run where there are several."""
    for run in found.runs:
        for file in run.changed:
            yield f"run {run.run}: {file} was changed since; it is replayed as it is now"
    if len(found.runs) > 1:
        yield from map(_line_of, found.runs)
    elif found.runs[0].ended:
        yield f"run {found.runs[0].run} {found.runs[0].ended}"
    if found.is_equal:
        events, decisions = counted(found.events, "event"), counted(found.decisions, "decision")
        yield f"{events}, {decisions}, equal, hash {found.digest}"


def _line_of(run: "RunReplayed") -> str:
    events, decisions = counted(run.events, "event"), counted(run.decisions, "decision")
    verdict = "DIFFERS" if run.difference else "DAMAGED" if run.damage else "equal"
    return f"run {run.run}: {events}, {decisions}, {verdict}{run.ended and f'; it {run.ended}'}"


def problems_of(found: "DayReplayed") -> Iterator[Problem]:
    """What keeps a day from being equal: in each run the first."""
    for run in found.runs:
        upto = f"run {run.run}, equal for {counted(run.events, 'event')} before"
        if run.difference:
            yield Problem("E-REC-001", "\n".join(_words_of(run.run, run.difference)))
        elif run.damage:
            yield Problem("E-REC-003", f"{upto}: {run.damage}")


def _words_of(run: int, found: "Difference") -> Iterator[str]:
    yield f"run {run}, call {found.number:,} at {clock_of(found.at)}: {found.event}"
    for side, commands in (("recorded", found.recorded), ("now     ", found.now)):
        for command in commands or ("nothing",):
            yield f"  {side}  {command}"
