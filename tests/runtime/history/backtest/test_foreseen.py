"""What is foreseen of a hook is what the hook does; what is not understood is left to the hook."""

import gc
import importlib.util
import math
import random
import weakref
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.domain.quote import Bar
from bot.runtime.history.backtest.foreseen import Foreseen
from bot.runtime.history.backtest.hook_source import hook_of
from bot.runtime.history.backtest.indicator_columns import IndicatorColumns
from bot.runtime.history.backtest.rows import Rows, Series
from bot.strategy import BarView, Context, PositionView, Strategy
from strategies.sma_cross import SmaCross
from tests.runtime.history.backtest.wanderers import Crossing, Levels

BARS, FIRST = 400, 100
"""How many bars there are, and the one from which on every average is known."""
DAY = datetime(2026, 11, 19, tzinfo=UTC)


class Plain(Strategy):
    least: int = 2

    def on_bar(self, bar: BarView) -> None:
        average = bar.sma(self.least)
        if self.position:
            if bar.close < average:
                self.sell(100)
        elif average > 10_000:
            if bar.close > 10_050:
                pass
            else:
                self.buy(100)


class Remembering(Strategy):
    def on_bar(self, bar: BarView) -> None:
        self.last = bar.close


class Outward(Strategy):
    def on_bar(self, bar: BarView) -> None:
        if bar.close > math.pi:
            self.buy(100)


class Failing(Strategy):
    def on_bar(self, bar: BarView) -> None:
        if bar.sma(2) > 1_000_000:
            return
        self.close(why=f"{bar.sma(2):d}")


class OwnWay(Plain):
    def buy(self, *_: object, **__: object) -> None:
        self.calls = 1


def day_of(seed: int) -> Rows:
    """Make up the bars of a day."""
    dice, rows, price = random.Random(seed), Rows(), 10_000
    for second in range(BARS):
        opened, price = price, price + 50 * dice.randint(-2, 2)
        high, low = max(opened, price) + 50 * dice.randint(0, 1), min(opened, price)
        row = second, opened, high, low, price, dice.choice([100, 900, 1_000, 5_000])
        for column, value in zip(rows.columns, row, strict=True):
            column.append(value)
    return rows


def asked_and_foreseen(strategy: Strategy, seed: int = 1) -> tuple[list[int], list[int] | None]:
    """Return the bars at which a hook requests something: asked at each bar, and as foreseen."""
    indicators, asked = IndicatorColumns(), list[int]()
    for rows in (day_of(-seed), day_of(seed)):  # after a day all averages have their history
        asked.clear()
        indicators.look_ahead(rows.close)
        for row in range(BARS):
            indicators.at = row + 1
            values = [column[row] for column in rows.columns[1:]]
            strategy.on_bar(BarView(Bar("HPG", DAY, 60, *values), indicators.read))
            if strategy.context.requests:
                asked.append(row)
            strategy.context.requests.clear()
    series, foreseen = Series("HPG", 60, DAY, rows), Foreseen(strategy, indicators)
    found, row = list[int](), 0
    while row < BARS:
        ahead = foreseen.next(series, row, BARS)
        if ahead is None:
            return asked, None
        found, row = [*found, *([ahead] if ahead < BARS else [])], ahead + 1
    return asked, found


def made(factory: type[Strategy], shares: int) -> Strategy:
    return factory(Context(position=PositionView(shares, shares, 1)))


@pytest.mark.parametrize("shares", [0, 100])
@pytest.mark.parametrize(
    "factory", [Plain, Crossing, Levels, SmaCross], ids=lambda one: one.__name__
)
def test_a_hook_is_foreseen_to_request_where_it_does(factory: type[Strategy], shares: int) -> None:
    asked, foreseen = asked_and_foreseen(made(factory, shares))

    assert foreseen == asked
    assert 0 < len(asked) < BARS


def test_an_average_that_was_never_read_begins_where_it_is_read() -> None:
    strategy = Plain()
    rows, indicators = day_of(1), IndicatorColumns()
    indicators.look_ahead(rows.close)
    indicators.at = FIRST
    foreseen, series = Foreseen(strategy, indicators), Series("HPG", 60, DAY, rows)

    before = foreseen.next(series, FIRST, BARS)
    indicators.read("sma", strategy.least)
    known = foreseen.next(series, FIRST, BARS)
    strategy.least = 3
    other = foreseen.next(series, FIRST, BARS)

    assert before is other is None
    assert known is not None


def test_other_parameters_lead_to_other_bars() -> None:
    strategy = Levels()
    before = asked_and_foreseen(strategy)

    strategy.low = 20.0

    after = asked_and_foreseen(strategy)
    assert after[0] == after[1] != before[1]


@pytest.mark.parametrize(
    "factory",
    [Remembering, Outward, OwnWay],
    ids=lambda one: one.__name__,
)
def test_a_hook_that_is_not_understood_is_left_to_itself(factory: type[Strategy]) -> None:
    assert asked_and_foreseen(factory())[1] is None


def test_a_close_without_shares_is_no_request_but_its_words_may_fail() -> None:
    rows, indicators = day_of(1), IndicatorColumns()
    indicators.look_ahead(rows.close)
    indicators.at = FIRST
    indicators.read("sma", 2)

    series = Series("HPG", 60, DAY, rows)

    assert Foreseen(Failing(), indicators).next(series, FIRST, BARS) == FIRST


def test_what_an_instance_does_in_its_own_way_is_left_to_it() -> None:
    strategy = Plain()
    vars(strategy)["sell"] = print

    assert asked_and_foreseen(strategy)[1] is None


MINE = """\
from bot import Strategy


class Mine(Strategy):
    def on_bar(self, bar):
        if bar.close > 10:
            self.buy(100)
"""


def run_file(file: Path) -> type[Strategy]:
    spec = importlib.util.spec_from_file_location("mine", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: type[Strategy] = module.Mine
    return found


def test_a_file_that_was_changed_since_is_not_the_code_that_runs(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    mine = run_file(file)

    file.write_text(MINE.replace("10:", "11:"))

    assert hook_of(mine) is None


def test_a_file_that_is_run_anew_is_read_once_and_nothing_of_a_run_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    first, second = run_file(file), run_file(file)
    known, held = hook_of(first), weakref.ref(first)

    del first
    gc.collect()

    assert held() is None
    assert known is hook_of(second) is not None
