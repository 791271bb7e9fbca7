from dataclasses import replace

import pytest

from bot.domain.entry import Decision, Note, Verdict
from bot.domain.instrument import Exchange, Phase
from bot.domain.message import DepthReceived, InstrumentsRead, PhaseChanged, PlaceOrder
from bot.domain.operations import Action, CancelAsked, OperatorActed
from bot.domain.order import OrderState, OrderType, Side
from bot.domain.plan import AccountLimits, Limits, OrderPlan, PriceBasis, SizeUnit
from bot.domain.quote import Depth, DepthLevel
from bot.domain.recovery import RecoveredStrategy, Recovery
from bot.engine.requests import consider
from bot.engine.risk.accounts import means_of
from bot.engine.risk.sizing import CLOSE_WAITS_MAX, basis_for, file_quantity, shifted, snapped
from bot.engine.settings import EngineSettings
from bot.strategy import Request, RequestKind
from tests.engine.stage import DAY, HPG, PLAN, RULEBOOK, START, Stage, report_of

SIZES = [
    (SizeUnit.SHARES, 250, 27_000, 200),
    (SizeUnit.SHARES, 99, 27_000, 99),
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


@pytest.mark.parametrize(
    ("side", "basis", "ticks", "book", "price"),
    [
        (Side.SELL, PriceBasis.ASK, 1, (25_150, 25_200), 25_150),
        (Side.SELL, PriceBasis.ASK, 5, (25_200, 25_250), 25_150),
        (Side.SELL, PriceBasis.BID, -1, (28_800, 28_850), 28_850),
        (Side.BUY, PriceBasis.ASK, 1, (28_800, 28_850), 28_850),
        (Side.BUY, PriceBasis.BID, -1, (25_150, 25_200), 25_150),
        (Side.BUY, PriceBasis.ASK, 1, (28_750, 28_800), 28_850),
    ],
)
def test_the_files_ticks_lead_to_the_floor_or_ceiling_and_not_beyond(
    side, basis, ticks, book, price
):
    held = {"test": RecoveredStrategy({"HPG": (1_000, 27_000_000)}, 0, 0, 0, "on")}
    plan = replace(PLAN, order=OrderPlan(basis=basis, ticks=ticks, size=100))
    stage = Stage(plan, recovery=Recovery(DAY, strategies=held), sellable=1_000)
    stage.quote(book[0])
    stage.depth(*book)

    stage.request(lambda s: s.close() if side is Side.SELL else s.buy())

    intent = stage.last(PlaceOrder).intent
    assert (intent.side, intent.limit_price) == (side, price)


@pytest.mark.parametrize("ticks", [0, 1])
def test_a_market_price_outside_the_band_makes_no_order_at_its_edge(ticks):
    plan = replace(PLAN, order=OrderPlan(basis=PriceBasis.ASK, ticks=ticks, size=100))
    stage = Stage(plan, is_open=False)
    stage.depth(29_000, 29_050)  # believed, as no quote has told the band yet
    stage.open()

    stage.request(lambda s: s.buy())

    assert stage.decided() == (Verdict.BLOCKED, "BAND")


def test_a_strategys_own_price_beyond_the_band_is_refused():
    stage = _with_order(basis=PriceBasis.ASK, ticks=1, size=100)
    stage.depth()

    stage.request(lambda s: s.buy(limit=28_900))

    assert stage.decided() == (Verdict.BLOCKED, "BAND")


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
    tiny = _with_order(basis=PriceBasis.LAST, size=50, size_unit=SizeUnit.CASH)
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


def test_a_market_order_needs_no_limit():
    stage = _with_order(basis=PriceBasis.LAST)

    stage.request(lambda s: s.buy(limit=None, market="MTL"))

    assert stage.decided() == (Verdict.PASSED, "OK")
    assert stage.new(Decision)[-1].order_type is OrderType.MTL


def test_an_order_of_the_limit_type_without_a_limit_has_no_price():
    stage = _with_order(basis=PriceBasis.LAST)

    stage.request(lambda s: s.buy(limit=None, market="LO"))

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


# ------------------------------------------------------------------------------------------- closes


def _holding(shares=1_000, own=None, **limits):
    held = RecoveredStrategy({"HPG": (shares, 20_000 * shares)}, 0, 0, 0, "on")
    return Stage(
        replace(PLAN, limits=own or Limits()),
        settings=EngineSettings(account_limits=AccountLimits(**limits)),
        sellable=shares,
        recovery=Recovery(DAY, strategies={"test": held}),
    )


def _close(strategy):
    strategy.close(limit=27_000, why="out")


def _close_at_market(strategy):
    strategy.close(market=OrderType.MTL, why="out")


def _fill(stage, order_id="ORD1"):
    intent = stage.last(PlaceOrder).intent
    stage.accept(intent, order_id)
    row = report_of(intent, order_id, executed=intent.quantity, state=OrderState.FILLED)
    stage.book(replace(row, status="FILLED"))
    return intent


def test_a_lot_that_is_dearer_than_an_order_may_be_can_be_closed():
    stage = _holding(200, max_order_value=2_000_000, max_order_quantity=50)

    stage.request(_close)

    assert stage.last(PlaceOrder).intent.quantity == 100


@pytest.mark.parametrize("own_maximum", [None, 1_000_000])
def test_a_close_of_more_than_the_exchange_takes_at_once_is_made_in_several(own_maximum):
    stage = _holding(600_000, max_order_quantity=own_maximum)

    stage.request(_close)
    first = _fill(stage)
    stage.sellable = 100_000
    stage.after(1).account()
    stage.request(_close)

    assert (first.quantity, stage.last(PlaceOrder).intent.quantity) == (500_000, 100_000)


def test_a_close_at_the_market_sells_what_the_depth_shows_within_the_collar():
    stage = _holding(max_price_gap_ppm=20_000)
    levels = (DepthLevel(26_950, 300), DepthLevel(26_500, 100), DepthLevel(26_400, 5_000))
    stage.handle(DepthReceived(stage.now, Depth("HPG", levels, (), stage.now)))

    stage.request(_close_at_market)

    assert stage.last(PlaceOrder).intent.quantity == 400


def test_a_close_in_an_auction_is_the_part_of_it_that_an_order_may_be():
    stage = _holding(max_auction_share_ppm=50_000)
    stage.phase(Phase.PRE_CLOSED)
    stage.depth()

    stage.request(lambda s: s.close(market=OrderType.ATC, why="out"))

    assert stage.last(PlaceOrder).intent.quantity == 200


@pytest.mark.parametrize(
    ("exchange", "phase", "market", "rest"),
    [
        (Exchange.HOSE, Phase.PROGRESS, None, "The next close() sells more"),
        (Exchange.HOSE, Phase.OPEN, "ATO", "No close() sells more until this auction is over"),
        (
            Exchange.HOSE,
            Phase.PRE_CLOSED,
            "ATC",
            "No close() sells more today: the rest stays until the next trading day",
        ),
        (Exchange.HNX, Phase.PRE_CLOSED, "ATC", "No close() sells more until this auction is over"),
    ],
)
def test_a_close_that_is_cut_says_when_more_can_be_sold(exchange, phase, market, rest):
    stage = _holding(max_auction_share_ppm=50_000, max_order_quantity=200)
    stage.handle(InstrumentsRead(stage.now, (replace(HPG, exchange=exchange),)))
    stage.handle(PhaseChanged(stage.now, exchange, phase, None))
    stage.quote(exchange=exchange)
    stage.depth()

    price = {"market": market} if market else {"limit": 27_000}
    stage.request(lambda s: s.close(**price, why="out"))

    stage.accept(stage.last(PlaceOrder).intent)
    [told] = [note.text for note in stage.all(Note) if note.kind == "EXIT"]
    assert told == f"L-0001 sells 200 of 1,000 HPG: one order may be of no more. {rest}"
    stage.request(lambda s: s.close(**price, why="the rest"))
    assert stage.decided() == (Verdict.SKIPPED, "ORDER_WORKING")


def test_a_close_is_let_out_after_the_last_order_of_the_day():
    stage = _holding(own=Limits(max_orders_per_day=1), max_orders_per_day=1)
    stage.buy(100)
    _fill(stage)
    stage.request(lambda s: s.buy(200, limit=26_500))
    assert stage.decided() == (Verdict.BLOCKED, "MAX_ORDERS")

    stage.request(_close)

    assert stage.decided() == (Verdict.PASSED, "OK")


def test_a_close_is_let_out_beside_as_many_open_orders_as_may_be():
    stage = _holding(max_open_orders=1, max_order_quantity=400)
    stage.request(lambda s: s.sell(100, limit=27_500))
    stage.accept(stage.last(PlaceOrder).intent, "ORD1")
    stage.request(lambda s: s.sell(100, limit=27_000))
    assert stage.decided() == (Verdict.BLOCKED, "OPEN_ORDERS")
    strategy = stage.engine._state.strategies["test"]
    means = replace(means_of(stage.engine._state, strategy, "HPG"), is_working=False)

    consider(stage.engine._state, strategy, "HPG", Request(RequestKind.CLOSE), means, why="out")

    assert [type(one) for one in stage.engine.go_on()][-1] is PlaceOrder


def test_buys_do_not_use_up_the_rate_that_a_close_needs():
    stage = _holding(max_orders_per_second=1, max_orders_per_minute=2)
    for number in (1, 2):
        stage.after(1).quote()
        stage.buy(100 * number)
        _fill(stage, f"ORD{number}")
    stage.request(lambda s: s.buy(300, limit=27_000))
    assert stage.decided() == (Verdict.BLOCKED, "ORDER_RATE")

    stage.request(_close)

    assert stage.decided() == (Verdict.PASSED, "OK")


def test_a_close_beyond_the_rate_waits_and_is_sized_and_checked_anew_at_its_turn():
    stage = _holding(max_orders_per_second=1, max_order_quantity=400)
    stage.request(_close)
    _fill(stage)

    stage.request(_close)
    assert stage.decided() == (Verdict.SKIPPED, "EXIT_WAITS")
    waits = "sales of this account go out again at 09:30:01; it waits until then"
    assert stage.last(Decision).why == f"{waits}, a restart forgets it (out)"
    assert stage.engine.next_due() == stage.now.replace(second=1)
    stage.request(_close)
    assert len(stage.all(PlaceOrder)) == 1

    stage.pass_time(1)
    assert [one.intent.quantity for one in stage.new(PlaceOrder)] == [400]
    _fill(stage, "ORD2")
    stage.pass_time(60)
    assert stage.new(PlaceOrder) == []


def test_a_sale_of_its_own_size_beyond_the_rate_is_refused_with_the_numbers():
    stage = _holding(max_orders_per_minute=1)
    stage.request(lambda s: s.sell(100, limit=27_000))
    _fill(stage)

    stage.request(lambda s: s.sell(200, limit=27_000))

    decision = stage.last(Decision)
    assert decision.code == "EXIT_RATE"
    numbers = {"sent": 1, "limit": 1, "span": "minute", "scope": "account"}
    assert decision.numbers == numbers


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (lambda s: s.cancel(why="no more"), "its strategy cancels: no more"),
        (
            lambda s: s.sell(100, limit=27_500, why="a part"),
            "its strategy wants to sell instead: a part",
        ),
        (
            lambda s: s.buy(100, limit=26_500, why="up again"),
            "its strategy wants to buy instead: up again",
        ),
    ],
    ids=["cancel", "sell", "buy"],
)
def test_what_a_strategy_asks_for_next_takes_the_place_of_a_close_that_waits(ask, why):
    stage = _holding(max_orders_per_minute=1, max_order_quantity=400)
    stage.request(_close)
    _fill(stage)
    stage.request(_close)
    assert stage.decided() == (Verdict.SKIPPED, "EXIT_WAITS")

    stage.request(ask)

    told = [one.why for one in stage.all(Decision) if one.code == "EXIT_WAITS"]
    assert told[1:] == [f"given up: {why} (out)"]
    assert stage.pass_time(70) == []


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (CancelAsked(START, None, "ann", "no more"), "cancelled by ann: no more"),
        (OperatorActed(START, Action.HALT, "no more", "ann"), "halted"),
        (OperatorActed(START, Action.HALT, "no more", "ann", strategy="test"), "halted"),
        (OperatorActed(START, Action.STOP, "no more", "ann"), "stopped"),
    ],
    ids=["cancel --all", "halt", "halt of its strategy", "stop"],
)
def test_a_close_that_waits_is_given_up_where_a_person_ends_everything(event, why):
    stage = _holding(max_orders_per_minute=1, max_order_quantity=400)
    stage.request(_close)
    _fill(stage)
    stage.request(_close)
    assert stage.decided() == (Verdict.SKIPPED, "EXIT_WAITS")

    stage.handle(event)
    ended = stage.last(Decision)
    assert (ended.code, ended.why) == ("EXIT_WAITS", f"given up: {why} (out)")
    stage.handle(OperatorActed(stage.now, Action.RESUME, "go on", "ann"))
    stage.handle(OperatorActed(stage.now, Action.RESUME, "go on", "ann", strategy="test"))
    stage.after(61).quote()

    assert stage.new(PlaceOrder) == []


