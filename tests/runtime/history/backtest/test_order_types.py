"""Each order type by the rules of its exchange: when it fills, what is left of it."""

from datetime import date, time
from typing import ClassVar

import pytest

from bot.domain.entry import Fill
from bot.domain.instrument import Exchange, Phase
from bot.domain.local_time import local_of
from bot.domain.order import OrderState, OrderType, Side
from bot.domain.plan import OrderPlan, Wake
from bot.runtime.history.backtest.result import BacktestResult
from bot.strategy import BarView, Strategy
from tests.runtime.history.backtest.listed import backtest, bar, clock

BEFORE = bar("14:45", 18_200, symbol="SHS", day=date(2026, 11, 18))
BARS = [
    BEFORE,
    bar("09:05", 18_200, symbol="SHS"),
    bar("09:06", 18_300, volume=3_000, symbol="SHS"),
    bar("09:07", 18_300, 18_400, 18_300, 18_400, volume=3_000, symbol="SHS"),
    bar("14:45", 18_500, volume=20_000, symbol="SHS"),
]
TAKEN = [("09:06:00", 300, 18_400)]
"""A tenth of the bar's volume, a tick above its open."""


class AtATime(Strategy):
    shares: int = 1_000

    def on_timer(self, _timer: time) -> None:
        self.buy(self.shares, why="it is time")


def ordered(kind: OrderType, at: time, shares: int = 1_000) -> BacktestResult:
    wake = Wake(timers=(at,))
    plan = OrderPlan(order_type=kind)
    return backtest(
        AtATime, BARS, fill="queue", order=plan, wake=wake, exchange=Exchange.HNX, shares=shares
    )


@pytest.mark.parametrize(
    ("kind", "at", "shares", "fills", "state"),
    [
        ("MTL", "09:06", 1_000, [*TAKEN, ("09:08:00", 300, 18_500)], OrderState.EXPIRED),
        ("MAK", "09:06", 1_000, TAKEN, OrderState.CANCELLED),
        ("MOK", "09:06", 1_000, [], OrderState.CANCELLED),
        ("MOK", "09:06", 300, TAKEN, OrderState.FILLED),
        ("ATC", "14:35", 1_000, [("14:45:00", 1_000, 18_500)], OrderState.FILLED),
        ("PLO", "14:50", 1_000, [("15:00:00", 1_000, 18_500)], OrderState.FILLED),
    ],
)
def test_a_market_type_fills_as_its_exchange_has_it(
    kind: str, at: str, shares: int, fills: list[tuple[str, int, int]], state: OrderState
) -> None:
    result = ordered(OrderType(kind), time.fromisoformat(at), shares)

    assert [(clock(each.at), each.quantity, each.price) for each in result.fills] == fills
    assert [order.state for order in result.orders] == [state]


class EitherSide(Strategy):
    side: str = "BUY"

    def on_timer(self, _timer: time) -> None:
        order = self.buy if self.side == "BUY" else self.sell
        order(1_000, why="it is time")


@pytest.mark.parametrize(
    ("side", "reference", "price", "taken", "rest"),
    [
        ("BUY", 27_000, 27_000, 27_050, 27_100),
        ("BUY", 49_000, 49_900, 49_950, 50_000),
        ("BUY", 50_000, 50_000, 50_100, 50_200),
        ("BUY", 27_000, 28_800, 28_850, 28_850),  # the ceiling
        ("SELL", 27_000, 27_000, 27_000, 26_950),
        ("SELL", 50_000, 50_000, 50_000, 49_950),
        ("SELL", 10_000, 10_000, 10_000, 9_990),
    ],
)
def test_what_is_left_of_an_mtl_rests_one_tick_beyond_its_last_fill(
    side: str, reference: int, price: int, taken: int, rest: int
) -> None:
    before = bar("14:45", reference, day=date(2026, 11, 18))
    bars = [before, bar("09:20", price), bar("09:21", price, volume=3_000)]
    plan, wake = OrderPlan(order_type=OrderType.MTL), Wake(timers=(time(9, 21),))

    result = backtest(
        EitherSide, bars, fill="queue", order=plan, wake=wake, side=side, holdings={"HPG": 1_000}
    )

    assert [(each.quantity, each.price) for each in result.fills] == [(300, taken)]
    assert [order.price for order in result.orders] == [rest]


class TwoSizes(Strategy):
    def on_timer(self, _timer: time) -> None:
        self.buy(1_600 if self.name == "Another" else 1_500, why="it is time")


def test_what_trades_at_the_close_shares_the_last_bar_with_all_others() -> None:
    plo = OrderPlan(order_type=OrderType.PLO)

    result = backtest(
        TwoSizes,
        BARS,
        fill="queue",
        order=plo,
        another=plo,
        wake=Wake(timers=(time(14, 50),)),
        exchange=Exchange.HNX,
    )

    assert [(each.strategy, each.quantity) for each in result.fills] == [
        ("TwoSizes", 1_500),
        ("Another", 500),
    ]


