"""The timetable: triggers are APScheduler's, the walk is ours."""

import asyncio
from datetime import UTC, date, datetime, time, timedelta

import pytest

from bot.config.rulebook import load_rulebook
from bot.domain.calendar import Closure, DayStatus, TradingCalendar
from bot.domain.instrument import Exchange
from bot.runtime.timetable.schedule import (
    Fire,
    Job,
    OnTradingDays,
    Overlaps,
    PhaseTrigger,
    Started,
    Timetable,
    WhenMissed,
    WhenOverlapping,
    daily_at,
    every,
    once,
)

START = datetime(2026, 11, 19, 2, 14, 55, tzinfo=UTC)  # 09:14:55 in Vietnam


def _walk(timetable: Timetable, until: datetime) -> None:
    while (due := timetable.next_due()) is not None and due <= until:
        timetable.fire_due(due)


def test_jobs_fire_at_their_times_and_in_the_order_given() -> None:
    fired: list[tuple[str, str]] = []

    def note(name: str) -> Fire:
        return lambda due: fired.append((name, f"{due:%H:%M:%S}"))

    timetable = Timetable(
        [
            Job("slow", every(timedelta(seconds=10), start=START), note("slow")),
            Job("quick", every(timedelta(seconds=5), start=START), note("quick")),
        ],
        START,
    )

    _walk(timetable, START + timedelta(seconds=10))

    assert fired == [
        ("slow", "02:14:55"),
        ("quick", "02:14:55"),
        ("quick", "02:15:00"),
        ("slow", "02:15:05"),
        ("quick", "02:15:05"),
    ]


def test_times_that_were_jumped_over_are_one_run_for_the_last_of_them() -> None:
    fired: list[datetime] = []
    timetable = Timetable(
        [Job("poll", every(timedelta(seconds=5), start=START), fired.append)], START
    )

    (firing,) = timetable.fire_due(START + timedelta(seconds=63))

    assert fired == [START + timedelta(seconds=60)]
    assert (firing.first, firing.count, firing.missed) == (START, 13, 12)
    assert timetable.next_due() == START + timedelta(seconds=65)


def test_a_day_that_begins_after_a_weekend_asleep_is_the_last_one() -> None:
    fired: list[str] = []
    thursday, monday = START, START + timedelta(days=4)
    day = Job("day", daily_at(time(8, 30)), lambda due: fired.append(f"{due:%a %H:%M}"))

    (firing,) = Timetable([day], thursday).fire_due(monday)

    assert fired == ["Mon 01:30"]
    assert (f"{firing.first:%a}", firing.count, firing.missed) == ("Fri", 2, 1)


@pytest.mark.parametrize(
    ("late_s", "missed", "runs", "count"),
    [
        (59, WhenMissed.LIST, 1, 0),
        (60, WhenMissed.LIST, 1, 0),
        (61, WhenMissed.LIST, 0, 1),
        (61, WhenMissed.RUN_ONCE, 1, 1),
    ],
)
def test_a_job_that_is_later_than_it_may_be_is_missed(
    late_s: int, missed: WhenMissed, runs: int, count: int
) -> None:
    fired: list[datetime] = []
    trigger = daily_at(time(9, 20))
    job = Job("timer", trigger, fired.append, late_max=timedelta(seconds=60), missed=missed)
    due = datetime(2026, 11, 19, 2, 20, tzinfo=UTC)

    (firing,) = Timetable([job], START).fire_due(due + timedelta(seconds=late_s))

    assert (len(fired), firing.missed, firing.is_run) == (runs, count, runs == 1)


@pytest.mark.parametrize(
    ("policy", "begun"),
    [(WhenOverlapping.SKIP, ["15", "45"]), (WhenOverlapping.QUEUE, ["15", "35", "45"])],
)
async def test_a_run_that_is_due_while_the_last_one_works_follows_the_policy(
    policy: WhenOverlapping, begun: list[str]
) -> None:
    begins, told, done = list[str](), list[str](), asyncio.Event()

    def fire(due: datetime) -> Started:
        begins.append(f"{due:%S}")
        return asyncio.create_task(hang(done))

    async def hang(until: asyncio.Event) -> None:
        await until.wait()

    overlaps = Overlaps(lambda job, due: told.append(f"{job.name} {due:%S}"))
    job = Job("slow", every(timedelta(seconds=10), start=START), fire, overlapping=policy)

    for seconds in (15, 25, 35):
        overlaps.fire(job, START.replace(second=seconds))
    done.set()
    for _ in range(5):
        await asyncio.sleep(0)
    overlaps.fire(job, START.replace(second=45))

    assert begins == begun
    assert told == (["slow 25"] if policy is WhenOverlapping.QUEUE else ["slow 25", "slow 35"])


