"""D2: the disk of the journal refuses while a place is answered, and the bot dies of something."""

from typing import Final

import pytest

from tests.crash.disks import Refused, refuse
from tests.crash.harness import crashing
from tests.crash.strikes import NOT_HERE, may_strike

pytestmark = [pytest.mark.wire, pytest.mark.process, pytest.mark.timeout(240)]

IN_THE_ANSWER = "70+"
"""The journal's first calls of a place commit the attempt, the rest what came of it."""
ANSWER_KEPT: Final = "answer in the emergency journal"
TRIES_MAX: Final = 5
"""Another commit may come before that of the attempt, and the strike then in the attempt's: no
order leaves, and nothing is answered.
"""


@pytest.mark.long
def test_an_answer_that_a_broken_disk_did_not_take_is_known_after_a_kill() -> None:
    if not may_strike():
        pytest.skip(NOT_HERE)
    found = Refused("place")

    with crashing(plugin="Once") as story:
        story.start_up("-q")
        is_struck = False
        for _ in range(TRIES_MAX):
            is_struck = refuse(story, "place", "error=EIO", IN_THE_ANSWER, found)
            if found.ends[ANSWER_KEPT]:
                break
        story.come_to_rest()
        sent = story.rows("select outcome from attempts where verb = 'POST'")
        problems = story.judge()

    assert (is_struck, [*found.problems, *problems]) == (True, [])
    assert found.ends[ANSWER_KEPT] == 1
    assert sent == [{"outcome": "ACCEPTED"}]
