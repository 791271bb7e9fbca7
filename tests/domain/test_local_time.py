"""An instant is told, and dated, by the exchange's clock: seven hours ahead of UTC."""

from datetime import UTC, date, datetime, time

from bot.domain.local_time import (
    clock_of,
    day_and_clock_of,
    instant_of,
    local_date,
    local_of,
    millis_of,
    minute_of,
)

LATE = datetime(2026, 11, 18, 17, 0, 5, 102_900, tzinfo=UTC)
"""Five seconds past midnight in Vietnam."""


def test_an_evening_in_utc_belongs_to_the_next_day_in_vietnam() -> None:
    assert local_date(LATE) == date(2026, 11, 19)
    assert local_of(LATE) == LATE
    assert local_of(LATE).time() == time(0, 0, 5, 102_900)


def test_screens_tell_an_instant_by_the_minute_second_and_millisecond() -> None:
    told = minute_of(LATE), clock_of(LATE), millis_of(LATE), day_and_clock_of(LATE)

    assert told == ("00:00", "00:00:05", "00:00:05.102", "2026-11-19 00:00:05")


def test_a_local_time_of_a_day_is_one_instant_in_utc() -> None:
    opening = instant_of(date(2026, 11, 19), time(9, 15))

    assert opening == datetime(2026, 11, 19, 2, 15, tzinfo=UTC)
    assert opening.tzinfo is UTC
