"""What falling shares stop in a backtest: the same as live, where reads of the account see it."""

from datetime import date, time

import pytest

from bot.domain.local_time import local_of
from bot.domain.plan import AccountLimits, Limits
from bot.strategy import BarView, Strategy
from tests.runtime.history.backtest.gears import DAYS
from tests.runtime.history.backtest.listed import DAY, backtest, bar

NEXT_DAY = date(2026, 11, 20)


class InTheAfternoon(Strategy):
    def on_bar(self, bar: BarView) -> None:
        if local_of(bar.start).time() == time(14):
            self.buy(100, limit=27_000, why="it is cheap")


@pytest.mark.parametrize("why_slow", ["", "to compare"])
@pytest.mark.parametrize(
    ("limits", "bought_on", "told"),
    [
        (AccountLimits(max_loss_per_day=4_600_000), [DAY, NEXT_DAY], 0),
        (AccountLimits(max_loss_per_day=3_000_000), [NEXT_DAY], 1),
        (AccountLimits(max_loss_nav_ppm=24_000), [NEXT_DAY], 1),
        (AccountLimits(max_loss_per_day=2_000_000), [], 2),
    ],
)
def test_a_loss_that_nobody_trades_on_stops_entries_also_when_the_price_comes_back(
    limits: AccountLimits, bought_on: list[date], told: int, why_slow: str
) -> None:
    """3,000 shares lose 4.5 million for an hour: entries stop for the day, at twice the limit the
    bot is halted.
    """
    bars = [
        bar(clock, price, day=day)
        for day in (DAY, NEXT_DAY)
        for clock, price in (
            ("09:20", 27_000),
            ("10:00", 25_500 if day == DAY else 27_000),
            ("11:00", 27_000),
            ("14:00", 27_000),
            ("14:01", 27_000),
        )
    ]

    result = backtest(
        InTheAfternoon, bars, shared=limits, holdings={"HPG": 3_000}, why_slow=why_slow
    )

    assert [local_of(each.at).date() for each in result.fills] == bought_on
    alerts = [each for each in result.assumptions if each.startswith("alert")]
    assert len(alerts) == told
    assert all(each.startswith("alert on 2026-11-19 10:01: 4,500,000") for each in alerts)


class InPieces(Strategy):
    def on_bar(self, bar: BarView) -> None:
        if self.position and bar.close < self.position.average_price * 0.97:
            self.close(why="stop loss 3 %")
        elif local_of(bar.start).date() == DAYS[0] and self.position.qty < 3_000:
            self.buy(1_000, why="in")
        elif self.position.qty < 3_000:
            self.buy(100, why="it is cheap")


def test_a_stop_loss_in_pieces_goes_on_past_the_own_limit_in_both_gears() -> None:
    """The first piece loses 1.95 million with what is left, ten times the limit: no buys follow."""
    prices = {DAYS[0]: 27_000, DAYS[1]: 27_000, DAYS[2]: 27_000, DAYS[3]: 26_000, DAYS[4]: 26_000}
    bars = [
        bar(f"09:{minute}", price, volume=100_000, day=day)
        for day, price in prices.items()
        for minute in range(20, 50)
    ]
    limits = Limits(max_loss_per_day=200_000, max_order_value=28_000_000)

    fast, slow = (
        backtest(InPieces, bars, limits=limits, first=DAYS[0], why_slow=why)
        for why in ("", "to compare")
    )

    sold = [(local_of(each.at).date(), each.quantity) for each in fast.fills if each.side == "SELL"]
    assert sold == [(DAYS[3], 1_000)] * 3
    assert fast.fills == slow.fills
    assert fast.decisions == slow.decisions
    assert fast.counts == slow.counts
    assert fast.counts["PAUSED"] > 10
