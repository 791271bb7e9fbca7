"""Looks whether the wall clock was set, and whether the bot stood still; both are told once.

Neither hurts by itself: the bot goes by a clock that counts both (`bot.clock`). But a person who
reads two clocks has to know which one the bot goes by, and after a standstill the market, the
orders and the account are other than the bot believes.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from bot.clock import SteadyClock, boottime_s
from bot.domain.operations import ClockStepped, StoodStill
from bot.runtime.activity import Post

LOOK_S: Final = 0.5
STEP_MAX: Final = timedelta(seconds=2)
"""A wall clock that is further off than this from where it was has been set."""
STILL_MAX_S: Final = 5.0
"""For this long a signal may wait for its order: what was decided before a longer standstill is too
old, and a shorter one is a slow machine.
"""


class TimeWatch:
    """Compares `clock` with the wall, and one look with the next. `now` is market time."""

    def __init__(
        self,
        clock: SteadyClock,
        post: Post,
        now: Callable[[], datetime],
        elapsed_s: Callable[[], float] = boottime_s,
    ) -> None:
        self._clock = clock
        self._post = post
        self._now = now
        self._elapsed_s = elapsed_s
        self._looked_s = elapsed_s()
        self._told = timedelta()

    async def run(self) -> None:
        """Look again and again, for ever."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        """Tell what has happened since the last look."""
        looked_s, self._looked_s = self._looked_s, self._elapsed_s()
        still_s = self._looked_s - looked_s - LOOK_S
        if still_s > STILL_MAX_S:
            self._post(StoodStill(self._now(), timedelta(seconds=still_s)))
        ahead = self._clock.wall_is_ahead_by()
        if abs(ahead - self._told) > STEP_MAX:
            self._told = ahead if abs(ahead) > STEP_MAX else timedelta()
            self._post(ClockStepped(self._now(), self._told))
