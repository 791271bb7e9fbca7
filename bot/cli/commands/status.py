"""`bot status`, and the output of `bot` alone."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from time import sleep
from typing import Final

import click

from bot.cli import messages
from bot.cli.command import Invocation, define_command
from bot.cli.last_run import fields_of_stopped, has_begun_here, rows_of_stopped
from bot.cli.options import timeout_option, watch_option
from bot.cli.show import json_text, print_lines, watch, width
from bot.cli.target import Fields, find_status, no_bot, which_bot
from bot.cli.telling.languages import ENGLISH, Say, phrases, told
from bot.cli.telling.wording import (
    BY_OPERATOR,
    SIGNALLED,
    by_words,
    folded,
    order_words,
    phase_of,
    span_of,
)
from bot.clock import monotonic_s
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.strategies.source_files import changed_files
from bot.domain.entry import RunState
from bot.domain.local_time import local_date, minute_of, minute_on

LOOK_EVERY_S: Final = 0.2
DRIFT_SHOWN_MAX: Final = 5
OUTCOMES: Final = (
    "filled", "partly filled", "open", "rejected", "cancelled", "expired", "blocked", "held",
    "unknown",
)  # fmt: skip
"""The states of the day's orders, in the order of printing."""
_WAITS: Final = "WAITING_TO_SEND"
"""The broker's status of an order that it sends when the next session opens."""
_BROKEN: Final = "STRATEGY_BROKEN"
_UNLOADED: Final = "{symbol} {shares:,} of {strategy}, which is not running: nothing sells it"
_INDENT: Final = 12
_BY_HAND: Final = frozenset(
    {RunState.REDUCING, RunState.PAUSED, RunState.HALTED, RunState.STOPPING}
)


@define_command("status", example="bot status --wait RUNNING --timeout 60s")
@watch_option
@click.option("--wait", "wanted", type=click.Choice(list(RunState)), help="Wait for a state.")
@timeout_option
@click.pass_obj
def command(
    invocation: Invocation, watch_s: float | None, wanted: str | None, timeout: float
) -> None:
    """Show the state of the running bot. Exit code 10 when none is running."""
    if watch_s is not None:
        watch(invocation, lambda: _lines(invocation, _look(invocation)), every_s=watch_s)
    found, deadline = _look(invocation), monotonic_s() + timeout
    while wanted is not None and found["state"] != wanted:
        if monotonic_s() >= deadline:
            message = f"the bot is {found.text('state')}, not {wanted}, after {timeout:g} s"
            raise OperatorMistake.of("E-RUN-002", message, ExitCode.TIMED_OUT)
        sleep(LOOK_EVERY_S)
        found = _look(invocation)
    print_lines(_lines(invocation, found))
    if found["state"] == RunState.STOPPED and wanted != RunState.STOPPED:
        raise no_bot(invocation)


def show_status_or_examples(invocation: Invocation) -> None:
    """Show the state of the running bot if there is one, else how to begin."""
    found = _look(invocation)
    if found["state"] == RunState.STOPPED and not invocation.json:
        print_lines(messages.EXAMPLES.splitlines())
    else:
        print_lines(_lines(invocation, found))


def _look(invocation: Invocation) -> Fields:
    """Return the bot's own status; of one that does not listen yet, that it is starting."""
    found = find_status(invocation)
    if found["state"] != RunState.STOPPED or (has_begun := has_begun_here(invocation)) is None:
        return found
    found = find_status(invocation)  # it may have come to listen meanwhile
    is_opening = found["state"] == RunState.STOPPED and not has_begun
    return Fields(state=RunState.STARTING, reason=messages.OPENING) if is_opening else found


def _lines(invocation: Invocation, found: Fields) -> list[str]:
    is_stopped = found["state"] == RunState.STOPPED
    if invocation.json:
        last = fields_of_stopped(invocation) if is_stopped else {}
        return json_text({**found, **last}).splitlines()
    if invocation.lang:
        found["language"] = invocation.lang
    lines, limit = [*lines_of(found, which_bot(invocation))], width()
    if is_stopped:
        say = phrases(found.text("language"))
        for name, text in rows_of_stopped(invocation, say):
            lines += _rows(say(name), [text])
    return [part for line in lines for part in folded(line, indent=_INDENT, limit=limit)]


