"""A4: a nonce that the broker has seen although we used it once: a proxy sent the request twice.

Only the second answer comes, 401 AUTH_NONCE_REUSED. A read is made again with a new nonce; a place
may have been taken, and is asked about.
"""

import itertools
from pathlib import Path

import pytest

from bot.domain.entry import Fill, IntentMoved, Note
from bot.domain.order import SendState
from bot.drill.oracle import faults_in, outcome_of
from tests.staging import QUIET
from tests.story import once, tell, write_project

TWICE = {"do": "dup_request", "answer": "second"}
READS = ("/trading/*/order-book", "/trading/*/portfolio", "*/market/quotes/stocks/HPG")
NTH = (2, 5)
PLACE = {"verb": "POST", "path": "*/orders"}


@pytest.mark.scripted
async def test_a_read_is_made_again_and_a_place_is_asked_about(tmp_path: Path) -> None:
    reads = itertools.product(READS, NTH)
    matches = [PLACE, *({"verb": "GET", "path": path, "nth": nth} for path, nth in reads)]
    faults = [{"match": match, "action": TWICE} for match in matches]
    config = write_project(tmp_path, scenario={**QUIET, "faults": faults}, strategies=[once()])

    story = await tell(config, minutes=3)

    struck = {line["rule"]: line["struck"] for line in story.ledger() if line["kind"] == "fault"}
    assert struck == dict.fromkeys(range(len(matches)), 1)
    moves = [each.to_state for each in story.shown.all(IntentMoved)]
    assert SendState.UNKNOWN in moves
    assert moves[-1] is SendState.MATCHED
    assert SendState.REFUSED not in moves
    alerts = [n.numbers["alert"] for n in story.shown.all(Note) if n.kind == "ALERT"]
    assert set(alerts) <= {"ORDER_REACHED"}, "no read is missed"
    assert sum(fill.quantity for fill in story.shown.all(Fill)) == 100
    assert len(story.posts()) == 1
    assert faults_in(outcome_of(story.loaded.state_dir)) == []
