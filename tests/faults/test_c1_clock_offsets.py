"""C1: how far the broker's clock is from ours, and when that stops writes."""

from datetime import datetime, timedelta
from email.utils import format_datetime

import pytest

from bot.broker.clock_offset import ClockOffset
from bot.clock import SimulatedClock
from tests.broker.loopback import START
from tests.rows import every_row

LATENCY = timedelta(milliseconds=80)


class Bench:
    """Answers of a broker whose clock is off by as much as the test says."""

    def __init__(self) -> None:
        self.clock = SimulatedClock(START)
        self.offset = ClockOffset(self.clock)

    def answer(self, offset_s: float, *, after_s: float = 0.73) -> timedelta:
        sent_at = self.clock.now() + timedelta(seconds=after_s)
        broker = sent_at + LATENCY / 2 + timedelta(seconds=offset_s)
        self.clock.advance_to(sent_at + LATENCY)
        self.observe(broker.replace(microsecond=0), sent_at)
        return self.offset.value

    def observe(self, date: datetime, sent_at: datetime) -> None:
        headers = {"date": format_datetime(date, usegmt=True)}
        self.offset.observe(headers, sent_at=sent_at, answered_at=sent_at + LATENCY)


@pytest.mark.one_strike
@every_row("offset_s", [-600, -40, -25, -3, -0.6, 0, 0.6, 3, 25, 40, 600])
def test_the_offset_is_found_to_within_a_second(offset_s):
    bench = Bench()

    for _ in range(8):
        bench.answer(offset_s)

    assert abs(bench.offset.value - timedelta(seconds=offset_s)) <= timedelta(seconds=1)


def test_a_clock_that_may_be_right_is_left_alone():
    bench = Bench()

    assert {bench.answer(0.02) for _ in range(20)} == {timedelta(0)}


@pytest.mark.parametrize("offset_s", [-3600, 3600, 15])
def test_one_wrong_date_moves_nothing(offset_s):
    bench = Bench()

    values = [bench.answer(0), bench.answer(offset_s), bench.answer(0), bench.answer(offset_s)]

    assert values == [timedelta(0)] * 4


def test_the_very_first_date_is_not_believed_alone_when_it_says_that_we_are_wrong():
    bench = Bench()

    first, second = bench.answer(40), bench.answer(40)

    assert first == timedelta(0)
    assert abs(second - timedelta(seconds=40)) <= timedelta(seconds=1)


@pytest.mark.one_strike
def test_a_step_of_a_clock_is_followed_after_two_answers():
    bench = Bench()
    for _ in range(5):
        bench.answer(0)

    bench.answer(-600)
    value = bench.answer(-600)

    assert abs(value + timedelta(seconds=600)) <= timedelta(seconds=1)


def test_rows_of_what_was_sent_are_judged_by_the_last_estimate_by_which_it_could_leave():
    bench = Bench()
    for _ in range(5):
        bench.answer(7)
    sent_by = bench.offset.of_sends

    for _ in range(2):
        bench.answer(3_600)

    assert abs(sent_by - timedelta(seconds=7)) <= timedelta(seconds=1)
    assert (bench.offset.blocks_writes, bench.offset.of_sends) == (True, sent_by)


def test_a_slow_drift_is_followed():
    bench = Bench()

    for number in range(200):
        bench.answer(number / 20, after_s=30.73)

    assert abs(bench.offset.value - timedelta(seconds=10)) <= timedelta(seconds=1.2)


@pytest.mark.parametrize(
    ("offset_s", "warns", "blocks"),
    [(0, False, False), (3, False, False), (7, True, False), (-7, True, False), (25, True, True)],
)
def test_writes_stop_at_twenty_seconds_and_a_warning_comes_at_five(offset_s, warns, blocks):
    told: list[timedelta] = []
    bench = Bench()
    bench.offset = ClockOffset(bench.clock, told.append)
    for _ in range(4):
        bench.answer(offset_s)

    assert (bool(told), bench.offset.blocks_writes) == (warns, blocks)


