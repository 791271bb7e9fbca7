"""Wakes strategies and takes their requests. A broken strategy stops itself, not the others.

An event's changes settle first; a handler only marks hooks as due (`wake`), and `call_hooks` calls
them afterwards, one by one, each with the state at its turn. So no request of a strategy can
interfere with a running handler.

Every call of a market hook ends in at least one decision: the requests, or a skip that names what
was read. A call that read an indicator without enough history is a `warming` skip.

A strategy is not called before it has the bars it declares, and a call that read an indicator
without a value makes no request, so it cannot exit its positions. That raises an alert, and the
history is requested again until it is there.
"""

import math
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from typing import Final

from bot.domain.entry import Numbers
from bot.domain.instrument import Phase
from bot.domain.local_time import clock_of
from bot.domain.order import OrderType
from bot.domain.quote import BarsRead, ReadBars
from bot.engine import ex_dates, hook_faults, requests
from bot.engine.bars import REACH, BarSeries, bars_of
from bot.engine.control_state import Standing
from bot.engine.gate import DISABLED, guarded, hears_market
from bot.engine.risk.accounts import Means, means_of
from bot.engine.settings import StrategyFault
from bot.engine.state import HookCall, Instance, State, StrategyState
from bot.strategy import (
    FROM_FILE,
    NUMBER_MAX,
    WHY_MAX,
    AccountView,
    Context,
    PositionView,
    Reads,
    Request,
    RequestKind,
    Strategy,
)

MARKET_HOOKS: Final = frozenset({"on_bar", "on_quote", "on_depth", "on_timer", "on_session"})
ORDER_NEWS: Final = frozenset({"on_fill", "on_reject"})
NEWS_HOOKS: Final = ORDER_NEWS | {"on_stop"}
HOOK_ROUNDS_MAX: Final = 20
"""How many rounds of hooks one event may cause."""
MustYield = Callable[[], bool]
"""Returns whether something else should get a turn before the next hook."""


def is_time(state: State, instance: Instance, hook: str, interval: timedelta | None) -> bool:
    """True once per `interval`, with a tolerance of a quarter, as polls come a little early. The
    next one counts from when this one was due: what comes early does not come more often.
    """
    if interval is None:
        return False
    last = instance.woken_at.get(hook)
    due = state.now if last is None else last + interval
    if (due - state.now) * 4 > interval:
        return False
    instance.woken_at[hook] = max(due, state.now)
    return True


def wake(
    state: State,
    strategy: StrategyState,
    instance: Instance,
    hook: str,
    argument: object | None,
) -> None:
    """Mark a hook to be called once the event's state has settled, if the plug-in has it.

    Order events wait until the day is reconciled: before that the plug-in has not started.
    """
    if getattr(type(instance.strategy), hook) is not getattr(Strategy, hook):
        call = HookCall(strategy, instance, hook, argument, state.hook_round + 1)
        is_early = hook in ORDER_NEWS and not state.is_reconciled
        (state.early_news if is_early else state.due_hooks).append(call)


def never() -> bool:
    """Never yield: nobody else is waiting."""
    return False


def call_hooks(state: State, must_yield: MustYield = never) -> None:
    """Call the due hooks in the order in which they became due, then those that result from them. A
    strategy whose hooks keep triggering one another is disabled.

    The market wakes a strategy only while it and the bot are on, or while its own loss lets it only
    sell; events of its own orders reach it even while it is paused. After a hook, `must_yield` may
    leave the others due for a later turn.
    """
    while state.due_hooks:
        each = state.due_hooks.popleft()
        if each.round > HOOK_ROUNDS_MAX:
            why = f"its hooks led to one another {HOOK_ROUNDS_MAX} times, the last was {each.hook}"
            hook_faults.disable(state, each.strategy, why)
            continue
        is_heard = hears_market(each.strategy) and not state.gate.is_asleep
        if each.hook in NEWS_HOOKS:
            is_heard = each.strategy.state != DISABLED
        if is_heard:
            state.hook_round = each.round
            guarded(state, f"{each.hook} of {each.strategy.plan.name}", _call, state, each)
            state.hook_round = 0
            if must_yield():
                return


