"""The recorder never stands in the way: it drops rows, says so, and ends rather than hold us up."""

import asyncio
import threading
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from shutil import copy, copytree
from typing import Any

import pytest

from bot import __version__
from bot.clock import monotonic_s
from bot.domain.errors import Fault
from bot.domain.message import TimePassed
from bot.engine.settings import EngineSettings, invoke_plainly, unguarded
from bot.runtime.activity import Activity, RightOfWay
from bot.runtime.history.recording.recorder import AT_ONCE, FLUSH_S, LOOK_S, STILL_LOOKS, Recorder
from bot.runtime.history.recording.recordings import (
    Head,
    days_of,
    next_run,
    parts_of,
    read_head,
    rows_of,
    runs_of,
)
from bot.runtime.history.recording.tape import QUEUE_MAX, Tape
from tests.engine.stage import RULEBOOK, START

PATIENCE_S = 30.0
ROOM = 100
PLENTY = 10**12


def a_tape(room: int) -> Tape:
    return Tape(invoke_plainly, unguarded, lambda: False, room)


def head(run: int = 1) -> Head:
    return Head(__version__, run, date.min, "sandbox", "/", (), EngineSettings(), RULEBOOK)


class Recording:
    """A recorder with all that it needs; what it says is kept."""

    def __init__(
        self,
        folder: Path,
        *,
        free: int = PLENTY,
        keep_days: int = 30,
        free_bytes: Callable[[Path], int] | None = None,
        look_s: float = LOOK_S,
        room: int = ROOM,
        **times: Callable[..., Any],
    ) -> None:
        self.folder, self.tape, self.said = folder, a_tape(room), list[str]()
        self.activity, self.way = Activity(), RightOfWay(0)
        self.recorder = Recorder(
            folder,
            head(next_run(folder)),
            self.tape,
            keep_days=keep_days,
            say=self.said.append,
            way=self.way,
            activity=self.activity,
            free_bytes=free_bytes or (lambda _: free),
            look_s=look_s,
            **times,
        )

    def pass_time(self, count: int, *, from_s: float = 0, step_s: float = 1) -> None:
        for number in range(count):
            at = START + timedelta(seconds=from_s + number * step_s)
            self.tape.take(at, "TimePassed", TimePassed(at), [])

    def kinds(self, day: date) -> list[str]:
        folder = runs_of(self.folder, day)[-1]
        return [row.kind for part in parts_of(folder) for row in rows_of(part)]