def lines_of(status: Mapping[str, object], which: str) -> Iterator[str]:
    """The status in words, in its language, beginning with the bot; a stopped bot is one line."""
    found = Fields(status)
    say = phrases(found.text("language"))
    trouble = found.inner("trouble")
    if text := trouble.text("text"):
        begun = trouble.instant("since")
        when = say("since {time}: ", time=minute_on(_today(found), begun)) if begun else ""
        yield from _rows(say("TROUBLE"), [f"{when}{say(text)}"])
    if found["state"] == RunState.STOPPED:
        yield f"{say('STOPPED')}  {which}"
        return
    phases = [f"{name} {say(phase_of(str(at)))}" for name, at in found.inner("phases").items()]
    dry = say("dry run, nothing is sent") if found.get("dry_run") else ""
    parts = (say(found.text("state")), which, dry, _started(say, found), ", ".join(phases))
    yield "  ".join(filter(None, parts))
    if found.text("state") != RunState.RUNNING:
        yield from _rows(say("why"), [_why(say, found)])
    if "strategies" not in found:
        return
    yield from _rows(say("settings"), _changed(say, found))
    for row in found.each("faults"):
        times = say(" ({count:,} times)", count=count) if (count := row.whole("count")) > 1 else ""
        report = say("; report: {file}", file=row.text("report")) if row.text("report") else ""
        yield from _rows(say("fault"), [f"{row.text('error')}{times}{report}"])
    strategies = [_strategy(say, row) for row in found.each("strategies")] + [
        say("{strategy} broken, not running", strategy=row.inner("facts").text("strategy"))
        for row in found.each("standing")
        if row["code"] == _BROKEN
    ]
    yield from _rows(say("strategies"), strategies)
    yield from _rows(say("positions"), [_positions(say, found)])
    for row in found.each("unloaded"):
        facts = {name: row.text(name) for name in ("strategy", "symbol")}
        yield from _rows("", [say(_UNLOADED, shares=row.whole("shares"), **facts)])
    orders = found.inner("orders_today")
    counts = {name: orders.whole(name) for name in (*OUTCOMES, *orders)}
    listed = ", ".join(f"{count:,} {say(name)}" for name, count in counts.items() if count)
    total = say("{count:,} today", count=sum(counts.values()))
    yield from _rows(say("orders"), [f"{total}{f': {listed}' if listed else ''}"])
    for row in found.each("open_orders"):
        yield from _rows(say("open"), [_order(say, row)])
    for row in found.each("held"):
        facts = {"id": row.text("intent_id"), "order": _order_words(say, row)}
        news = say("{id} {order} waits for 2FA", **facts)
        if until := row.instant("until"):
            news = say("{id} {order} waits for 2FA until {time}", **facts, time=minute_of(until))
        yield from _rows(say("held"), [news])
    for name in found.words("unknown"):
        news = say("{id}: outcome not known yet; never sent again (bot order {id})", id=name)
        yield from _rows(say("unknown"), [news])
    for symbol, reason in found.inner("halted_symbols").items():
        yield from _rows(say("halted"), [f"{symbol}: {say(str(reason))}"])
    yield from _rows(say("alert"), list(alerts_of(found)))
    yield from _rows("2FA", [_second_factor(say, found.inner("two_factor"))])
    yield from _rows(say("journal"), [found.text("journal")])
    yield from _traffic(say, found)


def _today(found: Fields) -> date | None:
    """Return the bot's day: times of another one are told with it."""
    return local_date(at) if (at := found.instant("at")) else None


def _started(say: Say, found: Fields) -> str:
    since, now = found.instant("started_at"), found.instant("at")
    if not (since and now):
        return ""
    began = minute_on(_today(found), since)
    return say("since {time} ({span})", time=began, span=span_of(now - since))


def alerts_of(status: Fields) -> Iterator[str]:
    """Yield the standing alerts in the bot's language; for a bot of an earlier version as it words
    them.
    """
    if "standing" not in status:
        yield from status.words("alerts")
    for row in status.each("standing"):
        language = status.text("language") or ENGLISH
        yield told(language, row.text("text"), row.text("code"), row.inner("facts"))


def _rows(name: str, values: Sequence[str]) -> Iterator[str]:
    """One line each, with the name before the first."""
    for at, value in enumerate(values):
        yield f"{'' if at else name:<11} {value or '-'}"


def _why(say: Say, found: Fields) -> str:
    """Every cause, the operator's first: `PAUSED by you 10:20, and needs 2FA`."""
    causes = []
    for row in sorted(found.each("causes"), key=lambda row: row.text("by") != "operator"):
        since, by, reason = row.instant("since"), row.text("by"), row.text("reason")
        when = f" {minute_on(_today(found), since)}" if since else ""
        if row.text("state") in _BY_HAND:
            is_signal = by == SIGNALLED
            reason = reason if by == BY_OPERATOR else say(reason)
            said = f": {reason}" if reason and not is_signal else ""
            who = by_words(by, reason) if is_signal else say(by_words(by, "") or "by itself")
            cause = f"{row.text('state')} {who}{when}{said}"
        else:
            cause = f"{say(reason)} {say('since')}{when}" if when else say(reason)
        causes.append(cause)
    return say(", and ").join(causes) or say(found.text("reason"))


def _strategy(say: Say, row: Fields) -> str:
    state, reason = row.text("state"), row.text("reason")
    if state == "warming":
        state = reason
    elif reason and state != "on":  # why it was switched on again is old news
        state = f"{say(state)}: {say(reason)}"
    watch = f" ({say('watch')})" if row.text("mode") == "watch" else ""
    line = f"{row.text('name')}{watch} {say(state)}"
    return " · ".join([line, *_changed(say, row)])


