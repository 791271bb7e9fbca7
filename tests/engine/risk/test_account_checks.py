"""The limits that an account's strategies share: at their borders, and through the engine."""

from dataclasses import replace
from datetime import timedelta

from bot.domain.entry import CheckResult, Note, Verdict
from bot.domain.instrument import Phase
from bot.domain.message import CancelOrder, PlaceOrder, TradingDayStarted
from bot.domain.operations import Action, AmendAsked, OperatorActed
from bot.domain.order import OrderState, OrderType, SendState
from bot.domain.plan import AccountLimits, Limits
from bot.domain.recovery import RecoveredStrategy, Recovery, StoredIntent
from bot.engine.engine import Engine
from bot.engine.risk.checks import judge
from bot.engine.settings import EngineSettings, LoadedStrategy, invoke_plainly
from bot.strategy import Strategy
from tests.engine.risk import account_rows
from tests.engine.risk.test_checks import REQUEST, VIEW
from tests.engine.stage import DAY, HPG, PLAN, RULEBOOK, START, Stage, report_of
from tests.rows import every_row


def judged(request, used, shared, limits=None):
    account = replace(account_rows.USE, limits=AccountLimits(**shared), **used)
    view = replace(VIEW, account=account, cash_free=10**12, sellable=10**6)
    return judge(request, view, limits or Limits())


def staged(plan=PLAN, **limits):
    settings = EngineSettings(account_limits=AccountLimits(**limits))
    return Stage(plan, settings=settings, cash=10**9, sellable=10_000)


def _buy(stage, quantity, limit=27_000):
    stage.request(lambda s: s.buy(quantity, limit=limit, why="as asked"))
    return stage.new(PlaceOrder)


@every_row(("code", "request_", "used", "limits"), account_rows.REFUSED)
def test_what_an_account_has_no_room_for_is_refused_with_the_numbers(code, request_, used, limits):
    results = judged(request_, used, limits)

    assert (results[-1].code, results[-1].passed) == (code, False)
    assert results[-1].numbers


@every_row(("request_", "used", "limits"), account_rows.PASSED)
def test_what_just_fits_into_the_account_passes_and_says_so(request_, used, limits):
    results = judged(request_, used, limits)
    without = judged(request_, used, {})

    assert all(one.passed for one in results)
    is_of_a_market_order = request_.order_type is not OrderType.LO
    is_collar_without_effect = "max_price_gap_ppm" in limits and not is_of_a_market_order
    assert len(results) > len(without) or is_collar_without_effect or "loss_limit" in used


@every_row(("code", "request_", "used", "limits"), account_rows.IN_AUCTION)
def test_an_auction_takes_a_small_part_of_what_it_shows(code, request_, used, limits):
    account = replace(account_rows.USE, limits=AccountLimits(**limits), **used)
    view = replace(VIEW, account=account, sellable=10**6)
    auction = replace(view, phase=Phase.PRE_CLOSED)

    assert judge(request_, auction, Limits())[-1].code == code
    assert judge(request_, view, Limits())[-1].passed
    enough = replace(auction, account=replace(account, shown=request_.quantity * 20))
    assert judge(request_, enough, Limits())[-1].passed


def test_a_refusal_in_an_auction_says_how_a_strategy_comes_to_see_depth():
    limits = AccountLimits(max_auction_share_ppm=50_000)
    account = replace(account_rows.USE, limits=limits, shown=0)
    view = replace(VIEW, account=account, phase=Phase.PRE_CLOSED)

    assert judge(REQUEST, view, Limits())[-1].text == (
        "no fresh depth: what the auction shows is not known. wake: {depth: 10s} in the strategy's "
        "file has it read; risk.account.max_auction_share"
    )


@every_row(("used", "limits"), account_rows.EXITS)
def test_what_keeps_entries_back_lets_a_sale_out(used, limits):
    assert judged(account_rows.SELL, used, limits)[-1].passed
    assert not judged(account_rows.BUY, used, limits)[-1].passed


def test_an_account_without_limits_is_not_looked_at():
    results = judge(REQUEST, VIEW, Limits())

    codes = {"UNIVERSE", "MAX_ORDER_QUANTITY", "OPEN_ORDERS", "ORDER_RATE", "MAX_ORDERS"}
    assert codes.isdisjoint(one.code for one in results)


