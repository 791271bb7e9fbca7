"""`bot demo`: an hour of trading in a minute, against the embedded broker."""

import math
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from typing import TYPE_CHECKING, Final

import click

from bot import __version__
from bot.cli import messages
from bot.cli.command import command
from bot.cli.invocation import Invocation
from bot.cli.places import already_running, load_demo, require_none_running
from bot.cli.rows import fields_of
from bot.cli.running import run_in_foreground, with_free_port
from bot.cli.show import is_attended, print_json, print_lines, say, width
from bot.cli.telling.wording import LINE_MAX, counted, folded
from bot.config.field_types import FULL_SPEED, speed_text
from bot.config.masking import masked_url
from bot.config.problems import ExitCode, OperatorMistake, Problem
from bot.config.settings.load import Loaded
from bot.domain.instrument import EXCHANGE_TZ
from bot.runtime.journal_file import holds_runs, journal_errors
from bot.runtime.run import RunEnd
from bot.runtime.run_controls import RunOptions
from bot.runtime.worlds.demo_files import NotAlone, alone, make_room

if TYPE_CHECKING:
    from bot.journal.values import DaySummary
    from bot.journal.verify import VerifyReport

ANSWER_OTP_AFTER_S: Final = 5.0
"""Wall seconds after which a demo without a person answers 2FA by itself."""
USUAL_SPEED: Final = 60.0
"""What a wall second of `--for` is worth when the pace is no limit."""
SUMMARY_INDENT: Final = 14
_PLACES: Final[Mapping[int | None, str]] = {0: "a free port", None: "no port"}


class Seconds(click.ParamType[float]):
    """A length of time on the wall's clock: `60s`, `2m` or a plain number of seconds."""

    name = "time"

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return seconds above 0."""
        text = str(value)
        unit = 60.0 if text.endswith("m") else 1.0
        try:
            seconds = float(text.rstrip("sm")) * unit
        except ValueError:
            seconds = 0.0
        if not 0 < seconds < 1e6:
            self.fail(f"{value!r}: wanted a length of time like 60s or 2m", param, ctx)
        return seconds


class Pace(click.ParamType[float]):
    """A number, or `max` for no limit."""

    name = "speed"

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return market seconds in a second of the wall."""
        try:
            return math.inf if value == FULL_SPEED else float(value)
        except ValueError:
            self.fail(f"{value!r}: wanted a number, or {FULL_SPEED}", param, ctx)


@command("demo", example="bot demo --seed 7 --for 60s")
@click.option("--seed", type=click.IntRange(0), metavar="N", help="The same seed, the same day.")
@click.option("--speed", type=Pace(), metavar="X", help="Market seconds in a second, or max.")
@click.option("--for", "wall_s", type=Seconds(), default="60s", help="How long it runs.")
@click.option("--auto-otp", is_flag=True, help="Answer the 2FA question without a person.")
@click.option("--db", metavar="URL", help="A journal elsewhere: sqlite:///… or postgresql://…")
@click.pass_obj
def demo(
    invocation: Invocation,
    seed: int | None,
    speed: float | None,
    wall_s: float,
    auto_otp: bool,
    db: str | None,
) -> None:
    """Watch the bot trade: nothing leaves this machine, no account is needed.

    A demo that was cut off goes on where it was; one that was over begins anew. With --speed max
    it tells what it tells at 60, as fast as this machine can.
    """
    loaded = load_demo(invocation, sandbox__seed=seed, sandbox__speed=speed, journal__url=db)
    require_none_running(loaded.state_dir)
    loaded = with_free_port(invocation, loaded)
    is_alone = auto_otp or not is_attended(invocation)
    try:
        with alone(loaded.state_dir):
            _play(invocation, loaded, wall_s, is_alone=is_alone)
    except NotAlone as error:
        raise already_running(loaded.state_dir) from error


