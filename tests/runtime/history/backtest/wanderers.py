"""Strategies that act by their own dice, and such whose hooks are foreseen: for both gears."""

import random
from datetime import time
from typing import Any, ClassVar, Final

from bot.domain.entry import Fill
from bot.domain.instrument import Exchange, Phase
from bot.strategy import BarView, Rejection, Strategy

TRADED: Final = {
    "HPG": Exchange.HOSE,
    "FPT": Exchange.HOSE,
    "SHS": Exchange.HNX,
    "ACV": Exchange.UPCOM,
}
MARKET_TYPES: Final = ("MTL", "ATO", "ATC", "MOK", "PLO", "MP")
TAKEN: Final = {
    (Exchange.HOSE, Phase.OPEN): ("ATO",),
    (Exchange.HOSE, Phase.PROGRESS): ("MTL",),
    (Exchange.HOSE, Phase.PRE_CLOSED): ("ATC",),
    (Exchange.HNX, Phase.PROGRESS): ("MTL", "MAK", "MOK"),
    (Exchange.HNX, Phase.PRE_CLOSED): ("ATC",),
    (Exchange.HNX, Phase.POST_SESSION): ("PLO",),
}
"""Orders without a limit that an exchange takes in a phase."""


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


class Trader(Wanderer):
    """Wanders too, but oftener, and its orders are mostly such as an exchange takes."""

    def on_start(self) -> None:
        super().on_start()
        self.temper = self.dice.choice([0.02, 0.06, 0.2])

    def order(self, price: int) -> None:
        dice, symbol = self.dice, self.symbol
        if dice.random() < 0.15:
            return super().order(price)
        held = self.position.sellable
        if held and dice.random() < 0.6:
            trade, quantity = self.sell, min(held, dice.choice([100, 500, 5_000])) // 100 * 100
        else:
            trade, quantity = self.buy, dice.choice([100, 300, 2_000, 20_000])
        phase = self.phase
        types = () if phase is None else TAKEN.get((TRADED[symbol], phase), ())
        if types and dice.random() < 0.5:
            return trade(quantity or None, market=dice.choice(types))
        limit = price // 100 * 100 + dice.randint(-2, 3) * 100
        return trade(quantity or None, limit=limit, why="mine")


class PatientTrader(Trader):
    """The same, with a history that it declares to need."""

    warm_up = 30
