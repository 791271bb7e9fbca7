"""Strategies and markets made up from one number, and what the two gears make of them.

Whoever compares the gears plays the same spec in each: all that came of it has to be equal, and all
that the strategies were shown.
"""

import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from datetime import date, time, timedelta
from typing import Any, ClassVar

from bot.config.rulebook import load_rulebook
from bot.domain.calendar import EarlyClose
from bot.domain.entry import Fill
from bot.domain.instrument import Exchange, Instrument, Phase
from bot.domain.local_time import instant_of
from bot.domain.plan import (
    AccountLimits,
    Limits,
    OrderPlan,
    PriceBasis,
    StrategyMode,
    StrategyPlan,
    Wake,
    When,
)
from bot.domain.quote import Bar
from bot.domain.rulebook import Rulebook
from bot.engine.settings import EngineSettings, LoadedStrategy
from bot.runtime.history.backtest.result import BacktestResult, BacktestSpec
from bot.runtime.history.backtest.run import run_backtest
from bot.strategy import BarView, Rejection, Strategy
from tests.proofs import undone
from tests.runtime.history.backtest.listed import Written

TRADED = {"HPG": Exchange.HOSE, "FPT": Exchange.HOSE, "SHS": Exchange.HNX, "ACV": Exchange.UPCOM}
DAYS = tuple(date(2026, 11, day) for day in (16, 17, 18, 19, 20, 23, 24))
MARKET_TYPES = ("MTL", "ATO", "ATC", "MOK", "PLO", "MP")
SLOW = "compared with the fast gear"


