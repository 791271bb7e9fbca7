"""The plug-ins of a simulation: one that trades, one that acts in every hook, and pests."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

BUSY: Final = """
from random import Random

from bot import Strategy


class Busy(Strategy):
    seed: int
    until: int

    def is_over(self):
        return self.now.timestamp() >= self.until

    def on_quote(self, quote):
        if self.is_over():
            return
        dice = Random(f"{self.seed}|{self.now}|{quote.symbol}")
        roll, tick = dice.random(), 50 if quote.symbol == "HPG" else 100
        if roll < 0.35:
            limit = quote.last + tick * dice.randint(-3, 3)
            self.buy(100 * dice.randint(1, 4), limit=limit, why="dice")
        elif roll < 0.45:
            self.close(why="dice")
        elif roll < 0.6:
            self.cancel(why="dice")
"""
"""Acts on the market alone."""
EAGER: Final = (
    BUSY
    + """

class Eager(Busy):
    def again(self, why):
        if not self.is_over():
            dice = Random(f"{self.seed}|{self.now}|{self.symbol}|{why}")
            last = self.quote.last if self.quote else 20_000
            dice.choice([self.buy, self.sell])(100, limit=last + 100 * dice.randint(-2, 1), why=why)

    def on_reject(self, rejection):
        if not self.is_over():
            limit = (rejection.limit_price or 20_000) - 100
            self.buy(rejection.quantity, limit=limit, why=f"again after {rejection.code}")

    def on_fill(self, fill):
        self.again("on_fill")
        self.cancel(why="on_fill")

    def on_start(self):
        self.again("on_start")

    def on_stop(self):
        self.again("on_stop")

    def on_session(self, phase):
        self.again("on_session")

    def on_bar(self, bar):
        self.again("on_bar")

    def on_depth(self, book):
        self.again("on_depth")

    def on_timer(self, timer):
        self.again("on_timer")
"""
)
"""Acts in every hook, and buys again whatever was refused."""
PEST: Final = (
    BUSY
    + """

class Raises(Busy):
    def on_fill(self, fill):
        raise RuntimeError("a pest")

    def on_reject(self, rejection):
        raise RuntimeError("a pest")

    def on_bar(self, bar):
        raise RuntimeError("a pest")


class Cancels(Busy):
    def on_quote(self, quote):
        super().on_quote(quote)
        self.cancel(why="always")

    def on_depth(self, book):
        self.cancel(why="always")

    def on_fill(self, fill):
        self.cancel(why="always")


class Floods(Busy):
    def on_quote(self, quote):
        for step in range(0 if self.is_over() else 6):
            self.buy(100, limit=quote.last - 100 * step, why="flood")
"""
)
FLOOD_MAX: Final = 20
"""Orders a day of the plug-in that floods."""


def write_plugins(folder: Path) -> None:
    """Put the plug-ins beside the strategy files."""
    for name, text in (("busy", BUSY), ("eager", EAGER), ("pest", PEST)):
        (folder / "strategies" / f"{name}.py").write_text(text)


def strategies_of(
    seed: int, *, until: int, is_eager: bool, pest: str
) -> Sequence[Mapping[str, object]]:
    """Return the strategy files. From the second `until` (Unix time) on nobody acts."""
    more = {"bar": "1m", "depth": "30s", "session": True, "timer": ["09:22:30", "13:05:00"]}
    shared = {
        "params": {"seed": seed, "until": until},
        "order": {"size": {"shares": 100}, "type": "LIMIT", "price": "ask", "expire": "20s"},
        "on_2fa": "hold 60s",
    }
    limits = {"max_order_value": 500_000_000}
    first = {
        "name": "first",
        "use": "strategies/eager.py:Eager" if is_eager else "busy",
        "symbols": ["HPG", "SHS"],
        "wake": {"quote": "10s", **(more if is_eager else {})},
        "limits": limits,
        **shared,
    }
    if pest == "none":
        return [first]
    second = {
        "name": "pest",
        "use": f"strategies/pest.py:{pest.capitalize()}",
        "symbols": ["HPG"],
        "wake": {"quote": "30s", "bar": "1m", "depth": "60s"},
        "limits": {**limits, "max_orders_per_day": FLOOD_MAX},
        **shared,
    }
    return [first, second]
