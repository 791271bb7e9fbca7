"""Strategies that wait for bars: why, for how many, and what follows for what they hold.

A strategy is not asked before it has what it declares, and a call that read an indicator without a
value makes no request: so it cannot get out of what it holds. That is said aloud, and the history
is asked for again until it is there.
"""

from collections.abc import Iterator
from typing import Final

from bot.domain.bar_news import BarsRead, ReadBars
from bot.domain.entry import Numbers
from bot.domain.instrument import EXCHANGE_TZ, Phase
from bot.engine import ex_dates, requests
from bot.engine.bars import BarSeries
from bot.engine.gate import ON
from bot.engine.state import State
from bot.engine.tracked import Instance, StrategyState
from bot.engine.watched import Standing

_NOTHING: Final = "nothing earlier was found"


def on_bars_read(state: State, event: BarsRead) -> None:
    """Begin a series with its earlier bars; they wake nobody."""
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
    """Record a skip and return True while fewer bars are known than the strategy declares, and for
    a bar of which only a part was seen.
    """
    needed, seen_from = type(instance.strategy).warm_up, series.seen_from
    instance.bars_needed = needed if series.count < needed else 0
    if not instance.bars_needed and seen_from is None and series.late_ex_date is None:
        return False
    if strategy.state == ON and not state.gate.is_asleep:
        why = f"{series.count} of {needed} bars seen"
        if series.late_ex_date is not None:
            why = (
                f"its ex-date {series.late_ex_date} is known only now: earlier bars are read again"
            )
        elif not instance.bars_needed and seen_from is not None:
            since = f"{seen_from.astimezone(EXCHANGE_TZ):%H:%M:%S}"
            why = f"this bar was seen from {since} on only: its close counts, nothing more of it"
        note_wait(state, strategy, instance, why)
    return True


def note_wait(state: State, strategy: StrategyState, instance: Instance, why: str) -> None:
    """Record that a strategy waits, with what its history has come to."""
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
    """Look further back, once, where a strategy reads more than was asked for."""
    if series.asked and series.reach > series.asked:
        series.asked = series.reach
        state.command(ReadBars(series.symbol, series.width, series.reach))


def series_of(state: State, strategy: StrategyState, instance: Instance) -> BarSeries | None:
    """Return the bars that an instance decides by."""
    width = strategy.plan.wake.bar
    return state.bars.series(instance.symbol, width) if width is not None else None


def words_of(state: State, strategy: StrategyState, instance: Instance) -> str:
    """Say for how many bars an instance waits, and what came of its history."""
    series = series_of(state, strategy, instance)
    so_far = f"{series.count if series else 0} so far"
    more = f"; {series.history}" if series is not None and series.history else ""
    return f"waiting for {instance.bars_needed} bars ({so_far}{more})"


def alerts(state: State) -> Iterator[Standing]:
    """Yield who holds something and cannot decide, and histories that can't be read."""
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
    if series is None or not _holds(strategy, instance) or strategy.state != ON:
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
