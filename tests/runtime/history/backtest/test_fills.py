"""What bars fill, in each model: never more than they could, never what its strategy had seen."""

from dataclasses import replace
from datetime import date, time, timedelta

import pytest

from bot.domain.instrument import Exchange
from bot.domain.order import OrderState, OrderType, Side
from bot.domain.plan import OrderPlan, PriceBasis, Wake
from bot.domain.quote import Bar
from bot.sandbox.markets.mirror.model import FillName
from bot.strategy import BarView, Strategy
from tests.runtime.history.backtest.listed import (
    BY_MINUTE,
    DAY,
    MINUTE,
    Written,
    backtest,
    bar,
    clock,
)

REFERENCE = [bar("14:45", 27_000, day=date(2026, 11, 18))]
MARKET = OrderPlan(order_type=OrderType.MTL)


class At(Strategy):
    """Buys, or sells, once at the close of the bar that starts at a local time."""

    start: str = "09:20"
    shares: int = 1_000
    limit: int = 0
    sells: bool = False

    def on_bar(self, bar: BarView) -> None:
        local = bar.start + timedelta(hours=7)
        if f"{local:%H:%M}" == self.start:
            act = self.sell if self.sells else self.buy
            if self.limit:
                act(self.shares, limit=self.limit, why="it is time")
            else:
                act(self.shares, why="it is time")


def fills(result: object) -> list[tuple[str, int, int]]:
    return [(clock(each.at), each.quantity, each.price) for each in result.fills]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("fill", "wanted"),
    [
        ("touch", [("09:21:00", 1_000, 27_000)]),
        ("depth", [("09:21:00", 500, 27_050), ("09:23:00", 500, 27_100)]),
        ("queue", [("09:21:00", 500, 27_050), ("09:23:00", 500, 27_100)]),
    ],
)
def test_what_takes_pays_the_open_and_its_tick_for_a_share_of_the_volume(
    fill: FillName, wanted: list[tuple[str, int, int]]
) -> None:
    bars = [
        *REFERENCE,
        bar("09:20", 27_000),
        bar("09:21", 27_000, 27_200, 27_000, 27_200, volume=5_000),
        bar("09:22", 27_200, 27_200, 27_050, 27_100, volume=5_000),
    ]

    result = backtest(At, bars, fill=fill, limit=27_100)

    assert fills(result) == wanted


@pytest.mark.parametrize(
    ("fill", "wanted"),
    [
        ("touch", [("09:23:00", 1_000, 26_900)]),
        ("depth", [("09:23:00", 1_000, 26_900)]),
        ("queue", [("09:24:00", 1_000, 26_900)]),
    ],
)
def test_a_limit_that_is_only_touched_waits_in_the_queue(
    fill: FillName, wanted: list[tuple[str, int, int]]
) -> None:
    bars = [
        *REFERENCE,
        bar("09:20", 27_000),
        bar("09:21", 27_000),
        bar("09:22", 27_000, 27_000, 26_900, 26_950),
        bar("09:23", 26_950, 26_950, 26_850, 26_900),
    ]

    result = backtest(At, bars, fill=fill, limit=26_900)

    assert fills(result) == wanted


def test_the_queue_ahead_is_eaten_by_what_trades_at_the_limit() -> None:
    touching = [bar(f"09:{minute}", 26_900, volume=60_000) for minute in range(22, 25)]
    bars = [*REFERENCE, bar("09:20", 27_000), bar("09:21", 27_000), *touching]

    result = backtest(At, bars, fill="queue", limit=26_900)

    assert fills(result) == [("09:24:00", 1_000, 26_900)]


@pytest.mark.parametrize("fill", ["touch", "depth", "queue"])
def test_nothing_fills_at_a_locked_limit(fill: FillName) -> None:
    floor, ceiling = 25_150, 28_850
    locked_up = [bar(f"09:{minute}", ceiling) for minute in range(20, 30)]
    locked_down = [bar(f"09:{minute}", floor) for minute in range(20, 30)]

    bought = backtest(At, [*REFERENCE, *locked_up], fill=fill, limit=ceiling)
    held = {"HPG": 1_000}
    sold = backtest(
        At, [*REFERENCE, *locked_down], fill=fill, sells=True, limit=floor, holdings=held
    )

    assert (bought.fills, sold.fills) == ((), ())
    assert [each.state for each in (*bought.orders, *sold.orders)] == [OrderState.EXPIRED] * 2


