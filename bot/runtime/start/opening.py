"""How a run gets its journal: it takes the lease or waits for it, opens the journal and checks the
state from which it is to continue. At its end everything is released in reverse order.

A standby takes over when the other run ends or stalls. While it waits it holds neither lease nor
broker, so it sends nothing and changes nothing. Plug-ins and configuration are read before; its
socket answers requests for the state and for a stop. It does not judge what it cannot see: it waits
for a database that is away or hangs.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final

from bot.clock import SystemClock, boottime_s
from bot.config.masking import masked_url
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.settings.load import Loaded
from bot.config.settings.places import remember_run
from bot.config.strategies.load import BrokenFile
from bot.domain.local_time import clock_of
from bot.domain.order import TERMINAL_STATES, UNRESOLVED_SENDS
from bot.domain.recovery import Recovery
from bot.domain.rulebook import Rulebook
from bot.journal.database.engines import is_sqlite
from bot.journal.errors import Holder, LeaseHeld, Unreachable
from bot.journal.journal import Journal
from bot.journal.writing.heads import HeadsKeeper
from bot.journal.writing.lease import (
    BEAT_S,
    GRACE_S,
    LEASE_LIFE_S,
    Lease,
    Patience,
    Seen,
    Watch,
    acquire,
    take,
)
from bot.journal.writing.thread import in_time
from bot.runtime.control.server import ControlServer, handlers_of
from bot.runtime.damage import damage_at_start, forgotten
from bot.runtime.journal_file import (
    answer,
    begin_journal,
    prepare_journal,
    require_unmixed,
    this_process,
)
from bot.runtime.run_controls import SIGNALS, Screen
from bot.runtime.state_dir import make_state_dir
from bot.runtime.supervisor import Supervisor, on_signals
from bot.runtime.timetable.gap import Gap, gap_before
from bot.runtime.worlds.environment import Environment

LOOK_S: Final = 1.0
"""How often a standby checks the lease: one short query."""
LOOK_MAX_S: Final = 8.0
"""How long a check may take, or taking the lock again; the driver gives up on a connection after 5.
"""
HUNG_S: Final = 0.5
"""How long the end of a run waits for a database that does not answer."""
CLOSE_S: Final = 3.0
"""How long the database may take once everything is written."""


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


def begin_state(loaded: Loaded, *, is_standby: bool) -> int | None:
    """Create the state directory; return the child that creates a new journal, as `begin_journal`
    does.

    It runs before all threads of a run. A standby's journal is created by the other run. Raises
    OperatorMistake, before creating anything, if no second bot could take over.
    """
    if is_standby:
        require_possible(loaded)
    make_state_dir(loaded.state_dir)
    url, language = loaded.journal_url, loaded.settings.language
    journal = url if is_sqlite(url) else ""
    known = loaded.bot, language, journal
    remember_run(loaded.state_dir, loaded.path, os.environ, *known, os.getpid())
    return None if is_standby else begin_journal(loaded.journal_url)


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


@dataclass(frozen=True, slots=True)
class Opened:
    """A journal whose lease we hold, and its damage, if any."""

    journal: Journal
    epoch: int
    damage: tuple[str, ...]


async def open_journal(
    loaded: Loaded,
    server: ControlServer,
    screen: Screen,
    supervisor: Supervisor,
    stack: AsyncExitStack,
    fields: Mapping[str, object],
    *,
    child: int | None,
    is_standby: bool,
    lose: Callable[[str], None],
    people: Callable[[str], None],
) -> Opened | str:
    """Take the lease, at once or as a standby, and open its journal; return that, or why the wait
    was ended.

    `child` is the result of `begin_state`; `lose` is called if the lease cannot be renewed,
    `people` with why a standby sees nothing, and with an empty text once that is over. Raises what
    `acquire` and `Journal.open` raise, and OperatorMistake for a journal of another mode.
    """
    url, loop, state = loaded.journal_url, asyncio.get_running_loop(), "kept"
    if is_standby:
        stack.push_async_callback(server.stop)
        found = await wait_for_lease(loaded, server, screen, fields, people)
        if isinstance(found, str):
            return found
        lease = found
        server.serve(handlers_of(fields), {"bot": loaded.bot})
    else:
        state = await answer(url, in_time(partial(prepare_journal, url, child)))
        lease = await answer(url, in_time(partial(acquire, url, this_process())))
    stack.callback(lease.release)

    def report(text: str) -> None:
        with suppress(RuntimeError):  # the loop has ended, so nobody can be told
            loop.call_soon_threadsafe(screen.trouble, text)

    keeper = HeadsKeeper(loaded.state_dir, url, SystemClock(), report)
    journal = await answer(
        url, in_time(partial(Journal.open, url, epoch=lease.epoch, keeper=keeper))
    )

    async def close() -> None:
        await journal.close(HUNG_S if journal.is_away() else CLOSE_S)

    stack.push_async_callback(close)
    await answer(url, in_time(partial(require_unmixed, url, loaded.settings.mode)))
    beating = asyncio.create_task(supervisor.guard(keep_lease(journal, lease, url, lose)))
    stack.callback(beating.cancel)
    if state == "new":
        damage = forgotten(url, loaded.state_dir)
    else:
        damage = await damage_at_start(url, loaded.state_dir, lease.epoch)
    is_in_question: bool = bool(damage) or await answer(url, journal.is_in_question())
    if is_in_question:
        keeper.pause()
    screen.row("journal", f"{masked_url(url)} ({state})")
    return Opened(journal, lease.epoch, damage)


async def keep_lease(journal: Journal, lease: Lease, url: str, lose: Callable[[str], None]) -> None:
    """Renew the lease for ever if it can expire, and take its lock again if that is gone; `lose` is
    called with the reason if the lease can't be renewed.

    Raises LeaseLost.
    """
    while not is_sqlite(url):
        try:
            is_locked = await journal.beat()
        except Unreachable as error:
            lose(f"the journal can't be written: {error}")
        else:
            if not is_locked:  # what fails is tried again, and who has it tells the next beat
                with suppress(Unreachable, LeaseHeld, OSError):
                    await in_time(lease.lock_again, LOOK_MAX_S)
        await asyncio.sleep(BEAT_S)


def has_open_work(recovery: Recovery) -> bool:
    """Return whether the journal has an order that may be open at the broker, or may
    have arrived.
    """
    is_open = any(row.intent_id and row.state not in TERMINAL_STATES for row in recovery.orders)
    return is_open or any(stored.state in UNRESOLVED_SENDS for stored in recovery.intents)


def recovered_here(
    found: Recovery,
    damage: tuple[str, ...],
    environment: Environment,
    broken: Sequence[BrokenFile] = (),
) -> Recovery:
    """Return the state from which a run continues, with its journal's damage and the strategies
    that are left out as broken. In simulated time runs that died within minutes do not count, as
    those are not this machine's minutes.
    """
    crashes = found.crashes if environment.has_machines_time else 0
    names = frozenset(each.name for each in broken)
    return replace(found, damage=damage, crashes=crashes, broken=names)


def before_this(url: str, rulebook: Rulebook, began: datetime) -> Gap:
    """Return what the time since the journal was last written has left to do; the first start may
    have waited since it `began`.
    """
    gap = gap_before(url, rulebook.calendar)
    return gap if gap.since else replace(gap, since=began)
