"""P2: the daemon dies before an I/O call of a place.

`python -m tests.crash.points all` goes through every call of place, amend, cancel and poll.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext

import pytest

from tests.crash.points import Reached, go_through
from tests.crash.strikes import NOT_HERE, may_strike
from tests.faults.strikes import STRIKES

pytestmark = [pytest.mark.wire, pytest.mark.process, pytest.mark.timeout(240)]

STEP = 80
IN_BOTH = "sendto"
"""A kind of call that both threads make."""


@pytest.mark.long
def test_a_place_that_is_cut_off_at_a_call_is_one_order_or_none(
    record_property: Callable[[str, object], None],
) -> None:
    if not may_strike():
        pytest.skip(NOT_HERE)

    reached = go_through("place", nullcontext, step=STEP, calls=[IN_BOTH])

    assert reached.problems == []
    assert min(reached.threads[0], reached.threads[1]) > 0
    assert {call.partition(" ")[0] for call in reached.points} == {IN_BOTH}
    record_property(STRIKES, reached.threads.total())


@pytest.mark.parametrize(
    ("main", "journal", "lacking"),
    [
        (3, 1, []),
        (3, 0, ["NOTHING SHOWN: no points of the journal thread"]),
        (0, 1, ["NOTHING SHOWN: no points of the main thread"]),
    ],
)
def test_a_flow_in_which_a_thread_was_never_killed_has_shown_nothing(
    main: int, journal: int, lacking: list[str]
) -> None:
    assert Reached("place", threads=Counter({0: main, 1: journal})).undone() == lacking