def _start(state: State, due: HookCall) -> bool:
    """Start a strategy whose start was put off; return whether the hook is called yet."""
    strategy, instance, hook = due.strategy, due.instance, due.hook
    has_start = type(instance.strategy).on_start is not Strategy.on_start
    if hook == "on_stop" and has_start:
        return False  # what never started has nothing to end
    instance.has_started = True
    if hook != "on_start" and has_start:
        _call(state, replace(due, hook="on_start", argument=None))
    return strategy.state != DISABLED or hook in {"on_start", "on_stop"}


def _call(state: State, due: HookCall) -> None:
    """Call a hook and judge its requests.

    A strategy that could not start because of a halt or a pause starts when it is first woken. The
    first request is judged by the means that the hook has seen; each further one by what the
    earlier ones have left.
    """
    strategy, instance, hook = due.strategy, due.instance, due.hook
    if not instance.has_started and not _start(state, due):
        return
    context, symbol = instance.context, instance.symbol
    means = means_of(state, strategy, symbol)
    show(state, strategy, instance, means)
    fault = state.invoke(instance.strategy, hook, due.argument)
    wanted, reads, spoilt = _taken_from(context)
    fault = fault or spoilt
    cold = [name for name, value in reads.items() if math.isnan(value)]
    if hook in MARKET_HOOKS and reads:
        instance.bars_needed = max(map(bars_of, cold), default=0)
    if fault is not None and fault.is_stuck:
        hook_faults.disable_stuck(state, strategy, symbol, hook, fault)
    elif cold and not (fault and fault.is_overrun):
        why = f"not enough bars yet for {', '.join(map(_named, cold))}"
        note_wait(state, strategy, instance, why)
    elif fault is not None:
        hook_faults.count_fault(state, strategy, symbol, hook, fault)
    elif hook_faults.runs_away(state, strategy, wanted):
        hook_faults.disable_runaway(state, strategy, symbol, hook, len(wanted))
    elif not wanted and hook in MARKET_HOOKS:
        requests.note_skip(state, strategy, symbol, "NO_SIGNAL", reason_of(reads, hook), reads)
    else:
        for number, request in enumerate(wanted):
            why = request.why or reason_of(reads, hook)
            if request.kind is RequestKind.SKIP and reads:
                requests.note_skip(state, strategy, symbol, "SKIP", why, reads)
                continue
            means = means_of(state, strategy, symbol) if number else means
            requests.consider(state, strategy, symbol, request, means, why=why)


def _taken_from(context: Context) -> tuple[list[Request], Reads, StrategyFault | None]:
    """Empty a context after a call: what was requested, what was looked at. Only requests and
    numbers that the plug-in could make with what it was given are taken.
    """
    wanted, reads = getattr(context, "requests", None), getattr(context, "reads", None)
    context.requests = []
    if not (
        type(wanted) is list
        and type(reads) is dict
        and all(type(each) is Request for each in wanted)
        and all(_is_read(name, value) for name, value in reads.items())
    ):
        context.reads = {}
        text = "it has changed its context, which is the engine's: nothing of the call is taken"
        return [], {}, StrategyFault(text, is_overrun=False)
    reads = dict(reads)
    context.reads.clear()
    for flaw in filter(None, map(_flaw_of, wanted)):
        text = f"a request not made by buy, sell or close: {flaw}. Nothing of the call is taken"
        return [], {}, StrategyFault(text, is_overrun=False)
    return wanted, reads, None


def _flaw_of(request: Request) -> str:
    """Return in what a request is none that a strategy's own methods make; empty if in nothing."""
    if type(request.kind) is not RequestKind:
        return f"kind must be a RequestKind, not {type(request.kind).__name__}"
    for name, value in (("quantity", request.quantity), ("limit", request.limit)):
        if value is None or (name == "limit" and value is FROM_FILE):
            continue
        if type(value) is not int:
            return f"{name} must be a whole number, not {type(value).__name__}"
        if abs(value) > NUMBER_MAX:
            return f"{name} must be at most {NUMBER_MAX:,}"
    if request.market is not None and type(request.market) is not OrderType:
        return f"market must be a market type, not {type(request.market).__name__}"
    if request.market is not None and type(request.limit) is int:
        return "it has both limit and market"
    if request.why is not None and type(request.why) is not str:
        return f"why must be a text, not {type(request.why).__name__}"
    if len(request.why or "") > 2 * WHY_MAX:  # one that was cut says how long it had been
        return f"why must have at most {WHY_MAX:,} characters"
    return ""


