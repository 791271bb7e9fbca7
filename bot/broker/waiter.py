"""Waiting, as something that is handed in: on the system's clock, or on a stepped one.

The stepped market has its own waiter (`runtime/worlds/stepped.py`), since time passes there only
when nothing is under way. Nothing in this package sleeps in any other way.
"""

import asyncio
from datetime import datetime
from typing import Protocol

from bot.clock import Clock


class Waiter(Protocol):
    """A clock that can be waited on."""

    def now(self) -> datetime:
        """Return the instant on the clock that is waited on."""
        ...

    async def sleep_until(self, instant: datetime) -> None:
        """Return when the clock has reached `instant`, at once when it has already."""
        ...


class SystemWaiter:
    """Waits as the wall clock goes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> datetime:
        """Return the instant of the clock given."""
        return self._clock.now()

    async def sleep_until(self, instant: datetime) -> None:
        """Sleep; a clock that is set back meanwhile makes it longer, never endless."""
        await asyncio.sleep(max(0.0, (instant - self._clock.now()).total_seconds()))
