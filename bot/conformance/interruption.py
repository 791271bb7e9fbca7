"""Ends a run on a signal: what it has placed is cancelled before the process exits.

The first signal stops the checks and gives the cleanup its time, a second one shortens that. Both
times are bounded, and a request under way has its deadline: no broker can keep us from ending.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

from bot.conformance.finding import Report

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
CLEANUP_S_MAX: Final = 60.0
AGAIN_S_MAX: Final = 5.0


class Interrupted(Exception):
    """A signal has ended the run, which has cleaned up as far as it could."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.number = number


async def until_signal(
    run: Coroutine[Any, Any, Report],
    on_signal: Callable[[signal.Signals], None],
    *,
    again_s: float = AGAIN_S_MAX,
) -> Report:
    """Make the run and return its report; `on_signal` gets each signal. Raises Interrupted."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(run)
    seen: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        if not seen:
            task.cancel()
        loop.call_later(again_s if seen else CLEANUP_S_MAX, task.cancel)
        seen.append(number)
        with suppress(OSError):  # a terminal that is gone
            on_signal(number)

    is_by_nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    for number in SIGNALS[:-1] if is_by_nohup else SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except (asyncio.CancelledError, OSError):
        if not seen:
            raise
        raise Interrupted(seen[0]) from None
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
