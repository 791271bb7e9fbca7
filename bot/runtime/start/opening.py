"""How a run gets its journal: it takes the lease or waits for it, opens the journal and checks the
state from which it is to continue. At its end everything is released in reverse order.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import count
from typing import Final

from bot.clock import SystemClock, boottime_s
from bot.config.masking import masked_url
from bot.config.settings.load import Loaded
from bot.config.settings.places import remember_run
from bot.config.settings.sources import is_of_one_terminal
from bot.config.strategies.load import BrokenFile
from bot.domain.order import TERMINAL_STATES, UNRESOLVED_SENDS
from bot.domain.recovery import Recovery
from bot.domain.rulebook import Rulebook
from bot.journal.database.engines import is_sqlite
from bot.journal.database.schema import check
from bot.journal.errors import LeaseHeld, Unreachable
from bot.journal.journal import Journal
from bot.journal.writing.heads import HeadsKeeper
from bot.journal.writing.lease import BEAT_S, Lease, acquire
from bot.journal.writing.thread import in_time
from bot.runtime.control.server import ControlServer, handlers_of
from bot.runtime.damage import check_words, damage_at_start, forgotten
from bot.runtime.journal_file import (
    answer,
    begin_journal,
    prepare_journal,
    require_unmixed,
    this_process,
)
from bot.runtime.run_controls import RunOptions, Screen
from bot.runtime.start.retry import RETRY_S
from bot.runtime.start.standby import LOOK_MAX_S, require_possible, wait_for_lease
from bot.runtime.state_dir import make_state_dir
from bot.runtime.supervisor import Supervisor
from bot.runtime.timetable.gap import Gap, gap_before
from bot.runtime.worlds.environment import Environment

HUNG_S: Final = 0.5
"""How long the end of a run waits for a database that does not answer."""
TELL_S: Final = 60.0
"""How long a start waits for its database before people are told."""
CLOSE_S: Final = 3.0
"""How long the database may take once everything is written."""


def begin_state(loaded: Loaded, options: RunOptions) -> int | None:
    """Create the state directory; return the child that creates a new journal, as `begin_journal`
    does.

    It runs before all threads of a run. A standby's journal is created by the other run. Raises
    OperatorMistake, before creating anything, if no second bot could take over.
    """
    if options.is_standby:
        require_possible(loaded)
    make_state_dir(loaded.state_dir)
    url, language = loaded.journal_url, loaded.settings.language
    journal = url if is_sqlite(url) else ""
    known = loaded.bot, language, journal, os.getpid()
    is_apart = options.dry_run or is_of_one_terminal(loaded.origin_of("broker.account"))
    remember_run(loaded.state_dir, loaded.path, os.environ, *known, is_apart=is_apart)
    return None if options.is_standby else begin_journal(loaded.journal_url)


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
    options: RunOptions,
    lose: Callable[[str], None],
    people: Callable[[str, str], None],
) -> Opened | str:
    """Take the lease, at once or as a standby, and open its journal; return that, or why the wait
    was ended. A service waits for a database that does not answer.

    `child` is the result of `begin_state`; `lose` is called if the lease can't be renewed, `people`
    with who (`standby` or `start`) sees nothing, and why: empty once that is over. Raises what
    `acquire` and `Journal.open` raise, and OperatorMistake for a journal of another mode.
    """
    url, loop, state = loaded.journal_url, asyncio.get_running_loop(), "kept"
    if options.is_standby:
        stack.push_async_callback(server.stop)
        lease = await wait_for_lease(loaded, server, screen, fields, partial(people, "standby"))
        if isinstance(lease, str):
            return lease
        server.serve(handlers_of(fields), {"bot": loaded.bot})
    else:
        if options.is_service and not is_sqlite(url):
            await wait_for_database(url, screen.trouble, partial(people, "start"))
        state = await answer(url, in_time(partial(prepare_journal, url, child)))
        lease = await answer(url, in_time(partial(acquire, url, this_process())))
    stack.callback(lease.release)

    def report(text: str) -> None:
        with suppress(RuntimeError):  # the loop has ended, so nobody can be told
            loop.call_soon_threadsafe(screen.trouble, text)

    keeper = HeadsKeeper(loaded.state_dir, url, SystemClock(), report)
    begin = partial(Journal.open, url, epoch=lease.epoch, keeper=keeper)
    journal = await answer(url, in_time(begin))

    async def close() -> None:
        await journal.close(HUNG_S if journal.is_away() else CLOSE_S)

    stack.push_async_callback(close)
    await answer(url, in_time(partial(require_unmixed, url, loaded.settings.mode)))
    beating = asyncio.create_task(supervisor.guard(keep_lease(journal, lease, url, lose)))
    stack.callback(beating.cancel)
    if state == "new":
        damage = forgotten(url, loaded.state_dir)
    else:
        if words := check_words(url):
            screen.row("journal", words)
        damage = await damage_at_start(url, loaded.state_dir, lease.epoch)
    is_in_question: bool = bool(damage) or await answer(url, journal.is_in_question())
    if is_in_question:
        keeper.pause()
    screen.row("journal", f"{masked_url(url)} ({state})")
    return Opened(journal, lease.epoch, damage)


async def wait_for_database(
    url: str, tell: Callable[[str], None], people: Callable[[str], None]
) -> None:
    """Wait until the journal's database answers: after a cut of the power its machine may need
    longer than ours. It only looks, so that a look which hangs leaves nothing behind.

    `people` gets why after TELL_S. Raises Unreachable for a database that has answered and refuses.
    """
    began_s, has_told = boottime_s(), False
    for tries in count():
        try:
            await answer(url, in_time(partial(check, url)))
        except Unreachable as error:
            if not error.may_pass:
                raise
            why = error.reason
        else:
            break
        pause_s = RETRY_S[min(tries, len(RETRY_S) - 1)]
        what = f"the database of the journal does not answer ({why})"
        tell(f"{what}. The bot stays and asks again in {pause_s:.0f} s. To end it: systemctl stop")
        if not has_told and boottime_s() - began_s >= TELL_S:
            has_told = True
            people(why)
        await asyncio.sleep(pause_s)
    if has_told:
        people("")


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
