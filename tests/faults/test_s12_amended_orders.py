"""S12: the answer to an amendment is lost; the order keeps its id or gets a new one, and is filled
before or not. In the end it is what the broker's ledger says.

`simulation/test_amend_storms.py` has as many amendments as the catalogue asks, and kills.
"""

import itertools
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.domain.entry import Fill, OrderUpdated
from bot.drill.oracle import faults_in, outcome_of
from tests.by_hand import Ask, tell_by_hand
from tests.staging import QUIET
from tests.story import once, write_project

IDS: Mapping[str, Mapping[str, str]] = {
    "the same": {"modify_id": "same"},
    "new, its count goes on": {"modify_id": "new", "modify_executed": "carried"},
    "new, its count begins again": {"modify_id": "new", "modify_executed": "restarts"},
}
LOST = {"after_apply": {"do": "rst"}, "before_auth": {"do": "status", "status": 503}}
CASES = list(itertools.product(IDS, LOST, (False, True)))
AMENDS = {"verb": "PUT", "path": "*/orders/*", "times": 1}
DEAL = {"at": "09:20:20", "do": "give", "price": 27_000, "volume": 200}
STAND = {
    "at": "09:20:00",
    "until": "10:00:00",
    "bids": [[26_900, 9_000]],
    "asks": [[27_050, 9_000]],
}


@pytest.mark.scripted
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("ids", "point", "is_filled"), CASES)
async def test_what_is_amended_in_the_dark_ends_as_the_ledger_says(
    tmp_path: Path, ids: str, point: str, is_filled: bool
) -> None:
    symbol = {"symbol": "HPG", "exchange": "HOSE", "reference": 27_000, "standstills": [STAND]}
    scenario: dict[str, Any] = {
        **QUIET,
        "symbols": [{**symbol, "deals": [DEAL] * is_filled}],
        "switches": dict(IDS[ids]),
        "faults": [{"match": AMENDS, "point": point, "action": LOST[point]}],
    }
    order = {"size": {"shares": 100}, "type": "LIMIT", "price": "ask", "expire": "150s"}
    strategy = once(params={"price": 27_000, "shares": 500}, order=order)
    config = write_project(
        tmp_path, scenario=scenario, strategies=[strategy], risk={"allow_amend": True}
    )
    change = {"do": "modify", "order_id": "L-0001", "quantity": 800}

    told = await tell_by_hand(config, Ask(timedelta(seconds=15), change), minutes=5)

    outcome = outcome_of(told.story.loaded.state_dir)
    assert faults_in(outcome) == []
    shown = told.story.shown
    executed = sum(fill.quantity for fill in shown.all(Fill))
    assert executed == 200 * is_filled
    last = {row.order_id: row for row in shown.all(OrderUpdated)}
    assert {key: row.quantity for key, row in last.items()} == {
        key: truth["quantity"] for key, truth in outcome.orders.items()
    }
    assert {verb for verb, _ in told.story.attempts()} == {"POST", "PUT", "DELETE"}
