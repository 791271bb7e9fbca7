"""Strategies and markets made up from one number, and what the two gears make of them.

Whoever compares the gears plays the same spec in each: all that came of it has to be equal, and all
that the strategies were shown.
"""

import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date, time, timedelta
from typing import Any

from bot.config.rulebook import load_rulebook
from bot.domain.calendar import EarlyClose
from bot.domain.instrument import Instrument
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
from tests.proofs import undone
from tests.runtime.history.backtest.listed import Written
from tests.runtime.history.backtest.wanderers import (
    TRADED,
    Crossing,
    Hasty,
    Levels,
    Patient,
    PatientTrader,
    Trader,
    Wanderer,
)

DAYS = tuple(date(2026, 11, day) for day in (16, 17, 18, 19, 20, 23, 24))
SLOW = "compared with the fast gear"


@dataclass(frozen=True, slots=True)
class Shape:
    """What is thrown for: as many days, so much cash, and so on, an entry as often as it stands."""

    symbols: tuple[int, ...]
    days: tuple[int, ...]
    rests: tuple[float, ...]
    cash: tuple[int, ...]
    modes: tuple[StrategyMode, ...]
    kinds: tuple[type[Wanderer], ...]
    orders_per_day: tuple[int | None, ...]
    holds_all: bool


QUIET = Shape(
    symbols=(1, 1, 1, 2, 3),
    days=(1, 2, 3, 4),
    rests=(0.02, 0.3, 0.9),
    cash=(3_000_000, 100_000_000, 5_000_000_000),
    modes=(*[StrategyMode.TRADE] * 5, StrategyMode.WATCH),
    kinds=(Wanderer, Wanderer, Patient),
    orders_per_day=(None, None, 3),
    holds_all=False,
)
"""Much that is refused, and much silence. Seeds that once found something are of this shape."""
BUSY = Shape(
    symbols=(1, 1, 2, 3, 4),
    days=(4, 4, 4),
    rests=(0.02, 0.1, 0.5),
    cash=(300_000_000, 1_000_000_000, 20_000_000_000),
    modes=(*[StrategyMode.TRADE] * 11, StrategyMode.WATCH),
    kinds=(Trader, Trader, PatientTrader),
    orders_per_day=(None, None, None, 10),
    holds_all=True,
)
"""Most of these trade."""


def plain_spec_of(seed: int, shape: Shape = QUIET) -> BacktestSpec:
    """Make up a market, and strategies whose hooks are foreseen."""
    spec, dice = spec_of(seed, shape), random.Random(f"plain {seed}")
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


def spec_of(seed: int, shape: Shape = QUIET) -> BacktestSpec:
    """Make up strategies and a market."""
    dice = random.Random(seed)
    symbols = dice.sample(sorted(TRADED), dice.choice(shape.symbols))
    first = dice.randrange(len(DAYS) - 3)
    days = DAYS[first : first + dice.choice(shape.days)]
    width = dice.choice([60, 60, 300])
    bars = [
        bar
        for symbol in symbols
        for bar in bars_of(dice, symbol, days, width, shape.rests)
        if bar.volume >= 0
    ]
    names = ["one", "two"][: dice.choice([1, 1, 2])]
    strategies = tuple(loaded(dice, seed, name, tuple(symbols), width, shape) for name in names)
    traded = [each for each in symbols if any(each in its.plan.symbols for its in strategies)]
    held = traded if shape.holds_all else symbols[:1]
    return BacktestSpec(
        strategies=strategies,
        rulebook=_rules_of(seed, days),
        settings=EngineSettings(
            faults_until_disabled=dice.choice([2, 3, 100]), account_limits=_limits_of(seed)
        ),
        source=Written(bars, timedelta(seconds=width)),
        first=days[0],
        last=days[-1],
        cash=dice.choice(shape.cash),
        holdings=dict.fromkeys(held, 5_000) if dice.random() < 0.5 else {},
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
    dice: random.Random, seed: int, name: str, symbols: tuple[str, ...], width: int, shape: Shape
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
        max_orders_per_day=dice.choice(shape.orders_per_day),
        max_loss_per_day=dice.choice([None, None, 100_000]),
        max_position=dice.choice([None, None, 1_000]),
    )
    factory = dice.choice(shape.kinds)
    mine = symbols[: dice.randint(1, len(symbols))]
    plan = StrategyPlan(
        name=name,
        use=factory.__name__,
        symbols=mine,
        account="",
        mode=dice.choice(shape.modes),
        parameters={"seed": seed},
        wake=wake,
        when=When(),
        order=order,
        limits=limits,
    )
    return LoadedStrategy(plan, factory, tuple(Instrument(each, TRADED[each]) for each in mine))


def bars_of(
    dice: random.Random,
    symbol: str,
    days: tuple[date, ...],
    width: int,
    rests: tuple[float, ...] = QUIET.rests,
) -> Iterator[Bar]:
    """Make up a symbol's bars: a walk with gaps, silent minutes, locked limits and slips."""
    instrument, rulebook = Instrument(symbol, TRADED[symbol]), load_rulebook()
    price, ticks = dice.choice([7_000, 27_000, 61_000]), rulebook.ticks_of(instrument)
    trading = [*range(9 * 3_600, 41_400, width), *range(13 * 3_600, 53_400, width)]
    for day in days:
        band = rulebook.band(instrument, price)
        rest = dice.choice(rests)
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


def main(pairs: int = 100, first: int = 1, *, shape: Shape = BUSY) -> int:
    """Compare so many pairs; 0 when none of them differs, and half of them trade."""
    wrong = orders = fills = bars = traded = 0
    for seed in range(first, first + pairs):
        spec = (plain_spec_of if seed % 2 else spec_of)(seed, shape)
        slow, fast = played(spec, SLOW), played(spec)
        bars, orders = bars + slow[0].bars, orders + len(slow[0].orders)
        fills, traded = fills + len(slow[0].fills), traded + bool(slow[0].fills)
        if found := first_difference(slow, fast):
            wrong += 1
            sys.stdout.write(f"seed {seed}: {found[:2_000]}\n")
    told = f"{pairs} pairs from seed {first}: {bars:,} bars, {orders:,} orders, {fills:,} fills"
    nothing = undone(bars=bars, orders=orders, fills=fills)
    if 2 * traded < pairs:
        nothing.append("TOO LITTLE SHOWN: fewer than half of the pairs have a fill")
    sys.stdout.write(f"{told} in {traded} pairs; {wrong} of them differ between the gears\n")
    sys.stdout.write("".join(f"{each}\n" for each in nothing))
    return 1 if wrong or nothing else 0


if __name__ == "__main__":
    # python -m tests.runtime.history.backtest.gears PAIRS [FIRST SEED]
    sys.exit(main(*map(int, sys.argv[1:])))
