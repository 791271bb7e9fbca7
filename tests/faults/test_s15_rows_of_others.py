"""S15: rows under our id about another order, in the list, in a detail, in a place's answer.

Each also says that everything is executed. The order itself rests far below the market all the
while.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bot.domain.entry import Fill, Note, Transition
from bot.domain.order import TERMINAL_STATES
from bot.drill.oracle import faults_in, outcome_of
from tests.staging import QUIET
from tests.story import Story, once, tell, write_project

LIST = {"verb": "GET", "path": "/trading/v1/accounts/*/order-book", "times": 0}
DETAIL = {"verb": "GET", "path": "/trading/v1/accounts/*/order-book/*", "times": 0}
PLACE = {"verb": "POST", "path": "*/orders", "times": 0}
ALL = {"execqtty": 100, "execamt": 2_600_000, "execprice": 26_000, "remainqtty": 0}
ALL_ANSWERED = {"execute_quantity": 100, "execute_amount": 2_600_000, "execute_price": 26_000}
FILLED = {**ALL, "status": "MATCHED_ALL", "status_": "MATCHED_ALL"}
FILLED_ANSWER = {**ALL_ANSWERED, "order_status": "MATCHED_ALL"}

# What is false in a row, and in the element of a place's answer.
MUTATIONS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "symbol": ({"symbol": "VNM"}, {"symbol": "VNM"}),
    "side": ({"side": "SELL", "side_code": "NS"}, {"order_side": "SELL"}),
    "account": (
        {"afacctno": "120C999999", "afacctno_ext": "120C999999.1"},
        {"account_id": "120C999999.1"},
    ),
    "day": (
        {"txdate": "2026-11-18", "odtimestamp": "2026-11-18T09:20:10"},
        {"transaction_date": "2026-11-18"},
    ),
    "more": ({"qtty": 900}, {"order_quantity": 900}),
    "less": ({"qtty": 50, "execqtty": 50}, {"order_quantity": 50, "execute_quantity": 50}),
    "nothing": ({"qtty": 0, "execqtty": 0}, {"order_quantity": 0, "execute_quantity": 0}),
    "negative": ({"qtty": -100}, {"order_quantity": -100}),
    "more than ordered": ({"execqtty": 500}, {"execute_quantity": 500}),
}
RESTING = once(params={"price": 26_000}, wake={"quote": "5s"})
EXPIRING = {
    **RESTING,
    "order": {"size": {"shares": 100}, "type": "LIMIT", "price": "ask", "expire": "60s"},
}


async def _told(folder: Path, match: Mapping[str, Any], fields: Mapping[str, Any]) -> Story:
    """An order that rests; where details are false it is cancelled, so that they are read."""
    strategy = EXPIRING if match is DETAIL else RESTING
    faults = [{"match": match, "action": {"do": "set_fields", "fields": dict(fields)}}]
    config = write_project(folder, scenario={**QUIET, "faults": faults}, strategies=[strategy])
    story = await tell(config, minutes=2 if match is DETAIL else 1.5)
    [struck] = [line for line in story.ledger() if line["kind"] == "fault"][-1:]
    assert int(str(struck["struck"])) > 0
    return story


def _ends(story: Story) -> list[str]:
    moves = [move for move in story.shown.all(Transition) if move.to_state in TERMINAL_STATES]
    return [f"{move.to_state} by {move.broker_status}" for move in moves]


@pytest.mark.scripted
@pytest.mark.sampled(3)
@pytest.mark.parametrize("mutation", MUTATIONS)
async def test_a_false_list_neither_fills_nor_ends(tmp_path: Path, mutation: str) -> None:
    story = await _told(tmp_path, LIST, {**FILLED, **MUTATIONS[mutation][0]})

    assert story.shown.all(Fill) == []
    assert _ends(story) == []
    assert len(story.posts()) == 1
    codes = {note.numbers.get("alert") for note in story.shown.all(Note) if note.kind == "ALERT"}
    assert codes & {"ROW_CONTRADICTS", "ROW_AMBIGUOUS"}


@pytest.mark.scripted
@pytest.mark.sampled(3)
@pytest.mark.parametrize("mutation", MUTATIONS)
async def test_a_false_detail_neither_fills_nor_ends(tmp_path: Path, mutation: str) -> None:
    story = await _told(tmp_path, DETAIL, {**FILLED, **MUTATIONS[mutation][0]})

    assert story.shown.all(Fill) == []
    assert set(_ends(story)) <= {"CANCELLED by CANCELLED"}  # as the list, which is true, says
    assert faults_in(outcome_of(story.loaded.state_dir)) == []


@pytest.mark.scripted
@pytest.mark.sampled(3)
@pytest.mark.parametrize("mutation", MUTATIONS)
async def test_a_false_answer_neither_fills_nor_ends(tmp_path: Path, mutation: str) -> None:
    story = await _told(tmp_path, PLACE, {**FILLED_ANSWER, **MUTATIONS[mutation][1]})

    assert story.shown.all(Fill) == []
    assert _ends(story) == []
    assert len(story.posts()) == 1
    assert faults_in(outcome_of(story.loaded.state_dir)) == []
