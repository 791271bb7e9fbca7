"""The three fill models on the same snapshots, worked out by hand; and what none of them may do."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.domain.instrument import Exchange, Instrument, Phase
from bot.sandbox.errors import OrdersWork
from bot.sandbox.exchange.message import Listing
from bot.sandbox.house.order_record import OrderRecord, OrderStage
from bot.sandbox.markets.mirror.model import MODELS
from tests.sandbox.markets.mirror.mirrored import (
    ACCOUNT,
    CASH,
    SHARES,
    Levels,
    Mirror,
    filled,
    mirror,
)

FILLS = sorted(MODELS)
BIDS: Levels = [(26_950, 1_000), (26_900, 2_000), (26_850, 500)]
ASKS: Levels = [(27_000, 300), (27_050, 500), (27_100, 700)]


def shown(fill: str, bids: Levels = BIDS, asks: Levels = ASKS) -> Mirror:
    """A house that has just seen a quote without trades and a depth."""
    return mirror(fill).quote(27_000, 10_000).depth(bids, asks)


# ------------------------------------------------------------------------------------- taking


@pytest.mark.parametrize(
    ("fill", "shares", "amount"),
    [
        ("touch", 1_000, 1_000 * 27_000),
        ("depth", 800, 300 * 27_000 + 500 * 27_050),
        ("queue", 800, 300 * 27_000 + 500 * 27_050),
    ],
)
def test_a_buy_of_1_000_up_to_27_050(fill: str, shares: int, amount: int) -> None:
    order = shown(fill).place("BUY", 1_000, 27_050)

    assert filled(order) == (shares, amount)


@pytest.mark.parametrize(
    ("fill", "shares", "amount"),
    [
        ("touch", 1_500, 1_500 * 26_950),
        ("depth", 1_500, 1_000 * 26_950 + 500 * 26_900),
        ("queue", 1_500, 1_000 * 26_950 + 500 * 26_900),
    ],
)
def test_a_market_to_limit_sale_of_1_500(fill: str, shares: int, amount: int) -> None:
    order = shown(fill).place("SELL", 1_500, None, kind="MTL")

    assert filled(order) == (shares, amount)


@pytest.mark.parametrize(("fill", "second"), [("touch", 300), ("depth", 0), ("queue", 0)])
def test_what_we_took_is_not_there_twice_while_the_level_shows_the_same(
    fill: str, second: int
) -> None:
    market = shown(fill)
    market.place("BUY", 300, 27_000)

    again = market.after(3).depth(BIDS, ASKS).place("BUY", 300, 27_000)

    assert again.executed_quantity == second


@pytest.mark.parametrize("fill", FILLS)
def test_a_level_with_another_volume_is_offered_anew(fill: str) -> None:
    market = shown(fill)
    market.place("BUY", 300, 27_000)

    again = market.after(3).depth(BIDS, [(27_000, 200), *ASKS[1:]]).place("BUY", 200, 27_000)

    assert again.executed_quantity == 200


def test_only_whole_lots_of_a_level_are_offered() -> None:
    order = shown("depth", asks=[(27_000, 250)]).place("BUY", 300, 27_000)

    assert order.executed_quantity == 200


# ------------------------------------------------------------------------------------ resting


@dataclass(frozen=True)
class Step:
    """What is shown, and how many shares of a resting bid of 500 at 26,950 are filled then."""

    quote: tuple[int, int] | None = None
    depth: tuple[Levels, Levels] | None = None
    touch: int = 0
    in_depth: int = 0
    queue: int = 0


RESTING = {
    "trades at its price eat the 1,000 ahead first, then fill it": (
        Step(quote=(26_950, 10_600)),
        Step(quote=(26_950, 11_300), queue=300),
        Step(quote=(26_950, 11_400), queue=400),
    ),
    "trades elsewhere do nothing": (
        Step(quote=(27_000, 90_000)),
        Step(quote=(26_950, 90_000)),
    ),
    "a trade through its price fills it": (Step(quote=(26_900, 10_100), queue=500),),
    "volume that goes without trades stood behind it as long as there was any": (
        Step(depth=([(26_950, 1_400), *BIDS[1:]], ASKS)),
        Step(depth=(BIDS, ASKS)),
        Step(quote=(26_950, 10_900)),
        Step(quote=(26_950, 11_200), queue=200),
    ),
    "volume that goes ahead of it moves it forward": (
        Step(depth=([(26_950, 200), *BIDS[1:]], ASKS)),
        Step(quote=(26_950, 11_100), queue=100),
    ),
    "an older quote after a newer one counts no trade again": (
        Step(quote=(26_950, 10_600)),
        Step(quote=(27_000, 10_000)),
        Step(quote=(26_950, 10_600)),
        Step(quote=(26_900, 10_300)),
        Step(quote=(26_950, 11_100), queue=100),
    ),
    "a trade that the depth has shown already is not counted twice": (
        Step(depth=([(26_950, 400), *BIDS[1:]], ASKS)),
        Step(quote=(26_950, 10_600)),
        Step(quote=(26_950, 11_100), queue=100),
    ),
    "what others offer at its price fills it as far as it goes": (
        Step(
            depth=([(26_900, 2_000)], [(26_950, 200), (27_000, 300)]),
            touch=500,
            in_depth=200,
            queue=200,
        ),
    ),
    "what others offer below its price fills it too": (
        Step(
            depth=([(26_850, 500)], [(26_900, 200), (26_950, 100), (27_000, 300)]),
            touch=500,
            in_depth=300,
            queue=300,
        ),
    ),
}


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("steps", RESTING.values(), ids=RESTING)
def test_a_bid_of_500_at_the_best_price_where(steps: tuple[Step, ...], fill: str) -> None:
    market = shown(fill)
    order = market.place("BUY", 500, 26_950)

    for step in steps:
        market.after(5)
        if step.quote is not None:
            market.quote(*step.quote)
        if step.depth is not None:
            market.depth(*step.depth)
        wanted = {"touch": step.touch, "depth": step.in_depth, "queue": step.queue}[fill]
        assert filled(order) == (wanted, wanted * 26_950)


def test_a_second_order_of_ours_waits_behind_the_first() -> None:
    market = shown("queue")
    first, second = market.place("BUY", 500, 26_950), market.place("BUY", 500, 26_950)

    market.after(5).quote(26_950, 10_000 + 1_000 + 500 + 200)

    assert (first.executed_quantity, second.executed_quantity) == (500, 200)


def test_a_price_beyond_the_levels_stands_behind_all_that_is_first_shown_there() -> None:
    market = shown("queue")
    order = market.place("BUY", 100, 26_800)
    market.after(5).depth([(26_900, 100), (26_850, 500), (26_800, 3_000)], ASKS)

    market.after(5).quote(26_800, 13_000)
    assert order.executed_quantity == 0

    market.after(5).quote(26_800, 13_100)
    assert order.executed_quantity == 100


def test_another_price_takes_a_new_place() -> None:
    market = shown("queue")
    order = market.place("BUY", 500, 26_950)
    market.after(5).quote(26_950, 10_900)

    market.line("amend", order=order.order_id, body={"limit_price": 26_900, "quantity": None})
    market.line("amend", order=order.order_id, body={"limit_price": 26_950, "quantity": None})
    market.after(1).quote(26_950, 11_300)

    assert order.executed_quantity == 0


def test_other_peoples_levels_are_there_again_after_our_order_was_struck() -> None:
    market = shown("queue")
    market.place("BUY", 500, 26_950)

    market.after(5).quote(26_950, 11_300)
    sale = market.place("SELL", 2_000, 26_900)

    assert sale.executed_quantity == 2_000


# ----------------------------------------------------------------------------------- not seeing


@pytest.mark.parametrize("fill", FILLS)
def test_an_order_that_nobody_can_match_is_held_and_sent_when_the_depth_is_there(
    fill: str,
) -> None:
    market = mirror(fill).quote(27_000, 10_000)
    order = market.place("BUY", 100, 27_000)
    held = market.house.fidelity(order.order_id)

    assert order.stage is OrderStage.WAITING
    assert held == f"paper {fill} · held: no depth of this phase yet"

    market.after(2).depth(BIDS, ASKS)
    assert filled(order) == (100, 2_700_000)


@pytest.mark.parametrize("fill", FILLS)
def test_nothing_is_matched_once_the_market_is_lost_from_sight(fill: str) -> None:
    market = shown(fill).lose("no depth of the last 15 s")

    held, now = market.place("BUY", 100, 27_000), market.place("BUY", 100, None, kind="MTL")

    assert held.stage is OrderStage.WAITING
    assert (now.stage, now.code) == (OrderStage.REJECTED, "-700069")


def test_a_crossed_depth_shows_no_market_while_trading_is_continuous() -> None:
    market = mirror("touch").depth([(27_000, 100)], [(27_000, 100)])

    assert market.place("BUY", 100, 27_000).stage is OrderStage.WAITING


def test_the_stamp_tells_model_levels_and_age() -> None:
    market = shown("queue").after(1.2)

    order = market.place("BUY", 100, 27_000)

    stamp = market.house.fidelity(order.order_id)
    assert stamp == "paper queue · depth 3 levels · snapshot 1.2 s old"


def test_odd_lots_wait_as_their_book_is_not_shown() -> None:
    market = shown("touch")
    order = market.place("BUY", 50, 27_100)

    market.until("14:50:00")

    assert (order.executed_quantity, order.stage) == (0, OrderStage.LAPSED)


def test_an_order_held_until_the_closing_auction_is_sent_to_it() -> None:
    market = mirror("depth", start="14:29:00").quote(27_000, 10_000)
    order = market.place("BUY", 300, 27_000)

    market.until("14:30:01")
    assert order.stage is OrderStage.WORKING

    market.until("14:44:50").depth([(26_950, 1_000)], [(27_000, 400)]).until("14:46:00")
    assert filled(order) == (300, 300 * 27_000)


def test_an_order_still_held_at_the_close_ends_with_its_day() -> None:
    oil = {"symbol": "BSR", "exchange": "UPCOM", "reference": 18_500}
    market = mirror("depth", start="14:50:00", symbols=[oil], accounts=[{"id": ACCOUNT}])
    order, account = market.place("BUY", 300, 18_500, "BSR"), market.house.accounts[ACCOUNT]
    assert (order.stage, account.secured > 0) == (OrderStage.WAITING, True)

    market.until("15:00:00")
    assert (order.stage, account.secured) == (OrderStage.LAPSED, 0)
    (said,) = [each for each in market.house.take_outcomes() if each["kind"] == "order"]
    assert (said["status"], said["remaining"]) == ("EXPIRED", 0)

    market.at += timedelta(days=1)
    market.until("09:05:00").depth([(18_400, 500)], [(18_500, 500)], "BSR")
    assert filled(order) == (0, 0)


# -------------------------------------------------------------------------------------- phases


@pytest.mark.parametrize("fill", FILLS)
def test_the_closing_auction_is_uncrossed_on_the_levels_displayed_last(fill: str) -> None:
    market = shown(fill).until("14:40:00").depth([(27_000, 900)], [(27_000, 400), (27_050, 800)])
    order = market.place("BUY", 300, None, kind="ATC")

    market.until("14:46:00")

    assert filled(order) == (300, 300 * 27_000)


@pytest.mark.parametrize("fill", FILLS)
def test_an_auction_without_a_depth_trades_nothing(fill: str) -> None:
    market = shown(fill).until("14:40:00")
    order = market.place("BUY", 300, None, kind="ATC")

    market.until("14:46:00")

    assert (order.executed_quantity, order.stage) == (0, OrderStage.LAPSED)


@pytest.mark.parametrize("fill", FILLS)
def test_the_depth_of_the_morning_is_nothing_to_trade_with_after_lunch(fill: str) -> None:
    market = shown(fill).until("12:00:00")
    order = market.place("BUY", 100, 27_000)
    market.until("13:00:01")

    assert order.stage is OrderStage.WAITING

    market.depth(BIDS, ASKS)
    assert order.executed_quantity == 100


def test_volume_of_an_auction_fills_no_order_that_rests_afterwards() -> None:
    market = mirror("queue", start="09:10:00").quote(27_000, 0)
    order = market.place("BUY", 500, 26_950)
    market.until("09:15:05").quote(26_950, 900_000).depth(BIDS, ASKS)

    assert order.executed_quantity == 0

    market.after(5).quote(26_950, 901_200)
    assert order.executed_quantity == 200


def test_a_quote_without_a_volume_leaves_the_days_volume_and_fills_nothing() -> None:
    market = mirror("queue", start="09:20:00").depth(BIDS, ASKS).quote(26_950, 900_000)
    order = market.place("BUY", 500, 26_950)

    market.after(5).quote(27_000, None)
    board = market.house.venue.board("HPG")
    assert (board.last, board.volume, order.executed_quantity) == (27_000, 900_000, 0)

    market.after(5).quote(26_950, 901_200)
    assert order.executed_quantity == 200


# ----------------------------------------------------------------------------------- many days


def test_reference_and_band_of_the_next_day_are_the_brokers_own() -> None:
    market = shown("depth")
    market.place("BUY", 300, 27_000)
    market.at = market.at.replace(day=20)
    market.until("08:40:00").quote(27_500, 90_000, reference=26_000, ceiling=27_800, floor=24_200)

    board = market.house.venue.board("HPG")

    assert (board.reference, board.ceiling, board.floor) == (26_000, 27_800, 24_200)
    assert market.house.venue.phase_of("HPG") is Phase.CLOSED


def test_another_reference_waits_until_no_order_of_ours_works() -> None:
    market = shown("depth")
    order = market.place("BUY", 100, 26_500)

    market.quote(27_000, 10_000, reference=26_000)
    while_it_works = market.house.venue.board("HPG").reference
    with pytest.raises(OrdersWork):
        market.house.venue.relist(Listing(Instrument("HPG", Exchange.HOSE), 26_000))
    market.line("cancel", order=order.order_id)
    market.quote(27_000, 10_000, reference=26_000)
    afterwards = market.house.venue.board("HPG").reference

    assert (while_it_works, afterwards) == (27_000, 26_000)


def test_shares_bought_may_be_sold_from_the_second_trading_day_at_13_00() -> None:
    market = mirror("depth", accounts=[{"id": ACCOUNT, "cash": 100_000_000}])
    market.quote(27_000, 0).depth(BIDS, ASKS).place("BUY", 300, 27_000)
    account = market.house.accounts[ACCOUNT]
    market.at = market.at.replace(day=23)

    market.until("12:59:59")
    before = account.sellable("HPG")
    market.until("13:00:00")

    assert (before, account.sellable("HPG")) == (0, 300)


# ---------------------------------------------------------------------------------- properties

PRICES = st.integers(-8, 8).map(lambda ticks: 27_000 + 50 * ticks)
VOLUMES = st.integers(1, 40).map(lambda lots: lots * 50)
SIDES = st.lists(st.tuples(PRICES, VOLUMES), max_size=3, unique_by=lambda level: level[0])
ORDERS = st.tuples(st.sampled_from(("BUY", "SELL")), st.integers(1, 20), PRICES)
MOVES = st.one_of(
    st.tuples(st.just("depth"), SIDES, SIDES),
    st.tuples(st.just("quote"), PRICES, VOLUMES),
    st.tuples(st.just("place"), ORDERS),
    st.tuples(st.just("lose")),
)


Move = tuple[Any, ...]


def played(fill: str, moves: list[Move]) -> tuple[Mirror, list[OrderRecord], int]:
    """Carry out the moves, a second apart; return all our orders and the shares offered in sum."""
    market, orders, volume, offered = mirror(fill), [], 0, 0
    for move in moves:
        market.after(1)
        match move:
            case ("depth", bids, asks):
                offered += sum(shares for _, shares in asks)
                market.depth(sorted(bids, reverse=True), sorted(asks))
            case ("quote", last, growth):
                volume += growth * 100
                market.quote(last, volume)
            case ("place", (side, lots, price)):
                orders.append(market.place(side, lots * 100, price))
            case _:
                market.lose()
    return market, orders, offered


def _sum(orders: list[OrderRecord], side: str) -> tuple[int, int]:
    """Shares and VND of what was executed on one side."""
    ours = [order for order in orders if order.side == side]
    return sum(o.executed_quantity for o in ours), sum(o.executed_amount for o in ours)


@given(fill=st.sampled_from(FILLS), moves=st.lists(MOVES, max_size=20))
def test_whatever_is_shown_money_and_shares_are_conserved(fill: str, moves: list[Move]) -> None:
    market, orders, _ = played(fill, moves)

    (bought, paid), (sold, got) = _sum(orders, "BUY"), _sum(orders, "SELL")
    record = market.house.accounts[ACCOUNT].to_record()
    shares = [each["quantity"] for each in record["due"] if each["symbol"] == "HPG"]
    money = [each["quantity"] for each in record["due"] if each["symbol"] != "HPG"]
    charges = record["fees"] + record["taxes"]
    settled = sum(each["settled"] for each in record["positions"])

    assert record["cash"] + sum(money) == CASH - paid + got - charges
    assert settled + sum(shares) == SHARES + bought - sold
    assert all(order.executed_quantity <= order.quantity for order in orders)


@given(fill=st.sampled_from(FILLS), moves=st.lists(MOVES, max_size=20))
def test_no_trade_is_off_the_tick_outside_the_band_or_beyond_a_limit(
    fill: str, moves: list[Move]
) -> None:
    market, orders, _ = played(fill, moves)

    minutes = market.house.recorder.minutes("HPG", market.at.date()).values()
    prices = [price for minute in minutes for price in (minute.open, minute.high, minute.low)]

    assert all(price % 50 == 0 and 25_150 <= price <= 28_850 for price in prices)
    for order in orders:
        worst = order.executed_quantity * (order.limit_price or 0)
        beyond = order.executed_amount - worst
        assert beyond <= 0 if order.side == "BUY" else beyond >= 0


@given(moves=st.lists(MOVES.filter(lambda move: move[:1] != ("quote",)), max_size=20))
def test_in_the_depth_model_no_more_is_bought_than_was_ever_displayed(moves: list[Move]) -> None:
    buys = [move for move in moves if move[0] != "place" or move[1][0] == "BUY"]

    _, orders, offered = played("depth", buys)

    assert _sum(orders, "BUY")[0] <= offered
