"""`bot conformance`: does this server speak the API as the document describes it?

It checks a real broker before it is trusted, and keeps the sandbox faithful.
"""

import asyncio
import signal
import sys
import termios
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from bot.cli import messages
from bot.cli.code_prompt import hide_echo
from bot.cli.command import Invocation, define_command
from bot.cli.show import cut, is_attended, print_json, say, wants_color, width, write_line
from bot.cli.target import find_bot, load
from bot.config.problems import ExitCode, OperatorMistake
from bot.conformance.finding import Finding, Verdict
from bot.domain.local_time import clock_of
from bot.domain.visible import visible

if TYPE_CHECKING:
    from bot.config.settings.load import Loaded
    from bot.conformance.run import ConformancePlan
    from bot.conformance.two_factor import AskCode
    from bot.runtime.worlds.environment import Access
    from bot.runtime.worlds.system import SystemEnvironment

STDIN: Final = "-"
NONCE: Final = "nonce"
SIGNALLED: Final = 128
LIVE_KEY: Final = "ak_live_"
ID_WIDTH: Final = 34
FOUND_WIDTH: Final = 300
SHARED_QUOTA: Final = (
    "warning: a bot runs on this configuration: its requests and this run's share the broker's "
    "quota, and a refusal for too many delays its orders too; --per-minute N sends fewer"
)
_STYLES: Final[Mapping[Verdict, str]] = {
    Verdict.OK: "green",
    Verdict.FAIL: "red",
    Verdict.DRIFT: "yellow",
    Verdict.SKIPPED: "bright_black",
}


@define_command(
    "conformance", example="bot conformance --base-url http://127.0.0.1:8790 --read-only"
)
@click.argument("what", required=False, type=click.Choice([NONCE]))
@click.option("--base-url", metavar="URL", help="The server; default: broker.base_url.")
@click.option("--read-only", is_flag=True, help="Place no order, ask for no code.")
@click.option("--otp", metavar="-", help="Read the one-time code from stdin.")
@click.option("--real-orders", is_flag=True, help="Place orders even with a live key.")
@click.option(
    "--at-market",
    is_flag=True,
    help="Also try orders that must be refused and trade at once if they are not.",
)
@click.option("--account", metavar="A", help="An id, a suffix or a type; default: broker.account.")
@click.option("--symbol", metavar="S", help="The stock to read and to order.")
@click.option(
    "--per-minute",
    type=click.IntRange(1),
    help="Requests per minute; default: 500, or broker.requests_per_minute if that is set lower.",
)
@click.pass_obj
def command(
    invocation: Invocation,
    what: str | None,
    base_url: str | None,
    read_only: bool,
    otp: str | None,
    real_orders: bool,
    at_market: bool,
    account: str | None,
    symbol: str | None,
    per_minute: int | None,
) -> int:
    """Check the API's document line by line against the server, and print what was found.

    With `nonce`, check only how the server treats nonces, on which the proof rests that a lost
    order was never placed: about a thousand reads in five and a half minutes, or more where
    the quota is small. Once a month will do.

    Key and secret come from BOT_BROKER__API_KEY and BOT_BROKER__API_SECRET, or from the secrets
    file. Unless --read-only, one lot is bid for at the day's floor and cancelled, orders that must
    be rejected are tried, and two of the day's five codes are used. All of them wait far from the
    market if the broker takes them, unless --at-market: then up to 100 shares may be bought at the
    ask. What was executed, or may still work, is named at the end and fails. With -q only what is
    not ok is printed. Exit code 12 when something fails; drift is not a failure. On a signal the
    order is cancelled first, or named if it can't be; the exit code is then 128 plus the signal's
    number.
    """
    # The broker's client and a thousand assertions: slow to import, and help pages do not need
    # them.
    from bot.conformance.access import nonces_last
    from bot.conformance.raw_client import Key
    from bot.conformance.run import ConformancePlan
    from bot.runtime.worlds.environment import access_of
    from bot.runtime.worlds.system import SystemEnvironment

    is_reading = read_only or what == NONCE
    if is_reading and at_market:
        raise click.UsageError("--at-market places orders: leave out --read-only and nonce")
    if what == NONCE and (real_orders or otp is not None):
        raise click.UsageError("nonce only reads: it needs neither --otp nor --real-orders")
    loaded = load(invocation, **({"broker__base_url": base_url} if base_url else {}))
    access, settings = access_of(loaded), loaded.settings.broker
    if not (is_reading or real_orders):
        _require_play_money(loaded, access)
    if _is_beside_bot(invocation, base_url):
        _require_reading(invocation, is_reading=is_reading)
    plan = ConformancePlan(
        base_url=access.base_url,
        key=Key(access.api_key, access.api_secret, settings.device_id),
        account=account or settings.account,
        stock=symbol,
        ask_code=None if is_reading else _asking(invocation, otp),
        of_nonces=what == NONCE,
        at_market=at_market,
        per_minute=per_minute or _per_minute(loaded),
    )
    if plan.of_nonces:
        minutes = nonces_last(plan.per_minute) / timedelta(minutes=1)
        say(invocation, f"about {minutes:.0f} minutes at {plan.per_minute} requests a minute")
    return _make(invocation, plan, SystemEnvironment(access))


def _require_play_money(loaded: "Loaded", access: "Access") -> None:
    """Raise OperatorMistake if orders would be of real money."""
    if loaded.settings.mode == "live" or access.api_key.reveal().startswith(LIVE_KEY):
        raise OperatorMistake.of("E-CNF-002", messages.LIVE_KEY, ExitCode.USAGE)


