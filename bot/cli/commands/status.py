"""`bot status`, and what `bot` alone shows."""

from collections.abc import Iterator, Sequence
from time import sleep
from typing import Final

import click

from bot.cli import messages
from bot.cli.command import Invocation, define_command
from bot.cli.options import timeout_option, watch_option
from bot.cli.show import json_text, print_lines, watch, width
from bot.cli.target import (
    Fields,
    each,
    find_status,
    inner,
    instant,
    maybe_whole,
    no_bot,
    text,
    which_bot,
    whole,
    words,
)
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
DRIFT_SHOWN_MAX: Final = 5
OUTCOMES: Final = (
    "filled", "partly filled", "open", "rejected", "cancelled", "expired", "blocked", "held",
    "unknown",
)  # fmt: skip
"""What has become of the day's orders, in the order of printing."""
_WAITS: Final = "WAITING_TO_SEND"
"""The broker's word for an order that it sends when the next session opens."""
_INDENT: Final = 12
_BY_HAND: Final = frozenset({RunState.PAUSED, RunState.HALTED, RunState.STOPPING})


@define_command("status", example="bot status --wait RUNNING --timeout 60s")
@watch_option
@click.option("--wait", "wanted", type=click.Choice(list(RunState)), help="Wait for a state.")
@timeout_option
@click.pass_obj
def command(
    invocation: Invocation, watch_s: float | None, wanted: str | None, timeout: float
) -> None:
    """Show the state of the running bot. Exit code 10 when none runs."""
    if watch_s is not None:
        watch(invocation, lambda: _lines(invocation, find_status(invocation)), every_s=watch_s)
    found, deadline = find_status(invocation), monotonic_s() + timeout
    while wanted is not None and found["state"] != wanted:
        if monotonic_s() >= deadline:
            message = f"the bot is {text(found, 'state')}, not {wanted}, after {timeout:g} s"
            raise OperatorMistake.of("E-RUN-002", message, ExitCode.TIMED_OUT)
        sleep(LOOK_EVERY_S)
        found = find_status(invocation)
    print_lines(_lines(invocation, found))
    if found["state"] == RunState.STOPPED and wanted != RunState.STOPPED:
        raise no_bot(invocation)


def show_status_or_examples(invocation: Invocation) -> None:
    """Show the state of the running bot if there is one, else what to begin with."""
    found = find_status(invocation)
    if found["state"] == RunState.STOPPED and not invocation.json:
        print_lines(messages.EXAMPLES.splitlines())
    else:
        print_lines(_lines(invocation, found))


def _lines(invocation: Invocation, found: Fields) -> list[str]:
    if invocation.json:
        return json_text(found).splitlines()
    lines, limit = lines_of(found, which_bot(invocation)), width()
    return [part for line in lines for part in folded(line, indent=_INDENT, limit=limit)]


def lines_of(found: Fields, which: str) -> Iterator[str]:
    """The status in words, `which` bot it is first; STOPPED is one line."""
    if found["state"] == RunState.STOPPED:
        yield f"STOPPED  {which}"
        return
    since, now = instant(found, "started_at"), instant(found, "at")
    started = f"since {minute_of(since)} ({span_of(now - since)})" if since and now else ""
    phases = (f"{name} {phase_of(str(phase))}" for name, phase in inner(found, "phases").items())
    dry = "dry run, nothing is sent" if found.get("dry_run") else ""
    parts = (text(found, "state"), which, dry, started, ", ".join(phases))
    yield "  ".join(filter(None, parts))
    if text(found, "state") != RunState.RUNNING:
        yield from _rows("why", [_why(found)])
    if "strategies" not in found:
        return
    for row in each(found, "faults"):
        times = f" ({whole(row, 'count'):,} times)" if whole(row, "count") > 1 else ""
        report = f"; report: {text(row, 'report')}" if text(row, "report") else ""
        yield from _rows("fault", [f"{text(row, 'error')}{times}{report}"])
    yield from _rows("strategies", [_strategy(row) for row in each(found, "strategies")])
    yield from _rows("positions", [_positions(found)])
    today = inner(found, "orders_today")
    counts = {name: whole(today, name) for name in (*OUTCOMES, *today)}
    listed = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    yield from _rows("orders", [f"{sum(counts.values()):,} today{f': {listed}' if listed else ''}"])
    for row in each(found, "open_orders"):
        yield from _rows("open", [_order(row)])
    for row in each(found, "held"):
        until = instant(row, "until")
        limit = f" until {minute_of(until)}" if until else ""
        order = order_words(
            side=text(row, "side"), quantity=whole(row, "quantity"), symbol=text(row, "symbol")
        )
        yield from _rows("held", [f"{text(row, 'intent_id')} {order} waits for 2FA{limit}"])
    for name in words(found, "unknown"):
        news = f"{name}: outcome not known yet; never sent again (bot order {name})"
        yield from _rows("unknown", [news])
    for symbol, reason in inner(found, "halted_symbols").items():
        yield from _rows("halted", [f"{symbol}: {reason}"])
    yield from _rows("unread", words(found, "unread_rows"))
    yield from _rows("2FA", [_second_factor(inner(found, "two_factor"))])
    yield from _rows("journal", [text(found, "journal")])
    yield from _rows("requests", list(_rate(inner(found, "rate"))))
    if drift := each(found, "drift"):
        shown = []
        for row in drift[:DRIFT_SHOWN_MAX]:
            was = f" (was {text(row, 'was')})" if text(row, "was") else ""
            shown.append(f"{text(row, 'call')} {text(row, 'field')} {text(row, 'change')}{was}")
        yield from _rows("drift", [", ".join(shown)])