def test_the_warning_is_given_once_for_each_time_that_the_clock_goes_wrong():
    told: list[timedelta] = []
    bench = Bench()
    bench.offset = ClockOffset(bench.clock, told.append)

    for offset_s in (0, 0, 7, 7, 7, 0, 0, 0, -7, -7, -7):
        bench.answer(offset_s)

    assert [round(each.total_seconds()) for each in told] == [7, 0, -7]


def test_a_clock_that_goes_on_to_where_writes_stop_is_told_of_again():
    told: list[timedelta] = []
    bench = Bench()
    bench.offset = ClockOffset(bench.clock, told.append)

    for offset_s in (0, 8, 8, 8, 25, 25, 25, 8, 8):
        bench.answer(offset_s)

    assert [round(each.total_seconds()) for each in told] == [8, 25, 8]


def test_a_clock_on_the_border_is_told_of_once():
    told: list[timedelta] = []
    bench = Bench()
    bench.offset = ClockOffset(bench.clock, told.append)

    for offset_s in (0, 20.6, 20.6, 19.3, 19.3, 20.6, 20.6, 19.3, 19.3):
        bench.answer(offset_s)

    assert len(told) == 1


def test_where_writes_stop_is_a_setting():
    bench = Bench()
    bench.offset = ClockOffset(bench.clock, max_offset=timedelta(seconds=7))
    for _ in range(4):
        bench.answer(8)

    assert bench.offset.blocks_writes


def test_now_is_the_brokers_time():
    bench = Bench()
    for _ in range(6):
        bench.answer(40)

    assert bench.offset.now() == bench.clock.now() + bench.offset.value


@pytest.mark.parametrize(
    "date",
    [
        "",
        "yesterday",
        "Thu, 99 Nov 2026 02:14:55 GMT",
        "Thu",
        "Fri, 31 Dec 9999 23:59:59 GMT",
        "Fri, 31 Dec 9999 23:00:00 GMT",
        "Wed, 31 Dec 1969 23:59:59 GMT",
    ],
)
def test_a_date_that_cannot_be_read_is_ignored(date):
    offset = ClockOffset(SimulatedClock(START))

    for _ in range(3):
        offset.observe({"date": date}, sent_at=START, answered_at=START)

    assert offset.value == timedelta(0)


def test_where_the_broker_refuses_the_estimate_our_own_clock_is_tried_and_the_estimate_again():
    bench = Bench()
    hour = bench.answer(3600), bench.answer(3600)
    seen = [bench.offset.applied]

    for _ in range(2):
        by = bench.offset.applied
        bench.offset.note_refused(by)
        bench.offset.note_refused(by)  # was under way together with it
        bench.answer(3600)
        seen.append(bench.offset.applied)

    assert seen[0] == hour[1]
    assert seen[1] == timedelta(0)
    assert abs(seen[2] - seen[0]) < timedelta(seconds=1)
    assert bench.offset.blocks_writes


@pytest.mark.parametrize(("age", "is_believed"), [("25", False), ("0", True), ("", True)])
def test_a_date_out_of_a_cache_says_nothing_of_our_clock(age, is_believed):
    bench = Bench()
    old = {"date": format_datetime(START - timedelta(seconds=25), usegmt=True), "age": age}

    for _ in range(3):
        bench.offset.observe(old, sent_at=START, answered_at=START + LATENCY)

    assert (bench.offset.value != timedelta(0)) is is_believed


def test_a_clock_that_moves_is_believed_again():
    bench = Bench()
    for offset_s in (3600, 3600):
        bench.answer(offset_s)
    bench.offset.note_refused(bench.offset.applied)

    for offset_s in (25, 25):
        bench.answer(offset_s)

    assert bench.offset.applied == bench.offset.value != timedelta(0)