def _play(invocation: Invocation, loaded: Loaded, wall_s: float, *, is_alone: bool) -> None:
    sandbox = loaded.settings.sandbox
    is_resumed = make_room(loaded.state_dir, seed=sandbox.seed)
    if not is_resumed:
        _require_new_journal(loaded)
    say(invocation, _head(loaded, is_resumed=is_resumed))
    pace = sandbox.speed if math.isfinite(sandbox.speed) else USUAL_SPEED
    options = RunOptions(
        run_for=timedelta(seconds=wall_s * pace),
        answer_otp_after=timedelta(seconds=ANSWER_OTP_AFTER_S * pace) if is_alone else None,
    )
    end = run_in_foreground(invocation, loaded, options)
    _print_summary(invocation, loaded, end)


def _require_new_journal(loaded: Loaded) -> None:
    """A broker that begins anew counts its orders anew: an earlier demo's would be taken for them.

    A journal in the state directory has been moved away; one that is elsewhere is not ours to move.
    """
    with journal_errors(loaded.origin_of("journal.url")):
        is_used = holds_runs(loaded.journal_url)
    if is_used:
        text = messages.USED_JOURNAL.format(journal=masked_url(loaded.journal_url))
        raise OperatorMistake.of("E-RUN-005", text)


def _head(loaded: Loaded, *, is_resumed: bool) -> str:
    sandbox = loaded.settings.sandbox
    resumed = " · goes on where it was cut off" if is_resumed else ""
    where = _PLACES.get(sandbox.port, f"127.0.0.1:{sandbox.port}")
    return (
        f"vnbot {__version__} demo · SANDBOX broker on {where} · seed "
        f"{sandbox.seed} · {speed_text(sandbox.speed)} · nothing here is real money{resumed}"
    )


# ------------------------------------------------------------------------------------ the summary


def _print_summary(invocation: Invocation, loaded: Loaded, end: RunEnd) -> None:
    day = end.market_time.astimezone(EXCHANGE_TZ).date()
    with journal_errors(loaded.origin_of("journal.url")):
        summary, report = _read(loaded, day)
    if invocation.json:
        print_json({"entry": "Summary", **fields_of(summary), "net": summary.net})
    else:
        for line in summary_lines(summary, report, masked_url(loaded.journal_url)):
            print_lines(folded(line, indent=SUMMARY_INDENT, limit=min(LINE_MAX, width())))
    if not report.is_whole:
        found = (*report.problems, *report.differences)
        problems = [Problem("E-JNL-001", text) for text in found]
        raise OperatorMistake(problems, ExitCode.DIFFERS)


def _read(loaded: Loaded, day: date) -> "tuple[DaySummary, VerifyReport]":
    from bot.journal.heads import read_heads_file
    from bot.journal.reader import JournalReader
    from bot.journal.verify import verify

    url = loaded.journal_url
    kept = read_heads_file(loaded.state_dir, url).kept
    with JournalReader(url) as reader:
        return reader.summary(day), verify(url, kept)


def summary_lines(summary: "DaySummary", report: "VerifyReport", journal: str) -> Iterator[str]:
    """The block at the end of a demo."""
    outcomes = ", ".join(f"{count} {word}" for word, count in sorted(summary.outcomes.items()))
    skips = summary.decisions.get("SKIPPED", 0)
    chain = "chain verified" if report.is_whole else "CHAIN BROKEN"
    fees = f"after fees {summary.fee:,} and tax {summary.tax:,}"
    yield _row("Day", f"{counted(summary.orders, 'order')}: {outcomes} · {counted(skips, 'skip')}")
    yield _row("P&L", f"{summary.net:+,} VND realised, {fees}")
    events = counted(report.events, "event")
    yield _row("Journal", f"{counted(summary.fills, 'fill')}, {events}, {chain}")
    yield _row("", journal.removeprefix("sqlite:///"))
    yield _row("Next", messages.SUMMARY_NEXT)


def _row(name: str, text: str) -> str:
    return f"      {name:<8}{text}"
