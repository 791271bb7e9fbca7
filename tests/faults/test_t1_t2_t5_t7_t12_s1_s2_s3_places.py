"""T1, T2, T5, T7, T12, S1, S2, S3: what may befall the answer to a place, as whole stories.

Whatever it is: one POST for each intent, no order of the broker's without an intent, and nothing is
counted that the broker's own ledger does not have.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bot.domain.entry import Fill, IntentMoved
from bot.domain.order import SendState
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
