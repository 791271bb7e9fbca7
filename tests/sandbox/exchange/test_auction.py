"""Call auctions, through the venue."""

from bot.domain.instrument import Exchange, Lot
from bot.domain.quote import DepthLevel
from bot.sandbox.exchange.auction import Clearing, clearing
from bot.sandbox.exchange.message import OrderLapsed, Refusal, Traded, Uncrossed
from tests.rows import every_row
from tests.sandbox.exchange.stage import SYMBOLS, Stage, fills, listing, local, only
from tests.sandbox.exchange.vectors import AUCTIONS

HOSE, HNX = Exchange.HOSE, Exchange.HNX


def collected(case) -> Stage:
    """A stage on which all orders of a worked auction wait, with its last price made before."""
    exchange, is_opening = Exchange[case["exchange"]], case["auction"] == "ATO"
    stage = Stage("09:00" if is_opening else "13:00", listing(exchange, case["reference"]))
    symbol = SYMBOLS[exchange]
    if case["last"]:
        stage.last(symbol, case["last"])
    stage.at("09:14" if is_opening else "14:31")
    for name, side, kind, price, quantity in case["orders"]:
        order_type = case["auction"] if kind == "AO" else kind
        line = f"{symbol} {side} {quantity} {order_type} {price or ''}"
        assert stage.venue.refusal(stage.order(line)) is None
        stage.submit(line, name=name)
    return stage


@every_row("case", AUCTIONS.values())
def test_a_worked_auction_gives_its_price_and_fills(case):
    stage = collected(case)
    board = stage.venue.board(SYMBOLS[Exchange[case["exchange"]]])

    events = stage.at("09:15" if case["auction"] == "ATO" else "14:45")

    (uncrossed,) = only(events, Uncrossed)
    assert (uncrossed.price, uncrossed.volume) == (case["price"], case["volume"])
    assert (board.auction_price, board.auction_volume) == (case["price"], case["volume"])
    assert fills(events) == {name: n for name, n in case["fills"].items() if n}
    assert {trade.price for trade in only(events, Traded)} <= {case["price"]}


def test_of_two_equally_near_prices_the_higher_wins():
    assert clearing({130: 1}, {110: 1}, [110, 130], 120) == Clearing(130, 1)


def test_an_auction_order_lapses_with_what_the_auction_left_over():
    stage = Stage("09:00")
    stage.submit("HPG BUY 500 ATO", name="b")
    stage.submit("HPG SELL 200 LO 25350", name="s")

    events = stage.at("09:15")

    assert only(events, OrderLapsed) == [OrderLapsed(local("09:15"), "b", 300)]
    assert stage.venue.order("b") is None


def test_limit_orders_of_the_opening_auction_rest_uncrossed_afterwards():
    stage = Stage("09:00")
    stage.submit("HPG BUY 500 LO 25400", name="b")
    stage.submit("HPG SELL 200 LO 25300", name="s")

    stage.at("09:15")

    assert stage.levels("HPG") == ([(25_400, 300)], [])
    assert stage.venue.board("HPG").open == 25_400


def test_a_limit_order_of_the_morning_keeps_its_time_in_the_closing_auction():
    stage = Stage("10:00")
    stage.submit("SHS BUY 300 LO 12000", name="early")
    stage.at("14:30")
    stage.submit("SHS BUY 300 LO 12000", name="late")
    stage.submit("SHS SELL 400 ATC", name="seller")

    events = stage.at("14:45")

    assert fills(events) == {"early": 300, "late": 100, "seller": 400}


def test_the_odd_book_is_uncrossed_on_its_own_near_the_last_even_price():
    stage = Stage("09:00")
    stage.submit("HPG BUY 100 LO 25500")
    stage.submit("HPG SELL 100 LO 25500")
    stage.submit("HPG BUY 30 LO 25600", name="b")
    stage.submit("HPG SELL 30 LO 25300", name="s")

    events = stage.at("09:15")

    (even, odd) = only(events, Uncrossed)
    assert (even.price, even.lot) == (25_500, Lot.EVEN)
    assert (odd.price, odd.volume, odd.lot) == (25_500, 30, Lot.ODD)
    assert stage.venue.board("HPG").volume == 100


def test_depth_in_an_auction_may_be_crossed_and_leaves_out_orders_without_a_price():
    stage = Stage("09:00")
    stage.submit("HPG BUY 500 LO 25400")
    stage.submit("HPG SELL 200 LO 25300")
    stage.submit("HPG SELL 900 ATO")

    depth = stage.venue.depth("HPG")

    assert depth.bids == (DepthLevel(25_400, 500),)
    assert depth.asks == (DepthLevel(25_300, 200),)


def test_one_investor_has_one_side_in_an_auction():
    stage = Stage("10:00")
    stage.submit("HPG BUY 100 LO 25000", owner="mine", name="carried over")
    stage.at("14:30")

    assert stage.refused("HPG SELL 100 ATC", owner="mine") is None
    assert stage.refused("HPG BUY 100 LO 25000", owner="mine") is Refusal.OPPOSITE_ORDER
    assert stage.refused("HPG BUY 10 LO 25000", owner="mine") is Refusal.OPPOSITE_ORDER
    assert stage.refused("SHS BUY 100 ATC", owner="mine") is None
    assert stage.refused("HPG BUY 100 LO 25000", owner="another") is None


def test_a_side_taken_in_the_opening_auction_is_free_in_the_closing_one():
    stage = Stage("09:00")
    stage.submit("HPG BUY 100 ATO", owner="mine")
    stage.at("14:30")

    assert stage.refused("HPG SELL 100 ATC", owner="mine") is None
