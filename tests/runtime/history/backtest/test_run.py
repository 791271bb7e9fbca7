"""A backtest: the engine's orders, filled from bars that had not begun when they were sent."""

from datetime import date, timedelta
from typing import ClassVar

import pytest

from bot.config.problems import OperatorMistake
from bot.runtime.history.bars import DayFrame
from bot.strategy import BarView, Strategy
from tests.runtime.history.backtest.listed import DAY, Written, backtest, bar, clock

NEXT = date(2026, 11, 20)
WHOLE_DAY = 135 + 105
"""Minutes of continuous trading before lunch."""


class BuyOnce(Strategy):
    """Buys at the bar of 09:20, which closes at 09:21."""

    limit: int = 27_000

    def on_bar(self, bar: BarView) -> None:
        if (bar.start.hour, bar.start.minute) == (2, 20):
            self.buy(100, limit=self.limit, why="it is time")


def test_an_order_fills_in_the_next_bar_and_never_in_the_one_it_was_made_by() -> None:
    bars = [
        bar("09:19", 27_000),
        bar("09:20", 27_000, 27_000, 26_500, 26_900),
        bar("09:21", 26_950, 27_000, 26_900, 27_000),
    ]

    result = backtest(BuyOnce, bars)

    [fill] = result.fills
    assert (clock(fill.at), fill.price, fill.quantity) == ("09:21:00", 26_950, 100)


def test_two_runs_of_one_spec_are_equal() -> None:
    bars = [bar(f"09:{minute}", 27_000 + minute % 3 * 50) for minute in range(19, 40)]

    first, second = backtest(BuyOnce, bars), backtest(BuyOnce, bars)

    assert first == second
    assert first.fills


def test_money_is_counted_to_the_dong() -> None:
    bars = [bar("09:20", 27_000), bar("09:21", 27_000), bar("14:45", 27_200)]

    result = backtest(BuyOnce, bars)

    [point] = result.equity
    assert (point.cash, point.shares) == (100_000_000 - 2_700_000 - 4_050, 2_720_000)
    assert result.closes == {"HPG": (27_200, 27_200)}


def test_a_range_the_calendar_does_not_know_is_refused_by_name() -> None:
    with pytest.raises(OperatorMistake, match=r"E-BT-002 --from 2019-01-02: the calendar knows"):
        backtest(BuyOnce, [bar("09:20", 27_000)], first=date(2019, 1, 2))


def test_days_the_other_way_round_are_refused() -> None:
    with pytest.raises(OperatorMistake, match=f"E-BT-001 --from {NEXT} is after --to {DAY}"):
        backtest(BuyOnce, [bar("09:20", 27_000)], first=NEXT, last=DAY)


class Sell(Strategy):
    def on_bar(self, _bar: BarView) -> None:
        self.close(why="it is held")


def test_shares_held_at_the_start_are_the_strategys_own() -> None:
    bars = [bar("09:20", 27_000), bar("09:21", 27_000), bar("09:22", 27_000)]

    result = backtest(Sell, bars, holdings={"HPG": 300})

    [fill] = result.fills
    assert (fill.side, fill.quantity, fill.position) == ("SELL", 300, 0)
    assert result.capital == 100_000_000 + 300 * 27_000


def test_shares_of_a_symbol_without_a_bar_on_the_first_day_have_no_worth() -> None:
    bars = [bar("09:20", 27_000), bar("09:20", 100_000, symbol="FPT", day=NEXT)]

    with pytest.raises(OperatorMistake, match="E-BT-006 --hold FPT: it has no bar on the first"):
        backtest(Sell, bars, holdings={"FPT": 300})


class Hold(Strategy):
    def on_bar(self, _bar: BarView) -> None:
        self.skip("it waits")


def test_two_shares_going_ex_on_one_day_are_paid_and_stop_nothing() -> None:
    after = NEXT + timedelta(days=3)
    bars = [
        bar("09:20", price, symbol=symbol, day=day)
        for symbol, first, then in (("FPT", 100_000, 90_000), ("HPG", 27_000, 24_300))
        for price, day in ((first, DAY), (then, NEXT), (then, after))
    ]
    source = Written(bars, frames={NEXT: DayFrame(ex_ratio=0.9)})

    result = backtest(Hold, [], source=source, holdings={"FPT": 100, "HPG": 1_000}, last=after)

    paid = [each for each in result.assumptions if "went ex" in each]
    assert [each.partition(" were paid")[0] for each in paid] == [
        "FPT went ex on 2026-11-20: the 10,000 VND that a share fell by",
        "HPG went ex on 2026-11-20: the 2,700 VND that a share fell by",
    ]
    assert [point.equity for point in result.equity] == [result.capital] * 3
    assert not [each for each in result.assumptions if each.startswith("alert")]
    # Nothing is known before the first bar of all; what no trade has changed is flat.
    assert result.counts == {"SKIP": 2 * (3 * WHOLE_DAY - 5)}


class BuyEach(Strategy):
    def on_bar(self, bar: BarView) -> None:
        if bar.volume:
            self.buy(100, limit=27_000, why=f"{bar.close}")


def test_a_price_that_is_not_believed_is_held_before_its_own_bar_wakes_anybody() -> None:
    bars = [bar("09:20", 27_000), bar("09:21", 27_000, 27_010, 27_000, 27_010)]

    result = backtest(BuyEach, bars)

    assert [(each.why, each.code) for each in result.decisions if each.quantity] == [
        ("27000", "OK"),
        ("27010", "HELD_DATA"),
    ]


class LookAtQuotes(Strategy):
    seen: ClassVar[dict[str, tuple[int, int | None]]] = {}

    def on_bar(self, bar: BarView) -> None:
        assert self.quote is not None
        self.seen[clock(bar.start)] = self.quote.last, self.quote.volume


@pytest.mark.parametrize("why_slow", ["", "it is to be compared"])
def test_a_bar_finds_all_that_it_holds_in_the_quote_also_that_of_the_closing_auction(
    why_slow: str,
) -> None:
    clocks = ("14:28", "14:29", "14:45", "14:46")
    bars = [bar(clock, 27_000 + 50 * number) for number, clock in enumerate(clocks)]
    LookAtQuotes.seen.clear()

    backtest(LookAtQuotes, bars, why_slow=why_slow)

    assert [LookAtQuotes.seen[f"14:{minute}:00"] for minute in (28, 29, 45)] == [
        (27_000, 100_000),
        (27_050, 200_000),
        (27_100, 300_000),
    ]


class ExitBesideABuy(Strategy):
    """Sells HPG at the first bar whose price falls, after a sale too high; FPT is bought before."""

    def on_bar(self, bar: BarView) -> None:
        at = clock(bar.start)[:5]
        if self.symbol == "FPT":
            if at == "09:21":
                self.buy(100, limit=100_000, why="in")
        elif at == "09:20":
            self.close(limit=28_000, why="take profit")
        elif at == "09:24":
            self.cancel(why="it falls")
        elif at > "09:24":
            self.close(limit=bar.close, why="stop loss")


def test_a_cancelled_sale_frees_its_shares_though_the_account_was_read_while_it_worked() -> None:
    bars = [bar(f"09:{minute}", 27_000) for minute in range(19, 30)]
    bars += [bar(f"09:{minute}", 100_000, symbol="FPT") for minute in range(19, 30)]

    result = backtest(ExitBesideABuy, bars, holdings={"HPG": 300})

    sold = [(clock(each.at), each.quantity) for each in result.fills if each.symbol == "HPG"]
    assert sold == [("09:26:00", 300)]