def test_the_phase_trigger_fires_at_every_boundary_of_the_exchange() -> None:
    fired: list[str] = []
    trigger = PhaseTrigger(load_rulebook(), Exchange.HOSE)
    timetable = Timetable(
        [Job("phase", trigger, lambda due: fired.append(f"{due:%d %H:%M}"))], START
    )

    _walk(timetable, START + timedelta(days=1))

    assert fired == [
        "19 02:15",
        "19 04:30",
        "19 06:00",
        "19 07:30",
        "19 07:45",
        "19 08:00",
        "20 02:00",
    ]


def test_a_daily_time_is_local_and_leaves_out_weekends() -> None:
    fired: list[str] = []
    friday = datetime(2026, 11, 20, 2, 0, tzinfo=UTC)
    timetable = Timetable(
        [Job("timer", daily_at(time(14, 20)), lambda due: fired.append(f"{due:%a %H:%M}"))], friday
    )

    _walk(timetable, friday + timedelta(days=5))

    assert fired == ["Fri 07:20", "Mon 07:20", "Tue 07:20"]


def test_a_time_of_trading_days_leaves_out_holidays_and_ends_with_the_calendar() -> None:
    calendar = TradingCalendar(
        {2026: DayStatus.CONFIRMED},
        {date(2026, 12, 30): Closure(date(2026, 12, 30), "made up", DayStatus.OPERATOR)},
    )
    fired: list[str] = []
    job = Job(
        "end", OnTradingDays(calendar, time(15, 15)), lambda due: fired.append(f"{due:%a %d}")
    )

    timetable = Timetable([job], datetime(2026, 12, 28, 8, 15, tzinfo=UTC))
    _walk(timetable, datetime(2027, 3, 1, tzinfo=UTC))

    assert fired == ["Mon 28", "Tue 29", "Thu 31"]
    assert timetable.next_due() is None


def test_a_job_that_is_over_is_due_no_more():
    job = Job("check", once(START), lambda _: None)

    assert job.next_due(START) == START
    assert job.next_due(START + timedelta(seconds=1)) is None


def test_a_day_that_ends_early_has_its_end_a_while_after_the_close() -> None:
    closes = [{"date": "2026-12-29", "at": "11:00", "name": "system down"}]
    calendar = load_rulebook().with_override({"early_closes": closes}).calendar
    fired: list[str] = []
    ends = OnTradingDays(calendar, time(15, 15), timedelta(minutes=15))

    timetable = Timetable(
        [Job("end", ends, lambda due: fired.append(f"{due + timedelta(hours=7):%d %H:%M}"))],
        datetime(2026, 12, 28, 2, tzinfo=UTC),
    )
    _walk(timetable, datetime(2026, 12, 30, 9, tzinfo=UTC))

    assert fired == ["28 15:15", "29 11:15", "30 15:15"]


@pytest.mark.parametrize(
    ("at", "last"),
    [
        ("20 14:39:59", "19 14:40"),
        ("20 14:40:00", "20 14:40"),
        ("21 03:00:00", "20 14:40"),
        ("23 14:00:00", "20 14:40"),
    ],
)
def test_the_last_time_of_a_trading_day_is_found_from_any_day(at: str, last: str) -> None:
    instant = datetime.fromisoformat(f"2026-11-{at.replace(' ', 'T')}+07:00")

    found = TIMER.last_until(instant)

    assert found is not None
    assert f"{found + timedelta(hours=7):%d %H:%M}" == last


def test_before_the_calendar_begins_there_is_no_last_time() -> None:
    assert TIMER.last_until(datetime(1990, 1, 2, 12, tzinfo=UTC)) is None


TIMER = OnTradingDays(load_rulebook().calendar, time(14, 40))
FRIDAY = datetime(2026, 11, 20, 7, 0, tzinfo=UTC)  # 14:00 in Vietnam


def nothing(_due: datetime) -> None:
    pass


def test_what_passed_while_no_bot_was_there_is_listed_and_never_replayed() -> None:
    timer = Job("timer", TIMER, nothing, timedelta(seconds=30), WhenMissed.LIST)

    firing = timer.passed_while_down(FRIDAY - timedelta(days=2), FRIDAY)

    assert firing is not None
    assert (f"{firing.first:%d}", f"{firing.due:%d}", firing.missed) == ("18", "19", 2)
    assert not firing.is_run


@pytest.mark.parametrize(("hours", "runs"), [(1, True), (60, False)])
def test_what_is_run_once_is_so_for_a_time_of_today_alone(hours: int, runs: bool) -> None:
    end = Job("day's end", TIMER, nothing)

    firing = end.passed_while_down(FRIDAY, FRIDAY + timedelta(hours=hours))

    assert firing is not None
    assert (firing.missed, firing.is_run) == (1, runs)


def test_what_a_start_does_itself_and_polls_are_not_missed_while_down() -> None:
    day = Job("day", TIMER, nothing, done_by_start=True)
    poll = Job("poll", every(timedelta(seconds=5), start=FRIDAY), nothing)
    later = FRIDAY + timedelta(days=3)

    assert [job.passed_while_down(FRIDAY, later) for job in (day, poll)] == [None, None]
    assert Job("timer", TIMER, nothing).passed_while_down(FRIDAY, FRIDAY) is None
