"""`bot drill`: break things on purpose, and see how the user's own bot reacts."""

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from types import FrameType
from typing import TYPE_CHECKING, Final

import click

from bot.cli.command import CONFIGURATION, Invocation, define_command
from bot.cli.options import written_to
from bot.cli.show import ProgressLine, cut, print_json, say, wants_color, width, write_line
from bot.clock import monotonic_s
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.settings.places import find_config

if TYPE_CHECKING:
    from bot.drill.exercise import Row

NAME_WIDTH: Final = 17
DETAIL_MAX: Final = 1_000
FIRST: Final = (
    "drill of {name} ({config}): its settings and strategies in the sandbox, with a folder and a "
    "broker of the drill's own; your broker, keys and journal are not touched, nobody is notified"
)
QUOTA: Final = (
    "broker.requests_per_minute {theirs} is too little for what the strategies ask for (bot config "
    "check): too few orders would go out to judge anything, so the drill plays with {quota}"
)
_TERMINATED: Final = 128 + signal.SIGTERM


@define_command("drill", example="bot drill --only answer-lost")
@click.option("--only", multiple=True, metavar="NAME", help="Only this exercise (repeatable).")
@click.option(
    "--seed", type=click.IntRange(0), default=7, metavar="N", help="The seed of market and kills."
)
@click.option("--keep", type=click.Path(path_type=Path), metavar="DIR", help="Keep the journals.")
@click.pass_obj
def command(invocation: Invocation, only: tuple[str, ...], seed: int, keep: Path | None) -> int:
    """Break things on purpose: twelve faults that pass, six that stay, 20 kills and a halt.

    Your configuration and strategies run against the sandbox, with a temporary journal and a drill
    strategy that always has orders out. At the end the journal is compared with the broker's own
    ledger. Takes two to three minutes, five at most: what was not played by then fails. Exit code
    12 when a promise was broken.
    """
    # The daemon, the sandbox and their data: slow to import, and help pages do not need them.
    from bot.drill.exercise import names
    from bot.drill.project import TRADER, project_of
    from bot.drill.run import run
    from bot.drill.story import Interrupted

    if unknown := [name for name in only if name not in names()]:
        text = f"no exercise {unknown[0]!r}; available: {', '.join(names())}"
        raise click.BadParameter(text, param_hint="--only")
    config = (invocation.config or find_config(os.environ)).absolute()
    invocation.looked_in[config] = CONFIGURATION
    started, rows = monotonic_s(), list["Row"]()
    with _folder(keep) as folder, _ended_by_signal(), ProgressLine(invocation) as progress:
        project = project_of(config, folder, seed)
        invocation.bot = project.loaded.bot
        say(invocation, FIRST.format(name=project.loaded.name, config=config))
        theirs = ", ".join(project.names)
        say(
            invocation,
            f"strategies: {theirs} · and {TRADER}, the drill's own, whose orders it breaks",
        )
        quota = project.loaded.settings.broker.requests_per_minute
        if project.quota > quota:
            say(invocation, QUOTA.format(theirs=quota, quota=project.quota))
        try:
            for row in run(project, only, progress.show, started):
                rows.append(row)
                progress.wipe()
                _print_row(invocation, row, f"bot drill --only {row.name} --seed {seed}")
        except Interrupted as error:
            raise KeyboardInterrupt from error
    passed, took = sum(row.is_passed for row in rows), monotonic_s() - started
    if invocation.json:
        _print_json(rows, seed, took)
    else:
        write_line(f"{passed} of {len(rows)} passed in {took:.0f} s")
    if keep is not None:
        say(invocation, f"journals and ledgers are in {keep}")
    return ExitCode.DONE if passed == len(rows) else ExitCode.DIFFERS


def _print_row(invocation: Invocation, row: "Row", again: str) -> None:
    """Print a row as it arrives: not with --json; with -q only failures."""
    if invocation.json or (invocation.quiet and row.is_passed):
        return
    is_colored = wants_color(invocation, sys.stdout)
    word, color = ("pass", "green") if row.is_passed else ("FAIL", "red")

    def dyed(line: str) -> str:
        return click.style(word, fg=color) + line.removeprefix(word)

    line = f"{word} {row.name:<{NAME_WIDTH}} {row.seconds:>5.1f} s  {row.broken}"
    write_line(cut(line, width()), dye=dyed if is_colored else str)
    indent = " " * len(f"{word} ")
    write_line(cut(f"{indent}{row.did}", width()))
    for problem in row.problems:
        for part in problem.splitlines():
            write_line(cut(f"{indent}! {part}", DETAIL_MAX))
    if not row.is_passed:
        write_line(f"{indent}to repeat: {again}")


def _print_json(rows: list["Row"], seed: int, took: float) -> None:
    exercises = [
        {
            "name": row.name,
            "broken": row.broken,
            "did": row.did,
            "passed": row.is_passed,
            "problems": list(row.problems),
            "seconds": round(row.seconds, 1),
        }
        for row in rows
    ]
    is_passed = all(row.is_passed for row in rows)
    print_json({"passed": is_passed, "seed": seed, "seconds": round(took), "exercises": exercises})


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """Yield a private folder; it is removed unless it is to be kept."""
    if keep is not None:
        with written_to(f"--keep {keep}"):
            keep.mkdir(mode=0o700, parents=True, exist_ok=True)
            is_empty = not any(keep.iterdir())
        if not is_empty:
            text = f"{keep} is not empty: name an empty folder or a new one"
            raise OperatorMistake.of("E-SYS-001", text, ExitCode.USAGE)
        yield keep.absolute()
        return
    folder = Path(mkdtemp(prefix="bot-drill-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _ended_by_signal() -> Iterator[None]:
    """Make SIGTERM end the drill like Ctrl-C: its processes are ended, its folder is removed."""

    def end(_number: int, _frame: FrameType | None) -> None:
        sys.exit(_TERMINATED)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
