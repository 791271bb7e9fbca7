"""The brake holds orders by memory and by file, whatever the file is, until a person resumes."""

import asyncio
import errno
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from timeit import repeat

import pytest

from bot.runtime.brake import (
    FLAG,
    SALES,
    Brake,
    Pulled,
    is_in_place,
    lower_flag,
    raise_flag,
    reason_of_flag,
    within,
)
from bot.runtime.early_signal import EarlySignal
from tests.syncs import kept_by_syncs

US = 1_000_000


def test_nothing_is_held_without_a_halt(tmp_path: Path) -> None:
    brake = Brake(tmp_path)

    assert brake.objection() is None
    assert brake.look() is None


def test_a_touched_file_holds_every_order_and_is_told_once(tmp_path: Path) -> None:
    brake, told = Brake(tmp_path), list[Pulled]()
    brake.on_pulled = told.append
    (tmp_path / FLAG).touch()

    assert brake.objection() == "HALTED: the file HALT"
    assert brake.objection() == "HALTED: the file HALT"
    assert told == [Pulled("the file HALT", "operator")]


def test_the_text_of_the_file_is_the_reason_on_one_line_and_bounded(tmp_path: Path) -> None:
    (tmp_path / FLAG).write_text("wrong\nprices \x1b[31m" + "x" * 500)

    reason = reason_of_flag(tmp_path)

    assert reason is not None
    assert reason.startswith("wrong prices \\x1b[31mxxx")
    assert "\x1b" not in reason
    assert len(reason) < 220


def test_removing_the_file_ends_nothing(tmp_path: Path) -> None:
    brake = Brake(tmp_path)
    (tmp_path / FLAG).touch()
    brake.look()
    (tmp_path / FLAG).unlink()

    assert brake.objection() == "HALTED: the file HALT"


@pytest.mark.parametrize("kind", ["folder", "dangling link", "pipe", "unreadable", "not text"])
def test_whatever_is_called_halt_counts_and_can_be_lowered(tmp_path: Path, kind: str) -> None:
    path = tmp_path / FLAG
    match kind:
        case "folder":
            path.mkdir()
        case "dangling link":
            path.symlink_to(tmp_path / "nowhere")
        case "pipe":
            os.mkfifo(path)
        case "unreadable":
            path.touch(mode=0o000)
        case _:
            path.write_bytes(b"\xff\xfe")
    brake = Brake(tmp_path)

    assert (brake.objection() or "").startswith("HALTED: ")
    assert brake.release() == ""
    assert brake.objection() is None
    assert not os.path.lexists(path)


def test_a_folder_with_something_in_it_is_left_and_keeps_the_halt(tmp_path: Path) -> None:
    (tmp_path / FLAG / "kept").mkdir(parents=True)
    brake = Brake(tmp_path)
    brake.look()

    assert "can't be removed: Directory not empty" in brake.release()
    assert brake.objection() is not None


