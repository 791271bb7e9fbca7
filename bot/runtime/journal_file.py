"""Creates a new journal for a run, and turns the journal's errors into messages for operators."""

import asyncio
import os
import signal
import socket
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeVar

from bot.clock import SystemClock
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.settings.places import DEFAULT
from bot.domain.account import masked_account
from bot.domain.entry import Entry
from bot.domain.local_time import day_and_clock_of
from bot.journal.database.engines import file_of, is_sqlite, unreachable
from bot.journal.database.schema import check, migrate
from bot.journal.errors import (
    Contradicted,
    Corrupt,
    Holder,
    JournalError,
    LeaseHeld,
    LeaseLost,
    NeedsMigration,
    NotOwner,
    OlderCopy,
    Unreachable,
    UnusableUrl,
    WrittenByAnother,
)
from bot.journal.reading.reader import JournalReader
from bot.runtime.emergency_file import only_here

if TYPE_CHECKING:
    from bot.config.settings.load import Loaded
    from bot.domain.recovery import Recovery
    from bot.engine.settings import LoadedStrategy
    from bot.journal.journal import Journal
    from bot.journal.writing.emergency import EmergencyJournal

CHECK: Final = "Check: bot db check"
MIGRATE: Final = "Do: bot db migrate"
FOREIGN: Final = (
    "It is a later program's, or somebody else's: install that version, or set another journal.url"
)
TO_RUN: Final = f"No order is placed without a journal. {CHECK}"
PAGE: Final = "More: bot docs journal"
TO_MAKE: Final = "The first run makes it (bot run), or: bot db migrate"
WRITES: Final = (
    "One bot at a time: bot stop. On PostgreSQL this one may wait for it: bot run --standby"
)
SILENT: Final = (
    "If it hangs: bot stop. If its machine has lost its power or its network, the database lets go "
    "of it within half a minute: start again then, or let this one wait: bot run --standby"
)
_NO_OTHER: Final = (
    "Another journal.url is for a bot of its own: it knows nothing of the orders and shares in "
    "this one"
)
ANSWER_S: Final = 12.0
"""How long a start waits for its database; the driver gives up on a connection after 5."""
END_S: Final = 2.0
"""How long the end of a run waits for it to take the last row."""
_OF_ITS_OWN: Final = (
    "a state_dir of its own (and a journal.url, where that is set): bot docs upgrade"
)

T = TypeVar("T")


def begin_journal(url: str) -> int | None:
    """Let a child process create a new journal file; return its process id, None if there is none.

    So Alembic's 10 MB, needed only once, leave with the child. A forked process lacks the other
    threads but inherits their locks, so only a process with one thread forks.
    """
    is_new = is_sqlite(url) and not file_of(url).exists()
    if not is_new or threading.active_count() > 1 or not hasattr(os, "fork"):
        return None
    child = os.fork()
    if child == 0:
        status = 1
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # the parent reports what there is to say about its end
            signal.signal(each, signal.SIG_DFL)
        try:
            migrate(url)
            status = 0
        finally:
            os._exit(status)  # nothing that the child has inherited is closed twice
    return child


def prepare_journal(url: str, child: int | None = None) -> str:
    """Create the tables of a new journal; return `new` or `kept` for the screen.

    What `child`, from `begin_journal`, could not do is done here, with full error reporting. An
    older schema is never changed silently: opening the journal then raises NeedsMigration.
    """
    if child is not None and os.waitpid(child, 0)[1] == 0:
        return "new"
    if not _has_tables(url):
        migrate(url)
        return "new"
    return "kept"


def _has_tables(url: str) -> bool:
    is_missing = is_sqlite(url) and not file_of(url).is_file()
    return not is_missing and check(url).found is not None


def holds_runs(url: str) -> bool:
    """Return whether a bot has ever written this journal. Raises what the journal raises."""
    if not _has_tables(url):
        return False
    with JournalReader(url) as reader:
        return bool(reader.runs())


