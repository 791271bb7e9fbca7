"""What a hook has changed of the whole process is put back after it, and counts as its fault."""

import asyncio
import io
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from bot.runtime.surroundings import FUNCTIONS, SIGNALS
from bot.runtime.watches import HookWatch
from bot.strategy import Strategy
from tests.rows import every_row

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("hangup_is_heard")]


class Hostile(Strategy):
    """Does what a test tells it to."""

    act: Callable[[], object]

    def on_stop(self) -> None:
        self.act()


def _after(act: Callable[[], object]) -> str:
    """Return the fault of a hook that does this."""
    strategy = Hostile()
    strategy.act = act
    watch = HookWatch(lambda: False)
    with watch.at_work():
        fault = watch.invoke(strategy, "on_stop", None)
        again = watch.invoke(Strategy(), "on_stop", None)
    assert again is None
    return fault.error if fault is not None else ""


def test_a_hook_that_leaves_all_as_it_was_has_no_fault() -> None:
    assert _after(lambda: None) == ""


async def test_a_signal_that_comes_as_a_hook_is_entered_is_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard, watch = asyncio.Event(), HookWatch(lambda: False)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, heard.set)
    exchange = signal.set_wakeup_fd

    def come_between(descriptor: int, *, warn_on_full_buffer: bool = True) -> int:
        before = exchange(descriptor, warn_on_full_buffer=warn_on_full_buffer)
        monkeypatch.undo()
        signal.raise_signal(signal.SIGTERM)
        return before

    try:
        with watch.at_work():
            monkeypatch.setattr(signal, "set_wakeup_fd", come_between)
            assert watch.invoke(Strategy(), "on_stop", None) is None
        await asyncio.wait_for(heard.wait(), 5)
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)


def test_what_the_program_itself_changes_between_two_hooks_is_no_fault_of_either() -> None:
    strategy, watch = Strategy(), HookWatch(lambda: False)
    before = signal.getsignal(signal.SIGUSR1)
    with watch.at_work(), HookWatch(lambda: False).at_work():
        faults = [watch.invoke(strategy, "on_stop", None)]
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        faults.append(watch.invoke(strategy, "on_stop", None))
        found = signal.signal(signal.SIGUSR1, before)

    assert faults == [None, None]
    assert found is signal.SIG_IGN


def test_a_folder_that_somebody_renames_is_no_fault_of_a_hook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bot").mkdir()
    monkeypatch.chdir(tmp_path / "bot")
    watch = HookWatch(lambda: False)

    with watch.at_work():
        (tmp_path / "bot").rename(tmp_path / "moved")
        renamed = watch.invoke(Strategy(), "on_stop", None)
        (tmp_path / "moved").rmdir()
        removed = watch.invoke(Strategy(), "on_stop", None)

    assert (renamed, removed) == (None, None)


def test_functions_are_put_back() -> None:
    for module, names in FUNCTIONS:
        for name in names:
            before = getattr(module, name)

            told = _after(partial(setattr, module, name, None))

            assert told == (
                f"changed {module.__name__}.{name}, of the whole process, which was put back "
                "(test_surroundings.py)"
            )
            assert getattr(module, name) is before


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_stream_that_a_hook_has_replaced_by_its_own_is_put_back(name: str) -> None:
    before = getattr(sys, name)

    told = _after(partial(setattr, sys, name, io.StringIO()))

    assert f"changed sys.{name}, of the whole process" in told
    assert getattr(sys, name) is before


@every_row("number", SIGNALS)
def test_handlers_of_signals_are_put_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)

    told = _after(lambda: signal.signal(number, signal.SIG_IGN))

    assert f"the handler of {number.name}" in told
    assert signal.getsignal(number) is before


def test_the_descriptor_that_signals_wake_is_put_back() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        before = signal.set_wakeup_fd(ours.fileno())
        told = _after(lambda: signal.set_wakeup_fd(-1))
        found = signal.set_wakeup_fd(before)

    assert "the descriptor that signals wake" in told
    assert found == ours.fileno() or found != -1


def test_a_closed_stream_is_opened_again_on_the_same_file() -> None:
    before = os.fstat(1)

    told = _after(lambda: os.close(1))

    assert "the stream 1" in told
    assert os.path.samestat(os.fstat(1), before)
    assert sys.stdout is not None


def test_the_folder_is_put_back_even_from_one_that_is_gone(tmp_path: Path) -> None:
    before = Path.cwd()

    def leave() -> None:
        (tmp_path / "gone").mkdir()
        os.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()

    assert "the current folder" in _after(leave)
    assert Path.cwd() == before


def test_the_copy_of_a_hook_that_forks_ends_at_once(tmp_path: Path) -> None:
    lived = tmp_path / "lived"

    def fork() -> None:
        if (child := os.fork()) == 0:
            lived.touch()
            os._exit(1)
        assert os.waitpid(child, 0)[1] == os.EX_SOFTWARE << 8

    assert _after(fork) == "forked the bot's process (test_surroundings.py)"
    assert not lived.exists()


def test_outside_of_hooks_a_fork_is_nobodys_business() -> None:
    watch = HookWatch(lambda: False)
    with watch.at_work():
        watch.invoke(Strategy(), "on_stop", None)
        if (child := os.fork()) == 0:
            os._exit(7)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_what_a_hook_raises_is_told_beside_what_it_has_changed() -> None:
    def both() -> None:
        time.sleep = None  # type: ignore[assignment]
        raise ValueError("no")

    told = _after(both)

    with suppress(ValueError):
        time.sleep(0)
    assert told.startswith("ValueError: no (test_surroundings.py:")
    assert told.endswith(
        "; it has also changed time.sleep, of the whole process, which was put back"
    )


def test_a_plug_ins_own_keyboard_interrupt_ends_no_run() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, lambda *_: None)  # as in a run
    try:
        assert _after(interrupt).startswith("KeyboardInterrupt")
    finally:
        signal.signal(signal.SIGINT, before)
    with pytest.raises(KeyboardInterrupt):
        _after(interrupt)
