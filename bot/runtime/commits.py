"""The only place where the bot waits for its journal, and where it notices that it waits in vain.

A commit may end in doubt: the connection was lost, and it is not known whether the database has it.
The database is asked until that is known, since what follows depends on it. A send whose commit was
in doubt is not made, even if it turns out to be stored: its bytes were signed too long ago.

The journal is *out of reach* if a write does not return in time, or fails because there is no
database. Then the engine closes its gate, and no order is sent. Meanwhile a halt, the attempt of a
cancel and the broker's answers go to the emergency journal. The live loop writes all of it to the
journal when that answers again.
"""

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, TypeVar

from bot.clock import boottime_s
from bot.domain.entry import Entry
from bot.domain.local_time import clock_of
from bot.domain.message import JournalHealthChanged
from bot.journal.database.engines import folders_of
from bot.journal.errors import JournalError, OutcomeUnknown, Unreachable
from bot.journal.journal import Journal
from bot.journal.writing.emergency import EmergencyJournal
from bot.journal.writing.emergency_lines import must_survive
from bot.journal.writing.lease import LEASE_LIFE_S
from bot.journal.writing.sends import Send
from bot.journal.writing.thread import in_time
from bot.runtime.activity import Post
from bot.runtime.supervisor import Trouble

DOUBT_TRIES: Final = 3_000
DOUBT_PAUSE_S: Final = 0.1
"""How long between checks of a commit in doubt."""
WATCH_S: Final = 0.25
"""How often to check whether a write hangs."""
MAYBE_TAKEN: Final = (
    f"the journal was out of reach for {LEASE_LIFE_S:g} s and a standby waits for it: that one may "
    "have our orders by now. Halt and cancel there, or cancel at the broker's own app"
)
WATCHED: Final = (
    ", with a standby waiting that will not know of a halt or pause given here (give it the "
    "same: bot halt --state-dir …)"
)
KEEP_S: Final = 2.0
"""How long the disk of the emergency journal may take; after that nothing is sent that relies on
it.
"""
STUCK_S: Final = 5.0
"""How long nothing more is given to a disk that took longer."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Committed:
    """The result of an attempt's commit. With a `reason` nothing is sent, stored or not."""

    is_stored: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Stored:
    """The result of a write: the doubt that it was in, if any, and each of its sends."""

    doubt: str
    sends: tuple[Committed, ...]


