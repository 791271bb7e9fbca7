"""What ends a run, what does not, and what the guard keeps of an exception."""

import asyncio
import math
import sys
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from bot.config.problems import OperatorMistake
from bot.domain.entry import Note
from bot.domain.errors import Fault, InvariantBroken
from bot.journal.errors import LeaseLost
from bot.protocol.secret import Secret
from bot.runtime import supervisor
from bot.runtime.control.socket import Reply, Request
from bot.runtime.hush import Hiding
from bot.runtime.supervisor import REPORTS_MAX, FaultGuard, Supervisor, ends_the_run


async def test_a_cancellation_that_nobody_asked_for_ends_the_run() -> None:
    async def stray() -> None:
        raise asyncio.CancelledError

    supervisor = Supervisor()

    await supervisor.guard(stray())

    assert supervisor.stopped.is_set()
    assert str(supervisor.failure) == "work was cancelled, but not by the bot"


async def test_work_that_the_bot_cancels_has_not_failed() -> None:
    supervisor = Supervisor()
    work = asyncio.create_task(supervisor.guard(asyncio.Event().wait()))  # type: ignore[arg-type]
    await asyncio.sleep(0)

    work.cancel()
    with suppress(asyncio.CancelledError):
        await work

    assert work.cancelled()
    assert supervisor.failure is None


async def test_the_time_of_a_stop_is_the_shortest_that_was_given() -> None:
    supervisor = Supervisor()
    assert supervisor.left_s() == math.inf

    for seconds in (1000, 500, 700):
        supervisor.end_within(seconds)

    assert 499 < supervisor.left_s() <= 500
    supervisor.end_within(0)
    assert supervisor.left_s() == 0


async def test_a_start_that_does_not_hear_of_the_stop_does_not_hold_it_up() -> None:
    supervisor, may_end = Supervisor(), asyncio.Event()

    async def deaf() -> None:
        while not may_end.is_set():
            with suppress(asyncio.CancelledError):
                await may_end.wait()

    async with asyncio.timeout(30):
        starting = asyncio.create_task(supervisor.unless_stopped(deaf()))
        await asyncio.sleep(0)
        supervisor.end()
        await starting

    assert not may_end.is_set()
    may_end.set()


def _raise(error: BaseException) -> None:
    raise error


def test_a_step_that_raises_becomes_a_fault_with_a_report(tmp_path: Path) -> None:
    fault = FaultGuard(tmp_path).guard(lambda: _raise(KeyError("HPG")))

    assert fault is not None
    assert fault.kind.startswith("KeyError at test_supervisor.py:")
    assert fault.error == "KeyError: 'HPG'"
    assert "Traceback" in fault.trace
    report = Path(fault.report)
    assert report.parent == tmp_path / "bugs"
    assert "KeyError" in report.read_text()
    assert report.stat().st_mode & 0o777 == 0o600


def test_no_secret_of_the_run_is_in_a_fault_or_its_report(tmp_path: Path) -> None:
    hide = Hiding(lambda: (Secret("hook-4711"),)).text

    fault = FaultGuard(tmp_path, hide).guard(lambda: _raise(OSError("no way to /hook-4711")))

    assert fault is not None
    assert fault.error == "OSError: no way to /***"
    assert "hook-4711" not in fault.trace
    assert "OSError: no way to /***" in Path(fault.report).read_text()


def test_a_step_that_does_its_work_is_no_fault(tmp_path: Path) -> None:
    done: list[int] = []

    assert FaultGuard(tmp_path).guard(lambda: done.append(1)) is None
    assert done == [1]
    assert list(tmp_path.iterdir()) == []


def test_a_failed_assertion_is_a_fault_too(tmp_path: Path) -> None:
    fault = FaultGuard(tmp_path).guard(lambda: _raise(AssertionError("a verdict carries proof")))

    assert fault is not None
    assert fault.error == "AssertionError: a verdict carries proof"


class Wordless(Exception):
    """Raises when it is asked what it says."""

    def __str__(self) -> str:
        raise ZeroDivisionError


def test_a_fault_that_can_not_be_put_into_words_is_a_fault_too(tmp_path: Path) -> None:
    fault = FaultGuard(tmp_path).guard(lambda: _raise(Wordless()))

    assert fault is not None
    assert fault.error == "Wordless, which can't be put into words"


