"""Nothing is decided or filled by what comes later: two futures of one past leave it as it is.

Two runs share their bars up to an instant; after it one falls and the other rises. What is recorded
up to there has to be equal. The check itself is tried on two that cheat.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from bot.config.problems import OperatorMistake
from bot.domain.entry import Decision, Fill
from bot.domain.instrument import Phase
from bot.domain.plan import OrderPlan, Wake
from bot.domain.quote import Bar
from bot.runtime.history.backtest.result import BacktestResult
from bot.sandbox.markets.mirror.model import FillName
from bot.strategy import BarView, Strategy
from tests.rows import every_row
from tests.runtime.history.backtest.listed import DAY, MINUTE, Written, backtest, bar

CUT = 30
ONE_DAY = timedelta(days=1)
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


def seen_until(
    run: Callable[[list[Bar]], object], future: list[Bar], until: datetime
) -> list[Decision | Fill]:
    """What is recorded of a future up to an instant."""
    result = run(future)
    return [each for kind in (result.decisions, result.fills) for each in kind if each.at <= until]  # type: ignore[attr-defined]


def difference(
    run: Callable[[list[Bar]], object],
    until: datetime,
    futures: Sequence[list[Bar]] = (PAST + later(-50), PAST + later(50)),
) -> str:
    """Return the first thing that differs before the two futures begin."""
    one, other = (seen_until(run, future, until) for future in futures)
    for left, right in zip(one, other, strict=False):
        if left != right:
            return f"{left} is not {right}"
    return "" if len(one) == len(other) else "one has more"


UNTIL = PAST[-1].start + timedelta(seconds=PAST[-1].seconds)


@pytest.mark.parametrize("fill", ["touch", "depth", "queue"])
def test_what_comes_later_changes_nothing_before(fill: FillName) -> None:
    assert difference(lambda bars: backtest(Trader, bars, fill=fill), UNTIL) == ""


class Chaser(Strategy):
    """Orders by the quote that it finds when an order has filled, and when a phase begins."""

    def on_bar(self, bar: BarView) -> None:
        if bar.volume:
            self.buy(100, limit=bar.close - 50, why="below")

    def on_fill(self, fill: Fill) -> None:
        assert self.quote is not None
        self.sell(100, limit=self.quote.last, why=f"{fill.price} {self.quote}")

    def on_session(self, phase: Phase) -> None:
        assert self.quote is not None
        self.buy(100, market="ATC" if phase is Phase.PRE_CLOSED else "MTL", why=f"{self.quote}")


@pytest.mark.parametrize("fill", ["touch", "depth", "queue"])
def test_what_a_fill_or_a_new_phase_finds_tells_nothing_of_later(fill: FillName) -> None:
    wake, order = Wake(bar=MINUTE, on_phase=True), OrderPlan(expire_after=5 * MINUTE)
    futures = [
        [*PAST, bar("14:20", 27_000), bar("14:30", close), bar("14:45", close)]
        for close in (26_000, 28_000)
    ]

    def run(bars: list[Bar]) -> BacktestResult:
        return backtest(Chaser, bars, fill=fill, wake=wake, order=order, holdings={"HPG": 5_000})

    assert difference(run, UNTIL) == ""
    assert difference(run, bar("14:30", 1).start, futures) == ""
    sent = {each.order_type for each in run(futures[0]).decisions if each.code == "OK"}
    assert sent == {"LO", "MTL", "ATC"}  # so there was something to compare


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


class Patient(Strategy):
    """Buys whenever it is shown a bar: also a flat one, which says that nothing was traded."""

    def on_bar(self, bar: BarView) -> None:
        self.buy(100, limit=bar.close - 500, why=f"{bar.start:%H:%M}")


@every_row("clock", ["10:40", "11:25", "13:20", "14:40"])
def test_a_flat_bar_does_not_tell_that_a_trade_is_still_to_come(clock: str) -> None:
    """Of the next day: one future has a trade in it, later than what is looked at, the other none.

    Of both the same day is the last one with a bar.
    """
    next_day, last = DAY + ONE_DAY, bar("14:44", 27_000, day=DAY + 6 * ONE_DAY)
    futures = [[last], [bar(clock, 27_000, day=next_day), last]]
    until = bar("10:30", 1, day=next_day).start

    def run(future: list[Bar]) -> object:
        return backtest(Patient, [*PAST, *future], first=DAY)

    assert difference(run, until, futures) == ""
    assert seen_until(run, futures[0], until)[-1].at == until


def _of_an_hour(*starts: str) -> list[BarView]:
    """What a strategy is shown of bars of an hour."""
    seen = list[BarView]()
    hour = timedelta(hours=1)

    class Sees(Strategy):
        def on_bar(self, bar: BarView) -> None:
            seen.append(bar)

    bars = [replace(bar(each, 27_000), seconds=3_600) for each in starts]
    backtest(Sees, [], source=Written(bars, hour), wake=Wake(bar=hour))
    return seen


def test_a_bar_that_would_be_shown_before_its_end_is_refused() -> None:
    with pytest.raises(OperatorMistake, match="E-MKT-011 HPG 2026-11-19 10:15: a bar of 1h"):
        _of_an_hour("09:15", "10:15", "11:15", "13:15", "14:15")


@pytest.mark.parametrize("first", ["09:00", "09:15"])
def test_the_first_bar_of_a_session_may_be_stamped_by_its_opening(first: str) -> None:
    assert len(_of_an_hour(first, "10:00", "11:00", "13:00", "14:00", "14:45")) == 5
