"""Two strategies of one account in one symbol: none sells what the other has, settled, for its own.

The account shows free shares, not whose they are. What a strategy has bought and what of it is not
settled yet is known from its fills, those of earlier runs too.
"""

from dataclasses import replace
from datetime import timedelta

import pytest

from bot.domain.entry import Decision, Fill, Verdict
from bot.domain.message import PlaceOrder
from bot.domain.recovery import RecoveredStrategy, Recovery
from bot.engine.flows import Flow
from bot.engine.risk.accounts import means_of
from bot.engine.risk.shared_symbol import note_unsettled
from tests.engine.stage import ACCOUNT, DAY, PLAN, Stage, report_of

OTHER = replace(PLAN, name="other")


def _held(shares: int) -> RecoveredStrategy:
    return RecoveredStrategy({"HPG": (shares, shares * 27_000)}, 0, 0, 0, "on")


def _beside_100_settled(*, of_the_owner: int = 0, **known: object) -> Stage:
    """The strategy `test` holds 100 settled shares, its account as many more of the owner."""
    strategies = {"test": _held(100)}
    return Stage(
        beside=[OTHER],
        sellable=100 + of_the_owner,
        recovery=replace(Recovery(DAY, strategies=strategies), **known),  # type: ignore[arg-type]
    )


def _bought_by_the_other(stage: Stage) -> Stage:
    stage.request(lambda s: s.buy(100, limit=27_000), by="other")
    intent = stage.last(PlaceOrder).intent
    stage.accept(intent)
    stage.after(1).book(report_of(intent, executed=100))
    stage.after(61).quote()
    return stage


def _sellable(stage: Stage, name: str) -> int:
    state = stage.engine._state
    return means_of(state, state.strategies[name], "HPG").sellable


def test_shares_bought_today_take_no_settled_ones_of_another_strategy() -> None:
    stage = _bought_by_the_other(_beside_100_settled())

    stage.request(lambda s: s.close(limit=27_000), by="other")
    assert stage.decided() == (Verdict.SKIPPED, "NOT_SETTLED")
    assert stage.last(Decision).why.startswith("not settled until 2026-11-23 13:00")
    stage.request(lambda s: s.sell(100, limit=27_000), by="other")
    assert stage.decided() == (Verdict.BLOCKED, "SELLABLE")

    stage.request(lambda s: s.close(limit=27_000))
    assert stage.last(PlaceOrder).intent.strategy == "test"


@pytest.mark.parametrize("becomes", ["sent", "working"])
def test_what_another_strategy_sells_already_is_not_kept_for_it_twice(becomes: str) -> None:
    stage = _bought_by_the_other(_beside_100_settled(of_the_owner=50))
    assert _sellable(stage, "other") == 50, "the owner's"

    stage.request(lambda s: s.close(limit=27_000))
    intent = stage.last(PlaceOrder).intent
    stage.send(intent)
    if becomes == "working":
        stage.accept(intent, "ORD2")

    assert _sellable(stage, "other") == 50


def test_a_strategy_may_sell_the_owners_settled_shares_for_those_it_bought_today() -> None:
    stage = _bought_by_the_other(_beside_100_settled(of_the_owner=1_000))

    stage.request(lambda s: s.close(limit=27_000), by="other")

    assert stage.last(PlaceOrder).intent.quantity == 100


def _beside_100_of_one_that_left(case: str, *, of_the_owner: int = 0, **known: object) -> Stage:
    """100 settled shares of a strategy that does not run, or that does not list the symbol now."""
    recovery = Recovery(DAY, strategies={"test": _held(100)})
    recovery = replace(recovery, **known)  # type: ignore[arg-type]
    beside = [] if case == "does not run" else [replace(PLAN, symbols=("FPT",))]
    return Stage(OTHER, beside=beside, sellable=100 + of_the_owner, recovery=recovery)


LEFT = pytest.mark.parametrize("case", ["does not run", "lists it no more"])


@LEFT
def test_nor_do_they_take_those_of_one_that_is_left_out_or_has_dropped_the_symbol(
    case: str,
) -> None:
    stage = _bought_by_the_other(_beside_100_of_one_that_left(case))

    stage.request(lambda s: s.close(limit=27_000), by="other")

    assert stage.decided() == (Verdict.SKIPPED, "NOT_SETTLED")


