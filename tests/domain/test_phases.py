"""The trading day by the minute."""

from datetime import UTC, date, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.config.rulebook import load_rulebook
from bot.domain.errors import RuleDataError
from bot.domain.instrument import EXCHANGE_TZ, Exchange, Phase
from bot.domain.rule_data import RuleData
from bot.domain.rulebook import Rulebook
from bot.domain.timetable import PhaseBoundary, Timetable
from tests.domain.vectors import VECTORS
from tests.rows import every_row

NEW_YEAR = datetime(2025, 1, 1, tzinfo=UTC)
THURSDAY, FRIDAY = date(2026, 11, 19), date(2026, 11, 20)
INSTANT = timedelta(microseconds=1)
HOSE, HNX, UPCOM = Exchange.HOSE, Exchange.HNX, Exchange.UPCOM


def local(day: date, text: str) -> datetime:
    return datetime.combine(day, time.fromisoformat(text), tzinfo=EXCHANGE_TZ)


@every_row(("exchange", "clock", "phase"), VECTORS["states"])
def test_the_phase_is_as_published(rulebook, exchange, clock, phase):
    assert rulebook.phase_at(Exchange[exchange], local(THURSDAY, clock)) is Phase[phase]


BOUNDARIES = {
    HOSE: "00:00 CLOSED 09:00 OPEN 09:15 PROGRESS 11:30 BREAK 13:00 PROGRESS "
    "14:30 PRE_CLOSED 14:45 PUT_THROUGH 15:00 CLOSED",
    HNX: "00:00 CLOSED 09:00 PROGRESS 11:30 BREAK 13:00 PROGRESS "
    "14:30 PRE_CLOSED 14:45 POST_SESSION 15:00 CLOSED",
    UPCOM: "00:00 CLOSED 09:00 PROGRESS 11:30 BREAK 13:00 PROGRESS 15:00 CLOSED",
    Exchange.HCX: "00:00 CLOSED 09:00 PROGRESS 11:30 BREAK 13:00 PROGRESS "
    "14:30 PRE_CLOSED 14:45 PUT_THROUGH 15:00 CLOSED",
}
STEPS = [
    (exchange, start, Phase[before], Phase[after])
    for exchange, words in BOUNDARIES.items()
    for start, before, after in zip(
        words.split()[2::2], words.split()[1::2], words.split()[3::2], strict=False
    )
]


@every_row(("exchange", "start", "before", "after"), STEPS)
def test_a_phase_begins_at_its_very_instant(rulebook, exchange, start, before, after):
    boundary = local(THURSDAY, start)

    assert rulebook.phase_at(exchange, boundary - INSTANT) is before
    assert rulebook.phase_at(exchange, boundary) is after
    assert rulebook.next_phase_change(exchange, boundary - INSTANT) == PhaseBoundary(
        boundary.astimezone(UTC), after
    )


@every_row("day", [date(2026, 11, 21), date(2026, 11, 24), date(2026, 8, 22)])
@every_row("exchange", Exchange)
def test_a_closed_day_is_closed_at_every_minute(rulebook, exchange, day):
    minutes = (local(day, "00:00") + timedelta(minutes=n) for n in range(0, 24 * 60, 5))

    assert {rulebook.phase_at(exchange, at) for at in minutes} == {Phase.CLOSED}


def test_the_phase_does_not_depend_on_the_zone_of_the_instant(rulebook: Rulebook):
    assert rulebook.phase_at(HOSE, datetime(2026, 11, 19, 2, 15, tzinfo=UTC)) is Phase.PROGRESS


def test_late_evening_in_utc_is_the_next_local_day(rulebook: Rulebook):
    sunday_evening = datetime(2026, 11, 22, 17, 0, tzinfo=UTC)

    assert rulebook.next_phase_change(HOSE, sunday_evening).at == datetime(
        2026, 11, 23, 2, 0, tzinfo=UTC
    )


