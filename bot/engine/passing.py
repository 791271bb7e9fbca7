"""Bars over which nothing happens: a shell that knows them ahead may pass them over.

While nothing is open and nothing is due, a closed bar wakes strategies and changes nothing but what
they are shown. So a backtest may call `on_bar` by itself, show each instance what the engine would
have shown it, and bring the engine to the first bar at which a strategy requests something. What
the engine knows then is what it would know had it taken every bar.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from bot.domain.bar_grid import DAY
from bot.domain.quote import Bar, Depth, Quote
from bot.engine import belief, wake
from bot.engine.bars import BarSeries
from bot.engine.gate import ON
from bot.engine.risk import losses
from bot.engine.risk.accounts import means_of
from bot.engine.seen import DepthSeen, QuoteSeen
from bot.engine.state import State
from bot.engine.tracked import Instance, StrategyState


@dataclass(frozen=True, slots=True)
class Hearer:
    """An instance that the bars of a series wake."""

    strategy: StrategyState
    instance: Instance
    series: BarSeries

    @property
    def is_on(self) -> bool:
        """Whether the market wakes it now."""
        return self.strategy.state == ON


class Passing:
    """What such a shell may ask of an engine, and tell it."""

    def __init__(self, state: State) -> None:
        self._state = state

    def hearers(self, symbol: str, width: timedelta) -> tuple[Hearer, ...]:
        """Return whom a bar wakes, in the order in which they are called."""
        series = self._state.bars.series(symbol, width)
        if series is None:
            return ()
        return tuple(
            Hearer(strategy, instance, series)
            for strategy, instance in self._state.instances[symbol]
            if strategy.plan.wake.bar == width
        )

    def is_calm(self) -> bool:
        """Tell whether nothing is open, due, held back or in doubt: then only a request is news."""
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
        """Tell whether quotes with these last prices, and no larger volume of the day, are
        believed. What is not plainly so is left to the judgement itself.
        """
        state = self._state
        known = state.beliefs.get(symbol)
        if known is None or known.frame is None or volume > known.volume_max:
            return False
        if state.trading_date in known.ex_dates and not all(
            series.went_ex == state.trading_date
            for series in state.bars.of(symbol)
            if series.width < DAY  # the bar of a day is shown by the engine alone
        ):
            return False
        frame = known.frame
        for price in prices:
            if price not in frame.known:
                if not frame.band.holds(price) or not frame.grid.is_on_grid(price):
                    return False
                frame.known.add(price)
        return True

    def keep_level(self, symbol: str) -> None:
        """Leave the bars of before as they are: on its first day elsewhere a symbol begins at
        another price, but nothing went ex.
        """
        for series in self._state.bars.of(symbol):
            series.went_ex = self._state.trading_date

    def show(self, hearer: Hearer) -> None:
        """Put before an instance what stays as it is while bars are passed over."""
        means = means_of(self._state, hearer.strategy, hearer.instance.symbol)
        wake.show(self._state, hearer.strategy, hearer.instance, means)

    def pass_quotes(self, quote: Quote, depth: Depth | None) -> None:
        """Take in the last of the quotes, and depths, that nobody acted on. Their own time is when
        they came.
        """
        state, symbol, at = self._state, quote.symbol, quote.updated_at
        assert at is not None, "a quote of a backtest has a time"
        state.now = max(state.now, at)
        known = belief.of(state, symbol)
        state.quotes[symbol], known.price = QuoteSeen(at, quote), quote.last
        state.exposure.quoted(symbol, quote.last)
        losses.mark(state, quote)
        sources = [known.quotes]
        if depth is not None:
            state.depths[symbol] = DepthSeen(at, depth)
            sources.append(known.depths)
        for source in sources:
            source.heard_at = source.asked_at = source.stamp = at

    def pass_bars(self, series: BarSeries, last: Bar, count: int) -> None:
        """Take in the last of `count` bars that nobody acted on; its indicators know them."""
        series.last = last
        series.count += count
