"""A source of bars that a test writes down, and a backtest over them in one call."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import groupby

import numpy as np

from bot.config.rulebook import load_rulebook
from bot.domain.calendar import EarlyClose
from bot.domain.instrument import Exchange, Instrument
from bot.domain.local_time import instant_of, local_of
from bot.domain.plan import (
    NONE,
    AccountLimits,
    Limits,
    OrderPlan,
    ParameterValue,
    StrategyMode,
    StrategyPlan,
    Wake,
    When,
)
from bot.domain.quote import Bar
from bot.engine.settings import EngineSettings, Invoke, LoadedStrategy, invoke_plainly
from bot.runtime.history.backtest.result import BacktestResult, BacktestSpec
from bot.runtime.history.backtest.run import run_backtest
from bot.runtime.history.bars import BarColumns, DayFrame, Gap
from bot.sandbox.markets.mirror.model import FillName
from bot.strategy import Strategy

DAY = date(2026, 11, 19)
MINUTE = timedelta(minutes=1)
BY_MINUTE = Wake(bar=MINUTE)


class Written:
    """Bars of one width, as a test has written them."""

    def __init__(
        self,
        bars: list[Bar],
        width: timedelta = MINUTE,
        frames: Mapping[date, DayFrame] | None = None,
    ) -> None:
        self._bars = sorted(bars, key=lambda bar: (bar.symbol, bar.start))
        self._width = width
        self._frames = frames or {}

    @property
    def width(self) -> timedelta:
        return self._width

    def symbols(self) -> tuple[str, ...]:
        return tuple(sorted({bar.symbol for bar in self._bars}))

    def _of(self, symbol: str) -> list[Bar]:
        return [bar for bar in self._bars if bar.symbol == symbol]

    def span(self, symbol: str) -> tuple[date, date] | None:
        days = [local_of(bar.start).date() for bar in self._of(symbol)]
        return (days[0], days[-1]) if days else None

    def chunks(self, symbol: str, first: date, last: date) -> Iterator[BarColumns]:
        bars = [bar for bar in self._of(symbol) if first <= local_of(bar.start).date() <= last]
        seconds = round(self._width.total_seconds())
        for _, group in groupby(enumerate(bars), key=lambda each: each[0] // 7):
            part = [bar for _, bar in group]
            columns = [
                np.array([round(bar.start.timestamp()) for bar in part], dtype=np.int64),
                *(
                    np.array([getattr(bar, name) for bar in part], dtype=np.int64)
                    for name in ("open", "high", "low", "close", "volume")
                ),
            ]
            yield BarColumns(symbol, seconds, *columns)

    def frames(self, _symbol: str, _first: date, _last: date) -> Mapping[date, DayFrame]:
        return self._frames

    def gaps(self, _symbol: str, _first: date, _last: date) -> tuple[Gap, ...]:
        return ()


def bar(
    clock: str, *prices: int, volume: int = 100_000, symbol: str = "HPG", day: date = DAY
) -> Bar:
    """A minute bar at a local time: open, high, low, close, or one price for all."""
    values = prices if len(prices) == 4 else (prices[0],) * 4
    at = instant_of(day, time.fromisoformat(clock))
    return Bar(symbol, at, 60, *values, volume)


def backtest(
    factory: type[Strategy],
    bars: list[Bar],
    *,
    fill: FillName = "touch",
    wake: Wake = BY_MINUTE,
    order: OrderPlan | None = None,
    another: OrderPlan | None = None,
    limits: Limits | None = None,
    shared: AccountLimits = NONE,
    exchange: Exchange = Exchange.HOSE,
    first: date = DAY,
    last: date | None = None,
    cash: int = 100_000_000,
    holdings: Mapping[str, int] | None = None,
    source: Written | None = None,
    invoke: Invoke = invoke_plainly,
    why_slow: str = "",
    early: time | None = None,
    **parameters: ParameterValue,
) -> BacktestResult:
    """Run one strategy over written bars, and with `another` a second one that orders by that;
    what a hook raises is raised here. `early`: when the first day ends. `shared`: the account's
    limits.
    """
    rulebook = load_rulebook()
    if early is not None:
        closes = {first: EarlyClose(first, early, "a storm")}
        rulebook = replace(rulebook, calendar=replace(rulebook.calendar, early_closes=closes))
    source = source or Written(bars)
    symbols = source.symbols()
    plan = StrategyPlan(
        name=factory.__name__,
        use=factory.__name__,
        symbols=symbols,
        account="",
        mode=StrategyMode.TRADE,
        parameters=parameters,
        wake=wake,
        when=When(),
        order=order or OrderPlan(),
        limits=limits or Limits(),
    )
    instruments = tuple(Instrument(symbol, exchange) for symbol in symbols)
    plans = [plan]
    if another is not None:
        plans.append(replace(plan, name="Another", order=another))
    spec = BacktestSpec(
        strategies=tuple(LoadedStrategy(each, factory, instruments) for each in plans),
        rulebook=rulebook,
        settings=EngineSettings(account_limits=shared),
        source=source,
        first=first,
        last=last or max(span[1] for symbol in symbols if (span := source.span(symbol))),
        cash=cash,
        holdings=holdings or {},
        fill=fill,
    )
    return run_backtest(spec, invoke=invoke, why_slow=why_slow)


def clock(at: datetime) -> str:
    """The local time of day."""
    assert at.tzinfo is UTC, "instants are UTC"
    return f"{local_of(at):%H:%M:%S}"
