"""Runs a backtest in the slow gear: the whole engine, event by event. Its results are the
reference.

    Market ── instants ─► loop ── events ─► Engine ── commands ─► BarBroker ── events ─► Engine …

Engine deadlines before an instant are processed first, at their own time.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, time, timedelta
from typing import Final

from bot.config.problems import OperatorMistake
from bot.config.strategies.invoke import invoke as call_timed
from bot.domain.account import ShareholderRight
from bot.domain.instrument import Exchange, Instrument, Phase, SymbolTable
from bot.domain.local_time import instant_of
from bot.domain.message import (
    BarClosed,
    DepthReceived,
    InstrumentsRead,
    PhaseChanged,
    QuoteReceived,
    Reconciled,
    Recovered,
    TimerFired,
    TradingDayStarted,
)
from bot.domain.operations import Action, EarlierOrdersRead, OperatorActed, TradingDayEnded
from bot.domain.plan import PriceBasis
from bot.domain.quote import Bar, ClosesRead, Depth, Quote
from bot.domain.recovery import RecoveredStrategy, Recovery
from bot.engine.engine import Engine
from bot.engine.risk.view import SILENT_PHASES
from bot.engine.settings import Invoke, LoadedStrategy, StrategyFault
from bot.runtime.history.backtest.broker import BarBroker
from bot.runtime.history.backtest.conditions import assumptions_of, require_possible
from bot.runtime.history.backtest.exchange import BarExchange
from bot.runtime.history.backtest.fast import FastGear, HandOver, why_not
from bot.runtime.history.backtest.fills import depth_of, quote_of
from bot.runtime.history.backtest.listings import OPENS_AT, Listings, fall_of
from bot.runtime.history.backtest.loop import Loop, Timer, engines_own, timers_of
from bot.runtime.history.backtest.market import LOOK_BACK, Instant, Market, MarketDay, wanted_of
from bot.runtime.history.backtest.over_recording import pay_falls, play_recording
from bot.runtime.history.backtest.passed import PassedContext
from bot.runtime.history.backtest.result import (
    ACCOUNT_ID,
    BacktestResult,
    BacktestSpec,
    Collected,
    owned_at,
)
from bot.sandbox.exchange.accounts import Account
from bot.sandbox.exchange.message import Listing
from bot.sandbox.scenario import AccountScript
from bot.strategy import Context, Strategy

ENDS_AT: Final = time(15, 30)
ONE_DAY: Final = timedelta(days=1)
_BY_DEPTH: Final = frozenset({PriceBasis.BID, PriceBasis.ASK, PriceBasis.MID})

Progress = Callable[[float], None]


def quiet(_done: float) -> None:
    """Show no progress."""


def invoke_untimed(strategy: Strategy, hook: str, argument: object | None) -> StrategyFault | None:
    """Call a hook and describe what it raised; its duration depends on the machine, not the day, so
    it is not timed.
    """
    fault = call_timed(strategy, hook, argument)
    return None if fault is None or fault.is_overrun else fault


def run_backtest(
    spec: BacktestSpec,
    progress: Progress = quiet,
    *,
    invoke: Invoke = invoke_untimed,
    why_slow: str = "",
) -> BacktestResult:
    """Run strategies over bars and return the result. `progress` is called with the share done.

    The same spec gives the same result. `why_slow`: a reason to play every bar on the whole engine,
    for comparing the two gears; by default it is determined. Raises OperatorMistake with everything
    that prevents the run.
    """
    require_possible(spec)
    if spec.recorded is not None:
        return play_recording(spec, spec.recorded, progress, invoke=invoke)
    return play_through(
        spec,
        progress,
        invoke=invoke,
        table=spec.table,
        collected=Collected(),
        why_slow=why_slow or why_not(spec.strategies),
    )


def play_through(
    spec: BacktestSpec,
    progress: Progress,
    *,
    invoke: Invoke,
    table: SymbolTable,
    collected: Collected,
    why_slow: str = "every entry is to be heard",
) -> BacktestResult:
    """Run a checked spec. `table` says where symbols trade, the strategies' own word what it does
    not list; `collected` gets every entry. Empty `why_slow` selects the fast gear, in which a plain
    "no request" is counted but makes no entry.
    """
    run = _Run(spec, invoke, table, collected, why_slow)
    run.listings.look_back(run.market, spec.first)
    days = max(1, (spec.last - spec.first).days + 1)
    for day in run.market.days(spec.first, spec.last):
        run.play(day)
        progress(((day.day - spec.first).days + 1) / days)
    progress(1.0)
    return run.result()


class _Run:
    """One backtest in progress: engine, broker and collected results."""

    def __init__(
        self,
        spec: BacktestSpec,
        invoke: Invoke,
        table: SymbolTable,
        collected: Collected,
        why_slow: str,
    ) -> None:
        self.spec = spec
        script = AccountScript(id=ACCOUNT_ID, cash=spec.cash, holdings=dict(spec.holdings))
        strategies = [
            replace(each, plan=replace(each.plan, account=script.extended_id))
            for each in spec.strategies
        ]
        self.market = Market(
            spec.rulebook, table, spec.source, wanted_of(spec.strategies), _known(spec)
        )
        # The broker reports every change at once, so nothing has to be read or becomes old.
        settings = replace(
            spec.settings,
            account_limits=replace(spec.settings.account_limits, max_account_age=None),
            poll_backoff=(ONE_DAY,),
            takes_bars_whole=True,
            sums_up_days=bool(why_slow),
        )
        self._why_slow = why_slow
        hand_over = HandOver(invoke)
        self._engine = engine = Engine(
            rulebook=spec.rulebook,
            strategies=strategies,
            settings=settings,
            invoke=hand_over,
            context=Context if self._why_slow else PassedContext,
        )
        self._places = {series: place for place, series in enumerate(engine.bars_wanted())}
        self._account = Account(spec.rulebook, cash=spec.cash)
        began = instant_of(spec.first - LOOK_BACK, time())
        self._exchange = BarExchange(spec.rulebook, self._account, at=began, fill=spec.fill)
        self._broker = BarBroker(spec.rulebook, self._exchange, script)
        self._collected = collected
        self._loop = Loop(engine, self._broker, collected, now=began)
        self._deep = frozenset(_deep(spec.strategies))
        self._fast: FastGear | None = None
        if not self._why_slow:
            self._fast = FastGear(
                engine,
                self._exchange,
                hand_over,
                collected.counts,
                deep=self._deep,
                account=script.extended_id,
            )
        self._timers = timers_of(spec.strategies)
        self._deadlines = [spec.rulebook.settlement.delivered_at, *(t.at for t in self._timers)]
        self.listings = Listings(spec.rulebook, self._exchange, table, _known(spec))
        self._listed: tuple[str, ...] = ()
        self._rights: list[ShareholderRight] = []
        self._told: list[str] = []
        self._phased = set[Exchange]()
        self._bars, self._capital = 0, spec.cash

    # ------------------------------------------------------------------------------- the days

    def play(self, day: MarketDay) -> None:
        """Play one day, from before its opening to after its close."""
        timers = deque((instant_of(day.day, each.at), each) for each in self._timers)
        self._begin(day, instant_of(day.day, OPENS_AT))
        if self._fast is not None:
            self._fast.begin(day)
        engines, number = engines_own(day, self._deadlines), 0
        while True:
            if self._fast is not None:
                stop = engines[bisect_left(engines, number)]
                if (reached := self._fast.pass_over(number, stop)) > number:
                    number = reached
                    self._loop.pass_to(day.at(day.seconds[number - 1]))
            if number == len(day.seconds):
                break
            instant = day.instant(day.seconds[number])
            while timers and timers[0][0] < instant.at:
                at, timer = timers.popleft()
                self._fire(at, timer)
            self._loop.pass_to(instant.at)
            self._happen(instant)
            while timers and timers[0][0] == instant.at:
                at, timer = timers.popleft()
                self._fire(at, timer)
            for bar in instant.begun:
                self._exchange.begin_bar(bar, instant.at)
            for event in self._broker.news(instant.at):
                self._loop.handle(event)
            number += 1
        for at, timer in timers:
            self._fire(at, timer)
        at = max(self._loop.now, instant_of(day.day, ENDS_AT))
        self._loop.pass_to(at)
        self._loop.handle(TradingDayEnded(at, day.day))  # it makes the last comparison
        self.listings.end(day.day, self._listed)
        self._collected.end_day(at, self._account, self._exchange.closes(), self._listed)

    def _begin(self, day: MarketDay, at: datetime) -> None:
        """Read what a day begins with, in the order of a real start."""
        self._loop.pass_to(at)
        broker = self._broker
        closes = self.listings.closes(day)
        listings = self.listings.of(day)
        falls = {  # by how much a share fell on its ex-date: the bars do not say what it paid
            symbol: (fall_of(self._exchange.market(symbol).anchor, listing, ratio), held)
            for listing in listings
            if (ratio := day.symbols[symbol := listing.instrument.symbol].frame.ex_ratio)
            is not None
            if (held := self._account.held(symbol))  # so it was listed the day before
        }
        rights, told = pay_falls(self._account, self.spec.rulebook, day.day, falls, at)
        self._rights += rights
        self._told += told
        self._exchange.start_day(at, listings)
        broker.start_day()
        self._listed = tuple(each.instrument.symbol for each in listings)
        if not self._collected.equity:
            owned = self._deposit(listings)
            self._loop.handle(Recovered(at, Recovery(day.day, strategies=owned)))
        else:
            self._loop.handle(TradingDayStarted(at, day.day))
        self._loop.handle(InstrumentsRead(at, tuple(each.instrument for each in listings)))
        self._loop.handle(EarlierOrdersRead(at, ()))
        self._loop.handle(broker.todays_orders(at))
        self._loop.handle(replace(broker.account_read(at), rights=tuple(self._rights)))
        for exchange in sorted({each.instrument.exchange for each in listings} - self._phased):
            self._loop.handle(PhaseChanged(at, exchange, Phase.CLOSED))
            self._phased.add(exchange)
        for symbol, each in day.symbols.items():
            if each.is_moved and each.frame.ex_ratio is None:
                self._engine.passing.keep_level(symbol)
        self._loop.handle(ClosesRead(at, closes))
        for listing in listings:
            self._quote(listing.instrument.symbol, at)
        self._loop.handle(Reconciled(at))

    def _deposit(self, listings: list[Listing]) -> Mapping[str, RecoveredStrategy]:
        """Deposit the held shares into the account, owned by the first strategy that
        trades them.
        """
        references = {each.instrument.symbol: each.reference for each in listings}
        for symbol, shares in sorted(self.spec.holdings.items()):
            if symbol not in references:
                text = f"--hold {symbol}: it has no bar on the first day, so its worth is not known"
                raise OperatorMistake.of("E-BT-006", f"{text}: begin on another day")
            self._account.deposit_shares(symbol, shares, cost_price=references[symbol])
            self._capital += shares * references[symbol]
        for symbol, shares in self.spec.unowned.items():
            self._account.deposit_shares(symbol, shares, cost_price=references[symbol])
            self._capital += shares * references[symbol]
        return owned_at(self.spec, references)

    def _happen(self, instant: Instant) -> None:
        """Process everything at an instant except the bars that begin there."""
        at, broker, exchange = instant.at, self._broker, self._exchange
        for bar in instant.ended:
            exchange.end_bar(bar, at)
            self._bars += 1
        quoted = self._listed if instant.moves else instant.quoted
        ended = {bar.symbol for bar in instant.shown}
        unshown = self._poll(quoted, ended, at)
        moved = exchange.enter(at, instant.auctions) if instant.moves else []
        for event in broker.news(at):
            self._loop.handle(event)
        if instant.moves:
            due = self._account.next_settlement()
            if due is not None and due <= at:
                self._loop.handle(broker.account_read(at))
        judged = unshown & ended
        for symbol in sorted(judged):  # live, a poll within the bar was judged before its end
            self._quote(symbol, at)
        # Live, bars close before any event of the instant of their end, in the order of the plans.
        for bar in sorted(instant.shown, key=self._place_of):
            self._loop.handle(BarClosed(at, bar))
        for each in sorted(moved):
            self._loop.handle(PhaseChanged(at, each, exchange.phase(each)))
        for symbol in quoted:
            if symbol not in judged and not self._is_resting(symbol):
                self._quote(symbol, at)
        for bar in sorted(instant.held, key=self._place_of):
            self._loop.handle(BarClosed(at, bar))
        left = self._engine.passing.left_to_lose(broker.script.extended_id)
        if left is not None and left <= 0:  # live, the next read of the account would find it
            self._loop.handle(broker.account_read(at))

    def _place_of(self, bar: Bar) -> int:
        return self._places[bar.symbol, timedelta(seconds=bar.seconds)]

    def _fire(self, at: datetime, timer: Timer) -> None:
        self._loop.pass_to(at)
        for symbol in timer.symbols:
            self._quote(symbol, at)
        self._loop.handle(TimerFired(at, timer.strategy, timer.at))

    def _poll(self, symbols: Iterable[str], ended: Collection[str], at: datetime) -> set[str]:
        """Show what polls have seen up to now, waking nobody: a hook that a bar, a fill or a new
        phase wakes has a quote as fresh as live. Where an exchange did not trade, nothing was
        polled but what the closing auction matched, of which a bar has `ended`. Return the symbols
        whose quotes have to be judged in full.
        """
        left = set[str]()
        for symbol in symbols:
            market = self._exchange.market(symbol) if symbol in self._listed else None
            if market is None or (market.day.phase in SILENT_PHASES and symbol not in ended):
                continue
            quote, depth = self._seen(symbol, at)
            prices = filter(None, (quote.last, quote.open, quote.high, quote.low))
            # On an ex-date the engine uses a wider band than the quote's own.
            is_within = all(map(market.band.holds, prices))
            if not is_within or not self._engine.passing.show_quotes(quote, depth):
                left.add(symbol)
        return left

    def _is_resting(self, symbol: str) -> bool:
        """Return whether a symbol's exchange has its break, in which nothing is polled."""
        return symbol in self._listed and self._exchange.market(symbol).day.phase is Phase.BREAK

    def _quote(self, symbol: str, at: datetime) -> None:
        """Show what a poll would see now, and wake those who want quotes."""
        if symbol not in self._listed:
            return
        quote, depth = self._seen(symbol, at)
        self._loop.handle(QuoteReceived(at, quote))
        if depth is not None:
            self._loop.handle(DepthReceived(at, depth))

    def _seen(self, symbol: str, at: datetime) -> tuple[Quote, Depth | None]:
        """Return quote and depth by the last price of the finished bars."""
        market = self._exchange.market(symbol)
        depth = depth_of(market, market.totals, at) if symbol in self._deep else None
        return quote_of(market, market.totals, at), depth

    # ------------------------------------------------------------------------------- the result

    def result(self) -> BacktestResult:
        """Stop the strategies and return the result. Raises OperatorMistake if there was no day."""
        spec = self.spec
        if not self._collected.equity:
            text = f"no bar of any symbol is of {spec.first} to {spec.last}: choose other days"
            raise OperatorMistake.of("E-BT-004", text)
        self._loop.handle(
            OperatorActed(self._loop.now, Action.STOP, "the end of the backtest", "backtest")
        )
        return self._collected.result(
            spec,
            capital=self._capital,
            assumptions=(*assumptions_of(spec), *self.listings.told, *self._told),
            bars=self._bars + (self._fast.bars if self._fast is not None else 0),
            why_slow=self._why_slow,
        )


def _deep(strategies: tuple[LoadedStrategy, ...]) -> Iterator[str]:
    """Yield the symbols of the strategies that look at depth."""
    for plan in (each.plan for each in strategies):
        if plan.order.basis in _BY_DEPTH or plan.wake.depth is not None:
            yield from plan.symbols


def _known(spec: BacktestSpec) -> Mapping[str, Instrument]:
    """Return where each symbol trades; the day's table takes precedence."""
    return {i.symbol: i for each in spec.strategies for i in each.instruments}