@every_row(
    ("own", "shared", "scope", "limit"),
    [
        (2_000_000, 1_000_000, "account", 1_000_000),
        (1_000_000, 2_000_000, "strategy", 1_000_000),
        (1_000_000, 1_000_000, "strategy", 1_000_000),
        (None, 1_000_000, "account", 1_000_000),
    ],
)
def test_the_tightest_limit_refuses_and_names_its_scope(own, shared, scope, limit):
    limits = Limits(max_order_value=own)

    last = judged(account_rows.BUY, {}, {"max_order_value": shared}, limits)[-1]

    assert (last.numbers["limit_vnd"], last.numbers["scope"]) == (limit, scope)
    assert last.text.endswith("limits.max_order_value in its file") is (scope == "strategy")
    assert last.text.endswith("for the whole account; risk.account.max_order_value") is (
        scope == "account"
    )


def test_a_refusal_of_an_account_reads_as_a_sentence():
    last = judged(account_rows.BUY, {"last_minute": 6}, {"max_orders_per_minute": 6})[-1]

    assert last == CheckResult(
        "ORDER_RATE",
        False,
        {"sent": 6, "limit": 6, "span": "minute", "scope": "account"},
        "order requests within the last minute: 6, at most 6 for the whole account; cancels count"
        " too; risk.account.max_orders_per_minute",
    )


def test_whoever_has_fewer_orders_left_today_tells_of_them():
    limits = Limits(max_orders_per_day=30)
    view = {"orders_today": 55}

    results = judged(account_rows.BUY, view, {"max_orders_per_day": 60}, limits)

    assert [one.text for one in results if one.code == "MAX_ORDERS"] == ["day 55 of 60"]


# ----------------------------------------------------------------------------- through the engine


def test_two_orders_do_not_leave_within_a_second():
    stage = staged(max_orders_per_second=1)
    first = stage.working(100, 27_000)
    stage.book(report_of(first, executed=100, state=OrderState.FILLED, status="FILLED"))

    assert _buy(stage, 200) == []
    assert stage.decided() == (Verdict.BLOCKED, "ORDER_RATE")

    stage.after(0.999).quote()
    assert _buy(stage, 200) == []
    stage.after(0.001).quote()
    assert len(_buy(stage, 200)) == 1


def test_the_seventh_request_of_a_minute_waits_until_the_first_is_a_minute_old():
    stage = staged(max_orders_per_minute=6)
    for number in range(1, 7):
        intent = stage.working(100 * number, 27_000, f"ORD{number}")
        stage.book(
            report_of(intent, f"ORD{number}", executed=intent.quantity, state=OrderState.FILLED)
        )
        stage.after(5).quote()

    assert _buy(stage, 1_000) == []
    assert stage.decided() == (Verdict.BLOCKED, "ORDER_RATE")

    stage.after(30).quote()
    assert len(_buy(stage, 1_000)) == 1


def test_a_cancel_counts_and_is_never_kept_back():
    stage = staged(max_orders_per_minute=1)
    stage.working()

    stage.handle(OperatorActed(stage.now, Action.PAUSE, "", "operator", cancel_open=True))
    stage.row(report_of(stage.last(PlaceOrder).intent))

    assert len(stage.all(CancelOrder)) == 1
    assert stage.engine._state.usage.of(PLAN.account).last_minute.count(stage.now) == 2


def test_orders_that_work_or_may_work_are_counted_until_they_end():
    stage = staged(max_open_orders=1)
    state = stage.engine._state
    intent = stage.buy()
    assert state.index.working.of(PLAN.account) == 1

    stage.accept(intent)
    assert state.index.working.of(PLAN.account) == 1

    stage.book(report_of(intent, cancelled=100, state=OrderState.CANCELLED, status="CANCELLED"))
    assert state.index.working.of(PLAN.account) == 0


def test_the_orders_of_the_day_are_the_accounts_until_a_new_day():
    stage = staged(max_orders_per_day=1)
    intent = stage.working()
    stage.book(report_of(intent, executed=100, state=OrderState.FILLED, status="FILLED"))

    assert _buy(stage, 200) == []
    assert stage.decided() == (Verdict.BLOCKED, "MAX_ORDERS")
    assert stage.engine._state.usage.of(PLAN.account).orders_today == 1

    stage.handle(TradingDayStarted(stage.now, stage.now.date().replace(day=20)))
    assert stage.engine._state.usage.of(PLAN.account).orders_today == 0


def test_a_market_order_needs_a_fresh_depth_that_shows_it():
    stage = staged(max_price_gap_ppm=20_000)
    stage.request(lambda s: s.buy(100, market=OrderType.MTL, why="as asked"))
    assert stage.decided() == (Verdict.BLOCKED, "DEPTH_SHOWN")

    stage.depth()
    stage.request(lambda s: s.buy(1_100, market=OrderType.MTL, why="as asked"))
    assert stage.decided() == (Verdict.BLOCKED, "DEPTH_SHOWN")

    stage.request(lambda s: s.buy(1_000, market=OrderType.MTL, why="as asked"))
    assert stage.decided() == (Verdict.PASSED, "OK")


