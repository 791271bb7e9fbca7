"""`bot status`, and what `bot` alone shows."""

from collections.abc import Iterator, Mapping, Sequence
from time import sleep
from typing import Final

import click

from bot.cli import messages
from bot.cli.command import Invocation, define_command
from bot.cli.options import timeout_option, watch_option
from bot.cli.show import json_text, print_lines, watch, width
from bot.cli.target import Fields, find_status, no_bot, which_bot
from bot.cli.telling.languages import ENGLISH, told
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
            message = f"the bot is {found.text('state')}, not {wanted}, after {timeout:g} s"
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


def lines_of(status: Mapping[str, object], which: str) -> Iterator[str]:
    """The status in words, `which` bot it is first; STOPPED is one line."""
    found = Fields(status)
    yield from _trouble(found.inner("trouble"))
    if found["state"] == RunState.STOPPED:
        yield f"STOPPED  {which}"
        return
    since, now = found.instant("started_at"), found.instant("at")
    started = f"since {minute_of(since)} ({span_of(now - since)})" if since and now else ""
    phases = (f"{name} {phase_of(str(phase))}" for name, phase in found.inner("phases").items())
    dry = "dry run, nothing is sent" if found.get("dry_run") else ""
    parts = (found.text("state"), which, dry, started, ", ".join(phases))
    yield "  ".join(filter(None, parts))
    if found.text("state") != RunState.RUNNING:
        yield from _rows("why", [_why(found)])
    if "strategies" not in found:
        return
    for row in found.each("faults"):
        times = f" ({row.whole('count'):,} times)" if row.whole("count") > 1 else ""
        report = f"; report: {row.text('report')}" if row.text("report") else ""
        yield from _rows("fault", [f"{row.text('error')}{times}{report}"])
    yield from _rows("strategies", [_strategy(row) for row in found.each("strategies")])
    yield from _rows("positions", [_positions(found)])
    today = found.inner("orders_today")
    counts = {name: today.whole(name) for name in (*OUTCOMES, *today)}
    listed = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    yield from _rows("orders", [f"{sum(counts.values()):,} today{f': {listed}' if listed else ''}"])
    for row in found.each("open_orders"):
        yield from _rows("open", [_order(row)])
    for row in found.each("held"):
        until = row.instant("until")
        limit = f" until {minute_of(until)}" if until else ""
        order = order_words(
            side=row.text("side"), quantity=row.whole("quantity"), symbol=row.text("symbol")
        )
        yield from _rows("held", [f"{row.text('intent_id')} {order} waits for 2FA{limit}"])
    for name in found.words("unknown"):
        news = f"{name}: outcome not known yet; never sent again (bot order {name})"
        yield from _rows("unknown", [news])
    for symbol, reason in found.inner("halted_symbols").items():
        yield from _rows("halted", [f"{symbol}: {reason}"])
    yield from _rows("alert", list(alerts_of(found)))
    yield from _rows("2FA", [_second_factor(found.inner("two_factor"))])
    yield from _rows("journal", [found.text("journal")])
    yield from _rows("requests", list(_rate(found.inner("rate"))))
    yield from _rows("inbox", list(_inbox(found.inner("inbox"))))
    if drift := found.each("drift"):
        shown = []
        for row in drift[:DRIFT_SHOWN_MAX]:
            was = f" (was {row.text('was')})" if row.text("was") else ""
            shown.append(f"{row.text('call')} {row.text('field')} {row.text('change')}{was}")
        yield from _rows("drift", [", ".join(shown)])


def alerts_of(status: Fields) -> Iterator[str]:
    """Yield what stays wrong, in the bot's language; a bot of an earlier version has its words."""
    if "standing" not in status:
        yield from status.words("alerts")
    for row in status.each("standing"):
        language = status.text("language") or ENGLISH
        yield told(language, row.text("text"), row.text("code"), row.inner("facts"))


def _trouble(trouble: Fields) -> Iterator[str]:
    if text := trouble.text("text"):
        since = trouble.instant("since")
        when = f"since {minute_of(since)}: " if since else ""
        yield from _rows("TROUBLE", [f"{when}{text}"])