def test_equal_faults_have_one_kind_and_one_report(tmp_path: Path) -> None:
    guard = FaultGuard(tmp_path)

    first, second = (guard.guard(partial(_raise, ValueError(number))) for number in (1, 2))

    assert first is not None
    assert second is not None
    assert (first.kind, first.report) == (second.kind, second.report)
    assert len(list((tmp_path / "bugs").iterdir())) == 1


def test_no_more_reports_are_written_than_a_folder_should_hold(tmp_path: Path) -> None:
    guard = FaultGuard(tmp_path)
    kinds = [type(f"Kind{number}", (Exception,), {}) for number in range(REPORTS_MAX + 5)]

    faults = [guard.guard(partial(_raise, kind())) for kind in kinds]

    assert len(list((tmp_path / "bugs").iterdir())) == REPORTS_MAX
    assert faults[-1] is not None
    assert faults[-1].report == ""


def test_a_report_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "bugs").write_text("a file where the folder should be")

    fault = FaultGuard(tmp_path).guard(lambda: _raise(KeyError("HPG")))

    assert fault is not None
    assert fault.report == ""


def test_a_report_for_which_there_is_no_thread_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "begin", lambda _: _raise(OSError(11, "no thread")))

    fault = FaultGuard(tmp_path).guard(lambda: _raise(KeyError("HPG")))

    assert fault is not None
    assert (fault.report, fault.kind.split()[0]) == ("", "KeyError")


class HangingDisk(type(Path())):  # type: ignore[misc]
    """A place on a disk that does not answer until it is `mended`."""

    mended = threading.Event()

    def mkdir(self, *_args: object, **_more: object) -> None:
        self.mended.wait(60)
        raise OSError


def test_a_report_waits_for_no_disk_that_hangs_and_no_other_is_tried_there() -> None:
    guard, before = FaultGuard(HangingDisk("/nowhere"), report_s=0.01), set(sys._current_frames())
    begun = time.monotonic()

    faults = [guard.guard(partial(_raise, error("HPG"))) for error in (KeyError, ValueError)]

    assert time.monotonic() - begun < 30
    assert [fault.report for fault in faults if fault] == ["", ""]
    assert all("Traceback" in fault.trace for fault in faults if fault)
    assert len(set(sys._current_frames()) - before) == 1
    HangingDisk.mended.set()


def test_no_secret_of_a_message_is_kept(tmp_path: Path) -> None:
    fault = FaultGuard(tmp_path).guard(lambda: _raise(ValueError('{"api_secret": "abcdefgh"}')))

    assert fault is not None
    assert "abcdefgh" not in fault.error + fault.trace + Path(fault.report).read_text()


@pytest.mark.parametrize(
    ("error", "ends"),
    [
        (KeyError("HPG"), False),
        (AssertionError(), False),
        (OSError(28, "no space"), False),
        (LeaseLost(stored=2, ours=1), True),
        (InvariantBroken("I2", "it is to be sent again"), False),
        (InvariantBroken("I17", "entry 9 is the last after 4 or 5"), True),
        (OperatorMistake.of("E-CFG-001", "wrong"), True),
        (KeyboardInterrupt(), True),
    ],
)
def test_the_journal_the_operator_and_the_system_end_a_run_and_no_fault_does(
    error: BaseException, ends: bool
) -> None:
    assert ends_the_run(error) is ends


def test_an_interrupt_is_not_caught(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        FaultGuard(tmp_path).guard(lambda: _raise(KeyboardInterrupt()))


async def test_a_command_that_cannot_be_answered_is_told_so_and_kept(tmp_path: Path) -> None:
    async def broken(request: Request) -> Reply:
        raise KeyError(request["do"])

    async def sound(_: Request) -> Reply:
        return {"ok": True}

    guard = FaultGuard(tmp_path)

    reply = await guard.handler(broken)({"do": "status"})

    assert reply["code"] == "E-CTL-006"
    assert "KeyError: 'status'" in str(reply["message"])
    assert str(tmp_path / "bugs") in str(reply["message"])
    assert await guard.handler(sound)({}) == {"ok": True}


def test_a_bug_in_the_screen_is_told_and_a_screen_that_is_gone_is_not(tmp_path: Path) -> None:
    guard, told = FaultGuard(tmp_path), list[Fault]()
    note = Note(datetime(2026, 11, 19, tzinfo=UTC), "ALERT", "text")

    guard.screen(lambda _: _raise(KeyError("colour")), told.append)(note)
    with pytest.raises(BrokenPipeError):
        guard.screen(lambda _: _raise(BrokenPipeError()), told.append)(note)

    assert [fault.error for fault in told] == ["KeyError: 'colour'"]
