"""Each invariant of the engine, broken once: entries are halted, and the alert names it."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from bot.domain.entry import AttemptFinished, IntentMoved, Note, RunState
from bot.domain.errors import INVARIANTS, Fault, InvariantBroken
from bot.domain.message import (
    AccountRead,
    AmendOrder,
    CancelOrder,
    PlaceOrder,
    StopRunning,
    TimePassed,
)
from bot.domain.operations import Action, CancelAsked, OperatorActed
from bot.domain.order import Intent, SendState, Side
from bot.domain.outcome import Accepted, NotSent, Outcome, Refused
from bot.domain.plan import AccountLimits
from bot.domain.recovery import RecoveredStrategy, Recovery
from bot.engine import invariants
from bot.engine.gate import guarded
from bot.engine.settings import EngineSettings
from bot.engine.state import Position, State
from bot.engine.tracked import TrackedIntent, TrackedOrder
from bot.runtime.supervisor import FaultGuard
from tests.engine.stage import ACCOUNT, DAY, Stage, limited, report_of, result_of

ROOT = Path(__file__).parents[2]
OTHER_DAY = date(2026, 11, 18)
WITHOUT_ASSERTS = """
from tests.engine import test_invariants as each

assert False
print("no-asserts")
for test in (
    each.test_i5_a_verdict_without_its_proof_is_seen,
    each.test_i8_money_that_is_not_reserved_is_seen,
    each.test_i12_nothing_is_written_to_an_order_of_another_day,
):
    stages = []
    made = each.staged
    each.staged = lambda made=made: stages.append(made()) or stages[0]
    test()
    each.staged = made
    print(*each.broken(stages[0][0]))
