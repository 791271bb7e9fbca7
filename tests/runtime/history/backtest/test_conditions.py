"""A result says what it rests on."""

from dataclasses import replace
from datetime import time, timedelta

from bot.domain.calendar import EarlyClose
from bot.runtime.history.backtest.conditions import assumptions_of
from tests.runtime.history.backtest.gears import spec_of


def test_a_day_that_ended_early_is_named() -> None:
    spec = spec_of(6)
    days = (spec.first, spec.last + timedelta(days=1))
    early = {day: EarlyClose(day, time(10, 30), "a storm") for day in days}
    calendar = replace(spec.rulebook.calendar, early_closes=early)

    said = assumptions_of(replace(spec, rulebook=replace(spec.rulebook, calendar=calendar)))

    [named] = [each for each in said if "storm" in each]
    assert named == f"{spec.first} ends at 10:30 (a storm): bars of later are left out"
    assert not [each for each in assumptions_of(spec) if "ends at" in each]
