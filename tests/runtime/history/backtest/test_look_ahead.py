"""Nothing is decided or filled by what comes later: two futures of one past leave it as it is.

Two runs share their bars up to an instant; after it one falls and the other rises. What is recorded
up to there has to be equal. The check itself is tried on two that cheat.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from bot.domain.quote import Bar
from bot.sandbox.markets.mirror.model import FillName
from bot.strategy import BarView, Strategy
from tests.runtime.history.backtest.listed import backtest, bar

CUT = 30
PAST = [
    bar(f"09:{20 + n}", price, price + 100, price - 100, price + 50 * (n % 3 - 1), volume=20_000)
    for n, price in enumerate(27_000 + 50 * (n * 7 % 11) for n in range(CUT))
]


def later(step: int) -> list[Bar]:
    return [bar(f"10:{n:02}", 27_000 + step * (n + 1), volume=20_000) for n in range(20)]


class Trader(Strategy):
    """Buys and sells all the time, at and around the market."""

    def on_bar(self, bar: BarView) -> None:
        if self.position:
            self.close(why="enough")
        elif bar.start.minute % 4 == 0:
            self.buy(300, limit=bar.close - 50, why="below")
        else:
            self.buy(200, limit=bar.close + 100, why="above")


def difference(run: Callable[[list[Bar]], object], until: datetime) -> str:
    """Return the first thing that two futures have made different before they began."""
    one, other = (
        [each for kind in (result.decisions, result.fills) for each in kind if each.at <= until]  # type: ignore[attr-defined]
        for result in (run(PAST + later(-50)), run(PAST + later(50)))
    )
    for left, right in zip(one, other, strict=False):
        if left != right:
            return f"{left} is not {right}"
    return "" if len(one) == len(other) else "one has more"


UNTIL = PAST[-1].start + timedelta(seconds=PAST[-1].seconds)


@pytest.mark.parametrize("fill", ["touch", "depth", "queue"])
def test_what_comes_later_changes_nothing_before(fill: FillName) -> None:
    assert difference(lambda bars: backtest(Trader, bars, fill=fill), UNTIL) == ""


def test_a_strategy_that_knows_the_next_bar_is_found() -> None:
    def run(bars: list[Bar]) -> object:
        closes = {each.start: each.close for each in bars}

        class Seer(Strategy):
            def on_bar(self, bar: BarView) -> None:
                if closes.get(bar.start + timedelta(minutes=11), 0) > 27_000:
                    self.buy(100, limit=bar.close + 100, why="it will rise")

        return backtest(Seer, bars)

    assert difference(run, UNTIL)


def test_a_market_that_shows_the_next_bar_is_found() -> None:
    def run(bars: list[Bar]) -> object:
        leaks = [
            replace(
                each,
                close=after.close,
                high=max(each.high, after.close),
                low=min(each.low, after.close),
            )
            for each, after in zip(bars, [*bars[1:], bars[-1]], strict=True)
        ]
        return backtest(Trader, leaks)

    assert difference(run, UNTIL)
