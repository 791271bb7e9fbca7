"""`bot status`, and what `bot` alone shows."""

from collections.abc import Iterator
from time import sleep
from typing import Final

import click

from bot.cli import messages
from bot.cli.command import command
from bot.cli.fields import Fields, each, inner, instant, maybe_whole, text, whole, words
from bot.cli.invocation import Invocation
from bot.cli.lengths import Length
from bot.cli.places import find_bot, no_bot
from bot.cli.repaint import watch, watch_option
from bot.cli.show import json_text, print_lines, print_text
from bot.cli.wording import counted, minute_of, order_words, phase_of, span_of
from bot.clock import monotonic_s
from bot.domain.entry import RunState
from bot.runtime.problems import ExitCode, OperatorMistake

LOOK_EVERY_S: Final = 0.2
STOPPED: Final[Fields] = {"state": RunState.STOPPED}
DRIFT_SHOWN_MAX: Final = 5
COUNTED: Final = ("orders", "filled", "rejected", "cancelled", "expired", "blocks", "unknown")
"""What is told of the day's counts, in this order."""
_ONE: Final = {"orders": "order", "blocks": "block"}


@command("status", example="bot status --wait RUNNING --timeout 60s")
@watch_option
@click.option("--wait", "wanted", type=click.Choice(list(RunState)), help="Wait for a state.")
@click.option("--timeout", type=Length(), default=60.0, metavar="TIME", help="At most how long.")
@click.pass_obj
def status(
    invocation: Invocation, watch_s: float | None, wanted: str | None, timeout: float
) -> None:
    """Show how the running bot is. Exit code 10 when none runs."""
    if watch_s is not None:
        watch(invocation, lambda: _lines(invocation, find_status(invocation)), every_s=watch_s)
    if wanted is not None:
        found = _wait_for(invocation, wanted, timeout)
    else:
        found = find_status(invocation)
    _print(invocation, found)
    if found["state"] == RunState.STOPPED and wanted != RunState.STOPPED:
        raise no_bot(invocation)


def show_status_or_examples(invocation: Invocation) -> None:
    """Show the state of the running bot if there is one, else what to begin with."""
    found = find_status(invocation)
    if found["state"] == RunState.STOPPED and not invocation.json:
        print_lines(messages.EXAMPLES.splitlines())
    else:
        _print(invocation, found)


def find_status(invocation: Invocation) -> Fields:
    """The status of the running bot; STOPPED when none runs."""
    reply = find_bot(invocation, "status")
    return STOPPED if reply is None else inner(reply, "status")


def _wait_for(invocation: Invocation, wanted: str, timeout: float) -> Fields:
    deadline = monotonic_s() + timeout
    while True:
        found = find_status(invocation)
        if found["state"] == wanted:
            return found
        if monotonic_s() >= deadline:
            message = f"the bot is {text(found, 'state')}, not {wanted}, after {timeout:g} s"
            raise OperatorMistake.of("E-RUN-002", message, ExitCode.TIMED_OUT)
        sleep(LOOK_EVERY_S)


def _print(invocation: Invocation, found: Fields) -> None:
    for line in _lines(invocation, found):
        print_text(line)


def _lines(invocation: Invocation, found: Fields) -> list[str]:
    return json_text(found).splitlines() if invocation.json else list(lines_of(found))


