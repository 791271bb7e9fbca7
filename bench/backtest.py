"""A backtest of an SMA cross compared with other backtesters: rates, growth, memory.

    python -m bench.backtest [SECTION…]      sparse idle dense slow long grow symbols memory
    BACKTEST_PEERS=FOLDER                    a folder of virtual environments: backtesting, nautilus

The market is a seeded random walk of minute bars on artificial days of 899 minutes of continuous
trading (the peers know no sessions): `RULES` has one tick, a wide band and no holiday. Every figure
is CPU time of its own process; the ratios of a section are from one run.
"""

import gc
import json
import os
import resource
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from time import process_time
from typing import Any, Final

import numpy as np
from ruamel.yaml import YAML

import bot.domain
from bot.domain.instrument import Exchange, Instrument
from bot.domain.plan import Limits, OrderPlan, StrategyMode, StrategyPlan, Wake, When
from bot.domain.rulebook import Rulebook
from bot.engine.settings import EngineSettings, LoadedStrategy
from bot.runtime.history.backtest.result import BacktestSpec
from bot.runtime.history.backtest.run import run_backtest
from bot.runtime.history.bars import CHUNK_BARS, BarColumns, DayFrame, Gap
from bot.strategy import BarView, Strategy

SEED: Final = 20_260_101
TICK: Final = 50
SHARES: Final = 100
CASH: Final = 10_000_000_000
FIRST: Final = date(2008, 1, 1)
MINUTES: Final = 899
"""From 09:00 to 23:59."""
PEERS: Final = ("backtesting", "nautilus")
SPARSE, DENSE, IDLE = (20, 50), (2, 5), (200, 2_000)

Columns = tuple[Sequence[int], ...]
"""Open, high, low, close, volume."""


def walk(bars: int, symbol: int = 0) -> Columns:
    """Return a seeded random walk of minute bars in whole VND."""
    draw = Random(SEED + symbol).getrandbits
    price, columns = 25_000, tuple[list[int], ...]([] for _ in range(5))
    for _ in range(bars):
        bits = draw(16)
        after = price + TICK * ((bits & 3) - (bits >> 2 & 3))
        after = 10_050 if after < 10_000 else 59_950 if after > 60_000 else after
        high, low = max(price, after) + TICK * (bits >> 4 & 1), min(price, after)
        row = price, high, low - TICK * (bits >> 5 & 1), after, SHARES * (1 + (bits >> 6))
        for column, value in zip(columns, row, strict=True):
            column.append(value)
        price = after
    return columns


# ------------------------------------------------------------------------------------- the market


def rules() -> Rulebook:
    """Return a rulebook with no rule that the peers lack."""
    folder, yaml = Path(bot.domain.__file__).parent / "rules", YAML(typ="safe")
    market = yaml.load((folder / "market.yaml").read_text(encoding="utf-8"))
    hose = market["exchanges"]["HOSE"]
    hose["band"][0] |= {"percent": 95, "special_percent": 95}
    hose["ticks"][0]["kinds"]["STOCK"] = [{"below": None, "tick": TICK}]
    hose["phases"][0]["spans"] = [
        {"start": "00:00", "phase": "CLOSED"},
        {"start": "09:00", "phase": "PROGRESS"},
        {"start": "23:59", "phase": "CLOSED"},
    ]
    market["settlement"][0]["delivered_at"] = "09:00"  # where a phase begins, as 13:00 elsewhere
    years = dict.fromkeys(range(FIRST.year, FIRST.year + 60), "CONFIRMED")
    calendar = {"years": years, "closed": [], "unconfirmed_closures": []}
    return Rulebook.from_mapping({**market, "calendar": calendar})


