"""Wakes strategies and takes what they wish for. A broken strategy stops itself, not the others.

Whatever an event changes first settles; a handler only says which hooks are due (`wake`), and
`call_hooks` calls them afterwards, one by one, each with what is true at its turn. So nothing that
a strategy wishes for can change what a handler is in the middle of.

Every call of a market hook ends in at least one decision: the wishes, or a skip that says what was
looked at. A call that read an indicator without enough history is a skip `warming`.
"""

import math
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from bot.domain.entry import Decision, Verdict
from bot.domain.message import StrategyFailed
from bot.engine import requests
from bot.engine.faults import guarded
from bot.engine.risk.accounts import cash_free, sellable_of
from bot.engine.settings import StrategyFault
from bot.engine.state import Book
from bot.engine.switches import DISABLED, ON, switch
from bot.engine.tracks import HookCall, Runner, Seat
from bot.strategy import AccountView, PositionView, Reads, Strategy, WishKind

_SIDES: Final = {"bid_volume": "bids", "ask_volume": "asks"}
MARKET_HOOKS: Final = frozenset({"on_bar", "on_quote", "on_depth", "on_timer"})
NEWS_HOOKS: Final = frozenset({"on_fill", "on_reject", "on_stop"})
HOOK_ROUNDS_MAX: Final = 20
"""How often hooks of one event may lead to hooks again."""
WISHES_MAX: Final = 100
"""How many wishes of one call are heard; a plug-in with more is in a loop."""


def seats_of(book: Book, symbol: str) -> Iterable[tuple[Runner, Seat]]:
    """Every instance at a symbol, in the order of the strategies."""
    for runner in book.runners.values():
        seat = runner.seats.get(symbol)
        if seat is not None:
            yield runner, seat


def is_time(book: Book, seat: Seat, hook: str, interval: timedelta) -> bool:
    """True once per `interval`; a quarter of it is forgiven, as polls come a little early."""
    last = seat.woken_at.get(hook)
    if last is not None and (book.now - last) * 4 < interval * 3:
        return False
    seat.woken_at[hook] = book.now
    return True


def wake(book: Book, runner: Runner, seat: Seat, hook: str, argument: object | None) -> None:
    """Have a hook called once the event's state has settled, if the plug-in has one."""
    if is_overridden(seat.strategy, hook):
        book.due_hooks.append(HookCall(runner, seat, hook, argument))


def call_hooks(book: Book) -> None:
    """Call the hooks that are due, in the order in which they became so, then those that came of
    them. A strategy whose hooks go on leading to one another is disabled.
    """
    for _ in range(HOOK_ROUNDS_MAX):
        due, book.due_hooks = book.due_hooks, []
        for each in due:
            if _is_heard(book, each):
                where = f"{each.hook} of {each.runner.plan.name}"
                guarded(book, where, _call_due, book, each)
    for each in book.due_hooks:
        why = f"its hooks led to one another {HOOK_ROUNDS_MAX} times, the last was {each.hook}"
        switch(book, each.runner, DISABLED, why, "engine")
    book.due_hooks = []


def _call_due(book: Book, due: HookCall) -> None:
    """A strategy that a halt or a pause has kept from starting starts when it is first woken."""
    seat = due.seat
    if due.hook not in NEWS_HOOKS and not seat.has_started:
        seat.has_started = True
        if due.hook != "on_start" and is_overridden(seat.strategy, "on_start"):
            call(book, due.runner, seat, "on_start", None)
    call(book, due.runner, seat, due.hook, due.argument)


def _is_heard(book: Book, due: HookCall) -> bool:
    """The market wakes a strategy only while it and the bot are on; of its own orders it is told
    also while it is paused.
    """
    if due.hook in NEWS_HOOKS:
        return due.runner.state != DISABLED
    return due.runner.state == ON and not book.gate.is_asleep


def is_overridden(strategy: Strategy, hook: str) -> bool:
    """True when the plug-in has a hook of its own."""
    return getattr(type(strategy), hook) is not getattr(Strategy, hook)