def test_a_place_that_cannot_be_looked_at_counts_as_a_halt(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    reason = Brake(tmp_path / "file").objection()

    assert reason is not None
    assert "can't be looked at: Not a directory" in reason


def test_a_halt_is_kept_for_the_next_start(tmp_path: Path) -> None:
    brake = Brake(tmp_path)
    brake.pull("wrong prices", "operator")
    assert brake.objection() == "HALTED: wrong prices"
    assert brake._kept is not None
    brake._kept.wait()

    assert Brake(tmp_path).objection() == "HALTED: wrong prices"
    assert (tmp_path / FLAG).stat().st_mode & 0o777 == 0o600


def test_a_second_halt_keeps_the_file_of_the_first(tmp_path: Path) -> None:
    assert raise_flag(tmp_path, "first") == ""
    assert raise_flag(tmp_path, "second") == ""

    assert reason_of_flag(tmp_path) == "first"
    assert (lower_flag(tmp_path), lower_flag(tmp_path)) == ("", "")


def test_a_disk_that_hangs_holds_no_halt_up(tmp_path: Path) -> None:
    thawed = threading.Event()

    def hanging() -> str:
        thawed.wait()
        return ""

    said = within(0.01, hanging, tmp_path)
    thawed.set()

    assert said.endswith("HALT is not on its disk after 0.01 s; the bot is asked to halt")
    assert within(5, lambda: "it is full", tmp_path) == "it is full"


def test_a_flag_is_raised_without_a_thread_if_none_can_be_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr("_thread.start_new_thread", none_left)
        patched.setattr("threading._start_new_thread", none_left)
        said = within(5, lambda: raise_flag(tmp_path, "enough"), tmp_path)

    assert (said, reason_of_flag(tmp_path)) == ("", "enough")


def test_what_cannot_be_kept_is_said_and_holds_all_the_same(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert "can't be made: No such file or directory" in raise_flag(gone, "why")
    brake = Brake(gone)

    brake.pull("why", "operator")

    assert brake.objection() == "HALTED: why"


async def test_the_signal_holds_orders_before_the_next_step_of_a_busy_loop(tmp_path: Path) -> None:
    brake, told = Brake(tmp_path), list[Pulled]()
    brake.on_pulled = told.append
    before = signal.getsignal(signal.SIGUSR1)
    with brake.on_signal():
        assert brake.objection() is None
        os.kill(os.getpid(), signal.SIGUSR1)

        assert brake.objection() == "HALTED: SIGUSR1"  # the loop has had no turn since
        assert told == []
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert told == [Pulled("SIGUSR1", "signal")]
    assert signal.getsignal(signal.SIGUSR1) is before
    assert brake._kept is not None
    brake._kept.wait()
    assert reason_of_flag(tmp_path) == "SIGUSR1"


async def test_a_signal_from_before_the_brake_puts_it_on(tmp_path: Path) -> None:
    brake, heard = Brake(tmp_path), EarlySignal()
    before = signal.signal(signal.SIGUSR1, heard)
    try:
        os.kill(os.getpid(), signal.SIGUSR1)
        with brake.on_signal():
            assert brake.objection() == "HALTED: SIGUSR1"
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert (heard.take(), heard.is_lost) == (False, False)


def test_the_brake_comes_before_the_gate(tmp_path: Path) -> None:
    brake = Brake(tmp_path)
    gate = brake.before(lambda asked: f"no {asked}")

    assert gate("entries") == "no entries"
    raise_flag(tmp_path, "stop")
    assert gate("entries") == "HALTED: stop"


def test_the_brake_spares_what_was_asked_for_with_the_halt(tmp_path: Path) -> None:
    brake = Brake(tmp_path)
    gate = brake.before(lambda _: None, lambda asked: asked == "sale")
    halt = brake.pull("stop", "operator")

    assert gate("sale") == "HALTED: stop"
    assert brake.allow_sales(halt) == ""
    assert gate("sale") is None
    assert gate("entries") == "HALTED: stop"


def test_a_look_costs_microseconds(tmp_path: Path) -> None:
    brake = Brake(tmp_path)

    took_s = min(repeat(brake.objection, number=50, repeat=20))  # the others had to wait for a turn

    assert took_s / 50 * US < 100


# ------------------------------------------------------------------------------- whatever its case


@pytest.mark.parametrize("name", ["halt", "Halt", "hALT"])
def test_a_flag_in_any_case_halts_is_named_and_can_be_lowered(tmp_path: Path, name: str) -> None:
    brake = Brake(tmp_path)
    (tmp_path / name).touch()

    assert brake.objection() == f"HALTED: the file {name}"
    assert brake.release() == ""
    assert list(tmp_path.iterdir()) == []
    (tmp_path / name).write_text("wrong prices")
    assert brake.objection() == f"HALTED: wrong prices (the file {name})"


def test_a_file_that_is_only_named_alike_does_not_halt(tmp_path: Path) -> None:
    for name in ("HALT.txt", "halted", "FLATTEN"):
        (tmp_path / name).touch()

    assert Brake(tmp_path).objection() is None


# ------------------------------------------------------------------------------ a halt that sells


def _selling(tmp_path: Path) -> tuple[Brake, list[Pulled], Callable[[str], str | None]]:
    """A brake that is on and lets sales pass, who hears of it, and its gate."""
    brake, told = Brake(tmp_path), list[Pulled]()
    brake.on_pulled = told.append
    assert brake.allow_sales(brake.pull("enough", "operator")) == ""
    return brake, told, brake.before(lambda _: None, lambda asked: asked == "sale")


def test_a_halt_that_sells_lets_its_sales_pass_over_a_restart_and_nothing_else(
    tmp_path: Path,
) -> None:
    _, told, gate = _selling(tmp_path)
    again = Brake(tmp_path)

    assert (gate("sale"), gate("entry")) == (None, "HALTED: enough")
    assert told == []
    assert again.look() == Pulled("enough", "operator")
    assert again.sells


@pytest.mark.parametrize("how", ["bot halt", "touch HALT", "echo HALT", "halt beside", "removed"])
def test_a_plain_halt_from_outside_ends_the_selling_and_is_told(tmp_path: Path, how: str) -> None:
    brake, told, gate = _selling(tmp_path)
    match how:
        case "bot halt":
            raise_flag(tmp_path, "stop it")
        case "touch HALT":
            os.utime(tmp_path / FLAG, ns=(1, 1))
        case "echo HALT":
            (tmp_path / FLAG).unlink()
            (tmp_path / FLAG).write_text("stop it")
        case "halt beside":
            (tmp_path / "halt").touch()
        case _:
            (tmp_path / SALES).unlink()

    assert (gate("sale") or "").startswith("HALTED: ")
    assert [one.by for one in told] == ["operator"]
    assert not brake.sells
    assert brake.objection() is not None
    assert len(told) == 1


@pytest.mark.parametrize("how", ["bot halt", "touch HALT", "halt beside", "removed"])
def test_a_plain_halt_beside_a_dead_bot_ends_the_selling_too(tmp_path: Path, how: str) -> None:
    _selling(tmp_path)
    match how:
        case "bot halt":
            raise_flag(tmp_path, "stop it")
        case "touch HALT":
            os.utime(tmp_path / FLAG, ns=(1, 1))
        case "halt beside":
            (tmp_path / "halt").touch()
        case _:
            (tmp_path / SALES).unlink()

    assert not Brake(tmp_path).sells


def test_a_halt_beside_a_bot_that_is_starting_ends_the_selling_too(tmp_path: Path) -> None:
    _selling(tmp_path)
    starting = Brake(tmp_path)

    os.utime(tmp_path / FLAG, ns=(1, 1))

    assert starting.look() == Pulled("enough", "operator")
    assert not starting.sells


async def test_a_second_signal_ends_the_selling(tmp_path: Path) -> None:
    brake, told, gate = _selling(tmp_path)
    with brake.on_signal():
        os.kill(os.getpid(), signal.SIGUSR1)

        assert gate("sale") == "HALTED: SIGUSR1"
        os.kill(os.getpid(), signal.SIGUSR1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert told == [Pulled("SIGUSR1", "signal")]


def test_a_plain_halt_that_comes_before_the_sales_are_allowed_wins(tmp_path: Path) -> None:
    brake = Brake(tmp_path)
    first = brake.pull("sell it all", "operator")
    brake.pull("no", "operator")

    assert brake.allow_sales(first) == "another halt came meanwhile"
    assert not brake.sells
    assert not (tmp_path / SALES).exists()


def test_a_resume_ends_the_selling_too(tmp_path: Path) -> None:
    brake, _, _ = _selling(tmp_path)

    assert brake.release() == ""
    assert list(tmp_path.iterdir()) == []
    assert not brake.sells


# ------------------------------------------------------------------------------------ a hung disk


class HungDisk(threading.Event):
    """It never answers, and counts how long it was waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.waits_s = list[float | None]()

    def wait(self, timeout: float | None = None) -> bool:
        self.waits_s.append(timeout)
        return super().wait(0)


def test_a_disk_that_hangs_holds_no_resume_up_and_keeps_the_halt(tmp_path: Path) -> None:
    brake = Brake(tmp_path)
    brake.pull("enough", "operator")
    brake._kept = hung = HungDisk()

    assert brake.release() == "the disk did not answer within 1.5 s"
    assert brake.objection() == "HALTED: enough"
    assert hung.waits_s == [1.5]


def test_a_halt_that_comes_while_one_is_ended_stays(tmp_path: Path) -> None:
    brake = Brake(tmp_path)
    brake.pull("enough", "operator")
    kept = brake._kept
    assert kept is not None
    kept.wait()

    class Meanwhile(threading.Event):
        def wait(self, _timeout: float | None = None) -> bool:
            brake.pull("again", "signal")
            return True

    brake._kept = Meanwhile()

    assert brake.release() == "another halt came meanwhile"
    assert brake.objection() == "HALTED: again"


async def test_a_signal_that_comes_while_a_halt_is_ended_is_a_new_halt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brake, told = Brake(tmp_path), list[Pulled]()
    brake.on_pulled = told.append
    brake.pull("enough", "operator")

    def lower(state_dir: Path) -> str:
        why = lower_flag(state_dir)
        os.kill(os.getpid(), signal.SIGUSR1)
        return why

    monkeypatch.setattr("bot.runtime.brake.lower_flag", lower)
    with brake.on_signal():
        assert brake.release() == "another halt came meanwhile"
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    assert told == [Pulled("SIGUSR1", "signal")]
    assert brake.objection() == "HALTED: SIGUSR1"
    assert is_in_place(tmp_path)


# ---------------------------------------------------------------------------- a cut of the power


def test_a_halt_its_sales_and_its_end_survive_a_cut_of_the_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = kept_by_syncs(monkeypatch, tmp_path)

    brake, _, _ = _selling(tmp_path)
    noted = (tmp_path / SALES).read_text()
    assert kept == ["enough\n", "HALT", noted, "FLATTEN HALT"]

    raise_flag(tmp_path, "stop the selling")
    assert kept[4:] == ["HALT"]

    assert brake.release() == ""
    assert kept[5:] == [""]


@pytest.mark.parametrize("failing", ["file", "names"])
def test_sales_that_could_not_be_kept_for_certain_are_not_allowed_after_a_restart_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    brake, real = Brake(tmp_path), os.fsync
    halt = brake.pull("enough", "operator")

    def fsync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.is_dir() == (failing == "names") and (tmp_path / SALES).exists():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)

    assert "can't be made: Input/output error" in brake.allow_sales(halt)
    assert not brake.sells
    assert not Brake(tmp_path).sells


def test_where_no_folder_can_be_synced_a_halt_can_sell_and_be_ended_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().is_dir():
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    brake = Brake(tmp_path)

    assert brake.allow_sales(brake.pull("enough", "operator")) == ""
    assert brake.sells
    assert brake.release() == ""
    assert not brake.is_on
