"""A1: 2FA sessions that end in the middle of orders, each with one of the broker's four words."""

from collections.abc import Callable

import pytest

from bot.domain.outcome import TWO_FACTOR_CODES
from tests.faults.strikes import STRIKES, times
from tests.simulation.expiries import Tally, live_through

FEW = 8


@pytest.mark.long
def test_nothing_is_sent_without_a_fresh_check_after_a_session_has_ended(
    record_property: Callable[[str, object], None],
) -> None:
    tally, wanted = Tally(), times("A1", FEW)

    for seed in range(wanted):
        live_through(seed, tally, wanted)
        assert tally.wrong == []
        if tally.expiries >= wanted:
            break

    assert tally.codes.keys() == TWO_FACTOR_CODES
    assert min(tally.held, tally.sent_after, tally.looks) > 0
    record_property(STRIKES, tally.expiries)