"""


def caught(step: Callable[[], object]) -> Fault | None:
    """Make a step as a shell does."""
    try:
        step()
    except InvariantBroken as broken:
        return Fault(broken.code, str(broken), "", "/bugs/1.txt", broken.code)
    return None


def staged(**changes: Any) -> tuple[Stage, State]:
    stage = Stage(guard=caught, **changes)
    return stage, stage.engine._state


def look(stage: Stage, seconds: float = 60) -> None:
    """Let the time come at which everything is looked at."""
    stage.after(seconds).handle(TimePassed(stage.now))


def approved(stage: Stage, state: State, intent: Intent, *, last: int = 0) -> bool:
    """Whether an intent that was just approved may leave, after that of number `last`."""
    state.checked.last_number = last
    [strategy] = state.strategies.values()
    may = guarded(state, "the test", invariants.of_approved, state, strategy, intent)
    stage.pass_time(1)
    return may


def broken(stage: Stage) -> list[object]:
    """The codes of the alerts; a bot that raised one has been halted by its engine."""
    status = stage.engine.status()
    causes = [cause.state for cause in status.causes]
    told = [one for one in stage.all(Note) if one.numbers.get("alert") == "INVARIANT_BROKEN"]
    assert not told or RunState.HALTED in causes
    return [one.numbers["invariant"] for one in told]


def test_i2_an_intent_that_would_be_sent_again_is_kept_back():
    stage, state = staged()
    intent = stage.buy()

    leaves = approved(stage, state, intent, last=1)

    assert (leaves, broken(stage)) == (False, ["I2"])


def test_i3_a_second_open_order_of_an_intent_is_seen():
    stage, state = staged()
    stage.working()
    [order] = state.orders.values()

    state.index.track_order(type(order)(replace(order.row, order_id="ORD9")))
    look(stage)

    assert "I3" in broken(stage)


@pytest.mark.parametrize("is_refused", [False, True])
def test_i4_an_answer_with_the_id_of_another_order_of_ours_takes_nothing_from_it(is_refused):
    stage, state = staged()
    first = stage.working()
    stage.after(1).book(report_of(first, executed=100, remaining=0, status="MATCHED_ALL"))
    second = stage.buy(200, 26_000)
    stage.send(second)

    result = result_of(second, "ORD1")
    outcome: Outcome = Refused("-5", "no", 200, result) if is_refused else Accepted(result)
    stage.answer(second, outcome)

    assert broken(stage) == ["I4"]
    assert state.orders["ORD1"].row.intent_id == first.intent_id
    assert state.intents[second.intent_id].state is SendState.UNKNOWN


def test_i5_a_verdict_without_its_proof_is_seen():
    stage, state = staged()
    intent = stage.buy()

    state.record(
        IntentMoved(stage.now, intent.intent_id, SendState.FRESH, SendState.NOT_PLACED, "so")
    )
    stage.pass_time(1)

    assert broken(stage) == ["I5"]


def test_i6_a_move_that_the_table_lacks_is_seen():
    stage, state = staged()
    intent = stage.working()

    state.record(IntentMoved(stage.now, intent.intent_id, SendState.ACKED, SendState.UNKNOWN, "so"))
    stage.pass_time(1)

    assert broken(stage) == ["I6"]


@pytest.mark.parametrize("executed", [-100, 0, 200])
def test_i7_a_quantity_that_falls_or_is_too_much_is_seen(executed):
    stage, state = staged()
    intent = stage.working()
    stage.after(1).book(report_of(intent, executed=100, remaining=0, status="MATCHED_ALL"))
    [order] = state.orders.values()

    state.record(replace(order.row, executed_quantity=executed))
    stage.pass_time(1)

    assert broken(stage) == ["I7"]


def test_i8_money_that_is_not_reserved_is_seen():
    stage, state = staged()
    stage.working()

    state.index.reserved.put(next(iter(state.orders.values())), None)
    look(stage)

    assert broken(stage) == ["I8"]


def test_i8_an_order_that_the_index_has_lost_is_seen():
    stage, state = staged()
    stage.working()

    state.index.open.put(next(iter(state.orders.values())), None)
    look(stage)

    assert broken(stage) == ["I8"]


@pytest.mark.parametrize("limits", [{"max_orders_per_day": 3}, {"max_position": 300}])
def test_i9_an_order_beyond_a_limit_is_kept_back(limits):
    stage, state = staged(plan=limited(**limits))
    [strategy] = state.strategies.values()
    intent = stage.buy()
    strategy.orders_today, strategy.positions["HPG"] = 4, Position(300, 8_100_000)

    leaves = approved(stage, state, intent)

    assert (leaves, broken(stage)) == (False, ["I9"])


@pytest.mark.parametrize(
    "limits",
    [
        {"max_order_value": 2_699_999},
        {"max_order_quantity": 99},
        {"max_open_orders": 0},
        {"max_orders_per_second": 0},
        {"max_orders_per_day": 0},
        {"max_position_value": 2_699_999},
    ],
)
def test_i9_an_order_beyond_what_its_account_may_is_kept_back_though_the_checks_passed_it(limits):
    stage, state = staged()
    intent = stage.buy()
    state.settings = replace(state.settings, account_limits=AccountLimits(**limits))
    state.has_account_limits = True

    leaves = approved(stage, state, intent)

    assert (leaves, broken(stage)) == (False, ["I9"])


def test_i9_lets_a_sale_of_one_lot_out_of_the_account():
    held = RecoveredStrategy({"HPG": (100, 2_000_000)}, 0, 0, 0, "on")
    recovery = Recovery(DAY, strategies={"test": held})
    limits = AccountLimits(
        max_order_value=1, max_order_quantity=1, max_orders_per_day=0, max_position_value=1
    )
    stage, _ = staged(
        settings=EngineSettings(account_limits=limits), sellable=100, recovery=recovery
    )

    stage.request(lambda s: s.close(limit=27_000, why="out"))

    assert (len(stage.new(PlaceOrder)), broken(stage)) == (1, [])


def test_i10_an_equal_order_on_its_way_keeps_another_back():
    stage, state = staged()
    intent = stage.buy()
    twin = replace(intent, intent_id="L-0007", signal_id="another")
    state.index.track_intent(TrackedIntent(twin, SendState.READY))

    leaves = approved(stage, state, twin)

    assert (leaves, broken(stage)) == (False, ["I10"])


def test_i11_nothing_is_approved_while_the_bot_is_halted():
    stage, state = staged()
    intent = stage.buy()
    stage.handle(OperatorActed(stage.now, Action.HALT, "wrong prices", "me"))

    leaves = approved(stage, state, intent)

    assert (leaves, broken(stage)) == (False, ["I11"])


def test_i11_no_amendment_leaves_while_the_bot_is_halted():
    stage, state = staged()
    intent = stage.working()
    stage.handle(OperatorActed(stage.now, Action.HALT, "wrong prices", "me"))

    state.command(AmendOrder("ORD1", intent.intent_id, ACCOUNT, 26_000, None, "by hand"))
    stage.pass_time(1)

    assert (stage.all(AmendOrder), broken(stage)) == ([], ["I11"])


def test_i12_nothing_is_written_to_an_order_of_another_day():
    stage, state = staged()
    intent = stage.working()
    [order] = state.orders.values()
    order.row = replace(order.row, trading_date=OTHER_DAY)

    state.command(CancelOrder("ORD1", intent.intent_id, ACCOUNT, "by hand"))
    stage.pass_time(1)

    assert (stage.all(CancelOrder), broken(stage)) == ([], ["I12"])


@pytest.mark.parametrize(
    "changed",
    [
        {"symbol": "FPT"},
        {"side": Side.SELL},
        {"quantity": 200},
        {"limit_price": 1},
        {"transaction_date": OTHER_DAY},
        {"order_type": "MTL"},
    ],
)
def test_i13_an_answer_that_repeats_another_order_leaves_ours_unknown(changed):
    stage, state = staged()
    intent = stage.buy()
    stage.send(intent)

    stage.answer(intent, Accepted(result_of(intent, **changed)))

    assert broken(stage) == ["I13"]
    assert state.intents[intent.intent_id].state is SendState.UNKNOWN
    assert dict(state.orders) == {}
    assert stage.all(AttemptFinished) == [stage.finished_of(intent)]


def test_i19_shares_that_nobody_has_compared_are_seen():
    stage, state = staged(sellable=500)
    stage.after(60).account(500)
    before = broken(stage)
    ledger, snapshot = state.ledgers[ACCOUNT], state.accounts[ACCOUNT]
    less = replace(snapshot.holdings["HPG"], total=400)

    ledger.base = replace(snapshot, holdings={"HPG": less})
    read = AccountRead(stage.now, snapshot)
    guarded(state, "the test", invariants.of_all, state, read)
    stage.pass_time(1)

    assert (before, broken(stage)) == ([], ["I19"])


def test_i20_own_orders_that_can_trade_with_each_other_are_seen():
    stage, state = staged()
    stage.working()
    [order] = state.orders.values()
    other = replace(order.row, order_id="ORD9", intent_id="L-0009", side=Side.SELL, price=26_500)

    state.index.track_order(TrackedOrder(other))
    look(stage)

    assert broken(stage) == ["I20"]


# ----------------------------------------------------------------------------------- what follows


def test_a_broken_invariant_keeps_orders_back_and_lets_cancels_go():
    stage, state = staged()
    stage.working()
    state.index.reserved.put(next(iter(state.orders.values())), None)
    look(stage)

    stage.quote()
    stage.request(lambda s: s.buy(100, limit=26_000))
    stage.handle(CancelAsked(stage.now, "ORD1", "me", "by hand"))
    stage.row(report_of(stage.all(PlaceOrder)[0].intent))

    assert len(stage.all(PlaceOrder)) == 1
    assert stage.new(CancelOrder)


def test_what_an_invariant_keeps_back_is_over_and_blocks_neither_a_flatten_nor_a_stop():
    held = RecoveredStrategy({"HPG": (200, 4_000_000)}, 0, 0, 0, "on")
    stage, state = staged(sellable=200, recovery=Recovery(DAY, strategies={"test": held}))
    state.checked.last_number = 1

    stage.request(lambda s: s.sell(100, limit=27_000))
    assert (stage.all(PlaceOrder), broken(stage)) == ([], ["I2"])
    moved = stage.last(IntentMoved)
    assert (moved.to_state, moved.reason) == (SendState.EXPIRED_LOCAL, "engine fault")

    stage.after(1).handle(OperatorActed(stage.now, Action.HALT, "out", "me", flatten=True))
    stage.after(10).quote()
    assert [one.intent.intent_id for one in stage.all(PlaceOrder)] == ["L-0002"]
    stage.answer(stage.last(PlaceOrder).intent, NotSent("no connection"))
    stage.handle(OperatorActed(stage.now, Action.STOP, "out", "me"))
    assert len(stage.all(StopRunning)) == 1


def test_it_is_told_once_and_looked_at_again_after_a_resume():
    stage, state = staged()
    stage.working()
    [order] = state.orders.values()
    state.index.reserved.put(order, None)
    look(stage)
    look(stage)
    once = broken(stage)

    stage.handle(OperatorActed(stage.now, Action.RESUME, "looked", "me"))
    look(stage)

    assert (once, broken(stage)) == (["I8"], ["I8", "I8"])


def test_the_state_is_kept_in_a_report_for_its_owner_alone(tmp_path):
    guard = FaultGuard(tmp_path)
    stage = Stage(guard=guard.guard)
    guard.dump = stage.engine.dump
    stage.working()
    state = stage.engine._state
    state.index.reserved.put(next(iter(state.orders.values())), None)

    look(stage)

    [report] = (tmp_path / "bugs").iterdir()
    text = report.read_text()
    assert report.stat().st_mode & 0o777 == 0o600
    assert "order ORD1 of L-0001 ACCEPTED (SENT) BUY 100 HPG at 27000, 0 done" in text
    assert ACCOUNT not in text
    [told] = [one for one in stage.all(Note) if one.numbers.get("alert") == "INVARIANT_BROKEN"]
    assert str(report) in told.text


def test_without_assertions_all_hold_as_before():
    """`python -O` removes every assert; what is checked here goes on."""
    done = subprocess.run(
        [sys.executable, "-O", "-c", WITHOUT_ASSERTS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.split() == ["no-asserts", "I5", "I8", "I12"], done.stderr


def test_every_invariant_is_in_the_table_and_has_a_test_that_breaks_it():
    tests = "".join(each.read_text("utf-8") for each in (ROOT / "tests").rglob("test_*.py"))

    assert list(INVARIANTS) == [f"I{number}" for number in range(1, 21)]
    assert [code for code in INVARIANTS if f"def test_{code.lower()}_" not in tests] == []
    assert all((ROOT / each.held_by).is_file() for each in INVARIANTS.values())
