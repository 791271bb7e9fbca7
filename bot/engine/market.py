"""Takes in quotes, depths, bars, phases and times of day; wakes strategies by them."""

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final

from bot.domain.bar_news import KeepBar
from bot.domain.instrument import PHASE_WORDS, Phase
from bot.domain.message import (
    BarClosed,
    DepthReceived,
    InstrumentsRead,
    Noted,
    PhaseChanged,
    QuoteReceived,
    TimePassed,
    TimerFired,
)
from bot.domain.quote import Bar
from bot.engine import belief, ex_dates, wake, warming
from bot.engine.bars import BarSeries
from bot.engine.orders import sends
from bot.engine.risk import losses
from bot.engine.risk.accounts import note_holdings
from bot.engine.seen import DepthSeen, PhaseSeen, QuoteSeen
from bot.engine.state import State
from bot.strategy import BarView, DepthView

BAR_PHASES: Final = frozenset({Phase.PROGRESS, Phase.PRE_CLOSED, Phase.CA})
"""Quotes of other phases form no bar: nothing trades, and the last price is an old one."""
AUCTIONED: Final = frozenset({Phase.PUT_THROUGH, Phase.POST_SESSION})
"""But what the closing auction has matched shows itself here, by a volume that has grown."""
STILL_PHASES: Final = AUCTIONED | {Phase.OPEN}
"""The first bar of the day has the volume of the opening auction, too."""


def on_instruments(state: State, event: InstrumentsRead) -> None:
    """Learn where each symbol trades today; what the table of symbols knows beyond that stays."""
    for listed in event.instruments:
        is_new = listed.symbol not in state.instruments
        belief.of(state, listed.symbol).has_supposed_kind |= is_new
        known = state.instruments.get(listed.symbol, listed)
        state.instruments[listed.symbol] = replace(known, exchange=listed.exchange)


def on_quote(state: State, event: QuoteReceived) -> None:
    """Keep a quote that is believed, let it form bars, and wake who asked for quotes."""
    quote = event.quote
    state.counts["quotes"] += 1
    if not belief.takes_quote(state, event):
        return
    state.quotes[quote.symbol] = QuoteSeen(event.at, quote)
    state.exposure.quoted(quote.symbol, quote.last)
    losses.mark(state, quote)
    if state.bars.has(quote.symbol):
        phase = state.phase_of(quote.exchange).phase
        if phase in BAR_PHASES or phase is Phase.OPEN:
            ex_dates.adjust(state, quote)
        if state.settings.takes_bars_whole:
            pass  # its bars come as events
        elif phase in BAR_PHASES:
            state.bars.add(event.at, quote)
        elif phase in STILL_PHASES:
            state.bars.look(event.at, quote, forms=phase in AUCTIONED)
    for strategy, instance in state.instances.get(quote.symbol, ()):
        if wake.is_time(state, instance, "on_quote", strategy.plan.wake.quote):
            wake.wake(state, strategy, instance, "on_quote", quote)
    sends.on_fresh_quote(state, quote.symbol)


def on_depth(state: State, event: DepthReceived) -> None:
    """Keep a depth that is believed and wake who asked for depths."""
    depth = event.depth
    state.counts["depths"] += 1
    if not belief.takes_depth(state, event):
        return
    state.depths[depth.symbol] = DepthSeen(event.at, depth)
    for strategy, instance in state.instances.get(depth.symbol, ()):
        if wake.is_time(state, instance, "on_depth", strategy.plan.wake.depth):
            view = DepthView(depth, instance.context.reads)
            wake.wake(state, strategy, instance, "on_depth", view)


def on_bar(state: State, event: BarClosed) -> None:
    """Take a whole bar; one for warm-up fills the indicators and wakes nobody."""
    series = state.bars.series(event.bar.symbol, timedelta(seconds=event.bar.seconds))
    if series is None:
        return
    if event.warm_up:
        series.take(event.bar)
    elif state.bars.take_whole(series, event.bar):
        _wake_for_bar(state, series, event.bar)


def close_bars(state: State) -> None:
    """Close the bars that have ended by now, in the order they were wanted, and wake for each."""
    for series, bar in state.bars.ended(state.now):
        if series.asked:
            state.command(KeepBar(bar))
        _wake_for_bar(state, series, bar)


def _wake_for_bar(state: State, series: BarSeries, bar: Bar) -> None:
    state.counts["bars"] += 1
    if series.asked and series.reach > series.asked:
        warming.look_back(state, series)
    for strategy, instance in state.instances[bar.symbol]:
        if strategy.plan.wake.bar != series.width:
            continue
        if not warming.is_waiting(state, strategy, instance, series):
            read = partial(series.read, instance.context.reads)
            wake.wake(state, strategy, instance, "on_bar", BarView(bar, read))


def on_phase(state: State, event: PhaseChanged) -> None:
    """Keep the phase; a new one is noted and wakes who asked for it."""
    before = state.phases.get(event.exchange)
    available = event.available
    if available is None and before is not None and before.phase is event.phase:
        available = before.available
    if before is not None and before.phase is event.phase:
        state.phases[event.exchange] = PhaseSeen(event.phase, available, before.since)
        return
    since = state.rulebook.phase_since(event.exchange, event.phase, event.at)
    state.phases[event.exchange] = PhaseSeen(event.phase, available, since or event.at)
    text = f"{event.exchange} {PHASE_WORDS[event.phase]}"
    state.note("PHASE", text, {"exchange": event.exchange, "phase": event.phase})
    if event.phase is Phase.CLOSED and before is not None:
        note_holdings(state, event.exchange)
        belief.note_closes(state, event.exchange)
    for strategy in state.strategies.values():
        for symbol, instance in strategy.instances.items() if strategy.plan.wake.on_phase else ():
            instrument = state.instruments.get(symbol)
            if instrument is not None and instrument.exchange is event.exchange:
                wake.wake(state, strategy, instance, "on_session", event.phase)


def on_timer(state: State, event: TimerFired) -> None:
    """Wake every instance of the strategy that asked for this time of day."""
    strategy = state.strategies[event.strategy]
    for instance in strategy.instances.values():
        wake.wake(state, strategy, instance, "on_timer", event.timer)


def on_time(_state: State, _event: TimePassed) -> None:
    """Time alone: bars and deadlines are looked at around every event."""


def on_noted(state: State, event: Noted) -> None:
    """Journal a note of the shell."""
    state.record(event.entry)