def lines_of(found: Fields) -> Iterator[str]:
    """The status in words; STOPPED is one line."""
    if found["state"] == RunState.STOPPED:
        yield "STOPPED"
        return
    yield _first(found)
    if text(found, "reason") and found["state"] != RunState.RUNNING:
        yield _row("why", text(found, "reason"))
    for row in each(found, "faults"):
        times = f" ({whole(row, 'count'):,} times)" if whole(row, "count") > 1 else ""
        report = f"; report: {text(row, 'report')}" if text(row, "report") else ""
        yield _row("fault", f"{text(row, 'error')}{times}{report}")
    yield _row("strategies", " · ".join(_strategy(row) for row in each(found, "strategies")))
    yield _row("positions", _positions(found))
    yield _row("orders", _orders(found))
    yield from (_row("open", _order(row)) for row in each(found, "open_orders"))
    yield from (_row("held", _held(row)) for row in each(found, "held"))
    for name in words(found, "unknown"):
        yield _row("unknown", f"{name}: nobody knows yet; never sent again (bot order {name})")
    for symbol, reason in inner(found, "halted_symbols").items():
        yield _row("halted", f"{symbol}: {reason}")
    yield _row("2FA", _second_factor(found))
    yield _row("journal", text(found, "journal"))
    if inner(found, "rate").get("is_degraded"):
        yield _row("rate", "the broker limits us in the long term; reads come late")
    if drift := each(found, "drift"):
        yield _row("drift", ", ".join(_drifted(row) for row in drift[:DRIFT_SHOWN_MAX]))


def _row(name: str, value: str) -> str:
    return f"{name:<11} {value or '-'}"


def _first(found: Fields) -> str:
    since, now = instant(found, "started_at"), instant(found, "at")
    started = f"since {minute_of(since)} ({span_of(now - since)})" if since and now else ""
    phases = ", ".join(
        f"{name} {phase_of(str(phase))}" for name, phase in inner(found, "phases").items()
    )
    dry = "dry run, nothing is sent" if found.get("dry_run") else ""
    parts = (text(found, "state"), text(found, "mode"), dry, started, phases)
    return "  ".join(part for part in parts if part)


def _strategy(row: Fields) -> str:
    reason = f' "{text(row, "reason")}"' if text(row, "reason") else ""
    watch = " (watch)" if text(row, "mode") == "watch" else ""
    return f"{text(row, 'name')} {text(row, 'state')}{watch}{reason}"


def _positions(found: Fields) -> str:
    shown = [_position(row) for row in each(found, "positions")]
    return "   ".join([" · ".join(shown), f"day P&L {whole(found, 'day_result'):+,}"]).strip()


def _position(row: Fields) -> str:
    open_result = maybe_whole(row, "unrealised")
    tail = f" {open_result:+,}" if open_result is not None else ""
    return f"{text(row, 'symbol')} {whole(row, 'shares'):,}{tail}"


def _orders(found: Fields) -> str:
    counts = inner(found, "counts")
    open_now = counted(len(each(found, "open_orders")), "order")
    told = [_counted(whole(counts, name), name) for name in COUNTED if whole(counts, name)]
    return ", ".join([*told, f"{open_now} open"])


def _counted(count: int, word: str) -> str:
    return f"{count:,} {_ONE.get(word, word) if count == 1 else word}"


def _order(row: Fields) -> str:
    wish = order_words(
        side=text(row, "side"),
        quantity=whole(row, "quantity"),
        symbol=text(row, "symbol"),
        order_type=text(row, "order_type"),
        price=maybe_whole(row, "price"),
    )
    done = f", {whole(row, 'executed'):,} filled" if whole(row, "executed") else ""
    return f"{text(row, 'order_id')} {wish} {text(row, 'broker_status')}{done}"


def _held(row: Fields) -> str:
    until = instant(row, "until")
    wish = order_words(
        side=text(row, "side"), quantity=whole(row, "quantity"), symbol=text(row, "symbol")
    )
    limit = f" until {minute_of(until)}" if until else ""
    return f"{text(row, 'intent_id')} {wish} waits for 2FA{limit}"


def _drifted(row: Fields) -> str:
    was = f" (was {text(row, 'was')})" if text(row, "was") else ""
    return f"{text(row, 'call')} {text(row, 'field')} {text(row, 'change')}{was}"


def _second_factor(found: Fields) -> str:
    state = inner(found, "two_factor")
    until, missed = instant(state, "until"), whole(state, "missed_signals")
    if until is None:
        tail = f" · {counted(missed, 'signal')} missed (bot decisions --missed)" if missed else ""
        return f"needed: no orders, changes or cancels until then. Give it: bot otp{tail}"
    unproven = ", unproven until the first order" if state.get("is_unproven") else ""
    return f"ok until {minute_of(until)}{unproven}"
