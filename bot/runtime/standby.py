"""A run that waits for the journal of another, and takes over when that one ends or stalls.

It holds neither lease nor broker, so it sends nothing and changes nothing. Plug-ins and
configuration are read before; its socket answers for the state and for a stop. What it cannot look
at it does not judge: a database that is away or hangs is waited for.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from bot.clock import SystemClock, boottime_s
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.settings.load import Loaded
from bot.domain.instrument import EXCHANGE_TZ
from bot.journal.engines import is_sqlite
from bot.journal.errors import Holder, LeaseHeld, Unreachable
from bot.journal.lease import GRACE_S, LEASE_LIFE_S, Lease, Patience, Seen, Watch, take
from bot.journal.thread import in_time
from bot.runtime.journal_file import prepare_journal

LOOK_S: Final = 1.0
"""How often a standby looks at the lease: one short query."""
LOOK_MAX_S: Final = 8.0
"""How long a look may take; the driver gives a connection up after 5."""


def require_possible(loaded: Loaded) -> None:
    """Raise OperatorMistake where no second bot could take over."""
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


class Standby:
    """Waits for a lease. `trouble` says in words why it does, for the status."""

    def __init__(
        self,
        url: str,
        holder: Holder,
        tell: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        self._url = url
        self._holder = holder
        self._tell = tell
        self._warn = warn
        self._stopping = asyncio.Event()
        self._watch = Watch(url)
        self._patience = Patience()
        self._told = ""
        self._is_prepared = False
        self.trouble = "standby: looking for who holds the journal"
        self.reason = ""

    def stop(self, reason: str, _by: str) -> None:
        """Wait no longer."""
        self.reason = reason
        self._stopping.set()

    async def lease(self) -> Lease | None:
        """Return the lease once it is ours; None: stopped before. Raises what the journal does,
        but for a database that is out of reach.
        """
        while not self._stopping.is_set():
            try:
                seen = await in_time(self._look, LOOK_MAX_S)
                if self._judge(seen) and (lease := await self._take(seen)) is not None:
                    return lease
            except (Unreachable, TimeoutError) as error:
                self._saw_nothing(str(error) or f"no answer for {LOOK_MAX_S:g} s")
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._stopping.wait()
        self._watch.close()
        return None

    def _look(self) -> Seen:
        """On a thread of its own, which may hang."""
        watch = self._watch
        if not self._is_prepared:
            prepare_journal(self._url)
            self._is_prepared = True
        return watch.look()

    def _judge(self, seen: Seen) -> bool:
        """Say what was seen, and whether the lease is to be had."""
        is_over = self._patience.is_over(seen, boottime_s())
        silent_s = seen.silent_s
        who = _words_of(seen.holder)
        self.trouble = f"standby: {who}, {_heartbeat(silent_s)}"
        if seen.is_free:
            return True
        if silent_s is not None and silent_s > GRACE_S:
            text = f"no heartbeat of it for over {GRACE_S:g} s; this standby takes over at"
            self._say(self._warn, f"{who}; {text} {LEASE_LIFE_S:g} s")
        else:
            relief = "when it ends" if silent_s is None else "when it ends or stalls"
            text = f"{who}; this one sends nothing, and takes over {relief}. To end it: bot stop"
            self._say(self._tell, text)
        return is_over

    async def _take(self, seen: Seen) -> Lease | None:
        """Take what is to be had; None: somebody was faster, or it is stopped."""
        taking = asyncio.ensure_future(in_time(partial(take, self._url, self._holder, seen)))
        ending = asyncio.ensure_future(self._stopping.wait())
        try:
            while not (taking.done() or ending.done()):
                # A lease that comes late is still ours: what takes it is never given up.
                await asyncio.wait(
                    {taking, ending}, timeout=LOOK_MAX_S, return_when=asyncio.FIRST_COMPLETED
                )
                if not (taking.done() or ending.done()):
                    self._saw_nothing(f"no answer for over {LOOK_MAX_S:g} s")
            if not taking.done():
                return None
            lease = taking.result()
        except LeaseHeld:
            return None
        finally:
            ending.cancel()
        self._watch.close()
        silent = "" if seen.silent_s is None else f" for {seen.silent_s:.0f} s"
        how = "it has ended" if seen.is_free else f"it gave no heartbeat{silent}"
        before = "nobody" if seen.holder is None else f"{seen.holder.host} pid {seen.holder.pid}"
        self._tell(f"took over from {before}: {how}")
        return lease

    def _saw_nothing(self, why: str) -> None:
        """The database is away or hangs: nobody can renew a lease there, and nobody takes one."""
        self._patience.saw_nothing(boottime_s())
        self._watch = Watch(self._url)
        text = f"the database of the journal does not answer ({why}); this standby goes on asking"
        if not self.trouble.endswith(text):
            since = f"{SystemClock().now().astimezone(EXCHANGE_TZ):%H:%M:%S}"
            self.trouble = f"standby: since {since} {text}"
        self._say(self._warn, text)

    def _say(self, show: Callable[[str], None], text: str) -> None:
        """Say what is new, once."""
        if text != self._told:
            self._told = text
            show(text)


def _words_of(holder: Holder | None) -> str:
    if holder is None:
        return "a bot that is still starting holds the journal"
    since = f"{holder.since:%Y-%m-%d %H:%M:%S} UTC"
    return f"{holder.host} pid {holder.pid} holds the journal since {since}"


def _heartbeat(silent_s: float | None) -> str:
    if silent_s is None:
        return "and gives no heartbeat (an older program)"
    return f"heartbeat {max(silent_s, 0):.0f} s ago"
