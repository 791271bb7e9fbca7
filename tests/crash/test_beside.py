"""D2: neither journal nor emergency journal takes anything; and a death while one is written."""

import pytest

from tests.crash.beside import KILL, PATIENCE, WAYS, Beside, strike_at
from tests.crash.harness import crashing
from tests.crash.strikes import NOT_HERE, may_strike

pytestmark = [pytest.mark.wire, pytest.mark.process, pytest.mark.timeout(240)]


@pytest.mark.one_strike
@pytest.mark.long
@pytest.mark.parametrize("what", [KILL, WAYS["ENOSPC"]])
def test_a_cancel_that_no_journal_takes_waits_and_the_bot_says_so(what: str) -> None:
    if not may_strike():
        pytest.skip(NOT_HERE)
    found = Beside("cancel")

    with crashing(plugin="Once") as story:
        story.settings |= PATIENCE
        story.start_up("-q")
        strike_at(story, "cancel", ["fsync"], what, "1", found)
        story.come_to_rest()
        problems = story.judge()

    assert (found.points.total(), [*found.problems, *problems]) == (1, [])