def _is_beside_bot(invocation: Invocation, base_url: str | None) -> bool:
    """Return whether a bot runs on this configuration, and at the server that is to be checked."""
    if base_url:
        try:
            of_bot = load(invocation).settings.broker.base_url or ""
        except OperatorMistake:  # without the option it names no server
            return False
        if of_bot.rstrip("/") != base_url.rstrip("/"):
            return False
    return find_bot(invocation, "status") is not None


def _require_reading(invocation: Invocation, *, is_reading: bool) -> None:
    """Raise OperatorMistake if orders would be placed beside the bot's; say what reads cost it."""
    if not is_reading:
        raise OperatorMistake.of("E-CNF-003", messages.BOT_TRADES_THERE, ExitCode.USAGE)
    say(invocation, SHARED_QUOTA)


def _per_minute(loaded: "Loaded") -> int:
    """Return the default rate: of a configuration that sets one, no more than that."""
    from bot.config.settings.places import DEFAULT
    from bot.conformance.run import PER_MINUTE

    is_set = loaded.origin_of("broker.requests_per_minute") != DEFAULT
    return min(PER_MINUTE, loaded.settings.broker.requests_per_minute) if is_set else PER_MINUTE


def _make(invocation: Invocation, plan: "ConformancePlan", environment: "SystemEnvironment") -> int:
    """Make the run, print its findings, return the exit code."""
    from bot.conformance.run import Interrupted, conform, until_signal

    is_colored = wants_color(invocation, sys.stdout)

    def on_left(left: Finding) -> None:
        is_clean = left.verdict is Verdict.OK
        write_line("this run left no order behind" if is_clean else left.found, err=True)

    def on_wait(until: datetime, _: int, __: str) -> None:
        say(invocation, f"(waiting for the request quota until {clock_of(until)})")

    def on_signal(number: signal.Signals) -> None:
        cancelling = "cancelling whatever this run has placed and left open"
        what = cancelling if plan.ask_code else "ended; this run places no orders"
        say(invocation, f"{number.name}: {what}")

    run = conform(
        plan,
        wire=environment.wire,
        waiter=environment.waiter,
        show=partial(print_finding, invocation, is_colored=is_colored),
        on_left=on_left,
        on_wait=on_wait,
    )
    try:
        report = asyncio.run(until_signal(run, on_signal))
    except Interrupted as interrupted:
        return SIGNALLED + interrupted.number
    counts = {str(verdict): count for verdict, count in report.counts.items()}
    if invocation.json:
        findings = [
            {"id": each.id, "what": each.what, "verdict": each.verdict, "found": each.found}
            for each in report.findings
        ]
        summary = {"base_url": plan.base_url, "executed": report.executed, "counts": counts}
        print_json({**summary, "conforms": report.is_conforming, "findings": findings})
    else:
        listed = ", ".join(f"{count} {word}" for word, count in counts.items())
        verdict = "conforms" if report.is_conforming else "does not conform"
        write_line(f"{plan.base_url} {verdict}: {report.executed} assertions made, {listed}")
        if report.counts[Verdict.DRIFT]:
            text = "the bot copes with drift; report it to whoever maintains the document"
            say(invocation, text)
    return ExitCode.DONE if report.is_conforming else ExitCode.DIFFERS


def _asking(invocation: Invocation, otp: str | None) -> "AskCode":
    """Return how to get the code once it has been sent. Raises UsageError if nobody
    can supply it.
    """
    if otp not in {None, STDIN}:
        refused = messages.NO_CODE_AS_ARGUMENT + messages.PIPE_CODE
        raise click.BadParameter(refused, param_hint="--otp")
    if otp is None and not is_attended(invocation):
        raise click.UsageError("nobody is there to enter the code: use --otp -, or --read-only")

    async def ask(destination: str) -> str:
        if otp == STDIN:
            return (await _line()).strip()
        write_line(f"the code sent to {destination} (hidden):", err=True)
        terminal = sys.stdin.fileno()
        modes = hide_echo(terminal)
        try:
            return (await _line()).strip()
        finally:
            termios.tcsetattr(terminal, termios.TCSADRAIN, modes)

    return ask


async def _line() -> str:
    """Read a line of stdin. A signal ends this wait; it would not end a thread's."""
    loop, came = asyncio.get_running_loop(), asyncio.Event()
    try:
        descriptor = sys.stdin.fileno()
        loop.add_reader(descriptor, came.set)
    except OSError:  # a file, or no descriptor at all: nothing to wait for
        return sys.stdin.readline()
    try:
        await came.wait()
    finally:
        loop.remove_reader(descriptor)
    return sys.stdin.readline()


def print_finding(invocation: Invocation, finding: Finding, *, is_colored: bool) -> None:
    """Print a finding as it arrives: not with --json; with -q only failures and drift."""
    if invocation.json or (invocation.quiet and finding.verdict is Verdict.OK):
        return
    word = f"{finding.verdict:<7}"

    def dyed(line: str) -> str:
        return click.style(word, fg=_STYLES[finding.verdict]) + line.removeprefix(word)

    rest = visible(f"{finding.id:<{ID_WIDTH}} {finding.what}")
    write_line(cut(f"{word} {rest}", width()), dye=dyed if is_colored else str)
    if finding.verdict is not Verdict.OK:
        write_line(cut(f"{'':<{len(word)}} found: {finding.found}", FOUND_WIDTH))