def test_a_market_order_takes_its_share_and_rests_a_tick_above_what_it_paid() -> None:
    bars = [
        *REFERENCE,
        bar("09:20", 27_000),
        bar("09:21", 27_000, volume=5_000),
        bar("09:22", 27_000, 27_000, 26_950, 27_000, volume=50_000),
    ]

    result = backtest(At, bars, fill="queue", order=MARKET)

    assert fills(result) == [("09:21:00", 500, 27_050), ("09:23:00", 500, 27_100)]


class InOpening(Strategy):
    """Orders in the opening auction, at the price that its file names."""

    shares: int = 1_000

    def on_timer(self, _timer: time) -> None:
        self.buy(self.shares, why="before the auction")


@pytest.mark.parametrize(
    ("plan", "wanted"),
    [
        (OrderPlan(order_type=OrderType.ATO), [("09:15:00", 1_000, 27_100)]),
        (OrderPlan(ticks=4), [("09:15:00", 1_000, 27_100)]),
        (OrderPlan(ticks=1), []),
    ],
)
def test_an_opening_auction_has_one_price(
    plan: OrderPlan, wanted: list[tuple[str, int, int]]
) -> None:
    bars = [*REFERENCE, bar("09:15", 27_100, 27_400, 27_100, 27_400)]

    result = backtest(InOpening, bars, fill="queue", order=plan, wake=Wake(timers=(time(9, 5),)))

    assert fills(result) == wanted


@pytest.mark.parametrize(
    ("width", "wanted"),
    [
        (MINUTE, [("09:15:00", 6_000, 27_100), ("09:16:00", 4_000, 27_200)]),
        (timedelta(days=1), [("09:15:00", 6_000, 27_100), ("14:45:00", 4_000, 27_200)]),
    ],
)
def test_the_auctions_of_a_bar_are_part_of_its_volume(
    width: timedelta, wanted: list[tuple[str, int, int]]
) -> None:
    seconds = round(width.total_seconds())
    start = "09:15" if width == MINUTE else "00:00"
    bars = [
        bar("09:15", 27_000, day=date(2026, 11, 18)),
        bar(start, 27_100, 27_400, 26_000, 27_000),
    ]
    source = Written([replace(each, seconds=seconds) for each in bars], width)

    result = backtest(
        InOpening,
        [],
        source=source,
        fill="depth",
        order=OrderPlan(ticks=4),
        wake=Wake(timers=(time(9, 5),)),
        cash=10**9,
        shares=20_000,
    )

    assert fills(result) == wanted


def test_an_auction_fills_the_better_price_first() -> None:
    bars = [*REFERENCE, bar("09:15", 27_100, volume=10_000), bar("09:16", 27_600)]

    result = backtest(
        InOpening,
        bars,
        fill="depth",
        order=OrderPlan(ticks=3),
        another=OrderPlan(ticks=6),
        wake=Wake(timers=(time(9, 5),)),
    )

    assert [(each.strategy, each.quantity) for each in result.fills] == [
        ("Another", 600),  # the auction's
        ("Another", 400),  # the rest of its bar's
    ]


def test_what_is_left_lapses_at_the_close_and_its_money_is_free_again() -> None:
    result = backtest(At, [*REFERENCE, bar("09:20", 27_000), bar("14:45", 27_000)], limit=26_000)

    [order] = result.orders
    assert (order.state, order.broker_status) == (OrderState.EXPIRED, "EXPIRED")
    assert result.equity[-1].cash == 100_000_000


class BuyThenClose(Strategy):
    def on_bar(self, bar: BarView) -> None:
        if self.position:
            self.close(why="as soon as it may be")
        elif not bar.start.minute % 60 - 20:
            self.buy(1_000, limit=27_000, why="it is time")


def test_shares_are_sold_on_the_third_day_at_one_and_not_before() -> None:
    days = [date(2026, 11, day) for day in (18, 19, 20)]
    bars = [bar(at, 26_900, day=day) for day in days for at in ("09:20", "09:21", "13:00", "13:01")]

    result = backtest(BuyThenClose, bars, first=days[0])

    buy, sell = result.fills
    assert (buy.side, clock(buy.at), buy.at.day) == ("BUY", "09:21:00", 18)
    assert (sell.side, clock(sell.at), sell.at.day) == ("SELL", "13:01:00", 20)
    assert result.counts["NOT_SETTLED"] > 0


