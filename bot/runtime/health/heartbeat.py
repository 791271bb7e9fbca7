"""The bot's heartbeats to its service manager, each sent only after progress.

`READY=1` is sent when the start is over: the journal is read, the broker has answered, and open
orders are compared. Until then each heartbeat asks for more time: a start with open orders waits
for its broker as long as it takes. Without progress there is no heartbeat, so that the manager
restarts the bot.

Progress means more than being alive: something was finished between two checks. An event went
through the engine and its rows into the journal, or the journal answered (a refusal is an answer
too: then the bot is degraded, and reports it). If nothing is waiting, the journal is probed. So a
spinning loop, a journal that hangs with work queued, and a strategy that does not return are all
detected, as none of them finishes anything.
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
from bot.domain.local_time import minute_of
from bot.domain.recovery import Recovery
from bot.domain.visible import visible
from bot.engine.status import BotStatus
from bot.journal.errors import JournalError

STATUS_MAX: Final = 200
"""Characters of the line that `systemctl status` shows."""
_USECS: Final = 1_000_000
PROBE_S: Final = 2.0
"""How long the journal of a bot without work may take to answer, and work that has just come may
wait: decisions without consequences wait a second for a commit on purpose (`lazy_s`).
"""
LOOK_FINISHED_S: Final = 0.05
LOOK_S: Final = 5.0
"""How often progress is checked if no manager wants to know sooner."""
LOOKS_IN_A_SPAN: Final = 4
"""How many checks there are within the manager's watchdog time."""
START_S: Final = 60
"""How much more time each heartbeat of a start asks for."""
_WORDS: Final = {RunState.NEEDS_2FA: "needs 2FA"}


class ServiceManager:
    """Talks to the service manager over the socket that it named (sd_notify, systemd 252).

    Without `NOTIFY_SOCKET` nothing is sent. If the manager is away or too busy, we neither wait nor
    fail: the next heartbeat repeats what it missed.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._status = ""
        span, pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
        is_meant = not pid or pid == str(os.getpid())
        self.watchdog_s = int(span) / _USECS if span.isdecimal() and is_meant else 0.0
        """How long it waits for a heartbeat; 0: it expects none."""

    @property
    def is_there(self) -> bool:
        """Whether a service manager has started us and expects messages."""
        return bool(self._address)

    def status(self, text: str) -> None:
        """Show one line, unless it is already shown."""
        if text != self._status and self.tell(f"STATUS={visible(text, STATUS_MAX)}"):
            self._status = text

    def tell(self, *lines: str) -> bool:
        """Send one message, like `READY=1`; return whether that worked."""
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
    """Counters of the bot's work.

    `finished`: events handled and answers of the journal so far; `waiting`: events that wait or are
    being stored; `probe` asks the journal.
    """

    finished: Callable[[], int]
    waiting: Callable[[], int]
    probe: Callable[[], Awaitable[None]]


class Progress:
    """Checks periodically whether anything was finished since the last check."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self.probe_s = PROBE_S
        self._finished = -1
        self._waits_since_s: float | None = None
        """When a look first saw work that waits, with nothing finished since."""
        self._probing: asyncio.Task[None] | None = None
        self.seen_s = boottime_s()
        """When there was last progress."""
        self.objection = ""
        """Why there is no progress, in words; empty while there is."""

    async def look(self) -> bool:
        """Check once; return whether there is progress."""
        finished, waiting = self._work.finished(), self._work.waiting()
        if not waiting or finished != self._finished:
            self._waits_since_s = None
        if waiting and self._waits_since_s is None:
            self._waits_since_s = boottime_s()
        if waiting and finished == self._finished:
            finished = await self._finished_soon(finished)
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

    async def _finished_soon(self, finished: int) -> int:
        """Give work that has not waited for long a moment; return how much is finished then."""
        assert self._waits_since_s is not None, "work is waiting"
        until_s = self._waits_since_s + self.probe_s
        while (now := self._work.finished()) == finished:
            if boottime_s() >= until_s:
                break
            await asyncio.sleep(LOOK_FINISHED_S)
        return now

    async def _is_answered(self) -> bool:
        """Probe the journal. If it hangs, at most one probe of ours is pending."""
        if self._probing is None or self._probing.done():
            self._probing = asyncio.create_task(self._probe())
        await asyncio.wait({self._probing}, timeout=self.probe_s)
        return self._probing.done()

    async def _probe(self) -> None:
        with suppress(JournalError):  # failed writes are handled where they are made
            await self._work.probe()


class Heartbeat:
    """Reports the bot's state to the manager. It is a further screen of a run and is shown the
    same.
    """

    def __init__(self, manager: ServiceManager, is_up: asyncio.Event) -> None:
        self._manager = manager
        self._is_up = is_up
        self._words: Callable[[], str] = lambda: "starting"
        self.progress: Progress | None = None
        """None until there is work to check."""

    def follow(self, progress: Progress, words: Callable[[], str]) -> None:
        """From now on, watch this work, and describe the state with these words."""
        self.progress, self._words = progress, words

    async def run(self) -> None:
        """Send heartbeats, for ever."""
        manager = self._manager
        every_s = min(manager.watchdog_s / LOOKS_IN_A_SPAN or LOOK_S, LOOK_S)
        while not self._is_up.is_set():
            manager.tell(f"EXTEND_TIMEOUT_USEC={START_S * 1_000_000}")
            if self.progress is not None:
                await self.progress.look()  # for monitors: a start that waits is alive
            with suppress(TimeoutError):
                async with asyncio.timeout(every_s):
                    await self._is_up.wait()
        assert self.progress is not None, "a bot that is up has work"
        while True:
            if await self.progress.look():
                manager.status(self._words())
                manager.tell("READY=1", "WATCHDOG=1")  # repeated each time, as one may be lost
            else:
                manager.status(f"stuck: {self.progress.objection}")
            await asyncio.sleep(every_s)

    def end(self, words: str) -> None:
        """Note that the run has ended, and why."""
        self._manager.status(words)

    # ------------------------------------------------------------------------------- as a screen

    def entry(self, entry: Entry) -> None:
        if isinstance(entry, StateChanged) and entry.scope == "all":
            self._manager.status(self._words())
            if entry.to_state is RunState.STOPPING:
                self._manager.tell("STOPPING=1")

    def recovered(self, recovery: Recovery) -> None:
        """Earlier history is no heartbeat."""

    def row(self, name: str, text: str) -> None:
        self._manager.status(f"starting: {name} {text}")

    def trouble(self, text: str) -> None:
        self._manager.status(text)


def words_of(status: BotStatus, trouble: str) -> str:
    """The state on one line: `needs 2FA since 09:39`; what hinders the bot now comes first."""
    if trouble:
        return trouble
    if status.state is RunState.RUNNING and status.blocked_by:
        return f"running, but {'; '.join(status.blocked_by)}"
    words = _WORDS.get(status.state, status.state.lower())
    since = f" since {minute_of(status.since)}" if status.since else ""
    reason = f": {status.reason}" if status.reason and status.state is not RunState.RUNNING else ""
    return f"{words}{since}{reason}"
