"""`bot status`, and what `bot` alone shows."""

from collections.abc import Iterator, Sequence
from time import sleep
from typing import Final

import click

from bot.cli import messages
from bot.cli.command import command
from bot.cli.fields import Fields, each, inner, instant, maybe_whole, text, whole, words
from bot.cli.invocation import Invocation
from bot.cli.lengths import Length
from bot.cli.places import find_bot, no_bot, which_bot
from bot.cli.repaint import watch, watch_option
from bot.cli.show import json_text, print_lines, print_text, width
from bot.cli.telling.wording import (
    by_words,
    counted,
    folded,
    minute_of,
    order_words,
    phase_of,
    span_of,
)
from bot.clock import monotonic_s
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.strategies.source_files import changed_files
from bot.domain.entry import RunState

LOOK_EVERY_S: Final = 0.2
STOPPED: Final[Fields] = {"state": RunState.STOPPED}
DRIFT_SHOWN_MAX: Final = 5
OUTCOMES: Final = (
    "filled", "partly filled", "open", "rejected", "cancelled", "expired", "blocked", "held",
    "unknown",
)  # fmt: skip
"""What has become of the day's orders, in the order of telling."""
_WAITS: Final = "WAITING_TO_SEND"
"""The broker's word for an order that it sends when the next session opens."""
_INDENT: Final = 12
_BY_HAND: Final = frozenset({RunState.PAUSED, RunState.HALTED, RunState.STOPPING})


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
    if invocation.json:
        return json_text(found).splitlines()
    lines, limit = lines_of(found, which_bot(invocation)), width()
    return [part for line in lines for part in folded(line, indent=_INDENT, limit=limit)]


def lines_of(found: Fields, which: str) -> Iterator[str]:
    """The status in words, first of all `which` bot it is of; STOPPED is one line."""
    if found["state"] == RunState.STOPPED:
        yield f"STOPPED  {which}"
        return
    yield _first(found, which)
    if text(found, "state") != RunState.RUNNING:
        yield from _rows("why", [_why(found)])
    if "strategies" not in found:
        return
    for row in each(found, "faults"):
        times = f" ({whole(row, 'count'):,} times)" if whole(row, "count") > 1 else ""
        report = f"; report: {text(row, 'report')}" if text(row, "report") else ""
        yield _row("fault", f"{text(row, 'error')}{times}{report}")
    yield from _rows("strategies", [_strategy(row) for row in each(found, "strategies")])
    yield _row("positions", _positions(found))
    yield _row("orders", _orders(found))
    yield from (_row("open", _order(row)) for row in each(found, "open_orders"))
    yield from (_row("held", _held(row)) for row in each(found, "held"))
    for name in words(found, "unknown"):
        yield _row("unknown", f"{name}: nobody knows yet; never sent again (bot order {name})")
    for symbol, reason in inner(found, "halted_symbols").items():
        yield _row("halted", f"{symbol}: {reason}")
    yield from _rows("unread", words(found, "unread_rows"))
    yield _row("2FA", _second_factor(found))
    yield _row("journal", text(found, "journal"))
    yield from _rows("requests", list(_rate(found)))
    if drift := each(found, "drift"):
        yield _row("drift", ", ".join(_drifted(row) for row in drift[:DRIFT_SHOWN_MAX]))


def _rows(name: str, values: Sequence[str]) -> Iterator[str]:
    """One line each, the name before the first."""
    for at, value in enumerate(values):
        yield _row("" if at else name, value)


def _row(name: str, value: str) -> str:
    return f"{name:<11} {value or '-'}"


def _first(found: Fields, which: str) -> str:
    since, now = instant(found, "started_at"), instant(found, "at")
    started = f"since {minute_of(since)} ({span_of(now - since)})" if since and now else ""
    phases = ", ".join(
        f"{name} {phase_of(str(phase))}" for name, phase in inner(found, "phases").items()
    )
    dry = "dry run, nothing is sent" if found.get("dry_run") else ""
    parts = (text(found, "state"), which, dry, started, phases)
    return "  ".join(part for part in parts if part)


def _why(found: Fields) -> str:
    """Every cause, what an operator did first: `PAUSED by you 10:20, and needs 2FA`."""
    causes = sorted(each(found, "causes"), key=lambda row: text(row, "by") != "operator")
    return ", and ".join(_cause(row) for row in causes) or text(found, "reason")


def _cause(row: Fields) -> str:
    since, by, reason = instant(row, "since"), text(row, "by"), text(row, "reason")
    when = f" {minute_of(since)}" if since else ""
    if text(row, "state") in _BY_HAND:
        said = f": {reason}" if reason else ""
        return f"{text(row, 'state')} {by_words(by, '') or 'by itself'}{when}{said}"
    return f"{reason} since{when}" if when else reason


def _strategy(row: Fields) -> str:
    watch = " (watch)" if text(row, "mode") == "watch" else ""
    reason = text(row, "reason")
    state = text(row, "state")
    if state == "warming":
        line = f"{text(row, 'name')}{watch} {reason}"
    else:
        line = f"{text(row, 'name')}{watch} {state}{f': {reason}' if reason else ''}"
    changed = changed_files(inner(row, "files"))
    return f"{line} · {messages.CHANGED.format(files=', '.join(changed))}" if changed else line


def _positions(found: Fields) -> str:
    shown = [_position(row) for row in each(found, "positions")]
    return "   ".join([" · ".join(shown), f"day P&L {whole(found, 'day_result'):+,}"]).strip()


def _position(row: Fields) -> str:
    open_result = maybe_whole(row, "unrealised")
    tail = f" {open_result:+,}" if open_result is not None else ""
    return f"{text(row, 'symbol')} {whole(row, 'shares'):,}{tail}"


def _orders(found: Fields) -> str:
    """`4 today: 2 filled, 1 partly filled, 1 open`."""
    counts = {
        name: whole(inner(found, "orders_today"), name) for name in inner(found, "orders_today")
    }
    told = ", ".join(
        f"{counts[name]:,} {name}" for name in sorted(counts, key=_rank) if counts[name]
    )
    return f"{sum(counts.values()):,} today{f': {told}' if told else ''}"


def _rank(outcome: str) -> int:
    return OUTCOMES.index(outcome) if outcome in OUTCOMES else len(OUTCOMES)


def _rate(found: Fields) -> Iterator[str]:
    rate = inner(found, "rate")
    waiting = whole(rate, "waiting")
    queued = f", {waiting:,} waiting" if waiting else ""
    if whole(rate, "per_minute"):
        yield f"{whole(rate, 'used'):,} of {whole(rate, 'per_minute'):,} this minute{queued}"
    if rate.get("is_degraded"):
        yield "the broker limits us in the long term; reads come late"
    if starved := text(rate, "starved"):
        yield starved


def _order(row: Fields) -> str:
    wish = order_words(
        side=text(row, "side"),
        quantity=whole(row, "quantity"),
        symbol=text(row, "symbol"),
        order_type=text(row, "order_type"),
        price=maybe_whole(row, "price"),
    )
    done = f"{whole(row, 'executed'):,} filled" if whole(row, "executed") else "nothing filled yet"
    later = ", waits for the next session" if text(row, "broker_status") == _WAITS else ""
    return f"{text(row, 'order_id')} {wish}, {done}{later}"


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
