"""The disk, the wall clock and a standstill are reported once, each time they change."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from bot.clock import SteadyClock
from bot.domain.message import Event
from bot.domain.operations import ClockStepped, DiskSeen, StoodStill
from bot.engine.health import LOW_BYTES
from bot.runtime.watches import CLOCK_LOOK_S, DiskWatch, TimeWatch, free_on
from tests.test_clock import START, Machine

NOW = datetime(2026, 11, 19, 2, 20, tzinfo=UTC)


class Watched:
    """A machine with a watch on it."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.told: list[Event] = []
        clock = SteadyClock(self.machine, self.machine.elapsed_s)
        self.watch = TimeWatch(clock, self.told.append, clock.now, self.machine.elapsed_s)

    def look(self, after_s: float = CLOCK_LOOK_S) -> None:
        self.machine.pass_by(after_s)
        self.watch.look()


def test_a_set_wall_is_told_once_and_again_when_it_is_set_right() -> None:
    watched = Watched()

    watched.machine.at += timedelta(minutes=5)
    watched.look()
    watched.look()
    watched.machine.at -= timedelta(minutes=5)
    watched.look()

    assert watched.told == [
        ClockStepped(START + timedelta(seconds=CLOCK_LOOK_S), timedelta(minutes=5)),
        ClockStepped(START + timedelta(seconds=3 * CLOCK_LOOK_S), timedelta()),
    ]


def test_two_seconds_are_no_step() -> None:
    watched = Watched()

    watched.machine.at += timedelta(seconds=2)
    watched.look()

    assert watched.told == []


def test_a_standstill_is_told_with_its_length() -> None:
    watched = Watched()

    watched.look(CLOCK_LOOK_S + 5)
    watched.look(CLOCK_LOOK_S + 600)
    watched.look()

    at = START + timedelta(seconds=2 * CLOCK_LOOK_S + 605)
    assert watched.told == [StoodStill(at, timedelta(seconds=600))]


async def test_only_little_room_and_its_end_are_told(tmp_path: Path) -> None:
    told, rooms = list[Event](), [LOW_BYTES, 9, 8, LOW_BYTES, LOW_BYTES]
    watch = DiskWatch([tmp_path], told.append, lambda: NOW, lambda _: rooms.pop(0))

    for _ in range(5):
        await watch.look()

    assert told == [DiskSeen(NOW, 9), DiskSeen(NOW, 8), DiskSeen(NOW, LOW_BYTES)]


async def test_a_disk_that_gives_no_answer_says_nothing(tmp_path: Path) -> None:
    told = list[Event]()
    watch = DiskWatch([tmp_path / "gone"], told.append, lambda: NOW)

    await watch.look()

    assert told == []
    assert free_on(tmp_path) > 0