_OF_BARS: Final = re.compile(rf"(?:{'|'.join(REACH)})\([0-9]{{1,4}}\)", re.ASCII)


def _is_read(name: object, value: object) -> bool:
    """Return whether a plug-in can have read a value; only an indicator may lack one (NaN)."""
    if type(name) is not str or not isinstance(value, int | float):
        return False
    if isinstance(value, float):
        return not math.isnan(value) or _OF_BARS.fullmatch(name) is not None
    return abs(value) < sys.float_info.max


def show(state: State, strategy: StrategyState, instance: Instance, means: Means) -> None:
    """Set what the instance may look at."""
    context, symbol = instance.context, instance.symbol
    quote, depth = state.quotes.get(symbol), state.depths.get(symbol)
    instrument, snapshot = state.instruments.get(symbol), state.accounts.get(strategy.plan.account)
    position = strategy.position(symbol)
    context.now = state.now
    context.quote = quote.quote if quote else None
    context.depth = depth.depth if depth else None
    context.phase = state.phase_of(instrument.exchange).phase if instrument else None
    context.position = PositionView(position.shares, means.sellable, position.cost)
    holdings = MappingProxyType(snapshot.holdings if snapshot else {})
    context.account = AccountView(means.cash or 0, holdings)
    context.requests = []


def reason_of(reads: Reads, hook: str) -> str:
    """Return the default reason: the values read in this call.

    `SMA5 131,720 below SMA20 131,735`, `bids 33,200, asks 41,400`.
    """
    values = [
        f"{_named(name)} {value:,.0f}" if abs(value) >= 1_000 else f"{_named(name)} {value:,.2f}"
        for name, value in reads.items()
    ]
    if len(values) == 2 and len({name.partition("(")[0] for name in reads}) == 1:
        one, other = reads.values()
        return f" {'above' if one > other else 'below'} ".join(values)
    return ", ".join(values) or f"no reason given in {hook}"


def _named(read: str) -> str:
    """`sma(5)` as `SMA5`; the depth's volumes by their side."""
    name, _, period = read.removesuffix(")").partition("(")
    sides = {"bid_volume": "bids", "ask_volume": "asks"}
    return sides.get(name) or f"{name.upper()}{period}"


# --------------------------------------------------------------------------------- waiting for bars

_NOTHING: Final = "nothing earlier was found"


def on_bars_read(state: State, event: BarsRead) -> None:
    """Start a series with its earlier bars; they wake nobody."""
    series = state.bars.series(event.symbol, event.width)
    if series is None or series.is_recorded:
        return
    state.bars.seed(series, event.bars, event.forming, state.now)
    series.late_ex_date = None
    ex_dates.adjust_again(state, series, event.ex_ratios)
    series.asked = max(series.asked, event.wanted)
    series.history = "; ".join(filter(None, (event.origin, event.lacks)))
    series.is_asked_again = event.is_asked_again
    seen = state.quotes.get(event.symbol)
    if seen is not None and state.phase_of(seen.quote.exchange).phase is not Phase.CLOSED:
        ex_dates.adjust(state, seen.quote)
    for strategy, instance in state.instances[event.symbol]:
        if strategy.plan.wake.bar == event.width:
            needed = max(instance.bars_needed, type(instance.strategy).warm_up)
            instance.bars_needed = needed if series.count < needed else 0
            if instance.bars_needed:
                _tell_holder(state, strategy, instance)


