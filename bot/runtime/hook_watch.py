"""Interrupts a strategy's hook that does not return, so that halt, cancels and all others go on.

A thread beside the loop looks at the hook that is being called. One that it meets at too many looks
in a row is sent a signal, whose handler raises `Interrupted` inside the hook, and nowhere else: not
in the engine, which may be in the middle of something, and not in the next hook. Looks are counted,
not seconds, since a process that was stopped for a while has no slow hook. What catches even that,
as a bare `except:` does, is interrupted at each further look. Only code in C that never comes back
to Python cannot be reached: then `bot halt` blocks from outside.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from bot.config.strategies.invoke import Interrupted, invoke, is_inside
from bot.engine.settings import StrategyFault
from bot.strategy import Strategy

LOOK_EVERY_S: Final = 0.25
HOOK_S_MAX: Final = 5.0
"""How long a hook may take."""
HALTED_S_MAX: Final = 1.0
"""The same while a halt waits for it."""
END_S: Final = 1.0
"""How long the end waits for the last look: whether a halt waits is asked of a disk, too."""
_SIGNAL: Final = signal.SIGVTALRM
"""Between our own threads: nobody else sends it."""


class HookWatch:
    """Calls hooks, one at a time, and interrupts them. `is_urgent` says that a halt waits."""

    def __init__(self, is_urgent: Callable[[], bool], hook_s_max: float = HOOK_S_MAX) -> None:
        self._is_urgent = is_urgent
        self._hook_s_max = hook_s_max
        self._called: object = None
        self._condemned: object = None
        self._over = threading.Event()

    def invoke(
        self, strategy: Strategy, hook: str, argument: object | None
    ) -> StrategyFault | None:
        """Call a hook, as long as it takes at the most."""
        self._called = object()
        try:
            return invoke(strategy, hook, argument)
        finally:
            self._called = None

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Watch the hooks that this thread, the main one, calls."""
        before = signal.signal(_SIGNAL, self._interrupt)
        looking = threading.Thread(
            target=self._look, args=(threading.get_ident(),), name="hooks", daemon=True
        )
        looking.start()
        try:
            yield
        finally:
            self._over.set()
            looking.join(END_S)
            signal.signal(_SIGNAL, before)

    def _look(self, main: int) -> None:
        seen, looks = None, 0
        while not self._over.wait(LOOK_EVERY_S):
            called = self._called
            looks = looks + 1 if called is seen else 0
            seen = called
            limit_s = min(self._hook_s_max, HALTED_S_MAX if self._is_urgent() else self._hook_s_max)
            is_long = looks * LOOK_EVERY_S >= limit_s
            if called is not None and is_long and not self._over.is_set():
                self._condemned = called
                signal.pthread_kill(main, _SIGNAL)

    def _interrupt(self, _number: int, frame: FrameType | None) -> None:
        if self._condemned is self._called and is_inside(frame):
            raise Interrupted
