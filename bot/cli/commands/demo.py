"""`bot demo`: an hour of trading in a minute, against the embedded broker."""

import math
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import click

from bot import __version__
from bot.cli import messages
from bot.cli.command import Invocation, define_command
from bot.cli.foreground import ending_while_it_starts, run_in_foreground, with_free_port
from bot.cli.options import length_from
from bot.cli.rows import fields_of
from bot.cli.show import is_attended, print_result, say, width
from bot.cli.target import already_running, load_demo, require_none_running
from bot.cli.telling.wording import LINE_MAX, counted, folded
from bot.config.field_types import FULL_SPEED, speed_text
from bot.config.masking import masked_url
from bot.config.problems import ExitCode, OperatorMistake, Problem
from bot.domain.instrument import EXCHANGE_TZ

if TYPE_CHECKING:
    from bot.config.settings.load import Loaded
    from bot.journal.reading.money import HeldRow
    from bot.journal.reading.values import DaySummary
    from bot.journal.upkeep.verify import VerifyReport
    from bot.runtime.run_controls import RunEnd

ANSWER_OTP_AFTER_S: Final = 5.0
"""Wall seconds after which an unattended demo answers 2FA by itself."""
USUAL_SPEED: Final = 60.0
"""What a wall second of `--for` means if the speed has no limit."""
SUMMARY_INDENT: Final = 14


def speed_of(written: str) -> float:
    """Market seconds per wall second: a number, or `max` for no limit."""
    try:
        return math.inf if written == FULL_SPEED else float(written)
    except ValueError as error:
        raise click.BadParameter(f"{written!r}: wanted a number or {FULL_SPEED}") from error


@define_command("demo", example="bot demo --seed 7 --for 60s")
@click.option(
    "--seed", type=click.IntRange(0), metavar="N", help="The same seed gives the same day."
)
@click.option("--speed", type=speed_of, metavar="X", help="Market seconds per second, or max.")
@click.option(
    "--for",
    "wall_s",
    type=length_from(0.001),
    default="60s",
    metavar="TIME",
    help="How long to run.",
)
@click.option("--auto-otp", is_flag=True, help="Answer the 2FA question automatically.")
@click.option("--db", metavar="URL", help="Another journal: sqlite:///… or postgresql://…")
@click.pass_obj
def command(
    invocation: Invocation,
    seed: int | None,
    speed: float | None,
    wall_s: float,
    auto_otp: bool,
    db: str | None,
) -> None:
    """Watch the bot trade: nothing leaves this machine, no account is needed.

    A demo that was interrupted resumes where it was; a finished one starts over. With --speed max
    it prints the same as at speed 60, as fast as this machine can.
    """
    # Here and below: help pages need not import what only a run uses.
    from bot.runtime.worlds.sandbox import NotAlone, alone

    loaded = load_demo(invocation, sandbox__seed=seed, sandbox__speed=speed, journal__url=db)
    require_none_running(loaded.state_dir)
    loaded = with_free_port(invocation, loaded)
    is_alone = auto_otp or not is_attended(invocation)
    try:
        with alone(loaded.state_dir):
            with ending_while_it_starts(invocation) as keep_halts_in:
                keep_halts_in(loaded.state_dir)
                end = _play(invocation, loaded, wall_s, is_alone=is_alone)
            _print_summary(invocation, loaded, end)
    except NotAlone as error:
        raise already_running(loaded.state_dir) from error


def _play(invocation: Invocation, loaded: "Loaded", wall_s: float, *, is_alone: bool) -> "RunEnd":
    from bot.runtime.journal_file import holds_runs, journal_errors
    from bot.runtime.run_controls import RunOptions
    from bot.runtime.worlds.sandbox import make_room

    sandbox, url = loaded.settings.sandbox, loaded.journal_url
    is_resumed = make_room(loaded.state_dir, seed=sandbox.seed)
    if not is_resumed:
        # A new broker numbers its orders from 1 again, so an earlier demo's would be mistaken for
        # them. A journal in the state directory has been moved away; others are not ours to move.
        with journal_errors(loaded.origin_of("journal.url")):
            is_used = holds_runs(url)
        if is_used:
            text = messages.USED_JOURNAL.format(journal=masked_url(url))
            raise OperatorMistake.of("E-RUN-005", text)
    ports = {0: "a free port", None: "no port"}
    where = ports.get(sandbox.port, f"127.0.0.1:{sandbox.port}")
    say(
        invocation,
        f"vnbot {__version__} demo · SANDBOX broker on {where} · seed {sandbox.seed} · "
        f"{speed_text(sandbox.speed)} · nothing here is real money"
        f"{' · resuming where it was interrupted' if is_resumed else ''}",
    )
    speed = sandbox.speed if math.isfinite(sandbox.speed) else USUAL_SPEED
    options = RunOptions(
        run_for=timedelta(seconds=wall_s * speed),
        answer_otp_after=timedelta(seconds=ANSWER_OTP_AFTER_S * speed) if is_alone else None,
    )
    return run_in_foreground(invocation, loaded, options)


def _print_summary(invocation: Invocation, loaded: "Loaded", end: "RunEnd") -> None:
    from bot.journal.reading.money import valued
    from bot.journal.reading.reader import JournalReader
    from bot.journal.upkeep.verify import verify
    from bot.journal.writing.heads import read_heads_file
    from bot.runtime.journal_file import journal_errors

    day, url = end.market_time.astimezone(EXCHANGE_TZ).date(), loaded.journal_url
    with journal_errors(loaded.origin_of("journal.url")):
        kept = read_heads_file(loaded.state_dir, url).kept
        with JournalReader(url) as reader:
            summary, report, positions = reader.summary(day), verify(url, kept), reader.positions()
            prices = reader.prices(sorted({row.symbol for row in positions}))
    held = [valued(row, prices.get(row.symbol)) for row in positions]
    lines, limit = summary_lines(summary, held, report, masked_url(url)), min(LINE_MAX, width())
    shown = (part for line in lines for part in folded(line, indent=SUMMARY_INDENT, limit=limit))
    fields = {"entry": "Summary", **fields_of(summary), "net": summary.net}
    fields["held"] = [fields_of(row) for row in held]
    print_result(invocation, fields, shown)
    if not report.is_whole:
        found = (*report.problems, *report.differences)
        problems = [Problem("E-JNL-001", text) for text in found]
        raise OperatorMistake(problems, ExitCode.DIFFERS)


def summary_lines(
    summary: "DaySummary", held: Sequence["HeldRow"], report: "VerifyReport", journal: str
) -> Iterator[str]:
    """The block at the end of a demo: the profit; the line above it names what is open."""
    outcomes = ", ".join(f"{count} {word}" for word, count in sorted(summary.outcomes.items()))
    skips = counted(summary.decisions.get("SKIPPED", 0), "skip")
    chain = "chain verified" if report.is_whole else "CHAIN BROKEN"
    fees = f"after fees {summary.fee:,} and tax {summary.tax:,}"
    fills, events = counted(summary.fills, "fill"), report.events + summary.folded
    unrealised = sum(row.unrealised or 0 for row in held)
    still_open = f", {unrealised:+,} unrealised" if held else ""
    rows = (
        ("Day", f"{counted(summary.orders, 'order')}: {outcomes} · {skips}"),
        ("P&L", f"{summary.net:+,} VND realised, {fees}{still_open}"),
        ("Journal", f"{fills}, {counted(events, 'event')}, {chain}"),
        ("", journal.removeprefix("sqlite:///")),
        ("Next", messages.SUMMARY_NEXT),
    )
    return (f"      {name:<8}{text}" for name, text in rows)
