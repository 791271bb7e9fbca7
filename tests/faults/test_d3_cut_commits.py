"""D3: the connection to PostgreSQL breaks in the middle of a COMMIT, before or after it was done.

`python -m tests.crash.commits` breaks two hundred of them.
"""

from collections.abc import Callable

import pytest

from tests.crash.commits import break_often
from tests.faults.strikes import STRIKES

pytestmark = [pytest.mark.wire, pytest.mark.process, pytest.mark.timeout(240)]

BREAKS = 2


@pytest.mark.long
@pytest.mark.postgres
def test_a_commit_that_is_cut_in_the_middle_is_asked_about(
    own_postgres_url: str, record_property: Callable[[str, object], None]
) -> None:
    counts, problems = break_often(own_postgres_url, BREAKS, 2)

    assert problems == []
    broken = sum(count for what, count in counts.items() if "," in what)
    assert broken == BREAKS
    record_property(STRIKES, broken)