def test_a_restart_goes_on_counting_orders_and_their_rate():
    before = staged()
    sent = before.buy()
    denied, unsent = replace(sent, intent_id="L-0002"), replace(sent, intent_id="L-0003")
    stored = [
        StoredIntent(sent, SendState.ACKED, "ORD1", None),
        StoredIntent(denied, SendState.DENIED, None, None),
        StoredIntent(unsent, SendState.READY, None, None),
    ]

    requests = ((PLAN.account, START), (PLAN.account, START + timedelta(seconds=30)))
    recovery = Recovery(DAY, intents=tuple(stored), recent_requests=requests)
    stage = Stage(recovery=recovery, is_open=False)

    usage = stage.engine._state.usage.of(PLAN.account)
    assert usage.orders_today == 1
    at = START + timedelta(seconds=30.5)
    assert (usage.last_second.count(at), usage.last_minute.count(at)) == (1, 2)


def test_a_change_counts_into_the_rate_and_keeps_to_the_accounts_limits():
    limits = AccountLimits(max_order_quantity=500, max_position_value=10_000_000)
    settings = EngineSettings(amend_enabled=True, account_limits=limits)
    stage = Stage(settings=settings, cash=10**9)
    stage.working(100)

    def refused(quantity):
        ask = AmendAsked(stage.now, "ORD1", None, quantity, "operator", "more")
        found = stage.engine.objection(ask)
        return found and found.code

    assert refused(600) == "MAX_ORDER_QUANTITY"
    assert refused(400) == "POSITION_VALUE"
    assert refused(300) is None


def test_a_position_of_more_than_one_order_is_closed_in_several():
    limits = AccountLimits(max_order_value=6_000_000, max_order_quantity=500)
    held = RecoveredStrategy({"HPG": (1_000, 20_000_000)}, 0, 0, 0, "on")
    stage = Stage(
        settings=EngineSettings(account_limits=limits),
        sellable=1_000,
        recovery=Recovery(DAY, strategies={"test": held}),
    )
    stage.depth()

    stage.request(lambda s: s.close(limit=27_000, why="out"))

    intent = stage.last(PlaceOrder).intent
    assert intent.quantity == 200
    [said] = [one.text for one in stage.all(Note) if one.kind == "EXIT"]
    assert said.startswith(
        f"{intent.intent_id} sells 200 of 1,000 HPG: one order may be of no more"
    )


def test_the_next_piece_of_a_close_is_no_duplicate_once_the_one_before_is_filled():
    held = RecoveredStrategy({"HPG": (1_000, 20_000_000)}, 0, 0, 0, "on")
    stage = Stage(
        settings=EngineSettings(account_limits=AccountLimits(max_order_quantity=200)),
        sellable=1_000,
        recovery=Recovery(DAY, strategies={"test": held}),
    )

    def close(strategy):
        strategy.close(limit=27_000, why="out")

    stage.request(close)
    first = stage.last(PlaceOrder).intent
    stage.accept(first, "ORD1")
    stage.after(1).request(close)
    assert stage.decided() == (Verdict.SKIPPED, "ORDER_WORKING")
    row = report_of(first, "ORD1", executed=200)
    stage.after(1).book(replace(row, state=OrderState.FILLED, status="MATCHED"))

    stage.request(close)

    second = stage.last(PlaceOrder).intent
    assert (second.quantity, second.intent_id == first.intent_id) == (200, False)
    stage.accept(second, "ORD2")
    row = report_of(second, "ORD2", cancelled=200)
    stage.after(1).book(replace(row, state=OrderState.CANCELLED, status="CANCELLED"))
    stage.request(close)
    assert stage.decided() == (Verdict.BLOCKED, "DUPLICATE")


def test_an_engine_that_has_heard_nothing_yet_shows_its_limits():
    settings = EngineSettings(account_limits=AccountLimits(max_orders_per_minute=6))
    loaded = LoadedStrategy(PLAN, Strategy, (HPG,))

    engine = Engine(
        rulebook=RULEBOOK, strategies=[loaded], settings=settings, invoke=invoke_plainly
    )

    used = {one.key: one.used for one in engine.limits() if one.scope == "account"}
    assert used["max_orders_per_minute"] == 0
