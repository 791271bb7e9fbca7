"""Stories of one order: filled, partly filled and cut, rejected, lost, blocked."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from bot.domain.entry import (
    AttemptFinished,
    Decision,
    Fill,
    IntentMoved,
    OrderUpdated,
    Verdict,
)
from bot.domain.order import OrderState, SendState
from tests.staging import QUIET
from tests.story import Story, once, tell, write_project

POST = {"verb": "POST", "path": "*/orders"}


async def _story(
    folder: Path,
    *faults: Mapping[str, object],
    minutes: float = 5,
    strategy: Mapping[str, object] | None = None,
    **scenario: object,
) -> Story:
    config = write_project(
        folder,
        scenario={**QUIET, "faults": faults, **scenario},
        strategies=[strategy or once()],
    )
    return await tell(config, minutes=minutes)


def _moves(story: Story) -> list[SendState]:
    return [each.to_state for each in story.shown.all(IntentMoved)]


async def test_a_filled_order_is_equal_in_journal_and_ledger(tmp_path: Path) -> None:
    story = await _story(tmp_path)

    [order] = story.broker_orders().values()
    fills = story.shown.all(Fill)
    assert sum(fill.quantity for fill in fills) == order["executed"] == 100
    assert sum(fill.amount for fill in fills) == order["amount"]
    assert sum(fill.fee for fill in fills) == order["fee"]
    assert story.shown.all(OrderUpdated)[-1].state is OrderState.FILLED


async def test_the_unmatched_part_is_cancelled_when_its_time_is_over(tmp_path: Path) -> None:
    levels = {"bids": [[26_900, 500]], "asks": [[27_000, 200], [27_500, 900]]}
    stand = {"at": "09:20:00", "until": "10:00:00", **levels}
    market = {"symbol": "HPG", "exchange": "HOSE", "reference": 27_000, "standstills": [stand]}
    strategy = once(
        params={"price": 27_000, "shares": 500},
        order={"size": {"shares": 100}, "type": "LIMIT", "price": "ask", "expire": "60s"},
    )

    story = await _story(tmp_path, strategy=strategy, symbols=[market])

    [order] = story.broker_orders().values()
    assert (order["executed"], order["cancelled"], order["status"]) == (200, 300, "SENT")
    last = story.shown.all(OrderUpdated)[-1]
    assert (last.state, last.executed_quantity) == (OrderState.CANCELLED, 200)


async def test_a_rejection_inside_200_is_final_and_not_tried_again(tmp_path: Path) -> None:
    fault = {"match": POST, "action": {"do": "reject", "code": "-900017"}}

    story = await _story(tmp_path, fault)

    assert len(story.posts()) == 1
    assert story.shown.all(AttemptFinished)[0].outcome == "REFUSED"
    assert SendState.REFUSED in _moves(story)


@pytest.mark.parametrize(
    "action",
    [{"do": "rst"}, {"do": "status", "status": 500}, {"do": "status", "status": 502}],
    ids=["reset", "500", "502"],
)
async def test_an_order_whose_answer_was_lost_is_found_in_the_day_book(
    tmp_path: Path, action: Mapping[str, object]
) -> None:
    story = await _story(tmp_path, {"match": POST, "point": "after_apply", "action": action})

    assert len(story.posts()) == 1
    assert list(story.broker_orders()) == [story.shown.all(OrderUpdated)[-1].order_id]
    assert SendState.UNKNOWN in _moves(story)
    assert _moves(story)[-1] is SendState.MATCHED
    assert sum(fill.quantity for fill in story.shown.all(Fill)) == 100


async def test_an_order_lost_on_its_way_is_proved_not_placed_and_never_resent(
    tmp_path: Path,
) -> None:
    fault = {"match": POST, "point": "before_auth", "action": {"do": "rst"}}

    story = await _story(tmp_path, fault, minutes=6)

    assert len(story.posts()) == 1
    assert story.broker_orders() == {}
    last = story.shown.all(IntentMoved)[-1]
    assert last.to_state is SendState.NOT_PLACED
    assert last.proof


async def test_an_order_above_its_limit_is_blocked_with_the_numbers(tmp_path: Path) -> None:
    story = await _story(tmp_path, strategy=once(limits={"max_order_value": 1_000_000}))

    [blocked] = [each for each in story.shown.all(Decision) if each.verdict is Verdict.BLOCKED]
    assert blocked.code == "MAX_ORDER_VALUE"
    assert blocked.checks[-1].numbers["limit_vnd"] == 1_000_000
    assert story.posts() == []


async def test_a_dry_run_signs_and_journals_and_sends_nothing(tmp_path: Path) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[once()])

    story = await tell(config, minutes=2, dry_run=True)

    assert len(story.posts()) == 1
    assert _moves(story)[-1] is SendState.NOT_SENT
    assert story.broker_orders() == {}
