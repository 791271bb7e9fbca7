"""Trading days."""

from datetime import date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.domain.calendar import Closure, DayStatus, TradingCalendar, day_words
from bot.domain.errors import CalendarEnds, RuleDataError
from bot.domain.hours import hours_at
from bot.domain.instrument import EXCHANGE_TZ, Exchange, Phase
from bot.domain.rule_data import RuleData
from bot.domain.rulebook import Rulebook
from tests.domain.vectors import VECTORS
from tests.rows import every_row

DAYS_OF_2026 = [date(2026, 1, 1) + timedelta(days=n) for n in range(365)]
SMALL = TradingCalendar({2026: DayStatus.CONFIRMED}, {})


@pytest.fixture(scope="session")
def calendar(rulebook: Rulebook) -> TradingCalendar:
    return rulebook.calendar


@pytest.mark.parametrize(("year", "count"), VECTORS["trading_days"])
def test_a_year_has_as_many_trading_days_as_counted(calendar, year, count):
    assert sum(day.year == year for day in calendar.trading_days) == count


def test_2026_is_closed_on_its_weekends_and_fourteen_weekdays(calendar):
    closed = [day for day in DAYS_OF_2026 if not calendar.is_trading_day(day)]

    assert len([day for day in closed if day.weekday() > 4]) == 104
    assert len([day for day in closed if day.weekday() < 5]) == 14


@pytest.mark.parametrize("day", ["2025-04-26", "2026-01-10", "2026-08-22"])
def test_a_make_up_saturday_does_not_trade(calendar, day):
    assert not calendar.is_trading_day(date.fromisoformat(day))


def test_a_swap_decided_late_is_a_closed_day(calendar):
    assert calendar.closures[date(2026, 1, 2)].status is DayStatus.CONFIRMED
    assert not calendar.is_trading_day(date(2026, 1, 2))


def test_a_proposed_swap_is_open_but_known_as_a_doubt(calendar):
    monday = date(2026, 11, 23)

    assert calendar.is_trading_day(monday)
    assert calendar.doubts[monday].status is DayStatus.PROVISIONAL


@pytest.mark.parametrize("day", [date(2023, 12, 29), date(2028, 1, 3)])
def test_a_day_of_an_unknown_year_is_closed_and_counts_for_nothing(calendar, day):
    assert not calendar.covers(day)
    assert not calendar.is_trading_day(day)
    with pytest.raises(CalendarEnds, match=str(day)):
        calendar.next_trading_day(day)


def test_counting_past_the_last_known_year_is_an_error(calendar):
    with pytest.raises(CalendarEnds) as caught:
        calendar.add_trading_days(date(2027, 12, 30), 2)

    assert caught.value.day == date(2028, 1, 1)


@pytest.mark.parametrize(
    ("day", "n", "found"),
    [
        ("2026-11-20", 0, "2026-11-20"),
        ("2026-11-20", 1, "2026-11-23"),
        ("2026-11-20", 2, "2026-11-25"),
        ("2026-11-22", 0, "2026-11-20"),
        ("2026-11-22", 1, "2026-11-23"),
        ("2026-11-23", -1, "2026-11-20"),
    ],
)
def test_trading_days_are_counted_from_any_day(calendar, day, n, found):
    assert calendar.add_trading_days(date.fromisoformat(day), n) == date.fromisoformat(found)


@given(st.sampled_from(DAYS_OF_2026))
def test_the_next_trading_day_is_the_first_open_one_after(day):
    following = (day + timedelta(days=n) for n in range(1, 8))

    expected = next((d for d in following if SMALL.is_trading_day(d)), None)

    if expected is not None:
        assert SMALL.next_trading_day(day) == expected


# --------------------------------------------------------------------------------- override


def override(**data: object) -> RuleData:
    return RuleData(data)


def test_an_operator_closes_a_day_at_once(calendar):
    monday = date(2026, 11, 23)

    changed = calendar.with_override(override(closed=[{"date": "2026-11-23", "name": "Swap"}]))

    assert not changed.is_trading_day(monday)
    assert changed.closures[monday] == Closure(monday, "Swap", DayStatus.OPERATOR)
    assert monday not in changed.doubts
    assert changed.add_trading_days(date(2026, 11, 20), 2) == date(2026, 11, 26)
    assert calendar.is_trading_day(monday)


def test_an_operator_opens_a_day_that_was_closed_by_mistake(calendar):
    changed = calendar.with_override(override(open=[{"date": "2027-09-03"}]))

    assert changed.is_trading_day(date(2027, 9, 3))


