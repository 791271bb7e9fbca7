"""`bot replay`: runs a recorded day through the same engine again."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click

from bot import __version__
from bot.cli.command import Invocation, define_command
from bot.cli.past_days import Day
from bot.cli.rows import fields_of
from bot.cli.show import print_json, print_result, print_table, progress_bar, write_line
from bot.cli.target import readable
from bot.cli.telling.wording import counted, folded
from bot.config.problems import ExitCode, OperatorMistake, Problem
from bot.domain.local_time import clock_of, day_and_clock_of, local_date

if TYPE_CHECKING:
    from bot.domain.entry import Decision
    from bot.runtime.history.backtest.what_if import WhatIf
    from bot.runtime.history.recording.differences import Difference
    from bot.runtime.history.recording.replay import DayReplayed

PLAIN_NO: Final = frozenset({"NO_SIGNAL", "WARMING", "SKIP"})
"""Decisions that are only counted, not listed."""
SIDE_MAX: Final = 10
"""How many commands on each side of a difference are shown."""
HEADS: Final = ("TIME", "SYM", "RECORDED", "NOW")
SIDES: Final = ("verdict", "recorded", "now")
NOTHING_FILLS: Final = (
    "a replay sends nothing: every order here ends unsent, and its fills cannot be known "
    "(a backtest assumes some)"
)


@define_command("replay", example="bot replay 2026-11-19")
@click.argument("day", type=Day(), metavar="DAY")
@click.option(
    "--strategies",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="What these files would have decided instead; repeatable.",
)
@click.option(
    "--fill",
    type=click.Choice(("touch", "depth", "queue")),
    help="Trade it again with this fill model, and count the orders that differ.",
)
@click.pass_obj
def command(
    invocation: Invocation,
    day: date,
    strategies: tuple[Path, ...],
    fill: Literal["touch", "depth", "queue"] | None,
) -> None:
    """Feed a recorded day to the engine again, and compare its decisions call by call.

    To record: `record: on` in bot.yaml. Exit code 12 when a decision differs, or part of the
    recording is damaged.
    """
    # The recording modules are slow to import, and help pages do not need them.
    from bot.runtime.history.backtest.what_if import COUNTED, trade_again, what_if
    from bot.runtime.history.recording.recordings import Unusable
    from bot.runtime.history.recording.replay import replay_day

    if strategies and fill is not None:
        text = "--strategies and --fill: use one at a time"
        raise click.UsageError(text)
    loaded = readable(invocation)
    try:
        if fill is not None:
            counts = trade_again(loaded.state_dir, day, fill=fill).counts()
            orders = {words: counts.get(words, 0) for words in COUNTED}
            told = [f"{day} traded again, orders filled by model {fill}"]
            told += [f"  {words:<16}{count:>8,}" for words, count in orders.items()]
            print_result(invocation, {"day": day, "fill": fill, "orders": orders}, told)
            return
        with progress_bar(invocation, f"replaying {day}") as progress:
            if strategies:
                _show_other(invocation, what_if(loaded.state_dir, day, strategies, progress))
                return
            found = replay_day(loaded.state_dir, day, progress)
    except Unusable as error:
        raise OperatorMistake.of("E-REC-002", str(error), ExitCode.USAGE) from error
    fields = {**fields_of(found), "digest": found.digest, "is_equal": found.is_equal}
    print_result(invocation, fields, lines_of(found))
    if problems := list(problems_of(found)):
        raise OperatorMistake(problems, ExitCode.DIFFERS)


def lines_of(found: "DayReplayed") -> Iterator[str]:
    """The result of a day's replay, one line for each run if there are several."""
    for run in found.runs:
        for file in run.changed:
            yield f"run {run.run}: {file} has changed since; it is replayed in its present form"
        if run.difference is not None:
            yield from difference_lines(run.difference, found.day)
    for run in found.runs:
        if run.ended and (len(found.runs) == 1 or not run.digest):
            yield f"run {run.run} {run.ended}"
        elif len(found.runs) > 1:
            events, decisions = counted(run.events, "event"), counted(run.decisions, "decision")
            verdict = "DIFFERS" if run.difference else "DAMAGED" if run.damage else "equal"
            ended = f"; it {run.ended}" if run.ended else ""
            yield f"run {run.run}: {events}, {decisions}, {verdict}{ended}"
    if found.is_equal and any(run.digest for run in found.runs):
        events, decisions = counted(found.events, "event"), counted(found.decisions, "decision")
        yield f"{events}, {decisions}, equal, hash {found.digest}"


