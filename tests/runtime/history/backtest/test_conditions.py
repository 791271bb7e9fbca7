"""A result says what it rests on."""

from dataclasses import replace
from datetime import time, timedelta

from bot.domain.calendar import EarlyClose
from bot.runtime.history.backtest.conditions import assumptions_of, assumptions_of_recording
from bot.runtime.history.recording.recorded_days import RecordedDays
from bot.runtime.history.store.store import ListedBars
from tests.runtime.history.backtest.gears import spec_of
from tests.runtime.history.backtest.listed import bar


def test_a_day_that_ended_early_is_named() -> None:
    spec = spec_of(6)
    days = (spec.first, spec.last + timedelta(days=1))
    early = {day: EarlyClose(day, time(10, 30), "a storm") for day in days}
    calendar = replace(spec.rulebook.calendar, early_closes=early)

    said = assumptions_of(replace(spec, rulebook=replace(spec.rulebook, calendar=calendar)))

    [named] = [each for each in said if "storm" in each]
    assert named == f"{spec.first} ends at 10:30 (a storm): bars of later are left out"
    assert not [each for each in assumptions_of(spec) if "ends at" in each]


def test_a_result_says_that_no_token_is_missing() -> None:
    spec = spec_of(6)
    recorded = RecordedDays((), (), {}, {}, {}, ListedBars([bar("09:20", 27_000)]), ())

    over_bars = assumptions_of(spec)
    over_a_recording = assumptions_of_recording(spec, recorded, ())

    assert "no 2FA token is ever missing: on_2fa has no effect" in over_bars
    assert any(
        "no 2FA token is missing (on_2fa has no effect)" in each for each in over_a_recording
    )
