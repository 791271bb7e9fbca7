from dataclasses import replace

import pytest

from bot.domain.entry import Decision, Verdict
from bot.domain.message import PlaceOrder
from bot.domain.order import OrderType, Side
from bot.domain.plan import OrderPlan, PriceBasis, SizeUnit
from bot.engine.risk.sizing import basis_for, file_quantity, shifted, snapped
from tests.engine.stage import HPG, PLAN, RULEBOOK, Stage, report_of

SIZES = [
    (SizeUnit.SHARES, 250, 27_000, 200),
    (SizeUnit.SHARES, 99, 27_000, 0),
    (SizeUnit.CASH, 20_000_000, 27_000, 700),
    (SizeUnit.CASH, 2_699_999, 27_000, 0),
    (SizeUnit.CASH, 20_000_000, 0, 0),
    (SizeUnit.PERCENT, 10, 27_000, 300),
]


@pytest.mark.parametrize(("unit", "size", "price", "quantity"), SIZES)
def test_a_size_is_rounded_down_to_whole_lots(unit, size, price, quantity):
    plan = OrderPlan(size_unit=unit, size=size)

    assert file_quantity(plan, price=price, cash=100_000_000) == quantity


@pytest.mark.parametrize(
    ("side", "price", "expected"),
    [
        (Side.BUY, 27_025, 27_000),
        (Side.SELL, 27_025, 27_050),
        (Side.BUY, 27_050, 27_050),
        (Side.SELL, 50_010, 50_100),
    ],
)
def test_a_price_between_ticks_goes_to_the_passive_one(side, price, expected):
    assert snapped(RULEBOOK, HPG, side, price) == expected


@pytest.mark.parametrize(
    ("side", "ticks", "expected"),
    [
        (Side.BUY, 1, 50_000),
        (Side.BUY, -1, 49_900),
        (Side.SELL, 1, 49_900),
        (Side.SELL, -2, 50_100),
        (Side.BUY, 0, 49_950),
    ],
)
def test_ticks_move_towards_the_other_side(side, ticks, expected):
    assert shifted(RULEBOOK, HPG, side, 49_950, ticks) == expected


def test_a_sellers_basis_is_the_buyers_mirrored():
    assert [basis_for(one, Side.BUY) for one in PriceBasis] == list(PriceBasis)
    assert basis_for(PriceBasis.ASK, Side.SELL) is PriceBasis.BID
    assert basis_for(PriceBasis.BID, Side.SELL) is PriceBasis.ASK


def _with_order(**order):
    return Stage(replace(PLAN, order=OrderPlan(**order)), sellable=1_000)


@pytest.mark.parametrize(
    ("basis", "price"),
    [
        (PriceBasis.ASK, 27_050),
        (PriceBasis.BID, 26_900),
        (PriceBasis.MID, 26_950),
        (PriceBasis.LAST, 27_000),
    ],
)
def test_a_buy_without_a_price_takes_the_files(basis, price):
    stage = _with_order(basis=basis, size=300)
    stage.depth(26_900, 27_050)

    stage.request(lambda s: s.buy())

    intent = stage.last(PlaceOrder).intent
    assert (intent.quantity, intent.limit_price) == (300, price)


def test_a_close_sells_at_the_bid_where_a_buy_pays_the_ask():
    stage = _with_order(basis=PriceBasis.ASK)
    stage.depth(26_900, 27_050)
    stage.after(1).book(report_of(stage.working(), executed=100))
    stage.depth(26_950, 27_050)

    stage.request(lambda s: s.close())

    intent = stage.last(PlaceOrder).intent
    assert (intent.side, intent.limit_price, intent.closes_position) == (Side.SELL, 26_950, True)


def test_no_price_is_a_refusal_not_a_guess():
    stage = _with_order(basis=PriceBasis.ASK)

    stage.request(lambda s: s.buy())

    assert stage.decided() == (Verdict.BLOCKED, "NO_PRICE")


def test_a_missing_price_names_what_the_market_lacks():
    buyer = _with_order(basis=PriceBasis.ASK)
    buyer.depth(26_950, None)
    buyer.request(lambda s: s.buy())
    stale = _with_order(basis=PriceBasis.ASK)
    stale.request(lambda s: s.buy())
    tiny = _with_order(basis=PriceBasis.LAST, size=50)
    tiny.request(lambda s: s.buy())

    reasons = [each.new(Decision)[-1].numbers["reason"] for each in (buyer, stale, tiny)]
    assert reasons == [
        "no ask in the depth to buy at",
        "no fresh depth to buy by",
        "the size comes to 0 shares, a whole lot is 100",
    ]


def test_a_strategy_without_a_price_to_give_reads_which_side_is_empty():
    stage = _with_order(basis=PriceBasis.LAST)

    stage.request(lambda s: s.buy(limit=None))

    assert stage.new(Decision)[-1].why.startswith("no ask to price against")


def test_a_limit_of_none_is_not_the_files_price():
    stage = _with_order(basis=PriceBasis.LAST)

    stage.request(lambda s: s.buy(limit=None))

    assert stage.decided() == (Verdict.SKIPPED, "NO_PRICE")


def test_an_old_depth_gives_no_price():
    stage = _with_order(basis=PriceBasis.ASK)
    stage.depth()
    stage.after(16).quote()

    stage.request(lambda s: s.buy())

    assert stage.decided() == (Verdict.BLOCKED, "NO_PRICE")


def test_a_market_type_has_no_price():
    stage = _with_order(order_type=OrderType.MTL)

    stage.request(lambda s: s.buy())

    intent = stage.last(PlaceOrder).intent
    assert (intent.order_type, intent.limit_price) == (OrderType.MTL, None)


def test_a_limit_by_the_strategy_is_a_limit_order_whatever_the_file_says():
    stage = _with_order(order_type=OrderType.MTL)

    stage.request(lambda s: s.buy(limit=27_000))

    assert stage.last(PlaceOrder).intent.order_type is OrderType.LO


def test_a_file_size_too_small_for_a_lot_is_a_refusal():
    stage = _with_order(size_unit=SizeUnit.CASH, size=1_000_000)

    stage.request(lambda s: s.buy())

    decision = stage.last(Decision)
    assert (decision.verdict, decision.code) == (Verdict.BLOCKED, "SIZE")
    assert stage.all(PlaceOrder) == []


def test_a_quantity_by_the_strategy_is_not_rounded():
    stage = Stage()

    stage.request(lambda s: s.buy(150, limit=27_000))

    assert stage.decided() == (Verdict.BLOCKED, "LOT")