class Walks:
    """Bars of symbols, placed on the minutes of trading days; the walk is repeated
    `repeat` times.
    """

    def __init__(self, walks: Mapping[str, Columns], rulebook: Rulebook, repeat: int = 1) -> None:
        self._walks = {
            symbol: tuple(np.array(column, dtype=np.int64) for column in columns)
            for symbol, columns in walks.items()
        }
        self._bars = max(len(columns[0]) for columns in walks.values()) * repeat
        days, day = list[date](), FIRST
        while len(days) * MINUTES < self._bars:
            if rulebook.calendar.is_trading_day(day):
                days.append(day)
            day += timedelta(days=1)
        self.last = days[-1]
        midnight = datetime(1970, 1, 1, tzinfo=UTC).date()
        self._days = np.array([(each - midnight).days for each in days], dtype=np.int64) * 86_400

    @property
    def width(self) -> timedelta:
        return timedelta(minutes=1)

    def symbols(self) -> tuple[str, ...]:
        return tuple(sorted(self._walks))

    def span(self, _symbol: str) -> tuple[date, date]:
        return FIRST, self.last

    def chunks(self, symbol: str, first: date, _last: date) -> Iterator[BarColumns]:
        columns = self._walks[symbol]
        for begin in range(0, self._bars if first >= FIRST else 0, CHUNK_BARS):
            numbers = np.arange(begin, min(begin + CHUNK_BARS, self._bars))
            minutes = self._days[numbers // MINUTES] + 2 * 3_600 + numbers % MINUTES * 60
            rows = numbers % len(columns[0])
            yield BarColumns(symbol, 60, minutes, *(column[rows] for column in columns))

    def frames(self, _symbol: str, _first: date, _last: date) -> Mapping[date, DayFrame]:
        return {}

    def gaps(self, _symbol: str, _first: date, _last: date) -> tuple[Gap, ...]:
        return ()


class Cross(Strategy):
    """Flat and fast above slow: buy; long and fast below slow: sell."""

    fast: int = 20
    slow: int = 50

    def on_bar(self, bar: BarView) -> None:
        fast, slow = bar.sma(self.fast), bar.sma(self.slow)
        if fast > slow and not self.position:
            self.buy(SHARES, market="MTL", why="above")
        elif fast < slow and self.position:
            self.sell(SHARES, market="MTL", why="below")


def prepared(
    walks: Sequence[Columns], cross: tuple[int, int], *, repeat: int = 1, why_slow: str = ""
) -> Callable[[], int]:
    """Return a run of the product, which returns its number of orders."""
    rulebook = rules()
    symbols = tuple(f"S{number:02}" for number in range(len(walks)))
    source = Walks(dict(zip(symbols, walks, strict=True)), rulebook, repeat)
    plan = StrategyPlan(
        name="cross",
        use="Cross",
        symbols=symbols,
        account="",
        mode=StrategyMode.TRADE,
        parameters={"fast": cross[0], "slow": cross[1]},
        wake=Wake(bar=timedelta(minutes=1)),
        when=When(),
        order=OrderPlan(),
        limits=Limits(),
    )
    instruments = tuple(Instrument(symbol, Exchange.HOSE) for symbol in symbols)
    spec = BacktestSpec(
        strategies=(LoadedStrategy(plan, Cross, instruments),),
        rulebook=rulebook,
        settings=EngineSettings(),
        source=source,
        first=FIRST,
        last=source.last,
        cash=CASH,
        unowned=dict.fromkeys(symbols, 10**7),
        fill="touch",
    )
    return lambda: len(run_backtest(spec, why_slow=why_slow).orders)


# ------------------------------------------------------------------------------- the bare lazy loop


@dataclass(slots=True)
class Bar:
    symbol: str
    at: int
    open: int
    high: int
    low: int
    close: int
    volume: int


@dataclass(slots=True)
class Order:
    symbol: str
    side: int
    status: str = "SENT"


class Average:
    """A moving average over integers."""

    __slots__ = ("length", "sum", "window")

    def __init__(self, length: int) -> None:
        self.length, self.sum, self.window = length, 0, deque[int](maxlen=length)

    def update(self, value: int) -> None:
        window = self.window
        self.sum += value - window[0] if len(window) == self.length else value
        window.append(value)


class BareBroker:
    """Fills working orders at the next bar's open."""

    def __init__(self) -> None:
        self.working: dict[str, list[Order]] = {}
        self.positions: dict[str, int] = {}
        self.cash, self.orders = CASH, 0

    def submit(self, symbol: str, side: int) -> Order:
        self.orders += 1
        order = Order(symbol, side)
        self.working.setdefault(symbol, []).append(order)
        return order

    def on_bar(self, bar: Bar) -> None:
        working = self.working.get(bar.symbol)
        for order in working[:] if working else ():
            working.remove(order)  # type: ignore[union-attr]
            order.status = "MATCHED_ALL"
            self.cash -= order.side * SHARES * bar.open
            held = self.positions.get(order.symbol, 0)
            self.positions[order.symbol] = held + order.side * SHARES


class BareCross:
    """The same cross without any framework."""

    def __init__(self, broker: BareBroker, symbol: str, cross: tuple[int, int]) -> None:
        self.broker, self.symbol, self.cross = broker, symbol, cross
        self.fast, self.slow, self.seen = Average(cross[0]), Average(cross[1]), 0
        self.open: Order | None = None

    def on_bar(self, bar: Bar) -> None:
        self.fast.update(bar.close)
        self.slow.update(bar.close)
        self.seen += 1
        if self.seen < self.cross[1] or (self.open is not None and self.open.status == "SENT"):
            return
        above = self.fast.sum * self.cross[1] - self.slow.sum * self.cross[0]
        position = self.broker.positions.get(self.symbol, 0)
        if above > 0 and position == 0:
            self.open = self.broker.submit(self.symbol, 1)
        elif above < 0 and position > 0:
            self.open = self.broker.submit(self.symbol, -1)


def bare_loop(columns: Columns, cross: tuple[int, int]) -> int:
    """Bars made on the fly, a strategy, a broker with order objects: the best that
    Python can do.
    """
    broker = BareBroker()
    on_bar = BareCross(broker, "S00", cross).on_bar
    for at, row in enumerate(zip(*columns, strict=True)):
        bar = Bar("S00", at * 60, *row)
        broker.on_bar(bar)
        on_bar(bar)
    return broker.orders


# ------------------------------------------------------------------------------------- the figures


def rate(run: Callable[[], int], bars: int) -> tuple[float, int]:
    """Return bars a second of CPU, and the orders."""
    gc.collect()
    started = process_time()
    orders = run()
    return bars / (process_time() - started), orders


def peer_rate(name: str, bars: int, cross: tuple[int, int]) -> tuple[float, int] | None:
    """Return the rate of a peer in its own environment, None without one."""
    folder = os.environ.get("BACKTEST_PEERS")
    python = Path(folder) / name / "bin" / "python" if folder else None
    if python is None or not python.exists():
        return None
    script = Path(__file__).with_name("backtest_peers.py")
    command = [str(python), "-W", "ignore", str(script), name, str(bars), *map(str, cross)]
    told = subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, check=True, timeout=1_800
    )
    found: dict[str, Any] = json.loads(told.stdout.splitlines()[-1])
    return bars / float(found["seconds"]), int(found["orders"])