def open_in(folder: Path) -> list[Path]:
    """The files of a folder that this process holds open."""
    held = [each.resolve() for each in Path("/proc/self/fd").iterdir()]
    return [each for each in held if each.is_relative_to(folder)]


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for the thread to come to it."""
    ends_s = monotonic_s() + PATIENCE_S
    while not is_so():
        assert monotonic_s() < ends_s, "it never came to that"
        await asyncio.sleep(0.001)


DAY = START.date()


async def test_what_is_written_can_be_read_while_it_goes_on(tmp_path: Path) -> None:
    told = Recording(tmp_path)
    told.recorder.start()
    told.pass_time(3)
    told.recorder.hurry()
    await until(lambda: not told.tape.calls)
    await until(lambda: bool(runs_of(tmp_path, DAY)) and len(told.kinds(DAY)) == 3)

    told.recorder.stop()

    assert told.kinds(DAY) == [*["TimePassed"] * 3, "end"]
    assert told.said == []


async def test_parts_end_with_time_and_day_and_each_day_has_the_head(tmp_path: Path) -> None:
    told = Recording(tmp_path)
    told.pass_time(30, step_s=3_600)
    told.recorder.start()

    told.recorder.stop()

    next_day = DAY + timedelta(days=1)
    assert days_of(tmp_path) == (DAY, next_day)
    assert len(parts_of(runs_of(tmp_path, DAY)[0])) == 15
    assert [read_head(runs_of(tmp_path, day)[0])[0].began for day in days_of(tmp_path)] == [DAY] * 2
    assert told.kinds(next_day)[-1] == "end"


async def test_what_is_lost_just_before_the_end_is_a_gap_too(tmp_path: Path) -> None:
    told = Recording(tmp_path)
    told.pass_time(ROOM + 5, step_s=0)
    told.recorder.start()

    told.recorder.stop()
    await until(lambda: bool(told.said))

    assert told.kinds(DAY)[-3:] == ["TimePassed", "gap", "end"]
    assert told.said[0].startswith("the recording has a gap: 5 events")


async def test_a_full_queue_drops_says_so_once_and_marks_the_gap(tmp_path: Path) -> None:
    told = Recording(tmp_path)
    told.pass_time(ROOM + 5, step_s=0)
    told.recorder.start()
    told.recorder.hurry()
    await until(lambda: not told.tape.calls)
    told.pass_time(1)
    told.recorder.stop()
    await until(lambda: bool(told.said))

    kinds = told.kinds(DAY)
    assert kinds[-3:] == ["gap", "TimePassed", "end"]
    assert len(kinds) == ROOM + 3
    assert len(told.said) == 1
    assert told.said[0].startswith("the recording has a gap: 5 events")


async def test_a_disk_that_hangs_ends_the_recording_and_is_said_while_it_hangs(
    tmp_path: Path,
) -> None:
    hangs, came_back = threading.Event(), threading.Event()

    def free_bytes(_: Path) -> int:
        hangs.set()
        came_back.wait(PATIENCE_S)
        return PLENTY

    told = Recording(tmp_path, free_bytes=free_bytes, look_s=0.001)
    told.pass_time(ROOM)
    told.recorder.start()
    told.recorder.hurry()
    await until(hangs.is_set)

    await until(lambda: bool(told.said))
    left = len(told.tape.calls)
    told.pass_time(3)
    came_back.set()
    told.recorder.stop()
    await asyncio.sleep(0)

    [said] = told.said
    assert said.startswith("the recording of this run ends: its disk has taken nothing for ")
    assert said.endswith(". Trading goes on")
    assert (left, len(told.tape.calls)) == (0, 0)


async def test_a_recorder_that_rests_is_not_taken_for_one_that_hangs(tmp_path: Path) -> None:
    told = Recording(tmp_path)
    told.recorder.start()
    told.pass_time(2)
    told.recorder.hurry()
    await until(lambda: not told.tape.calls and not told.recorder._is_writing)
    for _ in range(2 * STILL_LOOKS):
        told.recorder._look()
    told.recorder.stop()

    assert told.said == []
    assert told.kinds(DAY)[-1] == "end"


async def test_a_clock_that_waits_for_us_waits_for_the_queue(tmp_path: Path) -> None:
    told = Recording(tmp_path)
    told.recorder.start()

    told.pass_time(ROOM // 2, step_s=0)
    is_held = not told.activity.is_idle
    await until(lambda: told.activity.is_idle)

    assert is_held
    told.recorder.stop()


async def test_a_full_disk_ends_the_recording_and_nothing_else(tmp_path: Path) -> None:
    told = Recording(tmp_path, free=10**6)
    told.pass_time(3)
    told.recorder.start()
    told.recorder.hurry()
    await until(lambda: bool(told.said))

    told.pass_time(3)

    assert not told.tape.calls
    assert len(told.said) == 1
    assert "left on the disk). Trading goes on" in told.said[0]
    assert days_of(tmp_path) == ()


async def test_a_bug_in_the_recorder_ends_the_recording_and_nothing_else(tmp_path: Path) -> None:
    told = Recording(tmp_path)
    told.tape.take(START, "TimePassed", object(), [])  # type: ignore[arg-type]
    told.recorder.start()
    told.recorder.hurry()
    await until(lambda: bool(told.said))

    assert "a bug of ours (KeyError" in told.said[0]


async def test_a_panic_of_a_library_ends_the_recording_and_nothing_else(tmp_path: Path) -> None:
    class PanicException(BaseException):
        """As polars raises it: not an Exception."""

    def panic(_folder: Path) -> int:
        raise PanicException("index out of bounds")

    told = Recording(tmp_path, free_bytes=panic)
    told.pass_time(ROOM)
    told.recorder.start()
    told.recorder.hurry()
    await until(lambda: bool(told.said))

    assert "a bug of ours (PanicException: index out of bounds)" in told.said[0]
    assert not told.tape.is_open


async def test_copies_that_somebody_made_of_a_recording_are_none(tmp_path: Path) -> None:
    told = Recording(tmp_path)
    told.pass_time(3)
    told.recorder.start()
    told.recorder.stop()
    [folder] = runs_of(tmp_path, DAY)
    copy(parts_of(folder)[0], folder / "part-old.db")
    copytree(folder, folder.with_name(f"{folder.name}.bak"))

    assert next_run(tmp_path) == 2
    assert runs_of(tmp_path, DAY) == (folder,)
    assert len(parts_of(folder)) == 1


async def test_a_recording_that_is_given_up_keeps_no_file_open(tmp_path: Path) -> None:
    room = [PLENTY, 0]
    told = Recording(tmp_path, free_bytes=lambda _: room.pop(0))
    told.pass_time(3)
    told.recorder.start()
    told.recorder.hurry()
    await until(lambda: not told.tape.calls)
    told.pass_time(1)
    told.recorder.stop()
    await until(lambda: bool(told.said))

    assert open_in(tmp_path) == []


async def test_days_are_kept_as_long_as_is_wanted(tmp_path: Path) -> None:
    for day in range(5):
        told = Recording(tmp_path, keep_days=2)
        told.pass_time(1, from_s=86_400 * day)
        told.recorder.start()
        told.recorder.stop()

    assert days_of(tmp_path) == (DAY + timedelta(days=3), DAY + timedelta(days=4))
    assert [each.name for each in runs_of(tmp_path, days_of(tmp_path)[1])] == ["run=000005"]


async def test_a_clock_that_leaps_ahead_removes_no_recording_and_is_said(tmp_path: Path) -> None:
    for day in range(3):
        told = Recording(tmp_path)
        told.pass_time(1, from_s=86_400 * day)
        told.recorder.start()
        told.recorder.stop()
    before = days_of(tmp_path)

    told = Recording(tmp_path)
    told.pass_time(2, from_s=86_400 * 3)
    told.pass_time(1, from_s=86_400 * 400)
    told.pass_time(2, from_s=86_400 * 3 + 10)
    told.recorder.start()
    told.recorder.stop()
    await until(lambda: bool(told.said))

    own, ahead = DAY + timedelta(days=3), DAY + timedelta(days=400)
    assert days_of(tmp_path) == (*before, own, ahead)
    assert told.said == [
        f"the clock went from {own} to {ahead}: what comes from here on is recorded under {ahead}"
    ]


async def test_a_run_that_begins_with_a_wrong_clock_removes_no_more_than_one_day(
    tmp_path: Path,
) -> None:
    for day in (0, 1, 2, 400, -20_000):
        told = Recording(tmp_path, keep_days=3)
        told.pass_time(1, from_s=86_400 * day)
        told.recorder.start()
        told.recorder.stop()

    kept = [-20_000, 1, 2, 400]
    assert days_of(tmp_path) == tuple(DAY + timedelta(days=day) for day in kept)


async def test_an_order_on_its_way_goes_first(tmp_path: Path) -> None:
    told = Recording(tmp_path)
    told.way.begin()
    told.pass_time(40)
    told.recorder.start()
    told.recorder.hurry()
    await asyncio.sleep(0.02)
    waiting = len(told.tape.calls)

    told.way.end()
    await until(lambda: not told.tape.calls)

    assert waiting > 20
    told.recorder.stop()


@pytest.mark.parametrize("calls_a_second", [5, 20, 40])
async def test_a_kill_while_an_answer_is_missing_costs_little_over_two_seconds(
    tmp_path: Path, calls_a_second: int
) -> None:
    now_s, made = 0.0, 0

    def sleep_s(wait_s: float) -> None:
        """Let events come meanwhile."""
        nonlocal now_s, made
        now_s += wait_s
        while made < now_s * calls_a_second:
            told.pass_time(1)
            made += 1

    told = Recording(tmp_path, room=QUEUE_MAX, now_s=lambda: now_s, sleep_s=sleep_s)
    told.recorder._loop = asyncio.get_running_loop()
    told.way.begin()
    costs_s, written = [], 0
    while now_s < 10:
        sleep_s(FLUSH_S)
        told.recorder._write_waiting()
        costs_s.append((made - written) / calls_a_second)
        written = len(told.kinds(DAY))

    assert 1.5 < max(costs_s) < 2.5


async def test_what_takes_long_to_write_is_on_disk_second_by_second(tmp_path: Path) -> None:
    now_s, on_disk = 0.0, list[int]()

    def sleep_s(_: float) -> None:
        """Let others have the processor for long."""
        nonlocal now_s
        now_s += 0.5
        on_disk.append(len(told.kinds(DAY)) if runs_of(tmp_path, DAY) else 0)

    told = Recording(tmp_path, now_s=lambda: now_s, sleep_s=sleep_s)
    told.recorder._loop = asyncio.get_running_loop()
    told.pass_time(5 * AT_ONCE)
    told.recorder._write_waiting()

    assert on_disk == [0, 0, AT_ONCE, AT_ONCE, 3 * AT_ONCE]


def test_a_look_leaves_a_trace_only_where_it_has_raised() -> None:
    fault = Fault("ValueError at x:1", "x", "")
    tape = Tape(invoke_plainly, lambda _: fault, lambda: False)

    tape.looked(START, "due")
    tape.guard(lambda: None)
    tape.looked(START, "due")

    assert [(call.kind, call.odd) for call in tape.calls] == [
        ("look", [("step", 0, fault.kind, "x", "", "", ""), ("due", 0)])
    ]
