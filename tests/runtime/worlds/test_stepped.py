"""The stepped market clock: stands while something is under way, then jumps in a fixed order."""

import asyncio
import math
from datetime import UTC, datetime, timedelta

from bot.clock import SimulatedClock
from bot.runtime.activity import Activity, OneAtATime, Tasks
from bot.runtime.timetable.schedule import Job, Timetable, every
from bot.runtime.worlds.stepped import SteppedMarket, SteppedWaiter

START = datetime(2026, 11, 19, 2, 14, 55, tzinfo=UTC)
FAST = 1e9


def ignore(_error: BaseException) -> None:
    """What goes wrong is not what these tests are about."""


class Beat:
    """A market in which something happens every four seconds."""

    def __init__(self, log: list[str]) -> None:
        self._log = log
        self._next = START + timedelta(seconds=4)

    def next_due(self) -> datetime | None:
        return self._next

    def advance(self, to: datetime) -> None:
        while self._next <= to:
            self._log.append(f"market {self._next:%M:%S}")
            self._next += timedelta(seconds=4)


class Stand:
    """Everything that a stepped market needs, and a log of what happened when."""

    def __init__(self, speed: float = FAST) -> None:
        self.log: list[str] = []
        self.is_code_out = False
        self.clock = SimulatedClock(START)
        self.activity = Activity()
        self.turn = OneAtATime()
        self.waiter = SteppedWaiter(self.clock, self.activity, self.turn)
        self.tasks = Tasks(self.activity, self.turn, on_bug=ignore)
        self.stopping = asyncio.Event()
        timetable = Timetable(
            [Job("job", every(timedelta(seconds=4), start=START), self._job)], START
        )
        self.market = SteppedMarket(
            clock=self.clock,
            activity=self.activity,
            waiter=self.waiter,
            market=Beat(self.log),
            timetable=timetable,
            on_due=lambda due: self.log.append(f"engine {due:%M:%S}"),
            speed=speed,
            is_code_out=lambda: self.is_code_out,
        )

    def _job(self, due: datetime) -> None:
        self.log.append(f"job {due:%M:%S}")
        if due >= START + timedelta(seconds=8):
            self.stopping.set()


async def test_what_is_due_at_one_instant_happens_in_a_fixed_order() -> None:
    stand = Stand()
    stand.market.wake_at(START + timedelta(seconds=4))

    await stand.market.run(stand.stopping)

    assert stand.log == [
        "job 14:55",
        "market 14:59",
        "job 14:59",
        "engine 14:59",
        "market 15:03",
        "job 15:03",
    ]


async def test_without_a_pace_the_clock_stops_only_where_we_do_something() -> None:
    stand, seen = Stand(speed=math.inf), set[datetime]()
    stand.market.wake_at(START + timedelta(seconds=7))

    walking = asyncio.create_task(stand.market.run(stand.stopping))
    while not walking.done():
        seen.add(stand.clock.now())
        await asyncio.sleep(0)

    assert [f"{at:%S}" for at in sorted(seen)] == ["55", "59", "02", "03"]
    assert stand.log == [
        "job 14:55",
        "market 14:59",
        "job 14:59",
        "engine 15:02",
        "market 15:03",
        "job 15:03",
    ]


async def test_the_clock_stands_while_work_is_under_way() -> None:
    stand = Stand()
    seen: list[datetime] = []

    async def work() -> None:
        await asyncio.sleep(0.02)
        seen.append(stand.clock.now())

    stand.tasks.spawn(work(), "work")
    await stand.market.run(stand.stopping)

    assert seen == [START]


async def test_a_waiter_gives_its_turn_away_and_goes_on_at_its_instant() -> None:
    stand = Stand()
    told: list[str] = []

    async def patient() -> None:
        await stand.waiter.sleep_until(START + timedelta(seconds=5))
        told.append(f"patient {stand.clock.now():%M:%S}")

    async def quick() -> None:
        told.append(f"quick {stand.clock.now():%M:%S}")

    stand.tasks.spawn(patient(), "patient")
    stand.tasks.spawn(quick(), "quick")
    await stand.market.run(stand.stopping)

    assert told == ["quick 14:55", "patient 15:00"]


async def test_a_cut_off_waiter_leaves_the_count_and_the_turn_right() -> None:
    stand = Stand()
    stand.tasks.spawn(stand.waiter.sleep_until(START + timedelta(days=1)), "for ever")
    await stand.activity.idle()

    await stand.tasks.drain(0.01)

    assert stand.activity.is_idle
    await asyncio.wait_for(stand.turn.take(), 30)


async def test_a_waiter_that_is_cut_off_before_its_turn_leaves_it_to_whoever_has_it() -> None:
    stand, bugs = Stand(), list[BaseException]()
    tasks, is_over = Tasks(stand.activity, stand.turn, bugs.append), asyncio.Event()

    async def busy() -> None:
        await is_over.wait()

    patient = tasks.spawn(stand.waiter.sleep_until(START + timedelta(seconds=5)), "patient")
    other = tasks.spawn(busy(), "has the turn")
    await asyncio.sleep(0)
    stand.waiter.wake_due(START + timedelta(seconds=5))
    for _ in range(3):  # it waits for its turn, and is cut off more than once
        await asyncio.sleep(0)
        patient.cancel()
    is_over.set()
    await asyncio.wait({patient, other})

    assert patient.cancelled()
    assert bugs == []
    assert stand.activity.is_idle
    await asyncio.wait_for(stand.turn.take(), 30)


async def test_the_end_of_a_wait_that_was_cut_off_counts_nothing() -> None:
    stand = Stand()
    stand.tasks.spawn(stand.waiter.sleep_until(START + timedelta(days=1)), "for ever")
    await stand.activity.idle()
    await stand.tasks.drain(0.01)

    stand.waiter.wake_due(START + timedelta(days=1))

    assert stand.activity.is_idle


async def test_the_walk_ends_when_told_even_while_something_is_under_way() -> None:
    stand = Stand()
    stand.activity.begin()
    walking = asyncio.create_task(stand.market.run(stand.stopping))
    await asyncio.sleep(0)

    stand.stopping.set()

    await asyncio.wait_for(walking, 30)


async def test_a_code_that_is_out_is_not_over_before_a_person_has_typed_it() -> None:
    stand = Stand()
    stand.is_code_out = True

    walking = asyncio.create_task(stand.market.run(stand.stopping))
    for _ in range(100):
        await asyncio.sleep(0)
    log_while_typed = list(stand.log)
    stand.is_code_out = False
    await walking

    assert log_while_typed == ["job 14:55"]
    assert stand.log[-1] == "job 15:03"


async def test_without_a_pace_a_code_that_is_out_delays_nothing() -> None:
    stand = Stand(speed=math.inf)
    stand.is_code_out = True

    await stand.market.run(stand.stopping)

    assert stand.log[-1] == "job 15:03"
