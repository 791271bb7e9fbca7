"""A bot that was relieved says what of its halts and pauses the other one cannot know."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from bot.domain.entry import REDUCED_SCOPE, RunState, StateChanged
from bot.engine.control_state import BY_ENGINE
from bot.engine.gate import BY_LIMIT
from bot.journal.errors import LeaseLost
from bot.journal.writing.emergency import EmergencyJournal
from bot.runtime.emergency_file import only_here
from bot.runtime.journal_file import taken_over
from tests.engine.stage import START

RUNNING, PAUSED, HALTED = RunState.RUNNING, RunState.PAUSED, RunState.HALTED


def change(to_state: RunState, scope: str = "all", by: str = "operator") -> StateChanged:
    from_state = HALTED if to_state is RUNNING else RUNNING
    return StateChanged(START, from_state, to_state, "wrong prices", by, scope=scope)


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        ([change(HALTED)], "the halt of 09:30:00"),
        ([change(HALTED), change(RUNNING)], ""),
        ([change(PAUSED, "operator")], "the pause of 09:30:00"),
        ([change(HALTED, REDUCED_SCOPE)], "the pause of entries of 09:30:00"),
        ([change(HALTED, REDUCED_SCOPE), change(RUNNING, REDUCED_SCOPE)], ""),
        ([change(HALTED, by=BY_ENGINE)], ""),
        ([change(HALTED, by=BY_LIMIT)], ""),
        ([change(HALTED), change(HALTED, by=BY_ENGINE)], "the halt of 09:30:00"),
    ],
)
async def test_the_last_of_a_person_that_only_the_emergency_journal_has_is_named(
    tmp_path: Path, kept: Sequence[StateChanged], told: str
) -> None:
    emergency = EmergencyJournal(tmp_path)
    emergency.keep(kept)

    words = await only_here(emergency)

    assert bool(words) == bool(told)
    assert told in words


def test_another_journal_is_no_way_out_for_a_bot_that_was_relieved() -> None:
    said = str(taken_over(LeaseLost(ours=1, stored=2)))

    assert "Another journal.url is for a bot of its own: it knows nothing of the orders" in said
