"""The bot's signs of life to a service manager, each earned by progress (`progress.py`).

`READY=1` comes when the start is over: the journal is read, the broker has answered, and what was
open is compared. Until then each sign asks for more time: a start with open orders waits for its
broker as long as it takes. No sign while nothing gets on, so that the manager starts us anew.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from bot.domain.entry import Entry, RunState, StateChanged
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.recovery import Recovery
from bot.engine.status import BotStatus
from bot.runtime.health.notify_socket import ServiceManager
from bot.runtime.health.progress import Progress

LOOK_S: Final = 5.0
"""How often it is looked whether the bot gets on, where no manager wants to know sooner."""
LOOKS_IN_A_SPAN: Final = 4
"""How often it is looked within the time that the manager waits."""
START_S: Final = 60
"""How much more time each sign of a start asks for."""
_WORDS: Final = {RunState.NEEDS_2FA: "needs 2FA"}


class Heartbeat:
    """Tells the manager how the bot is. One more screen of a run: it is shown what that is."""

    def __init__(self, manager: ServiceManager, is_up: asyncio.Event) -> None:
        self._manager = manager
        self._is_up = is_up
        self._words: Callable[[], str] = lambda: "starting"
        self.progress: Progress | None = None
        """None until there is anything to get on with."""

    def follow(self, progress: Progress, words: Callable[[], str]) -> None:
        """From here on look at this, and say how the bot is in these words."""
        self.progress, self._words = progress, words

    async def run(self) -> None:
        """Give signs of life, for ever."""
        manager = self._manager
        every_s = min(manager.watchdog_s / LOOKS_IN_A_SPAN or LOOK_S, LOOK_S)
        while not self._is_up.is_set():
            manager.tell(f"EXTEND_TIMEOUT_USEC={START_S * 1_000_000}")
            with suppress(TimeoutError):
                async with asyncio.timeout(every_s):
                    await self._is_up.wait()
        assert self.progress is not None, "a bot that is up has work"
        while True:
            if await self.progress.look():
                manager.status(self._words())
                manager.tell("READY=1", "WATCHDOG=1")  # said each time: one may not be heard
            else:
                manager.status(f"stuck: {self.progress.objection}")
            await asyncio.sleep(every_s)

    def end(self, words: str) -> None:
        """The run is over, and why."""
        self._manager.status(words)

    # ------------------------------------------------------------------------------- as a screen

    def entry(self, entry: Entry) -> None:
        if isinstance(entry, StateChanged) and entry.scope == "all":
            self._manager.status(self._words())
            if entry.to_state is RunState.STOPPING:
                self._manager.tell("STOPPING=1")

    def recovered(self, recovery: Recovery) -> None:
        """What was before is no sign of life."""

    def row(self, name: str, text: str) -> None:
        self._manager.status(f"starting: {name} {text}")

    def trouble(self, text: str) -> None:
        self._manager.status(text)


def words_of(status: BotStatus, trouble: str) -> str:
    """How the bot is, in one line: `needs 2FA since 09:39`; what hinders it now goes first."""
    if trouble:
        return trouble
    words = _WORDS.get(status.state, status.state.lower())
    since = f" since {status.since.astimezone(EXCHANGE_TZ):%H:%M}" if status.since else ""
    reason = f": {status.reason}" if status.reason and status.state is not RunState.RUNNING else ""
    return f"{words}{since}{reason}"
