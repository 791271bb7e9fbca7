"""Fills put together into round trips."""

from dataclasses import replace

from bot.domain.order import Side
from bot.runtime.history.backtest.trades import OpenPosition, RoundTrip, Trips, round_trips
from tests.backtest_results import PLAN, decision, fill


def test_a_round_trip_has_cost_result_and_both_reasons() -> None:
    bought = fill(1, Side.BUY, 100, 1_000, fee=150)
    sold = fill(2, Side.SELL, 100, 1_100, fee=165, tax=110)

    found = round_trips([bought, sold], [decision(1, Side.BUY, 1), decision(2, Side.SELL, 1)])

    trip = RoundTrip(
        strategy=PLAN.name,
        symbol="FPT",
        opened=bought.at,
        closed=sold.at,
        quantity=100,
        cost=100_150,
        amount=110_000,
        fee=165,
        tax=110,
        entry_why="reason 1",
        exit_why="reason 2",
    )
    assert found == Trips((trip,), (), 0)
    assert trip.result == 9_575


def test_sales_share_the_average_cost_and_lose_no_vnd() -> None:
    fills = [
        fill(1, Side.BUY, 100, 1_000),
        fill(2, Side.BUY, 200, 1_001, fee=1),  # 300 shares for 300,201
        fill(3, Side.SELL, 100, 1_000),  # its third, rounded down: 100,067
        fill(4, Side.SELL, 100, 1_000),
        fill(5, Side.SELL, 100, 1_000),
    ]

    found = round_trips(fills, [])

    assert [trip.cost for trip in found.closed] == [100_067, 100_067, 100_067]
    assert sum(trip.result for trip in found.closed) == 300_000 - 300_201


def test_one_sell_order_is_one_trip_however_it_was_filled() -> None:
    first = fill(2, Side.SELL, 40, 1_100, tax=4)
    second = replace(first, quantity=60, amount=66_060, tax=6, at=fill(3, Side.SELL, 1, 1).at)

    found = round_trips([fill(1, Side.BUY, 100, 1_000), first, second], [])

    assert [(trip.quantity, trip.amount, trip.tax) for trip in found.closed] == [(100, 110_060, 10)]
    assert found.closed[0].closed == second.at


def test_shares_that_no_fill_bought_are_in_no_trip() -> None:
    held = fill(1, Side.SELL, 300, 1_000)
    more = fill(3, Side.SELL, 150, 1_000, fee=30)

    found = round_trips([held, fill(2, Side.BUY, 100, 900), more], [])

    assert found.unmatched == 350
    assert [(trip.quantity, trip.amount, trip.fee) for trip in found.closed] == [(100, 100_000, 20)]


def test_what_is_left_is_open_at_its_own_cost() -> None:
    bought = fill(1, Side.BUY, 300, 1_000, fee=300)

    found = round_trips([bought, fill(2, Side.SELL, 100, 1_000)], [decision(1, Side.BUY, 1)])

    left = OpenPosition(PLAN.name, "FPT", bought.at, 200, 200_200, "reason 1")
    assert found.open == (left,)


def test_strategies_hold_their_own_shares() -> None:
    other = fill(2, Side.SELL, 100, 1_000, strategy="other")

    found = round_trips([fill(1, Side.BUY, 100, 1_000), other], [])

    assert (found.closed, found.unmatched) == ((), 100)
