"""A position must not be locked in by a limit: what a close sells, and when."""

from dataclasses import replace

from bot.domain.entry import Decision, Verdict
from bot.domain.instrument import Phase
from bot.domain.message import DepthReceived, PlaceOrder
from bot.domain.order import OrderState, OrderType
from bot.domain.plan import AccountLimits, Limits
from bot.domain.quote import Depth, DepthLevel
from bot.domain.recovery import RecoveredStrategy, Recovery
from bot.engine.engine import EngineSettings
from bot.engine.requests import consider
from bot.engine.risk.accounts import means_of
from bot.engine.risk.closing import WAITS_MAX
from bot.strategy import Request, RequestKind
from tests.engine.stage import DAY, PLAN, Stage, report_of


def holding(shares=1_000, own=None, **limits):
    held = RecoveredStrategy({"HPG": (shares, 20_000 * shares)}, 0, 0, 0, "on")
    return Stage(
        replace(PLAN, limits=own or Limits()),
        settings=EngineSettings(account_limits=AccountLimits(**limits)),
        sellable=shares,
        recovery=Recovery(DAY, strategies={"test": held}),
    )


def close(strategy):
    strategy.close(limit=27_000, why="out")


def close_at_market(strategy):
    strategy.close(market=OrderType.MTL, why="out")


def fill(stage, order_id="ORD1"):
    intent = stage.last(PlaceOrder).intent
    stage.accept(intent, order_id)
    row = report_of(intent, order_id, executed=intent.quantity, state=OrderState.FILLED)
    stage.book(replace(row, status="FILLED"))
    return intent


def test_a_lot_that_is_dearer_than_an_order_may_be_can_be_closed():
    stage = holding(200, max_order_value=2_000_000, max_order_quantity=50)

    stage.request(close)

    assert stage.last(PlaceOrder).intent.quantity == 100


def test_a_close_at_the_market_sells_what_the_depth_shows_within_the_collar():
    stage = holding(max_price_gap_ppm=20_000)
    levels = (DepthLevel(26_950, 300), DepthLevel(26_500, 100), DepthLevel(26_400, 5_000))
    stage.handle(DepthReceived(stage.now, Depth("HPG", levels, (), stage.now)))

    stage.request(close_at_market)

    assert stage.last(PlaceOrder).intent.quantity == 400


def test_a_close_in_an_auction_is_the_part_of_it_that_an_order_may_be():
    stage = holding(max_auction_share_ppm=50_000)
    stage.phase(Phase.PRE_CLOSED)
    stage.depth()

    stage.request(lambda s: s.close(market=OrderType.ATC, why="out"))

    assert stage.last(PlaceOrder).intent.quantity == 200


def test_a_close_is_let_out_after_the_last_order_of_the_day():
    stage = holding(own=Limits(max_orders_per_day=1), max_orders_per_day=1)
    stage.buy(100)
    fill(stage)
    stage.request(lambda s: s.buy(200, limit=26_500))
    assert stage.decided() == (Verdict.BLOCKED, "MAX_ORDERS")

    stage.request(close)

    assert stage.decided() == (Verdict.PASSED, "OK")


def test_a_close_is_let_out_beside_as_many_open_orders_as_may_be():
    stage = holding(max_open_orders=1, max_order_quantity=400)
    stage.request(lambda s: s.sell(100, limit=27_500))
    stage.accept(stage.last(PlaceOrder).intent, "ORD1")
    stage.request(lambda s: s.sell(100, limit=27_000))
    assert stage.decided() == (Verdict.BLOCKED, "OPEN_ORDERS")
    strategy = stage.engine._state.strategies["test"]
    means = replace(means_of(stage.engine._state, strategy, "HPG"), is_working=False)

    consider(stage.engine._state, strategy, "HPG", Request(RequestKind.CLOSE), means, why="out")

    assert [type(one) for one in stage.engine.go_on()][-1] is PlaceOrder


def test_buys_do_not_use_up_the_rate_that_a_close_needs():
    stage = holding(max_orders_per_second=1, max_orders_per_minute=2)
    for number in (1, 2):
        stage.after(1).quote()
        stage.buy(100 * number)
        fill(stage, f"ORD{number}")
    stage.request(lambda s: s.buy(300, limit=27_000))
    assert stage.decided() == (Verdict.BLOCKED, "ORDER_RATE")

    stage.request(close)

    assert stage.decided() == (Verdict.PASSED, "OK")


def test_a_close_beyond_the_rate_waits_and_is_sized_and_checked_anew_at_its_turn():
    stage = holding(max_orders_per_second=1, max_order_quantity=400)
    stage.request(close)
    fill(stage)

    stage.request(close)
    assert stage.decided() == (Verdict.SKIPPED, "EXIT_WAITS")
    assert stage.engine.next_due() == stage.now.replace(second=1)
    stage.request(close)
    assert len(stage.all(PlaceOrder)) == 1

    stage.pass_time(1)
    assert [one.intent.quantity for one in stage.new(PlaceOrder)] == [400]
    fill(stage, "ORD2")
    stage.pass_time(60)
    assert stage.new(PlaceOrder) == []


def test_a_sale_of_its_own_size_beyond_the_rate_is_refused_with_the_numbers():
    stage = holding(max_orders_per_minute=1)
    stage.request(lambda s: s.sell(100, limit=27_000))
    fill(stage)

    stage.request(lambda s: s.sell(200, limit=27_000))

    decision = stage.last(Decision)
    assert decision.code == "EXIT_RATE"
    numbers = {"sent": 1, "limit": 1, "span": "minute", "scope": "account"}
    assert decision.numbers == numbers


def test_what_a_strategy_asks_for_next_takes_the_place_of_a_close_that_waits():
    stage = holding(max_orders_per_minute=1, max_order_quantity=400)
    stage.request(close)
    fill(stage)
    stage.request(close)
    assert stage.decided() == (Verdict.SKIPPED, "EXIT_WAITS")

    stage.request(lambda s: s.cancel())

    assert stage.pass_time(70) == []


def test_a_close_that_waits_meets_what_has_changed_meanwhile():
    stage = holding(max_orders_per_minute=1, max_order_quantity=100)
    stage.request(close)
    fill(stage)
    stage.request(close)

    stage.phase(Phase.BREAK)
    stage.pass_time(61)

    assert stage.decided() == (Verdict.BLOCKED, "PHASE")
    assert len(stage.all(PlaceOrder)) == 1


def test_a_close_that_has_no_turn_for_long_is_given_up_and_told():
    stage = holding(max_orders_per_minute=1, max_order_quantity=400)
    stage.request(close)
    fill(stage)
    stage.request(close)
    usage = stage.engine._state.usage.of(PLAN.account)

    stage.after(WAITS_MAX.total_seconds())
    usage.sell(stage.now)
    stage.pass_time(0)

    assert "given up" in stage.last(Decision).why
    assert stage.engine._state.waiting_closes == {}


def test_the_pieces_of_a_close_are_no_repeats():
    own = Limits(max_repeats=2)
    stage = holding(own=own, max_order_quantity=100)
    for number in range(1, 6):
        stage.after(1).quote()
        stage.request(close)
        fill(stage, f"ORD{number}")

    assert stage.engine.status().strategies[0].state == "on"