@pytest.mark.parametrize("day", ["2026-11-28", "2026-11-29", "2026-11-26"])
def test_no_override_opens_a_weekend_or_what_is_open(calendar, day):
    with pytest.raises(RuleDataError, match=r"^open\[0\]: wanted a weekday .* weekend never"):
        calendar.with_override(override(open=[{"date": day}]))


def test_an_operator_may_add_the_next_year(calendar):
    closed = [{"date": "2028-01-24", "name": "Tet"}]

    changed = calendar.with_override(override(years={2028: "CONFIRMED"}, closed=closed))

    assert changed.is_trading_day(date(2028, 1, 3))
    assert not changed.is_trading_day(date(2028, 1, 24))


@every_row(
    ("data", "message"),
    [
        ({"years": {2030: "CONFIRMED"}}, "years without a gap"),
        ({"years": {"next": "CONFIRMED"}}, "years.next: wanted a year like 2028"),
        ({"years": {2028: "SURE"}}, "years.2028: wanted one of CONFIRMED"),
        ({"closed": [{"date": "23/11/2026", "name": "x"}]}, r"closed\[0\].date: wanted a date"),
        ({"closed": [{"date": "2026-11-28", "name": "x"}]}, "wanted a weekday"),
        ({"closed": [{"date": "2026-11-23"}]}, "wanted the key 'name'"),
        ({"closed": [{"date": "2026-11-23", "name": "x", "why": "y"}]}, r"\.why: wanted one of"),
        ({"closed": {"2026-11-23": "x"}}, "closed: wanted a list"),
        ({"closed": [{"date": "2026-11-23", "name": "x"}] * 2}, "each day once"),
    ],
)
def test_an_override_that_makes_no_sense_names_its_place(calendar, data, message):
    with pytest.raises(RuleDataError, match=message):
        calendar.with_override(override(**data))


HALF = {"early_closes": [{"date": "2026-11-19", "at": "11:00", "name": "system down"}]}


def test_a_day_that_ends_early_is_closed_from_then_on_and_the_next_is_whole(rulebook):
    early = rulebook.with_override(HALF)

    def at(day, hour, minute):
        return datetime(2026, 11, day, hour, minute, tzinfo=EXCHANGE_TZ)

    assert early.phase_at(Exchange.HOSE, at(19, 10, 59)) is Phase.PROGRESS
    assert early.phase_at(Exchange.HNX, at(19, 11, 0)) is Phase.CLOSED
    assert early.phase_at(Exchange.HOSE, at(19, 14, 0)) is Phase.CLOSED
    assert early.next_phase_change(Exchange.HOSE, at(19, 10, 0)).at == at(19, 11, 0)
    assert early.next_phase_change(Exchange.HOSE, at(19, 11, 0)).at == at(20, 9, 0)
    assert early.next_step(Exchange.UPCOM, at(19, 10, 0)) == at(19, 11, 0)
    assert early.next_uncross(Exchange.HOSE, at(19, 10, 0)) is None
    assert early.phase_at(Exchange.HOSE, at(20, 14, 0)) is Phase.PROGRESS
    hours = hours_at(early, [Exchange.HOSE], at(19, 9, 30))
    assert hours is not None
    assert (hours.opens, hours.closes) == (at(19, 9, 0), at(19, 11, 0))


def test_a_day_that_ends_early_says_so_and_outlives_a_look_at_the_doubts(rulebook):
    early = rulebook.with_override(HALF).calendar

    day = date(2026, 11, 19)
    said = "Thu 2026-11-19, a trading day that ends at 11:00: system down"
    assert day_words(early, day) == day_words(early.if_doubts_close(), day) == said


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"date": "2026-11-21", "at": "11:00", "name": "x"},
            r"early_closes\[0\].date: wanted a tr",
        ),
        ({"date": "2026-11-19", "at": "08:00", "name": "x"}, r"\.at: wanted after 09:00 and by 15"),
        ({"date": "2026-11-19", "at": "15:01", "name": "x"}, r"\.at: wanted after 09:00 and by 15"),
        ({"date": "2026-11-19", "name": "x"}, "wanted the key 'at'"),
        ({"date": "2026-11-19", "at": "11:00", "name": "x", "for": 1}, r"\.for: wanted one of"),
    ],
)
def test_an_early_close_that_makes_no_sense_names_its_place(rulebook, row, message):
    with pytest.raises(RuleDataError, match=message):
        rulebook.with_override({"early_closes": [row]})