def test_minutes_without_a_trade_are_flat_and_so_is_a_half_day_without_any() -> None:
    seen: list[tuple[str, int, int]] = []

    class Watch(Strategy):
        def on_bar(self, bar: BarView) -> None:
            seen.append((clock(bar.start), bar.close, bar.volume))

    later = bar("13:00", 27_000, day=date(2026, 11, 20))
    backtest(Watch, [*REFERENCE, bar("09:15", 27_100), bar("09:17", 27_200, volume=300), later])

    assert seen[:4] == [
        ("09:15:00", 27_100, 100_000),
        ("09:16:00", 27_100, 0),
        ("09:17:00", 27_200, 300),
        ("09:18:00", 27_200, 0),
    ]
    afternoon, morning = seen[135:240], seen[240:375]
    assert (afternoon[0], afternoon[-1]) == (("13:00:00", 27_200, 0), ("14:44:00", 27_200, 0))
    assert (morning[0], morning[-1]) == (("09:15:00", 27_200, 0), ("11:29:00", 27_200, 0))
    assert seen[375:377] == [("13:00:00", 27_000, 100_000), ("13:01:00", 27_000, 0)]


def test_before_the_first_bar_of_all_the_close_of_the_day_before_is_seen() -> None:
    seen: list[tuple[str, int, int]] = []

    class Watch(Strategy):
        def on_bar(self, bar: BarView) -> None:
            seen.append((clock(bar.start), bar.close, bar.volume))

    backtest(Watch, [*REFERENCE, bar("09:17", 27_200)])

    assert seen[:3] == [
        ("09:15:00", 27_000, 0),
        ("09:16:00", 27_000, 0),
        ("09:17:00", 27_200, 100_000),
    ]


def test_wider_bars_are_made_of_the_minutes() -> None:
    seen: list[tuple[str, int, int, int, int, int]] = []

    class Watch(Strategy):
        def on_bar(self, bar: BarView) -> None:
            prices = (bar.open, bar.high, bar.low, bar.close)
            seen.append((clock(bar.start), *prices, bar.volume))

    bars = [bar("09:15", 27_000, 27_100, 26_900, 27_050), bar("09:18", 27_200, volume=500)]
    backtest(Watch, bars, wake=Wake(bar=5 * MINUTE))

    assert seen[0] == ("09:15:00", 27_000, 27_200, 26_900, 27_200, 100_500)


def test_an_odd_lot_fills_only_where_the_market_trades_through_its_limit() -> None:
    touched = [bar("09:21", 27_000), bar("09:22", 27_000, 27_000, 26_900, 26_900)]
    through = bar("09:23", 26_900, 26_900, 26_850, 26_850)
    bars = [*REFERENCE, bar("09:20", 27_000), *touched, through]

    result = backtest(At, bars, fill="queue", shares=30, limit=26_900)

    assert fills(result) == [("09:24:00", 30, 26_900)]


def test_on_upcom_the_reference_is_the_average_of_the_day_before() -> None:
    traded = [
        ("09:20", 52_000, 300, date(2026, 11, 18)),
        ("14:00", 53_000, 100, date(2026, 11, 18)),  # 52,250 on average, 52,300 on the tick
        ("09:20", 52_300, 1_000, DAY),
    ]
    bars = [bar(at, price, volume=v, symbol="ACV", day=day) for at, price, v, day in traded]

    result = backtest(At, bars, exchange=Exchange.UPCOM, first=DAY, limit=52_300)

    [decision] = [each for each in result.decisions if each.code == "OK"]
    assert (decision.saw["floor"], decision.saw["ceiling"]) == (44_500, 60_100)


def test_bid_and_ask_are_the_last_price_and_a_tick_above() -> None:
    plan = OrderPlan(basis=PriceBasis.ASK)
    bars = [*REFERENCE, bar("09:20", 27_000), bar("09:21", 27_000)]

    result = backtest(At, bars, fill="queue", order=plan, wake=BY_MINUTE)

    assert [order.price for order in result.orders] == [27_050]
    assert fills(result) == [("09:21:00", 1_000, 27_050)]