def is_waiting(
    state: State, strategy: StrategyState, instance: Instance, series: BarSeries
) -> bool:
    """Record a skip and return True while fewer bars are known than the strategy declares, or for a
    bar that was seen only in part.
    """
    needed, seen_from = type(instance.strategy).warm_up, series.seen_from
    instance.bars_needed = needed if series.count < needed else 0
    if not instance.bars_needed and seen_from is None and series.late_ex_date is None:
        return False
    if hears_market(strategy) and not state.gate.is_asleep:
        why = f"{series.count} of {needed} bars seen"
        if series.late_ex_date is not None:
            why = (
                f"bars of before its ex-date {series.late_ex_date} are on another level: "
                "earlier bars are read again"
            )
        elif not instance.bars_needed and seen_from is not None:
            since = clock_of(seen_from)
            why = f"this bar was seen from {since} on only: its close counts, nothing more of it"
        note_wait(state, strategy, instance, why)
    return True


def note_wait(state: State, strategy: StrategyState, instance: Instance, why: str) -> None:
    """Record that a strategy waits, with the state of its history."""
    series = series_of(state, strategy, instance)
    numbers: dict[str, float] = {}
    if series is not None:
        numbers = {"bars": series.count, "needed": instance.bars_needed}
        why = f"{why} ({series.history})" if series.history else why
        look_back(state, series)
    requests.note_skip(state, strategy, instance.symbol, "WARMING", why, numbers)
    if instance.bars_needed:
        _tell_holder(state, strategy, instance)


def look_back(state: State, series: BarSeries) -> None:
    """Request more history, once, if a strategy reads further back than was requested."""
    if series.asked and series.reach > series.asked:
        series.asked = series.reach
        state.command(ReadBars(series.symbol, series.width, series.reach))


def series_of(state: State, strategy: StrategyState, instance: Instance) -> BarSeries | None:
    """Return the bars on which an instance decides."""
    width = strategy.plan.wake.bar
    return state.bars.series(instance.symbol, width) if width is not None else None


def words_of(state: State, strategy: StrategyState, instance: Instance) -> str:
    """Say how many bars an instance waits for, and the state of its history."""
    series = series_of(state, strategy, instance)
    so_far = f"{series.count if series else 0} so far"
    more = f"; {series.history}" if series is not None and series.history else ""
    return f"waiting for {instance.bars_needed} bars ({so_far}{more})"


def alerts(state: State) -> Iterator[Standing]:
    """Yield which instances hold something and cannot decide, and histories that cannot be read."""
    for strategy in state.strategies.values():
        for instance in strategy.instances.values():
            series = series_of(state, strategy, instance)
            if series is None:
                continue
            if _holds(strategy, instance) and instance.bars_needed > series.count:
                yield _deaf(strategy, instance, series)
            elif series.is_asked_again:
                facts = {"symbol": series.symbol, "detail": series.history}
                text = (
                    f"earlier bars of {series.symbol}: {series.history}. {strategy.plan.name} goes "
                    "on with the bars of this run. If it lasts, ask the broker"
                )
                yield Standing("BARS_UNREAD", text, facts)


def _holds(strategy: StrategyState, instance: Instance) -> bool:
    return strategy.position(instance.symbol).shares > 0


def _tell_holder(state: State, strategy: StrategyState, instance: Instance) -> None:
    series = series_of(state, strategy, instance)
    if series is None or not _holds(strategy, instance) or not hears_market(strategy):
        return
    told = _deaf(strategy, instance, series)
    about = f"{strategy.plan.name} {instance.symbol}"
    state.alert(told.code, told.text, told.facts, about=about, symbol=instance.symbol)


def _deaf(strategy: StrategyState, instance: Instance, series: BarSeries) -> Standing:
    name, symbol = strategy.plan.name, instance.symbol
    shares = strategy.position(symbol).shares
    detail = series.history or _NOTHING
    facts: Numbers = {
        "strategy": name,
        "symbol": symbol,
        "shares": shares,
        "bars": series.count,
        "needed": instance.bars_needed,
        "detail": detail,
    }
    text = (
        f"{name} holds {shares:,} {symbol} and cannot decide to sell: it has {series.count} of "
        f"{instance.bars_needed} bars ({detail}). It goes on by itself when it has them. Watch the "
        "position until then, and sell in the broker's app if it must go"
    )
    return Standing("WARMING_POSITION", text, facts)
