"""Each control refuses and lets through, and the border is where its limit says."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.cli.explaining import entries
from bot.domain.instrument import Phase
from bot.domain.message import PlaceOrder, TradingDayStarted
from bot.domain.order import Intent, OrderState, SendState
from bot.domain.outcome import NotSent
from bot.domain.plan import AccountLimits, Limits
from bot.domain.recovery import RecoveredStrategy, Recovery, StoredIntent
from bot.engine.risk.checks import judge
from bot.engine.risk.codes import CODES
from bot.engine.settings import EngineSettings
from tests.engine.risk import account_rows, test_checks
from tests.engine.risk.test_checks import VIEW
from tests.engine.stage import ACCOUNT, DAY, PLAN, Stage, report_of
from tests.rows import every_row

SHARED: Any = account_rows
OWN: Any = test_checks
TESTS = Path(__file__).parents[2]
SHORT_OF_ORDERS = EngineSettings(
    account_limits=AccountLimits(max_orders_per_day=3, max_orders_per_minute=3)
)
AT_MOST = {
    "MAX_ORDER_VALUE": ("value_vnd", "limit_vnd"),
    "MAX_ORDER_QUANTITY": ("quantity", "limit"),
    "MAX_QUANTITY": ("quantity", "maximum"),
    "MAX_POSITION": ("position", "limit"),
    "CAPITAL": ("value_vnd", "limit_vnd"),
    "POSITION_VALUE": ("value_vnd", "limit_vnd"),
    "GROSS": ("value_vnd", "limit_vnd"),
    "FLIPS": ("flips", "limit"),
    "ACCOUNT_AGE": ("age_s", "age_s_max"),
    "QUOTE_AGE": ("age_s", "age_s_max"),
    "SELLABLE": ("quantity", "sellable"),
    "CASH": ("need_vnd", "cash_vnd"),
}
"""Passes at its limit, and is refused one beyond it."""
BELOW = {
    "MAX_ORDERS": ("orders", "limit"),
    "OPEN_ORDERS": ("orders", "limit"),
    "ORDER_RATE": ("sent", "limit"),
    "EXIT_RATE": ("sent", "limit"),
    "MAX_LOSS": ("loss_vnd", "limit_vnd"),
    "DAY_LOSS": ("loss_vnd", "limit_vnd"),
    "UNKNOWN_ORDERS": ("unknown", "limit"),
}
"""Is refused at its limit, and passes one below it."""
BESIDE_A_CHECK = {
    "R09": (
        "engine/risk/test_losses.py",
        "test_fills_that_repeat_themselves_disable_the_strategy_until_a_person_resumes_it",
    ),
    "R24": (
        "engine/orders/test_refusals.py",
        "test_five_refusals_within_ten_minutes_pause_a_strategy_though_others_were_taken_between",
        "test_refusals_that_are_further_apart_pause_nobody",
    ),
    "R25": (
        "engine/test_health.py",
        "test_a_clock_is_told_of_from_five_seconds_and_stops_orders_at_its_limit",
    ),
    "R26": (
        "runtime/test_order_manager.py",
        "test_a_signal_past_its_time_is_not_sent",
        "test_a_signal_leaves_until_the_last_instant_of_its_time_and_not_after",
    ),
}
"""Controls that act beside the checks of an order, and the tests that show both sides of each."""


def _too_old(stage: Stage, intent: Intent) -> None:
    stage.answer(intent, NotSent("the signal was 6.0 s old (limit 5 s)"))


def _no_connection(stage: Stage, intent: Intent) -> None:
    stage.send(intent)
    stage.answer(intent, NotSent("no connection"))


def _no_token(stage: Stage, intent: Intent) -> None:
    stage.block_for_token(intent)
    stage.pass_time(3_600)


def _orders_today(stage: Stage) -> tuple[int, int]:
    state = stage.engine._state
    return state.usage.of(ACCOUNT).orders_today, state.strategies["test"].orders_today


@pytest.mark.parametrize("end", [_too_old, _no_connection, _no_token])
def test_an_order_that_never_left_uses_up_no_order_of_the_day(
    end: Callable[[Stage, Intent], None],
) -> None:
    stage = Stage(settings=SHORT_OF_ORDERS)
    left = stage.working(200, 26_950)
    stage.after(1).book(report_of(left, executed=200, state=OrderState.FILLED, status="MATCHED"))
    intent = stage.buy()
    assert _orders_today(stage) == (2, 2)

    end(stage, intent)

    state = stage.engine._state.intents[intent.intent_id].state
    assert state in {SendState.EXPIRED_LOCAL, SendState.NOT_SENT}
    assert _orders_today(stage) == (1, 1)


@every_row("state", [SendState.READY, SendState.HELD, SendState.EXPIRED_LOCAL, SendState.NOT_SENT])
def test_nor_does_it_after_a_restart(state: SendState) -> None:
    left = Stage().working(200, 26_950)
    never = replace(left, intent_id="L-0002")
    stored = (
        StoredIntent(left, SendState.ACKED, "ORD1", None),
        StoredIntent(never, state, None, None),
    )
    counted = 2 if state in {SendState.READY, SendState.HELD} else 1  # as the journal counts
    known = {"test": RecoveredStrategy({}, counted, 0, 0, "on")}

    stage = Stage(recovery=Recovery(DAY, 3, 1, intents=stored, strategies=known))

    assert _orders_today(stage) == (1, 1)


@pytest.mark.parametrize("of_account", [True, False])
def test_an_order_that_is_requested_again_with_its_token_is_one_order_of_the_day(
    of_account: bool,
) -> None:
    own, shared = Limits(), AccountLimits(max_orders_per_day=1)
    if not of_account:
        own, shared = Limits(max_orders_per_day=1), AccountLimits()
    stage = Stage(replace(PLAN, limits=own), settings=EngineSettings(account_limits=shared))
    held = stage.buy()
    stage.block_for_token(held)
    stage.after(20).quote()

    stage.token()
    stage.after(1).quote()

    assert stage.last(PlaceOrder).intent.follows == held.intent_id
    assert _orders_today(stage) == (1, 1)


@pytest.mark.parametrize("then", [SendState.ACKED, SendState.READY, SendState.DENIED])
def test_nor_is_it_more_after_a_restart(then: SendState) -> None:
    held = Stage().working(200, 26_950)
    again = replace(held, intent_id="L-0002", follows=held.intent_id)
    stored = (
        StoredIntent(held, SendState.REFUSED, None, None),
        StoredIntent(again, then, "ORD1" if then is SendState.ACKED else None, None),
    )
    counted = 0 if then is SendState.DENIED else 1  # as the journal counts
    known = {"test": RecoveredStrategy({}, counted, 0, 0, "on")}

    stage = Stage(recovery=Recovery(DAY, 3, 1, intents=stored, strategies=known))

    left = 1 if then is SendState.ACKED else 0
    assert _orders_today(stage) == (left, left)


def test_what_never_left_yesterday_gives_no_order_of_today_back() -> None:
    stage = Stage(settings=SHORT_OF_ORDERS)
    intent = stage.buy()
    stage.handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))

    stage.answer(intent, NotSent("too old"))

    assert _orders_today(stage) == (0, 0)


def test_a_strategy_whose_orders_never_leave_is_still_stopped_by_the_rate() -> None:
    stage = Stage(settings=SHORT_OF_ORDERS)
    decided = []
    for _ in range(4):
        stage.request(lambda one: one.buy(100, limit=27_000, why="again"))
        decided.append(stage.decided()[1])
        if decided[-1] == "OK":
            stage.answer(stage.last(PlaceOrder).intent, NotSent("too old"))
        stage.after(1).quote()

    assert decided == ["OK", "OK", "OK", "ORDER_RATE"]


def _results() -> Mapping[str, list[Any]]:
    """The results of every row, but for sales that may go out beyond a limit."""
    found: dict[str, list[Any]] = defaultdict(list)
    plain = [*(row[1:] for row in OWN.REFUSED), *OWN.PASSED]
    seen = [(one, replace(VIEW, **changes), limits) for one, changes, limits in plain]
    shared = [*(row[1:] for row in SHARED.REFUSED), *SHARED.PASSED]
    in_auction = [row[1:] for row in SHARED.IN_AUCTION]
    in_auction += [(one, {"shown": 20 * one.quantity}, most) for one, _, most in in_auction]
    for phase, rows in ((Phase.PROGRESS, shared), (Phase.PRE_CLOSED, in_auction)):
        for one, used, limits in rows:
            account = replace(SHARED.USE, limits=AccountLimits(**limits), **used)
            many: dict[str, Any] = {"cash_free": 10**12, "sellable": one.quantity, "phase": phase}
            if not one.closes_position:
                seen.append((one, replace(VIEW, account=account, **many), {}))
    for request, view, limits in seen:
        for result in judge(request, view, Limits(**limits)):
            found[result.code].append(result)
    return found


RESULTS = _results()


def test_every_check_refuses_something_and_lets_something_through():
    sides = {code: {one.passed for one in RESULTS[code]} for code in CODES}
    only_refuses = {"SYMBOL_HALTED", "HELD_DATA", "PRICE", "UNIT_SLIP", "DUPLICATE"}
    only_refuses |= {"UNKNOWN_ORDERS", "UNPRICED_BUY"}

    assert {code for code, found in sides.items() if False not in found} == set()
    assert {code for code, found in sides.items() if True not in found} <= only_refuses


@every_row("code", sorted(AT_MOST))
def test_what_is_at_a_limit_passes_and_one_beyond_is_refused(code):
    used, limit = AT_MOST[code]
    known = [one for one in RESULTS[code] if None not in one.numbers.values()]

    assert any(one.passed and one.numbers[used] == one.numbers[limit] for one in known)
    beyond = [one.numbers[used] - one.numbers[limit] for one in known if not one.passed]
    assert min(beyond) in {1, 100}  # a quantity grows by at least a lot
    assert all(one.passed or one.numbers[used] > one.numbers[limit] for one in known)


@every_row("code", sorted(BELOW))
def test_what_is_below_a_limit_passes_and_what_reaches_it_is_refused(code):
    used, limit = BELOW[code]
    found = RESULTS[code]

    assert any(not one.passed and one.numbers[used] == one.numbers[limit] for one in found)
    known = [one for one in found if one.passed]
    assert all(one.numbers[used] < one.numbers[limit] or not one.numbers[limit] for one in known)


def test_every_limit_of_the_settings_has_rows_on_both_sides():
    refused = {key for *_, limits in SHARED.REFUSED for key in limits}
    refused |= {key for *_, limits in SHARED.IN_AUCTION for key in limits}
    passed = {key for *_, limits in SHARED.PASSED for key in limits}
    own = {key for *_, limits in OWN.REFUSED for key in limits}
    by_loss = {"max_loss_per_day", "max_loss_nav_ppm"}

    assert set(AccountLimits.__dataclass_fields__) - refused == by_loss
    assert refused - passed <= {"max_auction_share_ppm"}
    assert set(Limits.__dataclass_fields__) - own == {"max_repeats"}


def test_each_of_the_28_controls_is_a_check_or_names_the_tests_of_its_two_sides():
    of_checks = {each.risk for each in entries() if each.code in CODES}
    beside = {"R27", *BESIDE_A_CHECK}  # R27: a symbol that is halted, and the breaks
    named = [(TESTS / file, name) for file, *names in BESIDE_A_CHECK.values() for name in names]

    assert {f"R{number:02}" for number in range(1, 29)} - of_checks <= beside
    assert [name for file, name in named if f"def {name}(" not in file.read_text("utf-8")] == []
