"""How a run comes by its journal: it takes the lease, or waits for it, opens the journal and looks
at it. What it holds is let go by its end, in the opposite order.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Final

from bot.clock import SystemClock
from bot.config.settings.load import Loaded
from bot.config.settings.places import remember_run
from bot.journal.engines import is_sqlite
from bot.journal.errors import Holder, Unreachable
from bot.journal.heads import HeadsKeeper
from bot.journal.journal import Journal
from bot.journal.lease import BEAT_S, Lease, acquire
from bot.journal.thread import in_time
from bot.runtime.control.server import ControlServer
from bot.runtime.journal_file import answer, begin_journal, prepare_journal, require_unmixed
from bot.runtime.run_controls import SIGNALS, Screen
from bot.runtime.standby import Standby, require_possible
from bot.runtime.starting import handlers_of
from bot.runtime.state_dir import make_state_dir
from bot.runtime.supervisor import on_signals

HUNG_S: Final = 0.5
"""How long the end of a run waits for a database that does not answer."""
CLOSE_S: Final = 3.0
"""How long the database may take when all is written already."""


def this_process() -> Holder:
    """Who asks for the lease."""
    return Holder(os.getpid(), socket.gethostname(), SystemClock().now())


def begin_state(loaded: Loaded, *, is_standby: bool) -> int | None:
    """Make the state directory; return the child that makes a new journal, as `begin_journal` does.

    It comes before all threads of a run. What a standby waits for is made by another. Raises
    OperatorMistake where no second bot can take over, before anything is made.
    """
    if is_standby:
        require_possible(loaded)
    make_state_dir(loaded.state_dir)
    remember_run(loaded.state_dir, loaded.path, os.environ, loaded.bot, loaded.settings.language)
    return None if is_standby else begin_journal(loaded.journal_url)


async def take_lease(url: str, child: int | None) -> tuple[Lease, str]:
    """Take the lease at once; return it with `new` or `kept`, of the journal. Raises LeaseHeld.

    `child` is what `begin_state` gave.
    """
    state = await answer(url, in_time(partial(prepare_journal, url, child)))
    return await answer(url, in_time(partial(acquire, url, this_process()))), state


async def wait_for_lease(
    loaded: Loaded,
    server: ControlServer,
    screen: Screen,
    fields: Mapping[str, object],
) -> Lease | str:
    """Wait for the lease as a standby does; return it, or why the wait was ended.

    Raises what the journal does.
    """
    standby = Standby(
        loaded.journal_url, this_process(), partial(screen.row, "standby"), screen.trouble
    )
    server.serve(handlers_of(fields, retry=standby, stop=standby.stop), {"bot": loaded.bot})
    await server.start()
    with on_signals(SIGNALS, lambda number: standby.stop(number.name, "signal")):
        return await standby.lease() or standby.reason


async def open_journal(
    loaded: Loaded, lease: Lease, screen: Screen, stack: AsyncExitStack
) -> Journal:
    """Open the journal whose lease we hold. Raises what `Journal.open` does, and OperatorMistake
    for one of another mode.
    """
    url, loop, trouble = loaded.journal_url, asyncio.get_running_loop(), screen.trouble

    def report(text: str) -> None:
        with suppress(RuntimeError):  # the loop has ended: nobody is there to read it
            loop.call_soon_threadsafe(trouble, text)

    keeper = HeadsKeeper(loaded.state_dir, url, SystemClock(), report)
    opening = partial(Journal.open, url, epoch=lease.epoch, keeper=keeper)
    journal = await answer(url, in_time(opening))

    async def close() -> None:
        await journal.close(HUNG_S if journal.stalled_s() else CLOSE_S)

    stack.push_async_callback(close)
    await answer(url, in_time(partial(require_unmixed, url, loaded.settings.mode)))
    return journal


async def keep_lease(journal: Journal, url: str, lose: Callable[[str], None]) -> None:
    """Renew the lease for ever where it runs out; `lose` hears why that could not be done.

    Raises LeaseLost.
    """
    while not is_sqlite(url):
        try:
            await journal.beat()
        except Unreachable as error:
            lose(f"the journal can't be written: {error}")
        await asyncio.sleep(BEAT_S)
