"""The fast gear: plays bars on which nothing happens without the engine.

While nothing is open or due, a bar only leads to a call of `on_bar` and a counted "no request". So
only the hook is called here, with the same view that the engine would give it. The first hook that
requests something, or raises, ends this: the engine is brought up to the bar, processes it like any
other, and gets the hook's result instead of calling it again. From there on it plays event by event
until nothing is open.

    calm? ── on_bar, on_bar, on_bar, … a request! ─► catch up ─► the engine's own bar ─► … ─► calm?
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from heapq import heappop, heappush
from typing import Final

from bot.engine.engine import Engine
from bot.engine.settings import Invoke, LoadedStrategy, StrategyFault
from bot.runtime.history.backtest.exchange import BarExchange
from bot.runtime.history.backtest.fills import depth_of, quote_of, totals_after, touch_of
from bot.runtime.history.backtest.indicator_columns import IndicatorColumns
from bot.runtime.history.backtest.listings import OPENS_AT
from bot.runtime.history.backtest.loop import since_midnight
from bot.runtime.history.backtest.market import MarketDay
from bot.runtime.history.backtest.passed import Done, Listener, Passed, Seen
from bot.runtime.history.backtest.rows import DayRows, within
from bot.sandbox.exchange.market import DayTotals
from bot.strategy import Strategy

OPENS_AT_S: Final = int(since_midnight(OPENS_AT).total_seconds())


def why_not(strategies: Iterable[LoadedStrategy]) -> str:
    """Return why these strategies cannot be played in the fast gear; empty if they can."""
    for each in strategies:
        name, wake = each.plan.name, each.plan.wake
        if wake.quote is not None and each.factory.on_quote is not Strategy.on_quote:
            return f"{name} wakes by each quote (wake.quote), not by bars alone"
        if wake.depth is not None and each.factory.on_depth is not Strategy.on_depth:
            return f"{name} wakes by each depth (wake.depth), not by bars alone"
    return ""


class HandOver:
    """Calls hooks as `call` does; for one already called it returns what that did."""

    def __init__(self, call: Invoke) -> None:
        self._call = call
        self.done: dict[int, Done] = {}
        """By the identity of the strategy object."""

    def __call__(
        self, strategy: Strategy, hook: str, argument: object | None
    ) -> StrategyFault | None:
        done = self.done.pop(id(strategy), None) if hook == "on_bar" and self.done else None
        if done is None:
            return self._call(strategy, hook, argument)
        strategy.context.requests += done.requests
        strategy.context.reads.update(done.reads)
        if done.error is None:
            return None
        error = done.error

        def raise_again(_bar: object) -> None:
            raise error

        own = vars(strategy).get("on_bar")
        vars(strategy)["on_bar"] = raise_again  # the caller describes what it raised
        try:
            return self._call(strategy, hook, argument)
        finally:
            del vars(strategy)["on_bar"]
            if own is not None:
                vars(strategy)["on_bar"] = own


class FastGear:
    """Plays the calm parts of a day. `bars` counts those that ended meanwhile."""

    def __init__(
        self,
        engine: Engine,
        exchange: BarExchange,
        hand_over: HandOver,
        counts: Counter[str],
        *,
        deep: frozenset[str],
        account: str,
    ) -> None:
        """`counts`: decisions by code. `deep`: the symbols whose depth is shown too."""
        self.bars = 0
        self._engine = engine
        self._exchange = exchange
        self._hand_over = hand_over
        self._counts = counts
        self._deep = deep
        self._account = account
        self._known: dict[tuple[str, timedelta], tuple[Passed, tuple[Listener, ...]]] = {}
        self._shown: list[tuple[Passed, tuple[Listener, ...]]] = []
        self._day: MarketDay | None = None
        self._is_plain: bool | None = None
        self._since = 0

    def begin(self, day: MarketDay) -> None:
        """Look ahead at a day; all bars of the previous day have been taken or passed."""
        self._day, self._is_plain = day, None
        for symbol, rows in day.rows.items():
            for series in rows.series:
                key = symbol, timedelta(seconds=series.width)
                known = self._known.get(key)
                if known is None:
                    passed = Passed(series, IndicatorColumns(), self._see)
                    hearers = self._engine.passing.hearers(*key)
                    for hearer in hearers:
                        hearer.series.indicators = passed.indicators
                    listeners = tuple(Listener(each, passed, self._counts) for each in hearers)
                    known = self._known[key] = passed, listeners
                known[0].series = series
                known[0].indicators.look_ahead(series.rows.close)
        # Bars that end together wake in the engine's order.
        wanted = self._engine.bars_wanted()
        self._shown = [known for each in wanted if (known := self._known.get(each)) is not None]

    # ------------------------------------------------------------------------------ passing over

    def pass_over(self, first: int, stop: int) -> int:
        """Pass over the instants from `first` on, before `stop`, while nothing happens; return the
        next one that the engine has to play. They are indexes into the day's seconds.
        """
        day, passing = self._day, self._engine.passing
        assert day is not None, "a day has begun"
        assert not self._hand_over.done, "the engine has taken what was handed over"
        is_early = first < stop and day.seconds[first] < OPENS_AT_S  # the engine is at the opening
        if first == stop or is_early or not passing.is_calm() or not self._is_believed(day):
            return first
        if (stop := self._short_of_a_stop(day, first, stop)) == first:
            return first
        for _, listeners in self._shown:
            for listener in listeners:
                passing.show(listener.hearer)
                listener.begin()
        end = day.seconds[stop] if stop < len(day.seconds) else day.seconds[-1] + 1
        self._since = day.seconds[first]
        second = self._call_hooks(end)
        for _, listeners in self._shown:
            for listener in listeners:
                listener.end()
        self._catch_up(day, second)
        return stop if second == end else bisect_left(day.seconds, second, first, stop)

    def _short_of_a_stop(self, day: MarketDay, first: int, stop: int) -> int:
        """Return the first instant at which prices make the day's loss of the account stop
        something, else `stop`.
        """
        passing, account = self._engine.passing, self._account
        left = passing.left_to_lose(account)
        if left is None:
            return stop
        if left <= 0:
            return first
        worst, ahead = 0, list[tuple[int, int, DayRows, range]]()
        for symbol, shares, mark in passing.at_stake(account):
            if mark is None:
                return first
            rows = day.rows[symbol]
            ended = within(rows.ended_at, day.seconds[first], day.seconds[stop - 1])
            lowest = min(rows.rows.close[ended.start : ended.stop], default=mark.price)
            worst += shares * max(0, mark.price - lowest)
            ahead.append((shares, mark.price, rows, ended))
        if worst < left:
            return stop
        falls = list[tuple[int, int]]()
        for shares, price, rows, ended in ahead:
            before = price
            for index in filter(rows.rows.volume.__getitem__, ended):
                falls.append((rows.ended_at[index], shares * (before - rows.rows.close[index])))
                before = rows.rows.close[index]
        for second, fall in sorted(falls):
            left -= fall
            if left <= 0:
                return bisect_left(day.seconds, second, first, stop)
        return stop

    def _is_believed(self, day: MarketDay) -> bool:
        """Return whether the engine would trust every quote and depth of the day."""
        if self._is_plain is not None:
            return self._is_plain
        self._is_plain = False
        for symbol, rows in day.rows.items():
            if not (closes := set(rows.rows.close)):
                continue
            listed, prices = self._exchange.listed(symbol), closes.copy()
            prices.update(rows.rows.open, rows.rows.high, rows.rows.low)
            # On an ex-date the engine uses a wider band; the quote's own may differ.
            if listed is None or not all(map(listed.market.band.holds, prices)):
                return False
            if symbol in self._deep:
                touches = [touch_of(price, listed.market.grid) for price in closes]
                prices |= {each for touch in touches for each in touch if each is not None}
            if not self._engine.passing.is_plain(symbol, prices, sum(rows.rows.volume)):
                return False
        self._is_plain = True
        return True

    def _call_hooks(self, end: int) -> int:
        """Call the hooks of the bars shown before `end`; return the second of the first that the
        engine has to play, else `end`.
        """
        heard = [each for _, listeners in self._shown for each in listeners if each.hearer.is_on]
        if len(heard) == 1:  # one strategy with one symbol
            [listener] = heard
            series = listener.passed.series
            last = bisect_left(series.shown_at, end)
            row = listener.hear_all(listener.passed.indicators.at, last)
            if row == last:
                return end
            self._hand(listener, row)
            return series.shown_at[row]
        rows = [each.passed.indicators.at for each in heard]  # the next one of each
        ends = [bisect_left(each.passed.series.shown_at, end) for each in heard]
        due = list[tuple[int, int, int]]()
        for place in range(len(heard)):
            self._look_ahead(due, heard, place, rows[place], ends[place])
        while due:
            second, called = due[0][0], list[tuple[int, int]]()
            while due and due[0][0] == second:
                _, place, row = heappop(due)
                listener = heard[place]
                listener.pass_by(rows[place], row)
                rows[place] = row
                called.append((place, row))
                listener.passed.indicators.at = row + 1
                if not listener.hear(row):
                    for place, row in called:
                        self._hand(heard[place], row)
                    for listener, row in zip(heard, rows, strict=True):
                        listener.pass_by(row, bisect_left(listener.passed.series.shown_at, second))
                    return second
            for place, row in called:
                heard[place].settle(row)
                rows[place] = row + 1
                self._look_ahead(due, heard, place, row + 1, ends[place])
        for listener, row, last in zip(heard, rows, ends, strict=True):
            listener.pass_by(row, last)
        return end

    @staticmethod
    def _look_ahead(
        due: list[tuple[int, int, int]], heard: Sequence[Listener], place: int, row: int, end: int
    ) -> None:
        """Store when a listener is next to be called before the row `end`, if at all."""
        ahead = heard[place].next_call(row, end)
        if ahead < end:
            heappush(due, (heard[place].passed.series.shown_at[ahead], place, ahead))

    def _hand(self, listener: Listener, row: int) -> None:
        """Hand over what a hook has done, if it was called at all."""
        if listener.is_called_for(row):
            self._hand_over.done[id(listener.hearer.instance.strategy)] = listener.done()

    # -------------------------------------------------------------------------------- catching up

    def _catch_up(self, day: MarketDay, second: int) -> None:
        """Bring engine and exchange up to just before a second of the day."""
        passing = self._engine.passing
        for passed, listeners in self._shown:
            series = passed.series
            begun, end = (bisect_left(series.shown_at, each) for each in (self._since, second))
            passed.indicators.at = end
            if end > begun and listeners:
                passing.pass_bars(listeners[0].hearer.series, series.bar(end - 1), end - begun)
        for symbol, rows in day.rows.items():
            ended = within(rows.ended_at, self._since, second - 1)
            self.bars += len(ended)
            if (listed := self._exchange.listed(symbol)) is None:
                continue
            totals = totals_after(listed.market.totals, rows, ended.start, ended.stop)
            if (seen := self._see(symbol, second - 1, (ended, totals))) is not None:
                passing.pass_quotes(*seen)
            started = within(rows.begun_at, self._since, second - 1)
            self._exchange.pass_over(listed, rows, ended, started, totals)

    def _see(
        self, symbol: str, second: int, known: tuple[range, DayTotals] | None = None
    ) -> Seen | None:
        """Return the last quote and depth up to a second; None: none of the passed bars. `known`:
        the totals after some of them.
        """
        assert self._day is not None, "a day has begun"
        rows = self._day.rows[symbol]
        last = bisect_right(rows.quoted_at, second) - 1
        if last < 0 or rows.quoted_at[last] < self._since:
            return None
        market, at = self._exchange.market(symbol), self._day.at(rows.quoted_at[last])
        ended = within(rows.ended_at, self._since, rows.quoted_at[last])
        if known is not None and known[0] == ended:
            totals = known[1]
        else:
            totals = totals_after(market.totals, rows, ended.start, ended.stop)
        depth = depth_of(market, totals, at) if symbol in self._deep else None
        return quote_of(market, totals, at), depth