@pytest.mark.parametrize(
    "event",
    [
        CancelAsked(START, "L-0001", "ann", "this one"),
        OperatorActed(START, Action.HALT, "no more", "ann", strategy="other"),
    ],
    ids=["of one order", "of another strategy"],
)
def test_a_close_that_waits_goes_on_beside_what_is_not_about_it(event):
    stage = _holding(max_orders_per_minute=1, max_order_quantity=400)
    stage.request(_close)
    _fill(stage)
    stage.request(_close)

    stage.handle(event)
    stage.after(61).quote()

    assert len(stage.new(PlaceOrder)) == 1


def test_a_close_that_waits_meets_what_has_changed_meanwhile():
    stage = _holding(max_orders_per_minute=1, max_order_quantity=100)
    stage.request(_close)
    _fill(stage)
    stage.request(_close)

    stage.phase(Phase.BREAK)
    stage.pass_time(61)

    assert stage.decided() == (Verdict.BLOCKED, "PHASE")
    assert len(stage.all(PlaceOrder)) == 1


def test_a_close_that_has_no_turn_for_long_is_given_up_and_told():
    stage = _holding(max_orders_per_minute=1, max_order_quantity=400)
    stage.request(_close)
    _fill(stage)
    stage.request(_close)
    usage = stage.engine._state.usage.of(PLAN.account)

    stage.after(CLOSE_WAITS_MAX.total_seconds())
    usage.sell(stage.now)
    stage.pass_time(0)

    assert "given up" in stage.last(Decision).why
    assert stage.engine._state.waiting_closes == {}


def test_the_pieces_of_a_close_are_no_repeats():
    own = Limits(max_repeats=2)
    stage = _holding(own=own, max_order_quantity=100)
    for number in range(1, 6):
        stage.after(1).quote()
        stage.request(_close)
        _fill(stage, f"ORD{number}")

    assert stage.engine.status().strategies[0].state == "on"