def call(book: Book, runner: Runner, seat: Seat, hook: str, argument: object | None) -> None:
    """Call a hook and judge what came of it."""
    desk = seat.desk
    _prepare(book, runner, seat)
    fault = book.invoke(seat.strategy, hook, argument)
    wishes, reads = desk.wishes, dict(desk.reads)
    desk.wishes = []
    desk.reads.clear()
    bars_needed = max((_bars_of(name) for name in reads if math.isnan(reads[name])), default=0)
    seat.bars_needed = bars_needed if hook in MARKET_HOOKS and reads else seat.bars_needed
    if bars_needed and not (fault and fault.is_overrun):
        _skip(book, runner, seat, "WARMING", _cold_text(reads))
    elif fault is not None:
        failed(book, runner, seat.symbol, hook, fault)
    elif len(wishes) > WISHES_MAX:
        error = f"{len(wishes):,} wishes in one call, at most {WISHES_MAX} are heard: none was"
        failed(book, runner, seat.symbol, hook, StrategyFault(error, is_overrun=False))
    elif wishes:
        for wish in wishes:
            why = wish.why or reason_of(reads, hook)
            if wish.kind is WishKind.SKIP and reads:
                _skip(book, runner, seat, "SKIP", why, reads)
            else:
                requests.consider(book, runner, seat, wish, why=why)
    elif hook in MARKET_HOOKS:
        _skip(book, runner, seat, "NO_SIGNAL", reason_of(reads, hook), reads)


def _prepare(book: Book, runner: Runner, seat: Seat) -> None:
    desk, symbol, account = seat.desk, seat.symbol, runner.plan.account
    quote, depth, position = (
        book.quotes.get(symbol),
        book.depths.get(symbol),
        runner.position(symbol),
    )
    instrument, snapshot = book.instruments.get(symbol), book.accounts.get(account)
    desk.now = book.now
    desk.quote = quote.quote if quote else None
    desk.depth = depth.depth if depth else None
    desk.phase = book.phase_of(instrument.exchange).phase if instrument else None
    desk.position = PositionView(
        position.shares, sellable_of(book, runner.plan.name, symbol), position.cost
    )
    holdings = snapshot.holdings if snapshot else {}
    desk.account = AccountView(cash_free(book, account) or 0, holdings)
    desk.wishes = []


def reason_of(reads: Reads, hook: str) -> str:
    """Return the default reason: the values that were looked at in this call.

    `SMA5 131,720 below SMA20 131,735`, `bids 33,200, asks 41,400`.
    """
    values = [f"{_named(name)} {_shown(value)}" for name, value in reads.items()]
    if len(values) == 2 and len({name.partition("(")[0] for name in reads}) == 1:
        one, other = reads.values()
        return f" {'above' if one > other else 'below'} ".join(values)
    return ", ".join(values) or f"no reason given in {hook}"


def _named(read: str) -> str:
    """`sma(5)` as `SMA5`; the volumes of the depth by their side."""
    name, _, period = read.removesuffix(")").partition("(")
    return _SIDES.get(name) or f"{name.upper()}{period}"


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:,.2f}"


def _bars_of(read: str) -> int:
    """How many bars an indicator needs: RSI one more than its length, for its first change."""
    name, _, period = read.removesuffix(")").partition("(")
    return int(period) + (name == "rsi")


def _cold_text(reads: Reads) -> str:
    cold = [_named(name) for name, value in reads.items() if math.isnan(value)]
    return f"not enough bars yet for {', '.join(cold)}"


def _skip(
    book: Book, runner: Runner, seat: Seat, code: str, why: str, reads: Reads | None = None
) -> None:
    book.counts["skips"] += 1
    numbers = {name: round(value, 4) for name, value in (reads or {}).items()}
    book.record(
        Decision(book.now, runner.plan.name, seat.symbol, Verdict.SKIPPED, code, why, numbers)
    )


def skip_until_warm(book: Book, runner: Runner, seat: Seat, bars: int) -> bool:
    """Record a skip and return True while fewer bars were seen than the strategy declares."""
    needed = type(seat.strategy).warm_up
    seat.bars_needed = needed if bars < needed else 0
    if seat.bars_needed and runner.state == ON and not book.gate.is_asleep:
        _skip(book, runner, seat, "WARMING", f"{bars} of {needed} bars seen")
    return seat.bars_needed > 0


# ----------------------------------------------------------------------------- faults and switches


def on_strategy_failed(book: Book, event: StrategyFailed) -> None:
    """A shell noticed the fault later than the call."""
    fault = StrategyFault(event.error, event.is_overrun)
    failed(book, book.runners[event.strategy], event.symbol, event.hook, fault)


def failed(book: Book, runner: Runner, symbol: str, hook: str, fault: StrategyFault) -> None:
    """Journal a fault; the third one disables the strategy until an operator resumes it."""
    runner.faults += 1
    book.counts["faults"] += 1
    code = "OVERRUN" if fault.is_overrun else "EXCEPTION"
    why = f"{hook}: {fault.error}"
    numbers = {"faults": runner.faults, "faults_max": book.settings.faults_until_disabled}
    book.record(Decision(book.now, runner.plan.name, symbol, Verdict.FAILED, code, why, numbers))
    if runner.faults >= book.settings.faults_until_disabled:
        switch(book, runner, DISABLED, f"{runner.faults} faults, the last in {why}", "engine")
