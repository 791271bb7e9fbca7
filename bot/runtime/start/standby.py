"""A standby takes over when the other run ends or stalls. While it waits it holds neither lease nor
broker, so it sends nothing and changes nothing. Plug-ins and configuration are read before; its
socket answers requests for the state and for a stop. It does not judge what it cannot see: it waits
for a database that is away or hangs.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from bot.clock import SystemClock, boottime_s
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.settings.load import Loaded
from bot.domain.local_time import clock_of
from bot.journal.database.engines import is_sqlite
from bot.journal.errors import Holder, LeaseHeld, Unreachable
from bot.journal.writing.lease import (
    GRACE_S,
    LEASE_LIFE_S,
    Lease,
    Patience,
    Seen,
    Watch,
    take,
)
from bot.journal.writing.thread import in_time
from bot.runtime.control.server import ControlServer, handlers_of
from bot.runtime.journal_file import prepare_journal, this_process
from bot.runtime.run_controls import SIGNALS, Screen
from bot.runtime.supervisor import on_signals

LOOK_S: Final = 1.0
"""How often a standby checks the lease: one short query."""
LOOK_MAX_S: Final = 8.0
"""How long a check may take, or taking the lock again; the driver gives up on a connection after 5.
"""


def require_possible(loaded: Loaded) -> None:
    """Raise OperatorMistake if no second bot could take over."""
    text = ""
    if is_sqlite(loaded.journal_url):
        text = (
            "a standby needs a journal in PostgreSQL: a SQLite file is one machine's, and its lock "
            "cannot be taken from a bot that stalls. Set journal.url to postgresql+psycopg://…, "
            "or run without --standby"
        )
    elif loaded.settings.is_embedded:
        text = (
            "a standby needs a broker that both bots reach, and this configuration has its own "
            "sandbox inside. Set broker.base_url (bot paper serve), or run without --standby"
        )
    if text:
        raise OperatorMistake.of("E-RUN-008", text, ExitCode.CONFIG)


def _let_go(taking: asyncio.Future[Lease]) -> None:
    """Release a lease that arrives after the stop: nobody is going to use it."""
    if not taking.cancelled() and taking.exception() is None:
        taking.result().release()


class Standby:
    """Waits for a lease. `trouble` says in words why, for the status."""

    def __init__(
        self,
        url: str,
        holder: Holder,
        tell: Callable[[str], None],
        warn: Callable[[str], None],
        take_it: Callable[[str, Holder, Seen], Lease] = take,
        people: Callable[[str], None] = lambda _why: None,
    ) -> None:
        self._url = url
        self._holder = holder
        self._take_it = take_it
        self._tell = tell
        self._warn = warn
        self._people = people
        self._blind_since_s: float | None = None
        self._has_told_people = False
        self._stopping = asyncio.Event()
        self._watch = Watch(url)
        self._patience = Patience()
        self._told = ""
        self._is_prepared = False
        self.trouble = "standby: looking for who holds the journal"
        self.reason = ""

    def stop(self, reason: str, _by: str) -> None:
        self.reason = reason
        self._stopping.set()

    async def lease(self) -> Lease | None:
        """Return the lease once it is ours; None if stopped before. Raises what the journal raises,
        except for a database out of reach.
        """
        while not self._stopping.is_set():
            try:
                seen = await in_time(self._look, LOOK_MAX_S)
                if self._stopping.is_set():
                    break
                if self._judge(seen) and (lease := await self._take(seen)) is not None:
                    return lease
            except (Unreachable, OSError) as error:  # no answer in time, or no thread to ask with
                self._saw_nothing(str(error) or f"no answer for {LOOK_MAX_S:g} s")
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._stopping.wait()
        self._watch.close()
        return None

    def _look(self) -> Seen:
        """Check on a separate thread, which may hang."""
        watch = self._watch
        if not self._is_prepared:
            prepare_journal(self._url)
            self._is_prepared = True
        return watch.look()

    def _judge(self, seen: Seen) -> bool:
        """Report what was seen, and return whether the lease is available."""
        self._sees()
        is_over = self._patience.is_over(seen, boottime_s())
        silent_s, who = seen.silent_s, "a bot that is still starting holds the journal"
        if (holder := seen.holder) is not None:
            since = f"{holder.since:%Y-%m-%d %H:%M:%S} UTC"
            who = f"{holder.host} pid {holder.pid} holds the journal since {since}"
        heartbeat = "and gives no heartbeat (an older program)"
        if silent_s is not None:
            heartbeat = f"heartbeat {max(silent_s, 0):.0f} s ago"
        self.trouble = f"standby: {who}, {heartbeat}"
        if seen.is_free:
            if not is_over:
                text = "the database answers again: the bot that held the journal has"
                self._say(self._tell, f"{text} {GRACE_S:g} s to hold it again")
        elif silent_s is not None and silent_s > GRACE_S:
            text = f"no heartbeat of it for over {GRACE_S:g} s; this standby takes over at"
            self._say(self._warn, f"{who}; {text} {LEASE_LIFE_S:g} s")
        else:
            relief = "when it ends" if silent_s is None else "when it ends or stalls"
            text = f"{who}; this one sends nothing, and takes over {relief}. To end it: bot stop"
            self._say(self._tell, text)
        return is_over

    async def _take(self, seen: Seen) -> Lease | None:
        """Take an available lease; None if somebody was faster, or it was stopped."""
        take_it = partial(self._take_it, self._url, self._holder, seen)
        taking = asyncio.ensure_future(in_time(take_it))
        ending = asyncio.ensure_future(self._stopping.wait())
        try:
            while not (taking.done() or ending.done()):
                # A lease that arrives late is still ours, so the task that takes it is never
                # abandoned.
                await asyncio.wait(
                    {taking, ending}, timeout=LOOK_MAX_S, return_when=asyncio.FIRST_COMPLETED
                )
                if not (taking.done() or ending.done()):
                    self._saw_nothing(f"no answer for over {LOOK_MAX_S:g} s")
            if not taking.done():
                taking.add_done_callback(_let_go)
                return None
            lease = taking.result()
            if self._stopping.is_set():  # it came in the same moment
                lease.release()
                return None
        except LeaseHeld:
            return None
        finally:
            ending.cancel()
        self._watch.close()
        self._sees()
        silent = "" if seen.silent_s is None else f" for {seen.silent_s:.0f} s"
        how = "it no longer held the journal" if seen.is_free else f"it gave no heartbeat{silent}"
        before = "nobody" if seen.holder is None else f"{seen.holder.host} pid {seen.holder.pid}"
        self._tell(f"took over from {before}: {how}")
        return lease

    def _saw_nothing(self, why: str) -> None:
        """The database is away or hangs: nobody can renew a lease there, and nobody takes one."""
        now_s = boottime_s()
        self._patience.saw_nothing(now_s)
        if self._blind_since_s is None:
            self._blind_since_s = now_s
        if now_s - self._blind_since_s >= LEASE_LIFE_S and not self._has_told_people:
            self._has_told_people = True
            self._people(why)
        self._watch = Watch(self._url)
        text = f"the database of the journal does not answer ({why}); this standby goes on asking"
        if not self.trouble.endswith(text):
            since = clock_of(SystemClock().now())
            self.trouble = f"standby: since {since} {text}"
        self._say(self._warn, text)

    def _sees(self) -> None:
        """The database has answered."""
        if self._has_told_people:
            self._people("")
        self._blind_since_s, self._has_told_people = None, False

    def _say(self, show: Callable[[str], None], text: str) -> None:
        """Report what is new, once."""
        if text != self._told:
            self._told = text
            show(text)


async def wait_for_lease(
    loaded: Loaded,
    server: ControlServer,
    screen: Screen,
    fields: Mapping[str, object],
    people: Callable[[str], None],
) -> Lease | str:
    """Wait for the lease as a standby; return it, or why the wait was ended.

    Raises what the journal raises.
    """
    standby = Standby(
        loaded.journal_url,
        this_process(),
        partial(screen.row, "standby"),
        screen.trouble,
        people=people,
    )
    handlers = handlers_of(
        fields,
        why=lambda: standby.trouble,
        refusal=lambda: f"{standby.trouble}. This one sends nothing: ask that one",
        stop=standby.stop,
    )
    server.serve(handlers, {"bot": loaded.bot})
    await server.start()
    with on_signals(SIGNALS, lambda number: standby.stop(number.name, "signal")):
        return await standby.lease() or standby.reason