@pytest.mark.parametrize(("kind", "at"), [("ATC", "09:06"), ("PLO", "10:00"), ("MTL", "14:35")])
def test_a_type_outside_its_phase_is_not_sent(kind: str, at: str) -> None:
    result = ordered(OrderType(kind), time.fromisoformat(at))

    assert result.orders == ()
    assert [each.verdict for each in result.decisions] == ["BLOCKED"]


class BySession(Strategy):
    """Orders whenever a phase begins."""

    def on_session(self, phase: Phase) -> None:
        kind = {Phase.PRE_CLOSED: "ATC", Phase.POST_SESSION: "PLO"}.get(phase)
        if kind is not None:
            self.buy(100, market=kind, why=kind)
        elif phase is Phase.PROGRESS:
            self.buy(100, limit=18_000, why="a limit")


@pytest.mark.parametrize("why_slow", ["", "to compare"])
def test_a_new_phase_finds_a_quote_where_polls_had_seen_one(why_slow: str) -> None:
    """Nothing is polled before the first phase and over lunch: there an order is refused, as live.
    The limit orders would fill at no bar, so each of the others is the only one.
    """
    wake = Wake(on_phase=True)

    result = backtest(BySession, BARS, wake=wake, exchange=Exchange.HNX, why_slow=why_slow)

    decided = [(clock(each.at), each.code) for each in result.decisions][-4:]
    filled = [(clock(each.at), each.price) for each in result.fills][-2:]
    stale = [("09:00:00", "QUOTE_AGE"), ("13:00:00", "QUOTE_AGE")]
    assert decided == [*stale, ("14:30:00", "OK"), ("14:45:00", "OK")]
    assert filled == [("14:45:00", 18_500), ("15:00:00", 18_500)]


class TakesProfit(Strategy):
    """Buys below the first bar, and sells above what it paid."""

    def on_bar(self, bar: BarView) -> None:
        if bar.close == 27_000:
            self.buy(100, limit=26_900, why="below")

    def on_fill(self, fill: Fill) -> None:
        if fill.side is Side.BUY:
            self.sell(100, limit=fill.price + 200, why="profit")


@pytest.mark.parametrize("why_slow", ["", "to compare"])
def test_the_fill_of_an_order_that_rested_finds_a_quote_of_now(why_slow: str) -> None:
    falls = bar("09:22", 26_950, 26_950, 26_800, 26_950)
    bars = [bar("09:20", 27_000), bar("09:21", 26_950), falls, bar("09:25", 27_150)]

    result = backtest(TakesProfit, bars, holdings={"HPG": 100}, why_slow=why_slow)

    fills = [(clock(each.at), each.side, each.price) for each in result.fills]
    assert fills == [("09:23:00", "BUY", 26_900), ("09:25:00", "SELL", 27_150)]


class Below(Strategy):
    """Buys a tick below the first bar of a day, and remembers all that it is shown."""

    shown: ClassVar[list[str]] = []

    def on_bar(self, bar: BarView) -> None:
        self.shown.append(f"{local_of(bar.start):%d %H:%M} {bar.close}")
        if len(self.shown) == 1:
            self.buy(100, limit=bar.close - 50, why="the first")


@pytest.mark.parametrize("why_slow", ["", "to compare"])
def test_on_a_day_that_ends_early_nothing_fills_and_no_bar_is_shown_after_its_end(
    why_slow: str,
) -> None:
    bars = [
        bar("10:28", 27_000),
        bar("10:29", 27_050),
        bar("10:31", 26_000),
        bar("14:45", 26_500),
        bar("10:00", 27_100, day=date(2026, 11, 20)),
    ]
    Below.shown.clear()

    result = backtest(Below, bars, early=time(10, 30), why_slow=why_slow)

    assert result.fills == ()
    [order] = result.orders
    assert (order.state, clock(order.at)) == (OrderState.EXPIRED, "10:30:00")
    assert Below.shown[:3] == ["19 10:28 27000", "19 10:29 27050", "20 09:15 27050"]
    assert Below.shown[-1] == "20 14:44 27100"


class InAuctions(Strategy):
    def on_timer(self, timer: time) -> None:
        self.buy(100, market="ATO" if timer < time(10) else "ATC", why=f"{timer}")


@pytest.mark.parametrize(("volume", "filled"), [(0, []), (100, ["09:15:00", "14:45:00"])])
def test_an_auction_without_a_trade_fills_nothing(volume: int, filled: list[str]) -> None:
    bars = [
        bar("14:45", 27_000, day=date(2026, 11, 18)),
        bar("09:15", 27_000, volume=volume),
        bar("10:00", 27_000),
        bar("14:45", 27_000, volume=volume),
    ]
    wake = Wake(timers=(time(9, 5), time(14, 35)))

    result = backtest(InAuctions, bars, fill="depth", wake=wake)

    assert [clock(each.at) for each in result.fills] == filled
