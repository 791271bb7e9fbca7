"""What an account's loss of the day stops, and fills that repeat themselves."""

from dataclasses import replace
from datetime import timedelta

from bot.domain.asked import Action, OperatorActed
from bot.domain.entry import Fill, Note, RunState, StateChanged, StrategySwitched, Verdict
from bot.domain.limits import AccountLimits
from bot.domain.message import CancelOrder, PlaceOrder, TradingDayStarted
from bot.domain.order import OrderState, Side
from bot.domain.plan import Limits
from bot.domain.recovery import RecoveredStrategy, Recovery
from bot.engine.engine import EngineSettings
from tests.engine.stage import ACCOUNT, DAY, PLAN, START, Stage, report_of

LIMIT = AccountLimits(max_loss_per_day=100_000)


def staged(limits=LIMIT, plan=PLAN, **settings):
    return Stage(plan, settings=EngineSettings(account_limits=limits, **settings), cash=10**9)


def bought(stage, quantity=1_000, price=27_000):
    """A position of which a thousand shares lose 50,000 VND with each tick."""
    intent = stage.working(quantity, price)
    stage.after(1).book(
        report_of(intent, executed=quantity, state=OrderState.FILLED, status="MATCHED")
    )
    return intent


def _asked(stage, ask):
    stage.request(ask)
    return stage.decided()


def _buy(strategy):
    strategy.buy(100, limit=26_900, why="as asked")


def _alerts(stage):
    return [n.numbers.get("alert") for n in stage.all(Note) if n.kind == "ALERT"]


def test_a_day_loss_at_the_limit_stops_entries_and_lets_sales_out():
    stage = staged()
    stage.sellable = 5_000
    bought(stage)
    stage.after(60).quote(26_950)

    assert _asked(stage, _buy)[0] is Verdict.PASSED
    stage.accept(stage.last(PlaceOrder).intent, "ORD2")
    stage.after(1).quote(26_900)
    stage.account(total=6_000)

    assert _alerts(stage) == ["ENTRIES_STOPPED"]
    assert [one.order_id for one in stage.all(CancelOrder)] or stage.engine.status().cancels
    row = report_of(stage.last(PlaceOrder).intent, "ORD2", cancelled=100)
    stage.after(1).book(replace(row, state=OrderState.CANCELLED, status="CANCELLED"))
    assert _asked(stage, _buy) == (Verdict.BLOCKED, "DAY_LOSS")
    assert _asked(stage, lambda s: s.sell(100, limit=26_900))[0] is Verdict.PASSED


def test_entries_stay_stopped_when_the_price_comes_back_until_a_new_day():
    stage = staged()
    bought(stage)
    stage.after(60).quote(26_850)
    stage.account()
    stage.after(60).quote(27_500)

    assert _asked(stage, _buy) == (Verdict.BLOCKED, "DAY_LOSS")
    [standing] = stage.engine.status().alerts
    assert standing.startswith("REDUCING: nothing is bought until tomorrow (day loss")

    stage.handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))
    assert stage.engine.status().alerts == ()


def test_twice_the_limit_halts_the_bot_and_cancels_what_is_open():
    stage = staged()
    bought(stage)
    stage.after(60).quote(26_750)

    stage.account()

    assert _alerts(stage) == ["ENTRIES_STOPPED", "LOSS_HALT"]
    status = stage.engine.status()
    assert (status.state, status.causes[0].by) == (RunState.HALTED, "limit")


def test_a_part_of_the_net_assets_is_a_limit_too():
    stage = staged(AccountLimits(max_loss_nav_ppm=100))  # of 10^9: 100,000
    bought(stage)
    stage.after(60).quote(26_900)

    stage.account()

    assert _alerts(stage) == ["ENTRIES_STOPPED"]


def test_a_restart_keeps_entries_stopped_while_there_is_a_limit():
    kept = Recovery(DAY, reduced={ACCOUNT: "day loss"})

    limited = Stage(settings=EngineSettings(account_limits=LIMIT), recovery=kept)
    free = Stage(recovery=kept)

    assert _asked(limited, _buy) == (Verdict.BLOCKED, "DAY_LOSS")
    assert _asked(free, _buy)[0] is Verdict.PASSED


def test_fills_that_repeat_themselves_disable_the_strategy_until_a_person_resumes_it():
    stage = staged(AccountLimits(), replace(PLAN, limits=Limits(max_repeats=3)))
    intent = stage.working(500)
    for executed in (100, 200):
        stage.after(1).book(report_of(intent, executed=executed))
    assert stage.all(StrategySwitched) == []

    stage.after(1).book(report_of(intent, executed=300))

    assert _alerts(stage) == ["STRATEGY_REPEATS"]
    assert [one.state for one in stage.all(StrategySwitched)] == ["disabled"]
    stage.handle(OperatorActed(stage.now, Action.RESUME, "seen", "operator", strategy="test"))
    stage.after(1).book(report_of(intent, executed=400))
    assert stage.engine.status().strategies[0].state == "on"


def test_a_new_day_counts_the_fills_of_a_side_again():
    stage = staged(AccountLimits(), replace(PLAN, limits=Limits(max_repeats=3)))
    intent = stage.working(500)
    for executed in (100, 200):
        stage.after(1).book(report_of(intent, executed=executed))
    assert stage.engine._state.strategies["test"].repeats == {("HPG", Side.BUY): 2}

    stage.after(86_400)
    stage.handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))

    assert stage.engine._state.strategies["test"].repeats == {}


def test_a_restart_goes_on_counting_repeats_flips_and_what_is_realised():
    before = staged()
    bought(before)
    [fill] = before.all(Fill)
    fills = (
        (DAY - timedelta(days=1), fill),
        (DAY, replace(fill, at=START)),
        (DAY, replace(fill, at=START + timedelta(seconds=2), side=Side.SELL, realised=-5_000)),
    )
    stored = RecoveredStrategy({"HPG": (200, 5_400_000)}, 2, -5_000, 0, "on", state_since=START)

    stage = Stage(
        recovery=Recovery(DAY, strategies={"test": stored}, recent_fills=fills), is_open=False
    )

    state = stage.engine._state
    assert state.usage.of(ACCOUNT).flips["HPG"] == 1
    assert state.exposure.of(ACCOUNT).realised == -5_000 - 2 * (fill.fee + fill.tax)
    assert state.exposure.of(ACCOUNT).own == {"HPG": (200, 5_400_000)}
    assert state.strategies["test"].repeats == {("HPG", Side.SELL): 1}


def test_a_strategy_paused_by_its_limit_yesterday_is_on_after_a_restart():
    yesterday = START - timedelta(days=1)
    paused = RecoveredStrategy({}, 0, 0, 0, "paused", "loss", "limit", yesterday)

    stage = Stage(recovery=Recovery(DAY, strategies={"test": paused}), is_open=False)
    same_day = Stage(
        recovery=Recovery(DAY, strategies={"test": replace(paused, state_since=START)}),
        is_open=False,
    )

    assert stage.engine.status().strategies[0].state == "on"
    assert same_day.engine.status().strategies[0].state == "paused"


def test_a_stop_of_entries_is_journalled_under_a_scope_of_its_own():
    stage = staged()
    bought(stage)
    stage.after(60).quote(26_900)
    stage.account()

    found = [one for one in stage.all(StateChanged) if one.scope.startswith("entries:")]

    assert [(one.scope, one.to_state) for one in found] == [(f"entries:{ACCOUNT}", RunState.HALTED)]
