"""Calls a strategy's hook, times it, and catches and describes whatever it raises.

Strategies are trusted code in our process; a plug-in can do anything, and the docs say so. This
module guards against mistakes: an exception or a slow callback stops its strategy, not the others.
Whatever a hook raises is its own, even a `CancelledError` or `SystemExit`, since nobody cancels a
synchronous call. Only a keyboard interrupt passes through, where Ctrl-C raises one: in a run it
does not. The reported line is in the plug-in's own file, even if one of our functions raised: it is
the line that the author can fix.
"""

import inspect
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

from bot.clock import performance_s
from bot.engine.settings import StrategyFault
from bot.protocol.secret import redact
from bot.strategy import Strategy

BUDGET_S: Final = 0.25
"""A hook that takes longer than this is reported as an overrun."""
ERROR_CHARACTERS_MAX: Final = 200
AGAIN_S: Final = 0.0001
"""From one interruption of an import that goes on to the next."""


class Interrupted(BaseException):
    """Raised inside a hook or an import that does not return, by its watchdog."""


def nothing_changed() -> str:
    """Put nothing back."""
    return ""


def invoke(
    strategy: Strategy,
    hook: str,
    argument: object | None,
    put_back: Callable[[], str] = nothing_changed,
) -> StrategyFault | None:
    """Call `hook`; return what went wrong, None if nothing did. Whatever happens, `put_back` is
    called next, and returns in words what the hook has done to the process.
    """
    done, started = "", performance_s()
    try:
        try:
            _carry_out(strategy, hook, argument)
        finally:
            done = put_back()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and _ctrl_c_raises():
            raise
        file, line = place_of(error, type(strategy), hook)
        place = f"{file.name}:{line}" if file else type(strategy).__name__
        also = f"; it has also {done}" if done else ""
        if isinstance(error, Interrupted):
            took = performance_s() - started
            stuck = f"did not return for {took:.0f} s and was interrupted ({place}){also}"
            return StrategyFault(stuck, is_overrun=False, is_stuck=True)
        return StrategyFault(error=f"{words_of(error)} ({place}){also}", is_overrun=False)
    if done:
        return StrategyFault(error=f"{done} ({file_of(strategy)})", is_overrun=False)
    took = performance_s() - started
    if took > BUDGET_S:
        return StrategyFault(error=f"took longer than {BUDGET_S:.2f} s", is_overrun=True)
    return None


def _ctrl_c_raises() -> bool:
    """Return whether a keyboard interrupt may be a person's."""
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _carry_out(strategy: Strategy, hook: str, argument: object | None) -> None:
    """Anything raised in here, and only in here, comes from the hook: `is_inside` looks for this
    frame.
    """
    call = getattr(strategy, hook)
    call() if argument is None else call(argument)


def is_inside(frame: FrameType | None) -> bool:
    """Return whether a frame belongs to a hook, or to something that a hook has called."""
    return _is_below(_carry_out.__code__, frame)


def _is_below(code: CodeType, frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


def call_within(seconds: float, call: Callable[[], object]) -> None:
    """Call, and raise `Interrupted` in it after this many seconds; only in the main thread, where
    signals arrive. A timer that ran before continues afterwards.

    What catches it, with a bare `except:`, is interrupted again so soon that it is met while it
    handles the last one, where nothing catches it.
    """
    if threading.current_thread() is not threading.main_thread():
        call()
        return
    before = signal.signal(signal.SIGALRM, _interrupt)
    left_s, every_s = signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_S)
    try:
        _limited(call)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, left_s, every_s)


def _limited(call: Callable[[], object]) -> None:
    """Only what this frame has called is interrupted."""
    call()


def _interrupt(_number: int, frame: FrameType | None) -> None:
    if _is_below(_limited.__code__, frame):
        raise Interrupted


def words_of(error: BaseException) -> str:
    """Describe an exception in one short line; some cannot even convert themselves to text."""
    name = type(error).__name__
    try:
        text = f"{name}: {error}"
    except Exception:
        text = f"{name}, which can't be put into words"
    return " ".join(redact(text).split())[:ERROR_CHARACTERS_MAX]


def place_of(
    error: BaseException, factory: type[Strategy], function: str
) -> tuple[Path | None, int]:
    """Return file and line of the innermost frame in the plug-in's own files.

    Without such a frame the call itself failed: then the start of `function`.
    """
    own = files_of(factory)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if Path(frame.filename) in own:
            return Path(frame.filename), frame.lineno or 1
    code = getattr(inspect.unwrap(getattr(factory, function)), "__code__", None)
    if code is None or Path(code.co_filename) not in own:
        return next(iter(own), None), 1
    return Path(code.co_filename), code.co_firstlineno


def file_of(strategy: Strategy) -> str:
    """Return the name of the file in which a strategy's class is."""
    return next((file.name for file in files_of(type(strategy))), type(strategy).__name__)


def files_of(factory: type[Strategy]) -> tuple[Path, ...]:
    """Return the files of a strategy's class and of its own base classes."""
    classes = factory.__mro__[: factory.__mro__.index(Strategy)]
    modules = (sys.modules.get(cls.__module__) for cls in classes)
    names = (getattr(module, "__file__", None) for module in modules)
    return tuple(dict.fromkeys(Path(name) for name in names if name))
