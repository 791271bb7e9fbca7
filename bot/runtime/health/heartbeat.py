"""The bot's signs of life to the service manager that started it, each earned by progress.

`READY=1` comes when the start is over: the journal is read, the broker has answered, and what was
open is compared. Until then each sign asks for more time: a start with open orders waits for its
broker as long as it takes. While nothing gets done there is no sign, so that the manager starts the
bot anew.

Progress is more than being alive: something was finished between two looks. An event went through
the engine and its rows into the journal, or the journal answered (a refusal is an answer: then the
bot is degraded, and says so). Where nothing is waiting to be done, the journal is asked whether it
is there. So a loop that spins, a journal that hangs with work before it, and a strategy that does
not come back are all found out: none of them finishes anything.
"""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from bot.clock import boottime_s
from bot.domain.entry import Entry, RunState, StateChanged
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.recovery import Recovery
from bot.domain.visible import visible
from bot.engine.status import BotStatus
from bot.journal.errors import JournalError

STATUS_MAX: Final = 200
"""Characters of the line that `systemctl status` shows."""
_USECS: Final = 1_000_000
PROBE_S: Final = 2.0
"""How long the journal of a bot without work may take to answer."""
LOOK_S: Final = 5.0
"""How often it is looked whether the bot gets on, where no manager wants to know sooner."""
LOOKS_IN_A_SPAN: Final = 4
"""How often it is looked within the time that the manager waits."""
START_S: Final = 60
"""How much more time each sign of a start asks for."""
_WORDS: Final = {RunState.NEEDS_2FA: "needs 2FA"}


class ServiceManager:
    """Speaks to the service manager over the socket that it named (sd_notify, systemd 252).

    Without `NOTIFY_SOCKET` nobody listens, and nothing is sent. A manager that is away, or too busy
    to listen, is no reason to wait or to fail: the next sign of life repeats what it missed.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._status = ""
        span, pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
        is_meant = not pid or pid == str(os.getpid())
        self.watchdog_s = int(span) / _USECS if span.isdecimal() and is_meant else 0.0
        """How long it waits for a sign of life; 0: it waits for none."""

    @property
    def is_there(self) -> bool:
        """Whether somebody has started us who wants to hear."""
        return bool(self._address)

    def status(self, text: str) -> None:
        """Show one line, unless it is shown already."""
        if text != self._status and self.tell(f"STATUS={visible(text, STATUS_MAX)}"):
            self._status = text

    def tell(self, *lines: str) -> bool:
        """Send one message, like `READY=1`; say whether that could be done."""
        if not self._address:
            return False
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ours:
            ours.setblocking(False)
            ours.connect(self._address)
            ours.send("\n".join(lines).encode())
            return True
        return False


@dataclass(frozen=True, slots=True)
class Work:
    """What can be counted of the bot's work.

    `finished`: events handled and answers of the journal so far; `waiting`: events that wait or are
    being stored; `probe` asks the journal.
    """

    finished: Callable[[], int]
    waiting: Callable[[], int]
    probe: Callable[[], Awaitable[None]]


class Progress:
    """Looks, now and then, whether anything was finished since the last look."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self.probe_s = PROBE_S
        self._finished = -1
        self._probing: asyncio.Task[None] | None = None
        self.seen_s = boottime_s()
        """When it last got on."""
        self.objection = ""
        """Why it does not get on, in words; empty while it does."""

    async def look(self) -> bool:
        """Look once; say whether it gets on."""
        finished, waiting = self._work.finished(), self._work.waiting()
        if finished != self._finished:
            self.objection = ""
        elif waiting:
            events = f"{waiting:,} event{'s wait' if waiting > 1 else ' waits'}"
            self.objection = f"{events} and nothing is finished"
        elif await self._is_answered():
            self.objection = ""
        else:
            self.objection = "the journal does not answer"
        self._finished = finished
        if not self.objection:
            self.seen_s = boottime_s()
        return not self.objection

    async def _is_answered(self) -> bool:
        """Ask the journal. One that hangs has one question of ours before it, and no more."""
        if self._probing is None or self._probing.done():
            self._probing = asyncio.create_task(self._probe())
        await asyncio.wait({self._probing}, timeout=self.probe_s)
        return self._probing.done()

    async def _probe(self) -> None:
        with suppress(JournalError):  # what a refusal means is seen to where something is written
            await self._work.probe()


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
