"""T11, S4, S6, S10, S13, S14: what befalls reads and writes of a whole run.

Judged as `order-safety` wants it, when all is fine again: every order of the broker's ledger has
one intent, no intent has two, and executed quantity and money are the ledger's.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bot.drill.oracle import faults_in, outcome_of
from tests.staging import QUIET
from tests.story import Story, once, tell, write_project

PLACES = {"verb": "POST", "path": "*/orders"}
CANCELS = {"verb": "DELETE", "path": "*/orders/*"}
ROWS = {"verb": "GET", "path": "/trading/*/order-book*"}
DETAILS = {"verb": "GET", "path": "/trading/*/order-book/*"}
EVERYTHING = {"at": "09:20:08", "until": "09:22:00"}
RESTING = once(
    params={"price": 26_000},
    order={"size": {"shares": 100}, "type": "LIMIT", "price": "ask", "expire": "30s"},
)
FILLED = once()


class Case(NamedTuple):
    """Faults, the strategy, and how many orders the broker then has."""

    faults: tuple[dict[str, Any], ...]
    strategy: Mapping[str, object] = FILLED
    orders: int = 1


def _late(action: Mapping[str, Any], match: Mapping[str, Any], point: str | None = None) -> Any:
    return {"match": match, "point": point, "action": action}


CASES = {
    "T11 nothing gets through for two minutes": Case(
        (_late({"do": "rst"}, EVERYTHING, "accept"),), RESTING
    ),
    "T11 nothing comes back for two minutes": Case(
        (_late({"do": "rst"}, EVERYTHING, "after_apply"),), RESTING
    ),
    "S4 a cancel": Case((_late({"do": "too_many", "reset_s": 5}, CANCELS),), RESTING),
    "S4 a reset long ago": Case(
        (
            _late(
                {"do": "status", "status": 429, "headers": {"X-RateLimit-Reset": "1"}},
                {**ROWS, "times": 3},
            ),
        )
    ),
    "S4 a reset far ahead": Case(
        (
            _late(
                {"do": "status", "status": 429, "headers": {"X-RateLimit-Reset": "9999999999"}},
                {**ROWS, "times": 1},
            ),
        )
    ),
    "S6 a day order book of a while ago": Case(
        (_late({"do": "stale_read", "seconds": 20}, {**ROWS, "until": "09:22:00"}),)
    ),
    "S10 no detail before the cancel": Case(
        (_late({"do": "status", "status": 404}, {**DETAILS, "times": 3}),), RESTING
    ),
    "S13 a new header is required": Case(
        (_late({"do": "status", "status": 400}, {**PLACES, "times": 0}),), orders=0
    ),
    "S14 the holdings are gone once": Case(
        (
            _late(
                {"do": "set_fields", "fields": {"is_snapshot": True, "portfolio": []}},
                {"path": "*/portfolio", "nth": 3},
            ),
        )
    ),
}


async def _told(folder: Path, case: Case) -> Story:
    config = write_project(
        folder, scenario={**QUIET, "faults": case.faults}, strategies=[case.strategy]
    )
    return await tell(config, minutes=4)


@pytest.mark.scripted
@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_nothing_is_lost_or_doubled(tmp_path: Path, case: Case) -> None:
    story = await _told(tmp_path, case)

    assert faults_in(outcome_of(story.loaded.state_dir)) == []
    assert len(story.broker_orders()) == case.orders
    assert len(story.posts()) == 1
    assert max(int(str(line["struck"])) for line in story.ledger() if line["kind"] == "fault") > 0