@pytest.mark.parametrize(
    ("exchange", "after", "boundary", "phase"),
    [
        (HOSE, local(FRIDAY, "15:00"), local(date(2026, 11, 23), "09:00"), Phase.OPEN),
        (HNX, local(FRIDAY, "23:59"), local(date(2026, 11, 23), "09:00"), Phase.PROGRESS),
        (UPCOM, local(date(2026, 11, 23), "18:00"), local(date(2026, 11, 25), "09:00"), "PROGRESS"),
        (HOSE, local(date(2026, 2, 13), "15:00"), local(date(2026, 2, 23), "09:00"), Phase.OPEN),
    ],
)
def test_the_change_after_the_close_is_the_next_opening(rulebook, exchange, after, boundary, phase):
    found = rulebook.next_phase_change(exchange, after)

    assert found == PhaseBoundary(boundary.astimezone(UTC), Phase[phase])


def test_a_step_inside_a_phase_is_no_phase_change(rulebook: Rulebook):
    collecting = rulebook.span_at(HNX, local(THURSDAY, "14:54"))
    continuous = rulebook.span_at(HNX, local(THURSDAY, "14:55"))

    assert collecting is not None
    assert continuous is not None
    assert (collecting.step, continuous.step) == ("PLO_COLLECT", "PLO_CONTINUOUS")
    assert rulebook.next_phase_change(HNX, local(THURSDAY, "14:50")) == PhaseBoundary(
        local(THURSDAY, "15:00").astimezone(UTC), Phase.CLOSED
    )


@pytest.mark.parametrize(
    ("exchange", "times"),
    [(HOSE, "09:15 14:45"), (HNX, "14:45 14:55"), (UPCOM, ""), (Exchange.HCX, "14:45")],
)
def test_collected_orders_are_matched_at_the_published_times(rulebook, exchange, times):
    found, at = [], rulebook.next_uncross(exchange, local(THURSDAY, "00:00"))
    while at is not None:
        found.append(at.astimezone(EXCHANGE_TZ).strftime("%H:%M"))
        at = rulebook.next_uncross(exchange, at)

    assert found == times.split()


def test_nothing_is_matched_on_a_closed_day(rulebook: Rulebook):
    saturday = local(date(2026, 11, 21), "09:00")

    assert rulebook.next_uncross(HOSE, saturday) is None
    assert rulebook.span_at(HOSE, saturday) is None


def test_an_unknown_year_is_closed_and_asks_again_at_midnight(rulebook: Rulebook):
    monday = local(date(2028, 1, 3), "10:00")

    assert rulebook.phase_at(HOSE, monday) is Phase.CLOSED
    assert rulebook.next_phase_change(HOSE, monday) == PhaseBoundary(
        local(date(2028, 1, 4), "00:00").astimezone(UTC), Phase.CLOSED
    )


def test_the_last_known_day_ends_without_an_opening(rulebook: Rulebook):
    found = rulebook.next_phase_change(HOSE, local(date(2027, 12, 31), "15:00"))

    assert found == PhaseBoundary(local(date(2028, 1, 1), "00:00").astimezone(UTC), Phase.CLOSED)


@given(
    exchange=st.sampled_from(Exchange),
    at=st.timedeltas(timedelta(0), timedelta(days=1_090)).map(lambda since: NEW_YEAR + since),
)
def test_nothing_changes_before_the_next_change(exchange, at):
    rulebook = load_rulebook()
    boundary = rulebook.next_phase_change(exchange, at)

    assert boundary.at > at
    assert rulebook.phase_at(exchange, boundary.at) is boundary.phase
    assert rulebook.phase_at(exchange, boundary.at - INSTANT) is rulebook.phase_at(exchange, at)
    assert boundary.phase is not rulebook.phase_at(exchange, at)


@pytest.mark.parametrize(
    "spans",
    [
        [("00:00", "CLOSED"), ("09:00", "OPEN")],
        [("00:00", "CLOSED"), ("09:00", "OPEN"), ("15:00", "PROGRESS")],
        [("08:00", "CLOSED"), ("09:00", "OPEN"), ("15:00", "CLOSED")],
        [("00:00", "CLOSED"), ("09:00", "OPEN"), ("09:00", "BREAK"), ("15:00", "CLOSED")],
        [("00:00", "CLOSED"), ("15:00", "OPEN"), ("09:00", "CLOSED")],
    ],
)
def test_a_timetable_that_is_no_whole_day_is_refused(spans):
    rows = [{"start": start, "phase": phase} for start, phase in spans]

    with pytest.raises(RuleDataError, match="spans: wanted ascending spans"):
        Timetable.from_data(RuleData(rows, "spans"))
