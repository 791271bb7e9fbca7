"""P1: the daemon dies at a random moment under load, and nothing is lost, doubled or miscounted."""

from contextlib import nullcontext

import pytest

from tests.crash.kills import Tally, kill_often

pytestmark = [pytest.mark.wire, pytest.mark.process, pytest.mark.timeout(240)]

KILLS = 2


@pytest.mark.long  # the next one in make test, and fifty by tests.crash.kills
def test_a_bot_that_is_killed_again_and_again_loses_and_doubles_nothing() -> None:
    tally = Tally()

    kill_often(KILLS, 3, nullcontext(), tally)

    assert tally.kills >= KILLS
    assert tally.problems == []
    assert tally.orders > 0


@pytest.mark.postgres
def test_nor_does_one_with_its_journal_on_a_server(own_postgres_url: str) -> None:
    tally = Tally()

    kill_often(KILLS, 4, nullcontext(own_postgres_url), tally)

    assert tally.kills >= KILLS
    assert tally.problems == []
    assert tally.orders > 0