def _rows(name: str, values: Sequence[str]) -> Iterator[str]:
    """One line each, the name before the first."""
    for at, value in enumerate(values):
        yield f"{'' if at else name:<11} {value or '-'}"


def _why(found: Fields) -> str:
    """Every cause, what an operator did first: `PAUSED by you 10:20, and needs 2FA`."""
    causes = []
    for row in sorted(each(found, "causes"), key=lambda row: text(row, "by") != "operator"):
        since, by, reason = instant(row, "since"), text(row, "by"), text(row, "reason")
        when = f" {minute_of(since)}" if since else ""
        if text(row, "state") in _BY_HAND:
            said = f": {reason}" if reason else ""
            cause = f"{text(row, 'state')} {by_words(by, '') or 'by itself'}{when}{said}"
        else:
            cause = f"{reason} since{when}" if when else reason
        causes.append(cause)
    return ", and ".join(causes) or text(found, "reason")


def _strategy(row: Fields) -> str:
    state, reason = text(row, "state"), text(row, "reason")
    if state == "warming":
        state = reason
    elif reason:
        state = f"{state}: {reason}"
    line = f"{text(row, 'name')}{' (watch)' if text(row, 'mode') == 'watch' else ''} {state}"
    changed = changed_files(inner(row, "files"))
    return f"{line} · {messages.CHANGED.format(files=', '.join(changed))}" if changed else line


def _positions(found: Fields) -> str:
    shown = []
    for row in each(found, "positions"):
        unrealised = maybe_whole(row, "unrealised")
        tail = f" {unrealised:+,}" if unrealised is not None else ""
        shown.append(f"{text(row, 'symbol')} {whole(row, 'shares'):,}{tail}")
    return "   ".join([" · ".join(shown), f"day P&L {whole(found, 'day_result'):+,}"]).strip()


def _order(row: Fields) -> str:
    order = order_words(
        side=text(row, "side"),
        quantity=whole(row, "quantity"),
        symbol=text(row, "symbol"),
        order_type=text(row, "order_type"),
        price=maybe_whole(row, "price"),
    )
    done = f"{whole(row, 'executed'):,} filled" if whole(row, "executed") else "nothing filled yet"
    later = ", waits for the next session" if text(row, "broker_status") == _WAITS else ""
    return f"{text(row, 'order_id')} {order}, {done}{later}"


def _second_factor(state: Fields) -> str:
    until, missed = instant(state, "until"), whole(state, "missed_signals")
    if until is None:
        tail = f" · {counted(missed, 'signal')} missed (bot decisions --missed)" if missed else ""
        return f"needed: no orders, changes or cancels without a token. Give one: bot otp{tail}"
    unproven = ", unproven until the first order" if state.get("is_unproven") else ""
    return f"ok until {minute_of(until)}{unproven}"


def _rate(rate: Fields) -> Iterator[str]:
    waiting = whole(rate, "waiting")
    queued = f", {waiting:,} waiting" if waiting else ""
    if whole(rate, "per_minute"):
        yield f"{whole(rate, 'used'):,} of {whole(rate, 'per_minute'):,} this minute{queued}"
    if rate.get("is_degraded"):
        yield "the broker is limiting us in the long term; reads come late"
    if starved := text(rate, "starved"):
        yield starved
