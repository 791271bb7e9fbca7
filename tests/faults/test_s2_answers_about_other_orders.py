"""S2: a 200 to a place that is about no order, two of them, another one, or one that has an owner.

No order is adopted that does not echo ours, and the one that was placed is found by its row. That
hides for a while, and until it shows screen and status say which order is in doubt.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bot.domain.entry import IntentMoved, Note
from bot.domain.order import SendState
from bot.drill.oracle import faults_in, outcome_of
from tests.by_hand import Ask, tell_by_hand
from tests.faults.strikes import STRIKES
from tests.staging import QUIET
from tests.story import once, write_project

PLACES = {"verb": "POST", "path": "*/orders"}
ASKED = 9
HIDDEN_S, LOOK = 25, Ask(timedelta(seconds=22), {"do": "status"})
FIRST_ID = "ORD10000001"


def _mutations(dice: Random) -> Mapping[str, Mapping[str, Any]]:
    shares, price = (
        100 * dice.randint(2, 50),
        27_500 + 50 * dice.choice((-1, 1)) * dice.randint(1, 9),
    )
    return {
        "no row": {"rows": 0},
        "two rows": {"rows": 2},
        "symbol": {"field": "symbol", "value": dice.choice(("VNM", "HPX", "SHS"))},
        "side": {"field": "side"},
        "quantity": {"field": "quantity", "value": dice.choice((shares, 99, 0, -100))},
        "price": {"field": "price", "value": dice.choice((price, 0))},
        "account": {"field": "account", "value": f"120C{dice.randrange(10**6):06d}.1"},
        "day": {"field": "date", "value": f"2026-11-{dice.choice((18, 20))}"},
        "type": {"field": "type", "value": dice.choice(("ATC", "ATO", "MTL"))},
        "an id with an owner": {"field": "order_id", "value": FIRST_ID},
    }


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
async def test_no_answer_about_another_order_is_taken_for_ours(
    tmp_path: Path, record_property: Callable[[str, object], None], seed: int
) -> None:
    dice = Random(seed)
    mutations = _mutations(dice)
    for name, mutation in mutations.items():
        folder, second = tmp_path / name, name == "an id with an owner"
        nth = {"nth": 2} if second else {}
        faults = [
            {"match": {**PLACES, **nth}, "action": {"do": "swap_row", **mutation}},
            {"match": {**PLACES, **nth}, "action": {"do": "hide_row", "seconds": HIDDEN_S}},
        ]
        strategies = [once(), once("second", symbols=["SHS"], params={"price": 18_000})]
        config = write_project(
            folder,
            scenario={**QUIET, "faults": faults},
            strategies=strategies if second else strategies[:1],
        )

        told = await tell_by_hand(config, LOOK, minutes=1.5)

        shown, where = told.story.shown, f"seed {seed}, {name}: {mutation}"
        all_moves = [(m.intent_id, m.to_state) for m in shown.all(IntentMoved)]
        unknown = {intent_id for intent_id, state in all_moves if state is SendState.UNKNOWN}
        assert len(unknown) == 1, where
        [doubted] = unknown
        moves = [state for intent_id, state in all_moves if intent_id == doubted]
        assert moves[-2:] == [SendState.REACHED, SendState.MATCHED], where
        outcome = outcome_of(told.story.loaded.state_dir)
        assert faults_in(outcome) == [], where
        assert len(told.story.posts()) == len(outcome.orders) == 1 + second, where
        alerts = [note.text for note in shown.all(Note) if note.kind == "ALERT"]
        assert any(doubted in text for text in alerts), (where, alerts)
        status: Any = told.replies[0]["status"]
        assert any(doubted in text for text in status["alerts"]), (where, status["alerts"])

    assert len(mutations) > ASKED
    record_property(STRIKES, len(mutations))