def tell(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def beside(bars: int, cross: tuple[int, int], peers: Sequence[str], why_slow: str = "") -> None:
    """Report the rate, and its ratios to the bare loop and the peers."""
    columns = walk(bars)
    mine, orders = rate(prepared([columns], cross, why_slow=why_slow), bars)
    bare, bare_orders = rate(lambda: bare_loop(columns, cross), bars)
    gear = "slow gear" if why_slow else "fast gear"
    tell(f"{bars:,} bars, SMA {cross[0]}/{cross[1]}, {gear}: {mine:,.0f} bars/s, {orders:,} orders")
    tell(f"  {mine / bare:.2f} of the bare loop ({bare:,.0f} bars/s, {bare_orders:,} orders)")
    for name in peers:
        found = peer_rate(name, bars, cross)
        if found is None:
            tell(f"  {name}: no environment, see BACKTEST_PEERS")
        else:
            tell(f"  {mine / found[0]:.2f} x {name} ({found[0]:,.0f} bars/s, {found[1]:,} orders)")


def grow() -> None:
    """Report the cost of an order after many others."""
    idle, costs = rate(prepared([walk(20_000)], SPARSE), 20_000)[0], []
    for bars in (9_400, 40_000):
        reached, orders = rate(prepared([walk(bars)], DENSE), bars)
        costs.append((bars / reached - bars / idle) / orders)
        tell(f"  {orders:,} orders: {costs[-1] * 1e6:.0f} us an order")
    tell(f"cost of an order after many / after few: {costs[1] / costs[0]:.2f}")


def long() -> None:
    """Report whether the rate holds over a long run."""
    few, many = (rate(prepared([walk(bars)], SPARSE), bars)[0] for bars in (100_000, 1_000_000))
    tell(f"1,000,000 bars / 100,000 bars: {many / few:.2f} of the rate ({many:,.0f}, {few:,.0f})")


def symbols() -> None:
    """Report the rate of fifty symbols in one run."""
    reached, orders = rate(prepared([walk(20_000, each) for each in range(50)], SPARSE), 1_000_000)
    tell(f"50 symbols of 20,000 bars: {reached:,.0f} bars/s, {orders:,} orders")


def memory() -> None:
    """Report the peak memory of ten million bars; the walk is a million, repeated ten times."""
    run = prepared([walk(1_000_000)], IDLE, repeat=10)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
    reached, orders = rate(run, 10_000_000)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
    tell(f"10,000,000 bars: {most:.0f} MB at most, {before:.0f} before the run; {orders:,} orders")
    tell(f"  {reached:,.0f} bars/s")


SECTIONS: Final[Mapping[str, Callable[[], None]]] = {
    "sparse": lambda: beside(1_000_000, SPARSE, PEERS[:1]),
    "idle": lambda: beside(300_000, IDLE, PEERS[:1]),
    "dense": lambda: beside(100_000, DENSE, PEERS[:1]),
    "nautilus": lambda: beside(100_000, SPARSE, PEERS[1:]),
    "slow": lambda: beside(100_000, SPARSE, PEERS[1:], "measured"),
    "long": long,
    "grow": grow,
    "symbols": symbols,
    "memory": memory,
}

if __name__ == "__main__":
    for section in sys.argv[1:] or SECTIONS:
        SECTIONS[section]()