@LEFT
def test_what_one_that_left_has_bought_but_not_settled_keeps_none_of_the_owners(case: str) -> None:
    fill: Fill = replace(_bought_by_the_other(Stage(beside=[OTHER])).last(Fill), strategy="test")
    stage = _bought_by_the_other(_beside_100_of_one_that_left(case, recent_fills=((DAY, fill),)))

    assert _sellable(stage, "other") == 100, "the owner's: those of the other are not settled"


def test_what_one_that_left_had_bought_is_kept_for_it_once_it_has_settled() -> None:
    stage = _beside_100_of_one_that_left("does not run")
    state = stage.engine._state
    settles = stage.now + timedelta(seconds=1)
    note_unsettled(state, "test", Flow(stage.now, ACCOUNT, "HPG", 0, 0, 0, 100, settles))

    assert _sellable(_bought_by_the_other(stage), "other") == 0


def test_what_a_strategy_has_settled_itself_is_kept_from_it_for_nobody() -> None:
    strategies = {"test": _held(100), "other": _held(100)}
    stage = _bought_by_the_other(_beside_100_settled(of_the_owner=200, strategies=strategies))

    assert _sellable(stage, "other") == 200, "its own, and the owner's for what it has just bought"


@LEFT
def test_what_one_that_left_sells_still_is_not_kept_for_it_twice(case: str) -> None:
    first = Stage(sellable=100, recovery=Recovery(DAY, strategies={"test": _held(100)}))
    first.request(lambda s: s.close(limit=27_500))
    first.accept(first.last(PlaceOrder).intent, "ORD9")
    sale = first.entries_of_order("ORD9")
    stage = _beside_100_of_one_that_left(case, of_the_owner=50, orders=(sale,))

    assert _sellable(_bought_by_the_other(stage), "other") == 50


def test_what_one_that_left_holds_elsewhere_keeps_nothing_here() -> None:
    fpt = RecoveredStrategy({"FPT": (100, 9_000_000)}, 0, 0, 0, "on")
    stage = _beside_100_of_one_that_left("does not run", strategies={"test": fpt})

    assert _sellable(_bought_by_the_other(stage), "other") == 100


def test_from_the_settlement_on_both_may_sell_their_own() -> None:
    stage = _bought_by_the_other(_beside_100_settled())
    settles = stage.engine._state.flows.next_delivery(ACCOUNT, "HPG", stage.now)
    assert settles is not None

    stage.now = settles
    stage.sellable = 200
    stage.account()
    stage.quote()

    assert [_sellable(stage, name) for name in ("test", "other")] == [100, 100]


def test_settled_shares_stay_sellable_where_the_account_has_fewer_than_both_hold() -> None:
    stage = _beside_100_settled(strategies={"test": _held(100), "other": _held(100)})

    assert [_sellable(stage, name) for name in ("test", "other")] == [100, 100]


def test_after_a_restart_it_is_known_whose_shares_are_not_settled() -> None:
    stage = _bought_by_the_other(_beside_100_settled())
    fill: Fill = stage.last(Fill)

    again = _beside_100_settled(
        strategies={"test": _held(100), "other": _held(100)}, recent_fills=((DAY, fill),)
    )

    assert [_sellable(again, name) for name in ("test", "other")] == [100, 0]


def test_settlements_that_are_over_are_not_kept() -> None:
    stage = _bought_by_the_other(_beside_100_settled())
    state = stage.engine._state
    coming = state.strategies["other"].coming["HPG"]
    [stage.now] = coming
    stage.quote()
    later = stage.now + timedelta(days=2)

    note_unsettled(state, "other", Flow(stage.now, ACCOUNT, "HPG", 0, 0, 0, 300, later))

    assert coming == {later: 300}


def test_nor_are_those_of_one_that_does_not_run() -> None:
    stage = Stage()
    state = stage.engine._state
    later = [stage.now + timedelta(days=each) for each in (1, 2)]

    note_unsettled(state, "gone", Flow(stage.now, ACCOUNT, "HPG", 0, 0, 0, 100, later[0]))
    stage.now = later[0]
    stage.quote()
    note_unsettled(state, "gone", Flow(stage.now, ACCOUNT, "HPG", 0, 0, 0, 300, later[1]))
    note_unsettled(state, None, Flow(stage.now, ACCOUNT, "HPG", 0, 0, 0, 300, later[1]))

    assert state.unloaded_coming == {("gone", "HPG"): {later[1]: 300}}
