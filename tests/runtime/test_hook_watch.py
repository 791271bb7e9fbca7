"""A hook that does not return is interrupted where it is, and nothing else ever is."""

import inspect
import signal
import threading
import time
from contextlib import suppress

import pytest

from bot.runtime.watches import HALT_ANSWER_S, HookWatch
from bot.strategy import Strategy

LIMIT_S = 0.25
pytestmark = pytest.mark.process
"""Real threads and signals, and hooks that do take their time."""


class Stuck(Strategy):
    def on_start(self) -> None:
        while True:
            pass

    def on_stop(self) -> None:
        time.sleep(60)


class Sleepy(Strategy):
    def on_stop(self) -> None:
        time.sleep(5)


class Stubborn(Strategy):
    def on_stop(self) -> None:
        for _ in range(3):
            with suppress(BaseException):
                time.sleep(60)


def _block(*_: object) -> None:
    time.sleep(60)


HOOKS = sorted(name for name in vars(Strategy) if name.startswith("on_"))
Everywhere: type[Strategy] = type("Everywhere", (Strategy,), dict.fromkeys(HOOKS, _block))


@pytest.mark.parametrize("hook", HOOKS)
def test_whatever_hook_blocks_is_interrupted(hook: str) -> None:
    watch = HookWatch(lambda: False, LIMIT_S)
    argument = None if hook in {"on_start", "on_stop"} else object()
    with watch.at_work():
        fault = watch.invoke(Everywhere(), hook, argument)

    assert fault is not None
    assert fault.is_stuck


def test_a_hook_that_goes_on_is_named_until_it_returns() -> None:
    told = list[str]()
    watch = HookWatch(lambda: False, LIMIT_S, told.append)
    with watch.at_work():
        watch.invoke(Stubborn(), "on_stop", None)
        while told[-1]:
            time.sleep(0.05)

    assert told[0].startswith("on_stop of Stubborn (test_hook_watch.py) has not returned for ")
    assert told[1:] == [""]


def test_hooks_are_watched_even_if_no_thread_is_left_to_tell_of_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none_left(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    watch = HookWatch(lambda: False, LIMIT_S)
    with watch.at_work():
        with monkeypatch.context() as patched:
            patched.setattr("_thread.start_new_thread", none_left)
            patched.setattr("threading._start_new_thread", none_left)
            watch.invoke(Stubborn(), "on_stop", None)
        fault = watch.invoke(Stuck(), "on_stop", None)

    assert fault is not None
    assert fault.is_stuck


@pytest.mark.parametrize(
    ("hook", "lines"), [("on_start", {"while True:", "pass"}), ("on_stop", {"time.sleep(60)"})]
)
def test_a_hook_that_does_not_return_is_interrupted_at_its_line(hook: str, lines: set[str]) -> None:
    watch = HookWatch(lambda: False, LIMIT_S)
    with watch.at_work():
        fault = watch.invoke(Stuck(), hook, None)

    assert fault is not None
    assert fault.is_stuck
    source, first = inspect.getsourcelines(Stuck)
    number = int(fault.error.rpartition(":")[2].rstrip(")"))
    assert source[number - first].strip() in lines
    assert "did not return for " in fault.error
    assert "was interrupted (test_hook_watch.py:" in fault.error


def test_a_hook_that_catches_everything_is_interrupted_again() -> None:
    watch = HookWatch(lambda: False, LIMIT_S)
    started = time.monotonic()
    with watch.at_work():
        watch.invoke(Stubborn(), "on_stop", None)

    assert time.monotonic() - started < 30


def test_a_disk_that_hangs_does_not_blind_the_watch() -> None:
    is_back = threading.Event()
    watch = HookWatch(is_back.wait, LIMIT_S)
    try:
        with watch.at_work():
            fault = watch.invoke(Sleepy(), "on_stop", None)
    finally:
        is_back.set()

    assert fault is not None
    assert fault.is_stuck


def test_a_halt_that_waits_has_less_patience() -> None:
    watch = HookWatch(lambda: True, 60.0)
    started = time.monotonic()
    with watch.at_work():
        fault = watch.invoke(Stuck(), "on_start", None)

    assert fault is not None
    assert fault.is_stuck
    assert time.monotonic() - started < 10


def test_a_halt_that_waits_has_less_patience_also_where_each_look_at_the_disk_is_slow() -> None:
    def slow() -> bool:
        time.sleep(2 * HALT_ANSWER_S)
        return True

    watch = HookWatch(slow, 60.0)
    started = time.monotonic()
    with watch.at_work():
        fault = watch.invoke(Sleepy(), "on_stop", None)

    assert fault is not None
    assert fault.is_stuck
    assert time.monotonic() - started < 4


def test_what_is_no_hook_is_never_interrupted_however_long_it_takes() -> None:
    watch = HookWatch(lambda: True, 0.0)
    with watch.at_work():
        for _ in range(100):
            assert watch.invoke(Strategy(), "on_stop", None) is None
        watch._called = watch._condemned = (Strategy(), "on_stop")  # as if one were condemned
        time.sleep(0.6)
        watch._called = None


def test_the_signal_means_what_it_meant_before_once_the_run_is_over() -> None:
    before = signal.getsignal(signal.SIGVTALRM)
    with HookWatch(lambda: False).at_work():
        assert signal.getsignal(signal.SIGVTALRM) is not before
    assert signal.getsignal(signal.SIGVTALRM) is before


def test_a_look_that_hangs_on_its_disk_does_not_hold_up_the_end() -> None:
    looks, has_come_back = threading.Event(), threading.Event()

    def hangs() -> bool:
        looks.set()
        return has_come_back.wait(60)

    class Slow(Strategy):
        def on_stop(self) -> None:
            looks.wait(30)

    started, watch = time.monotonic(), HookWatch(hangs, 60.0)
    with watch.at_work():
        watch.invoke(Slow(), "on_stop", None)
        assert looks.is_set()
    took_s = time.monotonic() - started
    has_come_back.set()

    assert took_s < 30
