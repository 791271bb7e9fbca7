"""The first of the sixty days; all of them: python -m tests.simulation.sixty_days."""

from pathlib import Path

import pytest

from tests.simulation.sixty_days import SixtyDays

pytestmark = [pytest.mark.process, pytest.mark.timeout(240), pytest.mark.long]


def test_two_days_of_storms_leave_nothing_unexplained(tmp_path: Path) -> None:
    story = SixtyDays(tmp_path, seed=3)

    story.run(2)

    assert story.faults() == []
    assert min(story.counts["kills"], story.counts["fills"]) > 0
