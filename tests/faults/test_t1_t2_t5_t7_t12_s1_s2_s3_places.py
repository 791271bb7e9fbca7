"""T1, T2, T5, T7, T12, S1, S2, S3: what may befall the answer to a place, as whole stories.

Whatever it is: one POST for each intent, no order of the broker's without an intent, and nothing is
counted that the broker's own ledger does not have.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Any, NamedTuple

import pytest

from bot.domain.entry import Fill, IntentMoved
from bot.domain.order import SendState
from bot.drill.oracle import faults_in, outcome_of
from tests.faults.strikes import STRIKES, times
from tests.faults.test_s5_hidden_rows import SYMBOLS, written
from tests.staging import QUIET
from tests.story import Story, once, tell, write_project

PLACES = {"verb": "POST", "path": "*/orders"}
MATCHED, NOT_PLACED, REFUSED = SendState.MATCHED, SendState.NOT_PLACED, SendState.REFUSED
UNKNOWN = SendState.UNKNOWN


class Case(NamedTuple):
    """A fault, how many orders the broker then has, and where the intent must end."""

    action: dict[str, Any]
    point: str | None
    orders: int
    end: SendState


CASES = {
    "T1 rst": Case({"do": "rst"}, "after_apply", 1, MATCHED),
    "T1 fin": Case({"do": "fin"}, "after_apply", 1, MATCHED),
    "T1 rst after the head": Case({"do": "rst"}, "headers_sent", 1, MATCHED),
    "T2 rst": Case({"do": "rst"}, "accept", 0, NOT_PLACED),
    "T5 second answer": Case({"do": "dup_request", "answer": "second"}, None, 1, MATCHED),
    "T5 first answer": Case({"do": "dup_request", "answer": "first"}, None, 1, SendState.ACKED),
    "T7 nothing of the body": Case({"do": "truncate", "length": 0}, None, 1, MATCHED),
    "T7 half of the body": Case({"do": "fin"}, "mid_body", 1, MATCHED),
    "T12 not taken": Case(
        {"do": "redirect", "to": "http://127.0.0.1:9/"}, "before_auth", 0, NOT_PLACED
    ),
    "T12 taken": Case({"do": "redirect", "to": "http://127.0.0.1:9/"}, "after_apply", 1, MATCHED),
    "S1 rejected": Case({"do": "reject"}, None, 1, REFUSED),
    "S1 failed": Case({"do": "reject", "status": "FAILED"}, None, 1, REFUSED),
    "S2 no row": Case({"do": "swap_row", "rows": 0}, None, 1, MATCHED),
    "S2 two rows": Case({"do": "swap_row", "rows": 2}, None, 1, MATCHED),
    **{
        f"S2 other {field}": Case({"do": "swap_row", "field": field}, None, 1, MATCHED)
        for field in ("symbol", "side", "quantity", "price", "account", "date", "type")
    },
    **{
        f"S3 {status} taken": Case({"do": "status", "status": status}, "after_apply", 1, MATCHED)
        for status in (500, 503)
    },
    "S3 502 not taken": Case({"do": "status", "status": 502}, "before_auth", 0, NOT_PLACED),
}


async def _told(folder: Path, *faults: Mapping[str, Any]) -> Story:
    config = write_project(folder, scenario={**QUIET, "faults": faults}, strategies=[once()])
    return await tell(config, minutes=6)


@pytest.mark.scripted
@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_one_post_and_the_truth(tmp_path: Path, case: Case) -> None:
    story = await _told(tmp_path, {"match": PLACES, "point": case.point, "action": case.action})

    moves = [each.to_state for each in story.shown.all(IntentMoved)]
    assert len(story.posts()) == 1
    assert len(story.broker_orders()) == case.orders
    assert moves[-1] is case.end
    assert (UNKNOWN in moves) is (case.end in {MATCHED, NOT_PLACED})
    executed = sum(int(str(order["executed"])) for order in story.broker_orders().values())
    assert sum(fill.quantity for fill in story.shown.all(Fill)) == executed


@pytest.mark.long
@pytest.mark.parametrize("fault", ["T1", "T2", "T5", "S3"])
async def test_many_places_at_once_end_as_one_does(
    tmp_path: Path, fault: str, record_property: Callable[[str, object], None]
) -> None:
    cases = [case for name, case in CASES.items() if name.startswith(f"{fault} ")]
    struck, seed, wanted = 0, 0, times(fault, len(SYMBOLS))
    while struck < wanted:
        folder, dice, seed = tmp_path / str(seed), Random(seed), seed + 1
        drawn = [dice.choice(cases) for _ in SYMBOLS]
        faults = [{"match": PLACES, "point": case.point, "action": case.action} for case in drawn]

        story = await tell(written(folder, *faults), minutes=6)

        lines = [line for line in story.ledger() if line["kind"] == "fault"]
        met = [drawn[rule] for rule in {int(str(line["rule"])) for line in lines}]
        ends = {move.intent_id: move.to_state for move in story.shown.all(IntentMoved)}
        posted = Counter(ends[intent_id] for intent_id in story.posts())
        assert posted == Counter(case.end for case in met), f"seed {seed}"
        assert len(story.broker_orders()) == sum(case.orders for case in met), f"seed {seed}"
        assert len(set(story.posts())) == len(met) > 0, f"seed {seed}"
        assert faults_in(outcome_of(story.loaded.state_dir)) == [], f"seed {seed}"
        struck += len(met)
        rmtree(folder)

    record_property(STRIKES, struck)