def _changed(say: Say, row: Fields) -> list[str]:
    """Say which files have changed that the bot, or a strategy, has read at its start."""
    changed = changed_files(row.inner("files"))
    return [say(messages.CHANGED, files=", ".join(changed))] if changed else []


def knows_what_is_held(found: Fields) -> bool:
    """Return whether the bot has loaded what its strategies hold; a starting one has not."""
    is_starting = any(row.text("state") == RunState.STARTING for row in found.each("causes"))
    return "positions" in found and not is_starting


def _positions(say: Say, found: Fields) -> str:
    if not found.each("positions") and not knows_what_is_held(found):
        return say("not loaded yet, the bot is still starting; as last written: bot positions")
    shown = []
    for row in found.each("positions"):
        unrealised = row.maybe_whole("unrealised")
        tail = f" {unrealised:+,}" if unrealised is not None else ""
        shown.append(f"{row.text('symbol')} {row.whole('shares'):,}{tail}")
    return "   ".join(
        [" · ".join(shown), f"{say('day P&L')} {found.whole('day_result'):+,}"]
    ).strip()


def _order(say: Say, row: Fields) -> str:
    executed = row.whole("executed")
    done = say("{count:,} filled", count=executed) if executed else say("nothing filled yet")
    parts = [f"{row.text('order_id')} {_order_words(say, row)}", done]
    if row.text("broker_status") == _WAITS:
        parts.append(say("waits for the next session"))
    if row.get("intent_id", "") is None:
        parts.append(say("placed elsewhere: the bot leaves it alone"))
    return ", ".join(parts)


def _order_words(say: Say, row: Fields) -> str:
    return order_words(
        side=say(row.text("side")),
        quantity=row.whole("quantity"),
        symbol=row.text("symbol"),
        order_type=row.text("order_type") or None,
        price=row.maybe_whole("price"),
    )


def _second_factor(say: Say, state: Fields) -> str:
    until, missed = state.instant("until"), state.whole("missed_signals")
    if until is not None:
        unproven = say(", unproven until the first order") if state.get("is_unproven") else ""
        return f"{say('ok until {time}', time=minute_of(until))}{unproven}"
    needed = say("needed: no orders, changes or cancels without a token. To enter one: bot otp")
    if limit := state.whole("codes_per_day"):
        left = max(0, limit - state.whole("codes_used"))
        needed += say(" ({left} of the day's {limit} codes left)", left=left, limit=limit)
    if missed:
        noun = say("signal" if missed == 1 else "signals")
        text = " · {count:,} {noun} missed (bot decisions --missed)"
        needed += say(text, count=missed, noun=noun)
    return needed


def _traffic(say: Say, found: Fields) -> Iterator[str]:
    """What is requested from the broker, what delays decisions, and what differs from
    the document.
    """
    rate, inbox, requests = found.inner("rate"), found.inner("inbox"), list[str]()
    used, limit, waiting = (rate.whole(name) for name in ("used", "per_minute", "waiting"))
    if limit:
        queued = say(", {count:,} waiting", count=waiting) if waiting else ""
        requests.append(say("{used:,} of {limit:,} this minute", used=used, limit=limit) + queued)
    if rate.get("is_degraded"):
        requests.append(say("the broker is throttling us for longer; reads come late"))
    polls = rate.inner("polls")
    asked, room, slower = (polls.number(name) for name in ("asked", "room", "slower"))
    if slower > 1:
        text = (
            "polls come {slower:.1f} times less often than the files ask for: they would need "
            "{asked:,.0f} a minute, the quota leaves them {room:,.0f}"
        )
        requests.append(say(text, slower=slower, asked=asked, room=room))
    ages = (
        each.number("allowed")
        for each in found.each("limits")
        if each.text("key") == "max_quote_age_s"
    )
    every, most = polls.number("quote_every_s"), next(ages, 0)
    if every > most > 0:
        text = (
            "quotes come every {every:g} s, and on one older than {most:g} s "
            "(risk.max_quote_age_s) no order goes out: QUOTE_AGE"
        )
        requests.append(say(text, every=every, most=most))
    if starved := rate.text("starved"):
        requests.append(starved)
    yield from _rows(say("requests"), requests)
    if passed_over := inbox.whole("passed_over"):
        noun = say("quote" if passed_over == 1 else "quotes")
        text = "{waiting:,} waiting, {count:,} {noun} passed over for newer ones"
        late = say(text, waiting=inbox.whole("waiting"), count=passed_over, noun=noun)
        yield from _rows(say("inbox"), [late])
    drifted = []
    for row in found.each("drift")[:DRIFT_SHOWN_MAX]:
        was = f" (was {row.text('was')})" if row.text("was") else ""
        drifted.append(f"{row.text('call')} {row.text('field')} {row.text('change')}{was}")
    if drifted:
        yield from _rows(say("drift"), [", ".join(drifted)])