def _rows(name: str, values: Sequence[str]) -> Iterator[str]:
    """One line each, the name before the first."""
    for at, value in enumerate(values):
        yield f"{'' if at else name:<11} {value or '-'}"


def _why(found: Fields) -> str:
    """Every cause, what an operator did first: `PAUSED by you 10:20, and needs 2FA`."""
    causes = []
    for row in sorted(found.each("causes"), key=lambda row: row.text("by") != "operator"):
        since, by, reason = row.instant("since"), row.text("by"), row.text("reason")
        when = f" {minute_of(since)}" if since else ""
        if row.text("state") in _BY_HAND:
            said = f": {reason}" if reason else ""
            cause = f"{row.text('state')} {by_words(by, '') or 'by itself'}{when}{said}"
        else:
            cause = f"{reason} since{when}" if when else reason
        causes.append(cause)
    return ", and ".join(causes) or found.text("reason")


def _strategy(row: Fields) -> str:
    state, reason = row.text("state"), row.text("reason")
    if state == "warming":
        state = reason
    elif reason:
        state = f"{state}: {reason}"
    line = f"{row.text('name')}{' (watch)' if row.text('mode') == 'watch' else ''} {state}"
    changed = changed_files(row.inner("files"))
    return f"{line} · {messages.CHANGED.format(files=', '.join(changed))}" if changed else line


def _positions(found: Fields) -> str:
    shown = []
    for row in found.each("positions"):
        unrealised = row.maybe_whole("unrealised")
        tail = f" {unrealised:+,}" if unrealised is not None else ""
        shown.append(f"{row.text('symbol')} {row.whole('shares'):,}{tail}")
    return "   ".join([" · ".join(shown), f"day P&L {found.whole('day_result'):+,}"]).strip()


def _order(row: Fields) -> str:
    order = order_words(
        side=row.text("side"),
        quantity=row.whole("quantity"),
        symbol=row.text("symbol"),
        order_type=row.text("order_type"),
        price=row.maybe_whole("price"),
    )
    done = f"{row.whole('executed'):,} filled" if row.whole("executed") else "nothing filled yet"
    later = ", waits for the next session" if row.text("broker_status") == _WAITS else ""
    is_own = row.get("intent_id", "") is not None
    elsewhere = "" if is_own else ", made elsewhere: the bot leaves it alone"
    return f"{row.text('order_id')} {order}, {done}{later}{elsewhere}"


def _second_factor(state: Fields) -> str:
    until, missed = state.instant("until"), state.whole("missed_signals")
    if until is None:
        tail = f" · {counted(missed, 'signal')} missed (bot decisions --missed)" if missed else ""
        return f"needed: no orders, changes or cancels without a token. Give one: bot otp{tail}"
    unproven = ", unproven until the first order" if state.get("is_unproven") else ""
    return f"ok until {minute_of(until)}{unproven}"


def _rate(rate: Fields) -> Iterator[str]:
    waiting = rate.whole("waiting")
    queued = f", {waiting:,} waiting" if waiting else ""
    if rate.whole("per_minute"):
        yield f"{rate.whole('used'):,} of {rate.whole('per_minute'):,} this minute{queued}"
    if rate.get("is_degraded"):
        yield "the broker is limiting us in the long term; reads come late"
    polls = rate.inner("polls")
    asked, room, slower = (polls.number(name) for name in ("asked", "room", "slower"))
    if slower > 1:
        needs = f"they would need {asked:,.0f} a minute, the quota leaves them {room:,.0f}"
        yield f"polls come {slower:.1f} times less often than the files ask for: {needs}"
    if starved := rate.text("starved"):
        yield starved


def _inbox(inbox: Fields) -> Iterator[str]:
    """What makes decisions late; nothing while all is looked at as it comes."""
    if passed_over := inbox.whole("passed_over"):
        waiting = inbox.whole("waiting")
        yield f"{waiting:,} waiting, {counted(passed_over, 'quote')} passed over for newer ones"