def test_bars_of_a_day_wake_when_the_next_day_begins() -> None:
    day_s = 86_400
    starts = [bar("00:00", 27_000, day=date(2026, 11, day)).start for day in (17, 18, 19)]
    prices = [(27_000, 27_200, 26_900, 27_100), (27_100, 27_500, 27_000, 27_400)]
    bars = [
        Bar("HPG", start, day_s, *each, 1_000_000)
        for start, each in zip(starts, [*prices, (27_300, 27_300, 26_800, 27_000)], strict=True)
    ]

    class Daily(Strategy):
        def on_bar(self, bar: BarView) -> None:
            if bar.close == 27_400:
                self.buy(100, limit=27_400, why="it rose")

    source = Written(bars, timedelta(days=1))
    result = backtest(
        Daily, [], source=source, wake=Wake(bar=timedelta(days=1)), first=date(2026, 11, 17)
    )

    [fill] = result.fills
    assert (fill.at.day, clock(fill.at), fill.price) == (19, "09:15:00", 27_300)


class InsideABar(Strategy):
    def on_timer(self, _timer: time) -> None:
        self.buy(100, limit=27_000, why="in the middle of a bar")


@pytest.mark.parametrize("fill", ["touch", "depth", "queue"])
def test_an_order_sent_inside_a_bar_waits_for_the_next_one(fill: FillName) -> None:
    bars = [
        *REFERENCE,
        bar("09:19", 27_000),
        bar("09:20", 27_000, 27_000, 26_000, 27_500),
        bar("09:21", 27_500),
        bar("09:22", 27_500, 27_500, 26_900, 27_000),
    ]

    result = backtest(InsideABar, bars, fill=fill, wake=Wake(timers=(time(9, 20, 30),)))

    assert fills(result) == [("09:23:00", 100, 27_000)]


@pytest.mark.parametrize("fill", ["touch", "depth", "queue"])
def test_nothing_fills_where_a_row_says_that_nothing_was_traded(fill: FillName) -> None:
    bars = [
        *REFERENCE,
        bar("09:20", 27_000),
        bar("09:21", 27_000, volume=0),
        bar("09:23", 27_050),
    ]

    result = backtest(At, bars, fill=fill, order=MARKET, shares=100)

    paid = 27_050 if fill == "touch" else 27_100
    assert fills(result) == [("09:23:00", 100, paid)]


class TwoAt(Strategy):
    """One rests a buy at 09:21, the other one a better one at 09:22."""

    def on_bar(self, bar: BarView) -> None:
        is_later = self.name == "Another"
        if clock(bar.start) == ("09:21:00" if is_later else "09:20:00"):
            self.buy(100, limit=26_900 if is_later else 26_800, why=self.name)


@pytest.mark.parametrize("fill", ["depth", "queue"])
def test_of_two_resting_orders_the_better_price_fills_first(fill: FillName) -> None:
    thin = bar("09:23", 27_000, 27_000, 26_700, 26_900, volume=900)
    quiet = [bar(f"09:2{minute}", 27_000) for minute in (0, 1, 2)]

    result = backtest(TwoAt, [*REFERENCE, *quiet, thin], fill=fill, another=OrderPlan())

    assert fills(result) == [("09:24:00", 100, 26_900)]


@pytest.mark.parametrize("fill", ["depth", "queue"])
def test_a_bid_that_came_later_takes_no_volume_from_a_sale(fill: FillName) -> None:
    class Both(Strategy):
        def on_bar(self, bar: BarView) -> None:
            if self.name == "Another" and clock(bar.start) == "09:21:00":
                self.buy(100, limit=26_800, why="later")
            elif self.name != "Another" and clock(bar.start) == "09:20:00":
                self.sell(100, limit=27_200, why="the profit")

    bars = [bar(f"09:2{minute}", 27_000) for minute in (0, 1, 2)]
    bars.append(bar("09:23", 27_000, 27_300, 26_700, 27_000, volume=900))

    result = backtest(
        Both, [*REFERENCE, *bars], fill=fill, another=OrderPlan(), holdings={"HPG": 1_000}
    )

    assert [(each.strategy, each.side) for each in result.fills] == [("Both", Side.SELL)]


@pytest.mark.parametrize("fill", ["depth", "queue"])
def test_of_two_orders_that_take_the_better_price_takes_first(fill: FillName) -> None:
    class Takes(Strategy):
        def on_bar(self, bar: BarView) -> None:
            if clock(bar.start) == "09:20:00":
                self.buy(100, limit=27_200 if self.name == "Another" else 27_100, why=self.name)

    bars = [bar("09:20", 27_000), bar("09:21", 27_000, volume=900)]

    result = backtest(Takes, [*REFERENCE, *bars], fill=fill, another=OrderPlan())

    assert [each.strategy for each in result.fills] == ["Another"]
