"""Processes quotes, depths, bars, phases and times of day, and wakes strategies with them.

A shell that knows bars in advance may pass over those on which nothing happens. While nothing is
open or due, a closed bar only wakes strategies and changes what they see. So a backtest may call
`on_bar` itself, show each instance what the engine would have shown it, and bring the engine to the
first bar at which a strategy requests something. The engine's state is then the same as if it had
processed every bar (`Passing`).
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from bot.domain.entry import MISSED_NOTE, Numbers, RunState
from bot.domain.instrument import PHASE_WORDS, Exchange, Phase
from bot.domain.local_time import clock_of, local_date
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
from bot.domain.quote import DAY, Bar, Depth, KeepBar, Quote
from bot.engine import belief, ex_dates, wake
from bot.engine.account_state import Mark
from bot.engine.bars import BarSeries
from bot.engine.control_state import Standing
from bot.engine.gate import hears_market
from bot.engine.orders.cancel_requests import stops_at
from bot.engine.risk import losses
from bot.engine.risk.accounts import means_of, note_holdings
from bot.engine.risk.view import SILENT_PHASES
from bot.engine.seen import PHASE_LATE, DepthSeen, PhaseSeen, QuoteSeen, closing_after
from bot.engine.state import Instance, State, StrategyState
from bot.strategy import BarView, DepthView

BAR_PHASES: Final = frozenset({Phase.PROGRESS, Phase.PRE_CLOSED, Phase.CA})
"""Quotes of other phases form no bar: nothing trades, and the last price is an old one."""
AUCTIONED: Final = frozenset({Phase.PUT_THROUGH, Phase.POST_SESSION})
"""But what the closing auction has matched appears here, as a growth of volume."""
STILL_PHASES: Final = AUCTIONED | {Phase.OPEN}
"""The first bar of the day also contains the opening auction's volume. A growth of it forms that
bar once the auction is over by the timetable, though the broker still says OPEN; before that,
deals may have been negotiated.
"""
TIMER_LATE_MAX: Final = timedelta(seconds=30)
"""A strategy's timer that is later than this belongs to another market: it is reported, never
replayed.
"""
MISSED_TIMER: Final = (
    "A missed timer is not run later. Look at what its strategy holds and has open "
    "(bot positions, bot orders); do what can't wait in the broker's app"
)
_WAITED: Final = "it had to wait, for the journal or for other work"
_NOT_BEGUN: Final = "the start of the day was still held (bot status)"


def on_instruments(state: State, event: InstrumentsRead) -> None:
    """Set where each symbol is listed today; other entries of the symbol table stay."""
    for listed in event.instruments:
        is_new = listed.symbol not in state.instruments
        belief.of(state, listed.symbol).has_supposed_kind |= is_new
        known = state.instruments.get(listed.symbol, listed)
        state.instruments[listed.symbol] = replace(known, exchange=listed.exchange)


def on_quote(state: State, event: QuoteReceived) -> None:
    """Store a trusted quote, form bars with it, and wake strategies that want quotes: none after
    the close, when a quote is read for its price alone.
    """
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
            is_over = state.rulebook.phase_at(quote.exchange, event.at) is Phase.PROGRESS
            state.bars.look(event.at, quote, forms=phase in AUCTIONED or is_over)
    if state.phase_of(quote.exchange).phase is Phase.CLOSED:
        belief.note_close(state, state.quotes[quote.symbol])
        return
    for strategy, instance in state.instances.get(quote.symbol, ()):
        if wake.is_time(state, instance, "on_quote", strategy.plan.wake.quote):
            wake.wake(state, strategy, instance, "on_quote", quote)


def on_depth(state: State, event: DepthReceived) -> None:
    """Store a trusted depth and wake strategies that want depths."""
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
    """Close the bars that have ended by now, in the order they were wanted, waking strategies for
    each.
    """
    for series, bar in state.bars.ended(state.now):
        if series.asked:
            state.command(KeepBar(bar))
        _wake_for_bar(state, series, bar)


def _wake_for_bar(state: State, series: BarSeries, bar: Bar) -> None:
    state.counts["bars"] += 1
    if series.asked and series.reach > series.asked:
        wake.look_back(state, series)
    for strategy, instance in state.instances[bar.symbol]:
        if strategy.plan.wake.bar != series.width:
            continue
        if not wake.is_waiting(state, strategy, instance, series):
            read = partial(series.read, instance.context.reads)
            wake.wake(state, strategy, instance, "on_bar", BarView(bar, read))


def on_phase(state: State, event: PhaseChanged) -> None:
    """Store the phase; a new one is noted and wakes strategies that want it."""
    before = state.phases.get(event.exchange)
    available = event.available
    if available is None and before is not None and before.phase is event.phase:
        available = before.available
    until = state.rulebook.next_phase_change(event.exchange, event.at).at + PHASE_LATE
    _report_difference(state, event)
    if before is not None and before.phase is event.phase:
        since = before.since
    else:
        since = state.rulebook.phase_since(event.exchange, event.phase, event.at) or event.at
    moved = _moved_until(before, event, since)
    closing = closing_after(state.rulebook, event.exchange, event.phase, event.at)
    state.phases[event.exchange] = PhaseSeen(event.phase, available, since, until, moved, closing)
    if before is not None and before.phase is event.phase:
        return
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


def _moved_until(before: PhaseSeen | None, event: PhaseChanged, since: datetime) -> datetime:
    """Return until when prices may have moved. If orders were matched after the timetable's end,
    they may have been until the broker said otherwise.
    """
    if event.phase not in belief.SETTLED:
        return event.at
    if before is None:
        return since
    if before.phase in belief.SETTLED:
        return before.moved_until
    return event.at if before.moved_until > since else since


def phase_alerts(state: State) -> Iterable[Standing]:
    """Yield which exchanges are said to be in another phase than their timetable has."""
    for exchange in sorted(state.phases):
        differs = _difference(state, exchange, state.phase_of(exchange).phase, state.now)
        if differs is not None:
            yield differs


def _report_difference(state: State, event: PhaseChanged) -> None:
    differs = _difference(state, event.exchange, event.phase, event.at)
    if differs is not None:
        about = f"{local_date(event.at)} {differs.text}"
        state.alert(differs.code, differs.text, differs.facts, about=about)


def _difference(state: State, exchange: Exchange, said: Phase, at: datetime) -> Standing | None:
    """Return what to say of a phase that differs from the timetable's, unless it may just turn late
    or orders are taken in neither.
    """
    known = state.rulebook.phase_at(exchange, at)
    if said is known or {said, known} <= SILENT_PHASES:
        return None
    since = state.rulebook.phase_since(exchange, known, at)
    if since is not None and at - since < PHASE_LATE:
        return None
    text = (
        f"the broker says that {exchange} is in: {PHASE_WORDS[said]}; by the timetable it is: "
        f"{PHASE_WORDS[known]}. Orders go by what the broker says. Look at the exchange's and the "
        "broker's news. A closed day and an early close can be set: market_rules"
    )
    return Standing("PHASE_DIFFERS", text, {"exchange": exchange, "said": said, "known": known})


def on_timer(state: State, event: TimerFired) -> None:
    """Wake every instance of the strategy that asked for this time of day, unless it had to wait
    here for so long that the market is another one, or the day has not begun.
    """
    strategy = state.strategies[event.strategy]
    why = _WAITED if state.now - event.at > TIMER_LATE_MAX else ""
    if not why and state.gate.state is RunState.STARTING and hears_market(strategy):
        why = _NOT_BEGUN
    if why:
        job, at = f"timer {event.strategy} {event.timer:%H:%M:%S}", event.at.isoformat()
        facts: Numbers = {"alert": "TIMER_MISSED", "job": job, "first": at, "last": at, "count": 1}
        text = f"{job}, due {clock_of(event.at)}: not run: {why}. {MISSED_TIMER}"
        state.note(MISSED_NOTE, text, {**facts, "why": why, "then": "not run"})
        return
    for instance in strategy.instances.values():
        wake.wake(state, strategy, instance, "on_timer", event.timer)


def on_time(_state: State, _event: TimePassed) -> None:
    """Time alone: bars and deadlines are processed around every event."""


def on_noted(state: State, event: Noted) -> None:
    """Journal a note of the shell."""
    state.record(event.entry)


# --------------------------------------------------------------------------------- bars passed over


@dataclass(frozen=True, slots=True)
class Hearer:
    """An instance woken by the bars of a series."""

    strategy: StrategyState
    instance: Instance
    series: BarSeries

    @property
    def is_on(self) -> bool:
        """Return whether the market wakes it now."""
        return hears_market(self.strategy)


class Passing:
    """What such a shell may ask of an engine, and tell it."""

    def __init__(self, state: State) -> None:
        self._state = state

    def hearers(self, symbol: str, width: timedelta) -> tuple[Hearer, ...]:
        """Return which instances a bar wakes, in calling order."""
        series = self._state.bars.series(symbol, width)
        if series is None:
            return ()
        return tuple(
            Hearer(strategy, instance, series)
            for strategy, instance in self._state.instances[symbol]
            if strategy.plan.wake.bar == width
        )

    def is_calm(self) -> bool:
        """Return whether nothing is open, due, held back or in doubt, so that only a request would
        matter.
        """
        state, index = self._state, self._state.index
        is_busy = (
            state.gate.causes
            or state.due_hooks
            or state.early_news
            or index.open
            or index.pending
            or index.held
            or index.amending
            or index.order_polls
            or index.intent_polls
            or index.expiries
            or index.looks
            or state.cancels
            or state.waiting_closes
            or state.machine.standstill is not None
            or state.reconciling.look_again_at is not None
        )
        return not is_busy and not any(belief.is_held(state, symbol) for symbol in state.beliefs)

    def is_plain(self, symbol: str, prices: Collection[int], volume: int) -> bool:
        """Return whether quotes with these prices, and at most this volume of the day, are
        trusted. Unclear cases are left to the full judgement.
        """
        state = self._state
        known = state.beliefs.get(symbol)
        if known is None or known.frame is None or volume > known.volume_max:
            return False
        if state.trading_date in known.ex_dates and not all(
            series.went_ex == state.trading_date
            for series in state.bars.of(symbol)
            if series.width < DAY  # daily bars are shown by the engine only
        ):
            return False
        frame = known.frame
        for price in prices:
            if price not in frame.known:
                if not frame.holds(price) or not frame.grid.is_on_grid(price):
                    return False
                frame.known.add(price)
        return True

    def keep_level(self, symbol: str) -> None:
        """Leave the earlier bars unadjusted: on its first day on another exchange a symbol begins
        at another price, but nothing went ex.
        """
        for series in self._state.bars.of(symbol):
            series.went_ex = self._state.trading_date

    def show(self, hearer: Hearer) -> None:
        """Set what an instance sees unchanged while bars are passed over."""
        means = means_of(self._state, hearer.strategy, hearer.instance.symbol)
        wake.show(self._state, hearer.strategy, hearer.instance, means)

    def left_to_lose(self, account: str) -> int | None:
        """Return how much more an account may lose today before that stops something; None: nothing
        does. Fills are heeded by the engine itself, prices with an `AccountRead` only.
        """
        stop_at = stops_at(self._state, account)
        return None if stop_at is None else stop_at - self._state.exposure.of(account).loss

    def at_stake(self, account: str) -> Iterator[tuple[str, int, Mark | None]]:
        """Yield the symbols whose price moves the day's result, with the shares and their mark."""
        return self._state.exposure.at_stake(account)

    def show_quotes(self, quote: Quote, depth: Depth | None) -> bool:
        """Apply a quote and a depth without waking anybody. Return False, changing nothing, for
        what may be wrong: it is left to the full judgement.
        """
        symbol = quote.symbol
        levels = () if depth is None else (*depth.bids, *depth.asks)
        of_day = {each for each in (quote.open, quote.high, quote.low) if each}
        prices = of_day | {quote.last, *(level.price for level in levels)}
        is_held = belief.is_held(self._state, symbol)
        if is_held or not self.is_plain(symbol, prices, quote.volume or 0):
            return False
        self.pass_quotes(quote, depth)
        return True

    def pass_quotes(self, quote: Quote, depth: Depth | None) -> None:
        """Apply the last of the quotes and depths that nobody acted on. Their own time is when they
        came.
        """
        state, symbol, at = self._state, quote.symbol, quote.updated_at
        assert at is not None, "a quote of a backtest has a time"
        state.now = max(state.now, at)
        known = belief.of(state, symbol)
        state.quotes[symbol], known.price = QuoteSeen(at, quote), quote.last
        known.has_traded |= bool(quote.volume)
        known.shown_reference = quote.reference  # by those before it
        state.exposure.quoted(symbol, quote.last)
        losses.mark(state, quote)
        sources = [known.quotes]
        if depth is not None:
            state.depths[symbol] = DepthSeen(at, depth)
            sources.append(known.depths)
        for source in sources:
            source.heard_at = source.asked_at = source.stamp = at

    def pass_bars(self, series: BarSeries, last: Bar, count: int) -> None:
        """Apply the last of `count` bars that nobody acted on; its indicators already
        include them.
        """
        series.last = last
        series.count += count