class Commits:
    """Writes to the journal, and returns once it is known what is stored."""

    def __init__(
        self,
        journal: Journal,
        emergency: EmergencyJournal,
        *,
        timeout_s: float,
        now: Callable[[], datetime],
        post: Post,
        trouble: Trouble,
    ) -> None:
        self._journal = journal
        self._emergency = emergency
        self._timeout_s = timeout_s
        self._now = now
        self._post = post
        self._trouble = trouble
        self.is_cut = False
        """Whether the journal is out of reach."""
        self._cut = asyncio.Event()
        """Set together with it, for waiters."""
        self._since_s = 0.0
        self.why = ""
        """Why it was last out of reach."""
        self.beside: list[Entry] = []
        """What only the emergency journal has, and nothing else is going to write."""
        self._file = asyncio.Lock()
        self._tried_s = -math.inf
        """When the disk of the emergency journal last did not answer."""
        self._told = "", ""
        """Why the journal is out of reach, and since when, as it is said."""
        self._is_file_lost = False
        """Whether the last entries could not be kept there, and that is said."""
        self.unkept = ""
        """Why the emergency journal lacks something it should have."""
        self._at_work: set[asyncio.Task[object]] = set()
        self.answered = 0
        """How often a write has returned, even if refused."""
        self.took_s = 0.0
        """How long the last one took."""
        self.on_cut: Callable[[], None] = lambda: None
        """Called as soon as the journal is out of reach."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where journal and emergency journal are, as far as they are on this machine."""
        return folders_of(self._emergency.path.parent, self._journal.url)

    async def write(self, entries: Sequence[Entry], sends: Sequence[Send] = ()) -> Stored:
        """Store all entries, and those sends that may be made, in one transaction.

        Raises what the journal raises; then nothing is stored. Raises OutcomeUnknown only if the
        doubt lasts for minutes.
        """
        doubt: OutcomeUnknown | None = None
        for _ in range(DOUBT_TRIES):
            began_s = boottime_s()
            try:
                verdicts = await self._journal.write(entries, sends)
            except OutcomeUnknown as unknown:
                doubt = unknown
            else:
                why = str(doubt) if doubt else ""
                return Stored(why, tuple([Committed(no is None, no or why) for no in verdicts]))
            finally:
                self.answered += 1
                self.took_s = boottime_s() - began_s
            self.lose(f"the journal can't be written: {doubt}")
            await asyncio.sleep(DOUBT_PAUSE_S)
        assert doubt is not None, "only a doubt is tried again"
        raise doubt

    @property
    def stalled_s(self) -> float:
        """How long the oldest write has been waiting; 0 without one."""
        return self._journal.stalled_s()

    @property
    def cut_s(self) -> float:
        """How long the journal has been out of reach; 0 if it is not."""
        return boottime_s() - self._since_s if self.is_cut else 0.0

    async def probe(self) -> None:
        """Check that the journal answers. Raises Unreachable."""
        await self._journal.probe()

    async def protect(self, entry: Entry) -> Committed:
        """Make an entry survive in the journal, or else beside it: the attempt of a cancel, a halt.

        Nothing else may rely on it: places, amendments and burns need the journal's own checks.
        """
        if not self.is_cut:
            writing = self._begin(self._journal.write([entry]))
            losing = asyncio.ensure_future(self._cut.wait())
            both = {writing, losing}
            await asyncio.wait(both, timeout=self._timeout_s, return_when=asyncio.FIRST_COMPLETED)
            losing.cancel()
            # the thread continues with it; whether it is stored is found out later
            if not writing.done():
                self._lose_patience()
            else:
                try:
                    writing.result()
                except Unreachable as error:
                    self.lose(f"the journal can't be written: {error}")
                except JournalError as refusal:
                    return Committed(is_stored=False, reason=str(refusal))
                else:
                    return Committed(is_stored=True)
        if why := self.objection() or await self._keep([entry]):
            return Committed(is_stored=False, reason=why)
        if self.is_cut:
            self.beside.append(entry)
            return Committed(is_stored=True)
        try:  # it has returned meanwhile, and the file is gone
            await self._journal.take_over([entry])
        except JournalError as refusal:
            return Committed(is_stored=False, reason=str(refusal))
        return Committed(is_stored=True)

    def objection(self) -> str | None:
        """Return why not even a cancel may be sent: another bot may own our orders by now."""
        return MAYBE_TAKEN if self._journal.is_lease_doubtful() else None

    # --------------------------------------------------------------------- the journal out of reach

    async def watch(self) -> None:
        """Check for ever whether a write hangs. A process that was stopped for a while finds its
        writes late at the first check, and done at the second.
        """
        was_late = False
        while True:
            await asyncio.sleep(WATCH_S)
            is_late = self._journal.stalled_s() >= self._timeout_s - WATCH_S
            if is_late and was_late:
                self._lose_patience()
            if self.is_cut and (why := self.objection()):
                text = f"{why}. Nothing leaves here until the journal answers"
                if text != self._trouble.text:  # the log would fill with it
                    self._trouble.begin(text)
            was_late = is_late

    def _lose_patience(self) -> None:
        self.lose(f"the journal has not answered for {self._timeout_s:g} s")

    def lose(self, why: str) -> None:
        """The journal is out of reach: report it, and make the engine block orders."""
        if self.is_cut:
            return
        told = f"{why}{WATCHED}" if self._journal.is_watched() else why
        self.is_cut, self.why = True, told
        self._cut.set()
        self._since_s = boottime_s() - self._journal.stalled_s()
        self._tell(told, clock_of(self._now()))
        self.on_cut()
        self._post(JournalHealthChanged(self._now(), False, told))

    def _tell(self, why: str, since: str) -> None:
        self._told = why, since
        self._trouble.begin(
            f"{why} (since {since}): no order leaves until the journal answers, by itself. Halt, "
            "pause, cancel and stop work; what they do is kept in the emergency journal. Look at "
            "disk and database: bot db check"
        )

    def keep(self, entries: Iterable[Entry]) -> None:
        """Keep the entries that must survive beside the journal, after all earlier ones."""
        if lasting := [entry for entry in entries if must_survive(entry)]:
            self._begin(self._keep(lasting))

    async def kept(self) -> None:
        """Wait until all of it is kept, for no longer than its disk may take."""
        if self._at_work:
            await asyncio.wait(self._at_work, timeout=KEEP_S + WATCH_S)

    async def catch_up(self) -> None:
        """Store what only the emergency journal has. Raises what the journal raises."""
        count = len(self.beside)
        try:
            await self._journal.take_over(self.beside[:count])
        finally:
            self.answered += 1
        del self.beside[:count]

    def find(self) -> None:
        """The journal answers again and has everything, unless something was kept just now."""
        if self.beside or not self.is_cut:
            return
        self.is_cut = False
        self._cut.clear()
        text = f"the journal answers again after {boottime_s() - self._since_s:.0f} s"
        self._trouble.end(text)
        self._post(JournalHealthChanged(self._now(), True, text))
        self._begin(self._forget())

    def _begin(self, work: Coroutine[object, object, T]) -> asyncio.Task[T]:
        """Start work that continues whatever happens to its caller."""
        task = asyncio.create_task(work)
        self._at_work.add(task)
        task.add_done_callback(self._end)
        return task

    def _end(self, task: asyncio.Task[T]) -> None:
        self._at_work.discard(task)
        if not task.cancelled():
            task.exception()  # its waiter gets it too

    async def _keep(self, entries: Sequence[Entry]) -> str:
        """Return why they could not be kept, or an empty text."""
        async with self._file:
            why = "the emergency journal does not answer either"
            if boottime_s() - self._tried_s >= STUCK_S:
                try:
                    await in_time(lambda: self._emergency.keep(entries), KEEP_S)
                except TimeoutError:
                    self._tried_s = boottime_s()
                except OSError as error:
                    reason = error.strerror or str(error)
                    why = f"the emergency journal can't be written either ({reason})"
                else:
                    if self._is_file_lost and self.is_cut:  # what was said of it is over
                        self._tell(*self._told)
                    self._is_file_lost = False
                    return ""
        self.unkept = why
        if self.is_cut:  # else the journal takes them, and nothing would end this
            self._is_file_lost = True
            do = "cancel in the broker's own app"
            self._trouble.begin(f"{why}. Neither orders nor cancels leave: {do}")
        return why

    async def _forget(self) -> None:
        async with self._file:
            with suppress(OSError):  # what stays is in the journal too, which does no harm
                await in_time(self._emergency.forget, KEEP_S)
                self._tried_s, self.unkept = -math.inf, ""
