"""P2, D3: the daemon dies before an I/O call of a place, or its COMMIT is cut in the middle."""

from contextlib import nullcontext

import pytest

from tests.crash.commits import break_often
from tests.crash.points import go_through
from tests.crash.strikes import NOT_HERE, may_strike

pytestmark = [pytest.mark.wire, pytest.mark.process, pytest.mark.timeout(240)]

STEP = 80
BREAKS = 2
IN_BOTH = "sendto"
"""A kind of call that both threads make."""


@pytest.mark.long
def test_a_place_that_is_cut_off_at_a_call_is_one_order_or_none() -> None:
    if not may_strike():
        pytest.skip(NOT_HERE)

    reached = go_through("place", nullcontext, step=STEP, calls=[IN_BOTH])

    assert reached.problems == []
    assert min(reached.threads[0], reached.threads[1]) > 0
    assert {call.partition(" ")[0] for call in reached.points} == {IN_BOTH}


@pytest.mark.long
@pytest.mark.postgres
def test_a_commit_that_is_cut_in_the_middle_is_asked_about(own_postgres_url: str) -> None:
    counts, problems = break_often(own_postgres_url, BREAKS, 2)

    assert problems == []
    assert sum(count for what, count in counts.items() if "," in what) == BREAKS