def require_unmixed(url: str, mode: str) -> None:
    """Raise OperatorMistake if a run in `mode` would continue the journal of another mode.

    What a strategy holds is counted from the fills in the journal, whatever broker they came from:
    in a journal for both, shares of a simulated account would be sold for real.
    """
    with JournalReader(url) as reader:
        others = {run.mode for run in reader.runs()} - {mode}
    if others:
        text = (
            f"this journal has runs of mode {' and '.join(map(repr, sorted(others)))}: what was "
            f"bought there would count as held in mode {mode!r}. Give each mode {_OF_ITS_OWN}"
        )
        raise OperatorMistake.of("E-RUN-006", text, ExitCode.CONFIG)


def require_same_account(
    left: "Recovery", strategies: Sequence["LoadedStrategy"], ours: str
) -> None:
    """Raise OperatorMistake if one of these strategies holds what was traded on another account."""
    for name in sorted(each.plan.name for each in strategies):
        stored = left.strategies.get(name)
        if stored is not None and (others := stored.held_in - {ours}):
            held = ", ".join(f"{n:,} {symbol}" for symbol, (n, _) in stored.positions.items())
            theirs = " and ".join(map(masked_account, sorted(others)))
            text = (
                f"{name} holds {held} by this journal, traded on the account {theirs}: on "
                f"{masked_account(ours)} it would sell what it never bought. Put broker.account "
                f"back as it was until that is sold, or give each account {_OF_ITS_OWN}"
            )
            raise OperatorMistake.of("E-RUN-006", text, ExitCode.CONFIG)


_KEPT: Final = (
    "Halts, cancels and answers among them are in the emergency journal, which the next start "
    "takes over; it asks the broker for the rest."
)
_LOST: Final = (
    "And {}: a halt of this run may be lost. Look at bot status after the next start, which asks "
    "the broker for the orders."
)


def to_make_or_restore(loaded: "Loaded") -> str:
    """Return what to do about a journal that is not there: make no other where there was one."""
    from bot.journal.writing.heads import read_heads_file  # what only reads loads nothing to write

    if not (kept := read_heads_file(loaded.state_dir, loaded.journal_url).kept):
        return TO_MAKE
    at = day_and_clock_of(kept[-1].at)
    return f"There was one (heads of {at}): put it back, and run no bot before. {PAGE}"


@contextmanager
def journal_errors(
    origin: str, *, what_to_do: str = CHECK, to_make: Callable[[], str] = lambda: TO_MAKE
) -> Iterator[None]:
    """Turn the journal's errors into OperatorMistakes that say what to do.

    `origin` names the setting; `what_to_do` is the advice for a database that is out of reach,
    `to_make` for one that is not there.
    """
    try:
        yield
    except LeaseHeld as error:
        what_to_do = WRITES if error.silent_s is None else SILENT
        text = f"{error}. {what_to_do}. {_NO_OTHER}"
        raise OperatorMistake.of("E-DB-004", text, ExitCode.NOT_RUNNING) from error
    except (LeaseLost, WrittenByAnother) as error:
        raise taken_over(error) from error
    except NeedsMigration as error:
        text = f"{error}. {MIGRATE if error.is_known else FOREIGN}"
        raise OperatorMistake.of("E-DB-002", text, ExitCode.DATABASE) from error
    except Unreachable as error:
        advice = to_make() if error.is_absent and what_to_do is CHECK else what_to_do
        advice = f"Make room on its disk: df, du. {advice}" if error.is_full else advice
        text = f"{error}, from {_source(origin)}. {advice}"
        raise OperatorMistake.of("E-DB-001", text, ExitCode.DATABASE) from error
    except NotOwner as error:
        text = f"{error}: give the owner's address once: BOT_JOURNAL__URL=… before the command"
        raise OperatorMistake.of("E-DB-012", text, ExitCode.DATABASE) from error
    except Corrupt as error:
        text = (
            f"{error}, from {_source(origin)}. Keep the file as it is: move it away together with "
            "any -wal and -shm beside it, then put the last good copy in its place: bot docs "
            "journal"
        )
        raise OperatorMistake.of("E-DB-003", text, ExitCode.DATABASE) from error
    except UnusableUrl as error:
        text = f"{error}, from {_source(origin)}"
        raise OperatorMistake.of("E-DB-003", text, ExitCode.DATABASE) from error
    except JournalError as error:
        text = f"{error}, from {_source(origin)}"
        raise OperatorMistake.of("E-DB-009", text, ExitCode.DATABASE) from error