def problems_of(found: "DayReplayed") -> Iterator[Problem]:
    """Why a day is not equal: the first difference of each run."""
    for run in found.runs:
        if run.difference is not None:
            at = f"call {run.difference.number:,}, at {_when(run.difference.at, found.day)}"
            text = f"run {run.run} decides differently from {at} on"
            if run.changed:
                text += f"; changed since: {', '.join(run.changed)}"
            elif run.version != __version__:
                text += f"; it was recorded by vnbot {run.version}, this is {__version__}"
            else:
                text += ": does a strategy look at anything besides its events?"
            yield Problem("E-REC-001", text)
        elif run.damage:
            before = f"equal for the {counted(run.events, 'event')} before"
            yield Problem("E-REC-003", f"run {run.run}: {run.damage}; {before}")


def difference_lines(found: "Difference", day: date) -> Iterator[str]:
    """The input and both sides, for a person."""
    told = found.told
    yield from folded(f"call {found.number:,} at {_when(found.at, day)}: {told.event}", indent=2)
    for side, commands in (("recorded", told.recorded), ("now", told.now)):
        for command in commands[:SIDE_MAX] or ("nothing",):
            yield from folded(f"  {side:8}  {command}", indent=12)
        if len(commands) > SIDE_MAX:
            yield f"  {side:8}  and {len(commands) - SIDE_MAX} more (all of them: --json)"


def _when(at: datetime, day: date) -> str:
    """A time; with its day where that is an earlier one, from whose beginning a run is replayed."""
    return clock_of(at) if local_date(at) == day else day_and_clock_of(at)


# ------------------------------------------------------------------------------ other strategies


def _show_other(invocation: Invocation, found: "WhatIf") -> None:
    """Show both sides: how often each verdict occurred, and every decision except plain "no
    request" ones.
    """
    rows = list(rows_of_both(found.recorded, found.now))
    counts = counts_of(found.recorded, found.now)
    if invocation.json:
        print_json(
            {**fields_of(found), "counts": [dict(zip(SIDES, c, strict=True)) for c in counts]}
        )
    else:
        print_table(invocation, HEADS, rows)
        print_table(invocation, ("VERDICT", "RECORDED", "NOW"), counts)
        write_line(NOTHING_FILLS)
    if found.damage:
        raise OperatorMistake(
            [Problem("E-REC-003", text) for text in found.damage], ExitCode.DIFFERS
        )


def rows_of_both(
    recorded: Sequence["Decision"], now: Sequence["Decision"]
) -> Iterator[tuple[str, ...]]:
    """Yield time, symbol and both sides, where either is more than a plain "no request"."""
    from bot.runtime.history.recording.differences import verdict_words

    sides = defaultdict[tuple[datetime, str], tuple[list[str], list[str]]](lambda: ([], []))
    for number, decisions in enumerate((recorded, now)):
        for each in decisions:
            if each.code in PLAIN_NO:
                continue
            sides[each.at, each.symbol][number].append(f"{each.strategy} {verdict_words(each)}")
    for (at, symbol), (one, other) in sorted(sides.items(), key=lambda item: item[0]):
        for left, right in zip_longest(one, other, fillvalue=""):
            yield clock_of(at), symbol, left, right


def counts_of(
    recorded: Sequence["Decision"], now: Sequence["Decision"]
) -> list[tuple[str, int, int]]:
    """Return how often each verdict occurred, by code, on both sides."""
    one, other = (
        Counter(f"{each.verdict} {each.code}".strip() for each in side) for side in (recorded, now)
    )
    return [(name, one[name], other[name]) for name in sorted({*one, *other})]