class Wanderer(Strategy):
    """Does what its own dice say, and notes all that it is shown."""

    seed: int = 0
    shown: ClassVar[list[Any]] = []

    def __init__(self, context: Any = None) -> None:
        super().__init__(context)
        self.kept: BarView | None = None
        self.calls = 0

    def on_start(self) -> None:
        self.dice = random.Random(f"{self.seed} {self.name} {self.symbol}")
        self.temper = self.dice.choice([0.004, 0.02, 0.1, 0.6])
        self.lengths = [self.dice.randint(2, 40) for _ in range(3)]
        self.looks = self.dice.random() < 0.4
        self.note("start")

    def note(self, what: str, *more: object) -> None:
        self.shown.append((self.name, self.symbol, what, self.now, self.phase, *more))

    def on_bar(self, bar: BarView) -> None:
        self.calls += 1
        dice = self.dice
        one = getattr(bar, dice.choice(["sma", "ema", "rsi"]))(dice.choice(self.lengths))
        self.note("bar", repr(one), repr(one.previous), bar.close, self.position)
        if self.looks:
            self.note("looked", bar.bar, self.quote, self.depth, self.account)
        if self.kept is not None and dice.random() < 0.1:
            self.note("kept", self.kept.bar, self.kept.close, repr(self.kept.sma(3)))
        if dice.random() < 0.1:
            self.kept = bar
        if dice.random() < self.temper:
            self.act(bar.close, bar)

    def act(self, price: int, bar: BarView | None = None) -> None:
        dice = self.dice
        for _ in range(dice.choice([1, 1, 1, 1, 2, 3])):
            deed = dice.random()
            if deed < 0.45:
                self.order(price)
            elif deed < 0.6:
                self.close(why="out")
            elif deed < 0.75:
                self.cancel()
            elif deed < 0.9:
                self.skip(f"call {self.calls}")
            elif deed < 0.97 and bar is not None:
                crossed = bar.sma(3).crossed_above(bar.ema(7))
                self.note("crossed", crossed, bar.rsi().crossed_below(50))
            elif deed < 0.99:
                raise ValueError(f"call {self.calls}")
            else:
                for _ in range(dice.choice([5, 101])):
                    self.skip("again")

    def order(self, price: int) -> None:
        dice = self.dice
        quantity = dice.choice([None, 100, 100, 300, 2_000, 7, 150])
        trade = self.buy if dice.random() < 0.6 else self.sell
        way = dice.random()
        if way < 0.3:
            trade(quantity)
        elif way < 0.7:
            tick = dice.choice([10, 50, 100, 100])
            trade(quantity, limit=price // tick * tick + dice.randint(-4, 4) * tick, why="mine")
        else:
            trade(quantity, market=dice.choice(MARKET_TYPES))

    def on_fill(self, fill: Fill) -> None:
        self.note("fill", fill, self.position, self.quote)
        if self.dice.random() < 0.2:
            self.act(fill.price)

    def on_reject(self, rejection: Rejection) -> None:
        self.note("reject", rejection)

    def on_timer(self, timer: time) -> None:
        self.note("timer", timer, self.quote)
        if self.dice.random() < 0.3:
            self.order(self.quote.last if self.quote else 10_000)

    def on_session(self, phase: Phase) -> None:
        self.note("session", phase)
        if self.dice.random() < 0.1:
            self.order(self.quote.last if self.quote else 10_000)

    def on_stop(self) -> None:
        self.note("stop", self.calls)


class Patient(Wanderer):
    """The same, with a history that it declares to need."""

    warm_up = 30


class Crossing(Strategy):
    """Reads and requests as most do: its hook is foreseen over whole days."""

    fast: int = 3
    slow: int = 9
    size: int = 100

    def on_bar(self, bar: BarView) -> None:
        """Whether two averages have crossed."""
        fast, slow = bar.sma(self.fast), bar.ema(self.slow)
        if fast.crossed_above(slow) and not self.position:
            self.buy(self.size, why=f"SMA{self.fast} {fast:,.0f} above {slow:,.0f}")
        elif fast.crossed_below(slow):
            self.close(why=f"SMA{self.fast} {fast:,.0f} below {slow:.1f}")

    def on_fill(self, fill: Fill) -> None:
        self.size = 100 + fill.quantity % 300


class Levels(Strategy):
    """The same with names, early ends, sums, and a reason for some of its "no"s."""

    length: int = 7
    low: float = 35.0
    margin: float = 0.002

    def on_bar(self, bar: BarView) -> None:
        strength = bar.rsi(self.length)
        is_cheap = strength < self.low or strength.previous <= self.low - 5
        if bar.volume < 1_000 or not bar.low < bar.high:
            return self.skip("little traded")
        level = bar.ema(self.length) * (1 + self.margin)
        if is_cheap and not self.position:
            if bar.close > level:
                self.skip("above its average")
            else:
                self.buy(200, limit=bar.close)
        elif self.position and (strength > 100 - self.low or bar.close - level >= 50):
            self.sell(100, market="MTL")
        elif 49 <= strength < 51 and bar.open == bar.close:
            self.cancel()
        return None


class Hasty(Crossing):
    """The same with a history that it declares to need."""

    warm_up = 25


def plain_spec_of(seed: int) -> BacktestSpec:
    """Make up a market, and strategies whose hooks are foreseen."""
    spec, dice = spec_of(seed), random.Random(f"plain {seed}")
    strategies = []
    for each in spec.strategies[: dice.choice([1, 1, 2])]:
        factory = dice.choice([Crossing, Hasty, Levels])
        parameters: dict[str, int | float] = {
            "length": dice.randint(2, 20),
            "low": dice.choice([30.0, 45, 49.5]),
        }
        if factory is not Levels:
            parameters = {"fast": dice.randint(2, 20), "slow": dice.randint(5, 40)}
        plan = replace(each.plan, use=factory.__name__, parameters=parameters)
        if dice.random() < 0.7:  # one symbol alone is heard in another way than several
            plan = replace(plan, symbols=plan.symbols[:1])
        strategies.append(LoadedStrategy(plan, factory, each.instruments[: len(plan.symbols)]))
    return replace(spec, strategies=tuple(strategies), holdings={})


def spec_of(seed: int) -> BacktestSpec:
    """Make up strategies and a market."""
    dice = random.Random(seed)
    symbols = dice.sample(sorted(TRADED), dice.choice([1, 1, 1, 2, 3]))
    first = dice.randrange(len(DAYS) - 3)
    days = DAYS[first : first + dice.choice([1, 2, 3, 4])]
    width = dice.choice([60, 60, 300])
    bars = [
        bar for symbol in symbols for bar in bars_of(dice, symbol, days, width) if bar.volume >= 0
    ]
    names = ["one", "two"][: dice.choice([1, 1, 2])]
    strategies = tuple(loaded(dice, seed, name, tuple(symbols), width) for name in names)
    return BacktestSpec(
        strategies=strategies,
        rulebook=_rules_of(seed, days),
        settings=EngineSettings(
            faults_until_disabled=dice.choice([2, 3, 100]), account_limits=_limits_of(seed)
        ),
        source=Written(bars, timedelta(seconds=width)),
        first=days[0],
        last=days[-1],
        cash=dice.choice([3_000_000, 100_000_000, 5_000_000_000]),
        holdings={symbols[0]: 5_000} if dice.random() < 0.5 else {},
        fill=dice.choice(["touch", "depth", "queue"]),
    )


def _limits_of(seed: int) -> AccountLimits:
    """Let the account of every fourth seed stop after a loss of a day."""
    dice = random.Random(f"loss {seed}")
    if seed % 8 not in {5, 6}:
        return AccountLimits()
    share = dice.choice([None, 2_000, 15_000])
    return AccountLimits(
        max_loss_per_day=dice.choice([100_000, 1_000_000, 5_000_000]), max_loss_nav_ppm=share
    )


def _rules_of(seed: int, days: Sequence[date]) -> Rulebook:
    """Let one of the days of every fourth seed end early."""
    rulebook, dice = load_rulebook(), random.Random(f"early {seed}")
    if seed % 4:
        return rulebook
    early = EarlyClose(dice.choice(days), time(dice.randint(9, 14), dice.randrange(1, 60)), "storm")
    calendar = replace(rulebook.calendar, early_closes={early.day: early})
    return replace(rulebook, calendar=calendar)


def loaded(
    dice: random.Random, seed: int, name: str, symbols: tuple[str, ...], width: int
) -> LoadedStrategy:
    """Make up a strategy file."""
    wake = Wake(
        bar=timedelta(seconds=width * dice.choice([1, 1, 1, 3, 5])),
        timers=tuple(
            dice.sample(
                [time(9, 20, 30), time(10), time(13, 45), time(14, 50)], dice.choice([0, 0, 2])
            )
        ),
        on_phase=dice.random() < 0.2,
    )
    order = OrderPlan(
        basis=dice.choice([PriceBasis.LAST, PriceBasis.LAST, PriceBasis.BID, PriceBasis.ASK]),
        expire_after=dice.choice([None, None, timedelta(minutes=3), timedelta(seconds=90)]),
    )
    limits = Limits(
        max_orders_per_day=dice.choice([None, None, 3]),
        max_loss_per_day=dice.choice([None, None, 100_000]),
        max_position=dice.choice([None, None, 1_000]),
    )
    factory = dice.choice([Wanderer, Wanderer, Patient])
    mine = symbols[: dice.randint(1, len(symbols))]
    plan = StrategyPlan(
        name=name,
        use=factory.__name__,
        symbols=mine,
        account="",
        mode=dice.choice([StrategyMode.TRADE] * 5 + [StrategyMode.WATCH]),
        parameters={"seed": seed},
        wake=wake,
        when=When(),
        order=order,
        limits=limits,
    )
    return LoadedStrategy(plan, factory, tuple(Instrument(each, TRADED[each]) for each in mine))


def bars_of(dice: random.Random, symbol: str, days: tuple[date, ...], width: int) -> Iterator[Bar]:
    """Make up a symbol's bars: a walk with gaps, silent minutes, locked limits and slips."""
    instrument, rulebook = Instrument(symbol, TRADED[symbol]), load_rulebook()
    price, ticks = dice.choice([7_000, 27_000, 61_000]), rulebook.ticks_of(instrument)
    trading = [*range(9 * 3_600, 41_400, width), *range(13 * 3_600, 53_400, width)]
    for day in days:
        band = rulebook.band(instrument, price)
        rest = dice.choice([0.02, 0.3, 0.9])
        drift = dice.choice([0, 0, 0, 3, -3])
        start = instant_of(day, time())
        for second in trading:
            is_first = (day, second) == (days[0], trading[0])  # a symbol has at least one bar
            if dice.random() < rest and not is_first:
                continue
            prices = [price]
            for _ in range(3):
                moved = price + (dice.randint(-2, 2) + drift) * ticks.tick_at(price)
                price = max(band.floor, min(band.ceiling, moved))
                price = ticks.down(price) if ticks.down(price) >= band.floor else price
                prices.append(price)
            if dice.random() < 0.002:
                prices[-1] += dice.choice([1, 7 * price])
            volume = dice.choice([0, 100, 3_000, 80_000, 500_000])
            at = start + timedelta(seconds=second)
            extremes = max(prices), min(prices)
            yield Bar(symbol, at, width, prices[0], *extremes, prices[-1], volume)


def played(spec: BacktestSpec, why_slow: str = "") -> tuple[BacktestResult, list[Any]]:
    """Play a spec; return its result, without the gear, and all that its strategies were shown."""
    Wanderer.shown.clear()
    result = run_backtest(spec, why_slow=why_slow)
    return replace(result, why_slow=""), list(Wanderer.shown)


def difference(spec: BacktestSpec) -> str:
    """Return where the gears differ in what a number makes up; empty: nowhere."""
    return first_difference(played(spec, SLOW), played(spec))


def first_difference(
    slow: tuple[BacktestResult, list[Any]], fast: tuple[BacktestResult, list[Any]]
) -> str:
    """Return the first thing that is not equal in two runs."""
    for number, (expected, found) in enumerate(zip(slow[1], fast[1], strict=False)):
        if expected != found:
            return f"shown {number}: {expected} in the engine, {found} in the fast gear"
    if len(slow[1]) != len(fast[1]):
        return f"{len(slow[1])} calls in the engine, {len(fast[1])} in the fast gear"
    for name in (each.name for each in fields(BacktestResult)):
        expected, found = getattr(slow[0], name), getattr(fast[0], name)
        if expected != found:
            return f"{name}: {expected} in the engine, {found} in the fast gear"
    return ""


def main(pairs: int = 100, first: int = 1) -> int:
    """Compare so many pairs; 0 when none of them differs."""
    wrong = orders = fills = bars = 0
    for seed in range(first, first + pairs):
        spec = (plain_spec_of if seed % 2 else spec_of)(seed)
        slow, fast = played(spec, SLOW), played(spec)
        orders, fills, bars = (
            orders + len(slow[0].orders),
            fills + len(slow[0].fills),
            bars + slow[0].bars,
        )
        if found := first_difference(slow, fast):
            wrong += 1
            sys.stdout.write(f"seed {seed}: {found[:2_000]}\n")
    told = f"{pairs} pairs from seed {first}: {bars:,} bars, {orders:,} orders, {fills:,} fills"
    nothing = undone(bars=bars, orders=orders, fills=fills)
    sys.stdout.write(f"{told}; {wrong} of them differ between the gears\n")
    sys.stdout.write("".join(f"{each}\n" for each in nothing))
    return 1 if wrong or nothing else 0


if __name__ == "__main__":
    # python -m tests.runtime.history.backtest.gears PAIRS [FIRST SEED]
    sys.exit(main(*map(int, sys.argv[1:])))