def _source(origin: str) -> str:
    return "the default journal.url" if origin == DEFAULT else f"journal.url in {origin}"


async def answer(url: str, work: Awaitable[T], timeout_s: float = ANSWER_S) -> T:
    """Await an answer of the journal's database, but not for ever. Raises Unreachable."""
    try:
        async with asyncio.timeout(timeout_s):
            return await work
    except TimeoutError as error:
        raise unreachable(url, f"it has not answered for {timeout_s:g} s") from error


def left_unwritten(reason: str, entries: Sequence[Entry], unkept: str) -> OperatorMistake:
    """Report what could not be written to the journal by the end of a run; `unkept`: why the
    emergency journal lacks it too, if it does.
    """
    text = (
        f"stopped by {reason}, but the journal does not answer. Not written: "
        f"{counted(entries) or 'the end'}. {where_kept(unkept)} {CHECK}"
    )
    return OperatorMistake.of("E-DB-010", text, ExitCode.DATABASE)


def where_kept(unkept: str) -> str:
    """Say what becomes of what the journal does not have; `unkept`: why the emergency journal lacks
    it too, if it does.
    """
    return _LOST.format(unkept) if unkept else _KEPT


def counted(entries: Sequence[Entry]) -> str:
    """Say how many rows of each kind these are, and of which orders; empty for none."""
    kinds = Counter(type(entry).__name__ for entry in entries)
    text = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    ids = {getattr(entry, name, None) for entry in entries for name in ("order_id", "intent_id")}
    orders = ", ".join(sorted(filter(None, ids)))
    return f"{text}; orders {orders}" if orders else text


def taken_over(error: LeaseLost | WrittenByAnother, unseen: str = "") -> OperatorMistake:
    """Report that another process writes our journal now, and who has the open orders; or that it
    lacks what we wrote. `unseen`: what the other one does not know.
    """
    what = str(error)
    if isinstance(error, OlderCopy):
        text = (
            f"{what}: its server failed over to one without the last commits, or a copy was put in "
            "its place. This run has ended and sends nothing more; orders it left open stay at the "
            "broker. If the journal that has those entries is still there, put it back (a service "
            "starts again by itself: systemctl stop it first); any other start is held until a "
            "person has looked: bot docs journal"
        )
        return OperatorMistake.of("E-DB-013", text, ExitCode.DATABASE)
    if isinstance(error, LeaseLost):
        what = (
            f"another bot has taken this journal over (lease {error.stored}, ours was {error.ours})"
            f"{f': {error.holder}' if error.holder else ''}"
        )
    text = (
        f"{what}. This one has ended and sends nothing more; orders it left open are the other "
        f"one's now.{unseen} Let one bot write a journal: bot stop. {_NO_OTHER}"
    )
    return OperatorMistake.of("E-DB-004", text, ExitCode.NOT_RUNNING)


def this_process() -> Holder:
    """Identify the process that requests the lease."""
    return Holder(os.getpid(), socket.gethostname(), SystemClock().now())


@asynccontextmanager
async def ending_run(
    journal: "Journal",
    loaded: "Loaded",
    run_id: int,
    now: Callable[[], datetime],
    emergency: "EmergencyJournal",
) -> AsyncIterator[None]:
    """Record the end of a run that ends by a mistake of its operator, such as a symbol that the
    broker does not know: it neither died nor was killed. Raises OperatorMistake, also for what a
    journal refuses, unless that is our bug.
    """
    try:
        yield
    except (LeaseLost, WrittenByAnother) as error:
        raise taken_over(error, await only_here(emergency)) from error
    except Contradicted:
        raise
    except JournalError:
        with journal_errors(loaded.origin_of("journal.url")):
            raise
    except OperatorMistake as mistake:
        with suppress(JournalError):
            ending = journal.end_run(run_id, mistake.problems[0].head, at=now())
            await answer(loaded.journal_url, ending, END_S)
        raise


def crashed(url: str) -> bool:
    """Return whether the last run of a journal has no end: it was killed, or its machine was."""
    with JournalReader(url) as reader:
        runs = reader.runs()
    return bool(runs) and runs[-1].ended_at is None
