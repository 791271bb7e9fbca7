"""What falling shares stop in a backtest: the same as live, where reads of the account see it."""

from datetime import date, time

import pytest

from bot.domain.local_time import local_of
from bot.domain.plan import AccountLimits
from bot.strategy import BarView, Strategy
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
