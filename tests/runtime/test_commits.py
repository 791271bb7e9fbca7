"""What survives of a cancel or a halt while the journal, or its stand-in, does not answer."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bot.clock import SimulatedClock
from bot.config.problems import OperatorMistake
from bot.domain.entry import Entry, IntentMoved, RunState, StateChanged
from bot.domain.message import Event, JournalHealthChanged
from bot.domain.order import SendState
from bot.engine.risk.breaks import DAMAGE, SCOPE
from bot.journal.database.engines import file_of
from bot.journal.database.schema import migrate
from bot.journal.errors import Unreachable
from bot.journal.journal import Journal
from bot.journal.writing.emergency import FILE, UNREAD, EmergencyJournal, Kept
from bot.journal.writing.thread import in_time
from bot.runtime.commits import WATCHED, Commits, Committed
from bot.runtime.emergency_file import take_over
from bot.runtime.journal_file import answer, left_unwritten
from bot.runtime.supervisor import Trouble
from tests.faults.hanging import locked
from tests.journal.facts import DAY, Story, after
from tests.staging import commits_of

START = after(0)
STARTED = Story().started
HALT = StateChanged(START, RunState.RUNNING, RunState.HALTED, "by hand", "operator")
TIMEOUT_S = 0.1


@dataclass
class Room:
    """A journal with an intent in it, what writes to it, and what that has reported."""

    folder: Path
    url: str
    journal: Journal
    commits: Commits
    events: list[Event]
    said: list[str]

    def kept(self) -> tuple[Entry, ...]:
        return EmergencyJournal(self.folder).read().entries

    def attempts(self) -> int:
        with closing(sqlite3.connect(file_of(self.url))) as journal:
            [[count]] = journal.execute("select count(*) from attempts")
        return int(count)


@pytest.fixture
async def room(tmp_path: Path, sqlite_url: str) -> AsyncIterator[Room]:
    journal = Journal.open(sqlite_url)
    await journal.write([Story().recorded])
    events, said = list[Event](), list[str]()
    clock = SimulatedClock(START)
    commits = commits_of(journal, tmp_path, events.append, clock, said.append, TIMEOUT_S)
    yield Room(tmp_path, sqlite_url, journal, commits, events, said)
    await journal.close()


@contextmanager
def hanging_file(folder: Path) -> Iterator[None]:
    """An emergency journal whose disk does not answer: nobody reads what is written to it."""
    os.mkfifo(folder / FILE)
    yield
    reader = os.open(folder / FILE, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(folder / FILE, os.O_WRONLY | os.O_NONBLOCK)
    os.close(reader)
    os.close(writer)


async def test_with_a_journal_that_answers_nothing_is_kept_beside_it(room: Room) -> None:
    room.commits._timeout_s = 60.0  # it answers, on a busy machine perhaps late

    assert await room.commits.protect(STARTED) == Committed(is_stored=True)

    assert (room.attempts(), room.kept(), room.events) == (1, (), [])


async def test_with_a_journal_that_hangs_it_is_kept_beside_it_and_stored_once(room: Room) -> None:
    with locked(file_of(room.url)):
        committed = await room.commits.protect(STARTED)
        at_once = (room.commits.is_cut, room.kept(), room.attempts())
    await room.commits.catch_up()
    room.commits.find()
    await room.commits._forget()

    assert committed == Committed(is_stored=True)
    assert at_once == (True, (STARTED,), 0)
    assert (room.attempts(), room.kept()) == (1, ())
    assert [getattr(event, "is_healthy", None) for event in room.events] == [False, True]


async def test_a_journal_that_fails_is_as_good_as_one_that_hangs(room: Room) -> None:
    room.commits.lose("no space left")

    committed = await room.commits.protect(STARTED)

    assert committed == Committed(is_stored=True)
    assert (room.kept(), room.attempts()) == ((STARTED,), 0)


async def test_nothing_is_found_again_while_only_the_file_has_something(room: Room) -> None:
    room.commits.lose("no space left")
    await room.commits.protect(STARTED)

    room.commits.find()

    assert (room.commits.is_cut, room.kept()) == (True, (STARTED,))


async def test_a_file_that_can_not_be_written_is_said_and_nothing_leaves(room: Room) -> None:
    (room.folder / FILE).mkdir()
    room.commits.lose("no space left")

    committed = await room.commits.protect(STARTED)

    assert not committed.is_stored
    why = "the emergency journal can't be written either (Is a directory)"
    assert committed.reason == why
    assert "Neither orders nor cancels leave" in room.said[-1]
    assert room.commits.beside == []


async def test_a_file_that_hangs_too_is_said_and_nothing_leaves(room: Room, tmp_path: Path) -> None:
    with hanging_file(tmp_path):
        room.commits.lose("no space left")
        first = await room.commits.protect(STARTED)
        again = await asyncio.wait_for(room.commits.protect(STARTED), 30)

    assert (first.is_stored, again.is_stored) == (False, False)
    assert "does not answer either" in room.said[-1]
    said = str(left_unwritten("SIGTERM", [HALT], room.commits.unkept))
    assert "1 StateChanged. And the emergency journal does not answer either: a halt" in said
    assert "which the next start takes over" in str(left_unwritten("SIGTERM", [HALT], ""))


def _hanging_files(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Have every sync of a file hang until the event is set."""
    thawed, sync = threading.Event(), os.fsync

    def hang(descriptor: int) -> None:
        thawed.wait()
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", hang)
    return thawed


async def test_a_file_that_has_hung_is_tried_again_and_that_is_said(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    thawed = _hanging_files(monkeypatch)
    room.commits.lose("no space left")
    [out_of_reach] = room.said
    first = await room.commits.protect(STARTED)
    thawed.set()
    at_once = await room.commits.protect(STARTED)
    monkeypatch.setattr("bot.runtime.commits.STUCK_S", 0.0)
    later = await room.commits.protect(STARTED)

    assert (first.is_stored, at_once.is_stored, later.is_stored) == (False, False, True)
    assert room.kept() == (STARTED, STARTED)  # the journal takes it once
    assert "Neither orders nor cancels leave" in room.said[1]
    assert room.said[-1] == out_of_reach
    assert room.commits.unkept == "the emergency journal does not answer either"


async def test_a_file_that_hangs_until_the_journal_is_back_is_no_trouble_any_more(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    thawed = _hanging_files(monkeypatch)
    monkeypatch.setattr("bot.runtime.commits.KEEP_S", 0.05)
    room.commits.lose("no space left")
    room.commits.keep([HALT])
    await asyncio.sleep(0)

    room.commits.find()
    await asyncio.wait(room.commits._at_work)
    thawed.set()

    assert (len(room.said), room.commits._trouble.text) == (2, "")
    assert room.said[-1].startswith("the journal answers again")


async def test_a_write_that_hangs_is_seen_by_looking(room: Room) -> None:
    with locked(file_of(room.url)):
        writing = asyncio.ensure_future(room.commits.write([HALT]))
        watching = asyncio.ensure_future(room.commits.watch())
        async with asyncio.timeout(60):
            await room.commits._cut.wait()
        watching.cancel()
    await writing

    [event] = room.events
    assert isinstance(event, JournalHealthChanged)
    assert event.detail == f"the journal has not answered for {TIMEOUT_S:g} s"


async def test_that_another_may_have_the_lease_is_said_once_and_not_at_each_look(
    tmp_path: Path,
) -> None:
    looks, said = 0, list[str]()
    has_looked = asyncio.Event()

    class Doubtful(Journal):
        def __init__(self) -> None: ...

        def stalled_s(self) -> float:
            return 0.0

        def is_lease_doubtful(self) -> bool:
            nonlocal looks
            looks += 1
            if looks == 3:
                has_looked.set()
            return True

        def is_watched(self) -> bool:
            return True

    commits = commits_of(Doubtful(), tmp_path, lambda _: None, SimulatedClock(START), said.append)
    commits.lose("no connection")
    watching = asyncio.ensure_future(commits.watch())
    await has_looked.wait()
    watching.cancel()

    assert len(said) == 2
    assert said[0].startswith(f"no connection{WATCHED} (since ")
    assert commits.why == f"no connection{WATCHED}"
    assert said[1].endswith("Nothing leaves here until the journal answers")


async def test_a_start_takes_the_file_over_once_and_says_so(room: Room) -> None:
    emergency = EmergencyJournal(room.folder)
    emergency.keep([HALT, STARTED])
    with (room.folder / FILE).open("a") as file:
        file.write("cut o")

    async def ask(work: object) -> int:
        return await answer(room.url, work)  # type: ignore[arg-type]

    words = await take_over(room.journal, emergency, ask)

    assert words == (
        "took over 2 of 2 entries of an earlier run; 1 could not be read and is in "
        f"{room.folder / UNREAD}: look at the broker's orders of that day"
    )
    assert (room.folder / UNREAD).read_text() == "\ncut o\n"
    assert (room.attempts(), emergency.read()) == (1, Kept((), 0))


async def test_a_line_that_contradicts_the_journal_costs_itself_alone(room: Room) -> None:
    """As what ended the last run may do: then no start would get past it."""
    emergency = EmergencyJournal(room.folder)
    order = STARTED.intent_id
    impossible = IntentMoved(after(1), order, SendState.READY, SendState.ACKED, "accepted")
    for line in ([HALT], [impossible], [STARTED]):
        emergency.keep(line)
    kept = (room.folder / FILE).read_text().strip("\0\n").splitlines()[2]

    async def ask(work: object) -> int:
        return await answer(room.url, work)  # type: ignore[arg-type]

    words = await take_over(room.journal, emergency, ask)

    assert words == (
        "took over 2 of 3 entries of an earlier run; 1 contradicts the journal and is in "
        f"{room.folder / UNREAD} (orders {order}): look at the broker's orders of that day"
    )
    assert (room.folder / UNREAD).read_text() == f"\n{kept}\n"
    assert (room.attempts(), emergency.read()) == (1, Kept((), 0))


async def test_what_another_journal_than_its_own_was_given_is_there_for_its_own(
    room: Room, tmp_path: Path
) -> None:
    emergency = EmergencyJournal(room.folder)
    emergency.keep([HALT, STARTED])
    url = f"sqlite:///{tmp_path / 'new.db'}"
    migrate(url)
    new = Journal.open(url)

    async def ask(work: object) -> int:
        return await answer(room.url, work)  # type: ignore[arg-type]

    words = await take_over(new, emergency, ask, ("it is new",))
    await new.close()

    assert words == (
        "took over 1 of 2 entries of an earlier run. They stay in "
        f"{room.folder / FILE} too: this journal is damaged, or not theirs, and the right one is "
        "to get them at its start; until then no space is reserved there for what this run may "
        "have to keep: see that its disk has room (df)"
    )
    assert await take_over(room.journal, emergency, ask) == (
        "took over 2 of 2 entries of an earlier run"
    )
    recovery = await room.journal.recover(DAY)
    assert (room.attempts(), recovery.run_state) == (1, RunState.HALTED)
    assert room.kept() == ()


async def test_a_journal_that_was_away_leaves_what_is_another_s_in_the_file(
    room: Room, tmp_path: Path
) -> None:
    emergency = EmergencyJournal(room.folder)
    emergency.keep([HALT, STARTED])
    url = f"sqlite:///{tmp_path / 'new.db'}"
    migrate(url)
    new, clock = Journal.open(url), SimulatedClock(START)
    later = replace(HALT, at=after(60), reason="while it was away")

    async def ask(work: object) -> int:
        return await answer(room.url, work)  # type: ignore[arg-type]

    await take_over(new, emergency, ask, ("it is new",))
    commits = Commits(
        new,
        emergency,
        timeout_s=TIMEOUT_S,
        now=clock.now,
        post=room.events.append,
        trouble=Trouble(clock.now, room.said.append),
    )
    commits.lose("no space left")
    await commits.protect(later)
    await commits.catch_up()
    commits.find()
    await commits.kept()
    await new.close()

    assert room.kept() == (HALT, STARTED, later)
    assert await take_over(room.journal, EmergencyJournal(room.folder), ask) == (
        "took over 3 of 3 entries of an earlier run"
    )
    assert room.kept() == ()


async def test_it_is_there_for_its_own_until_a_person_accepts_that_this_is_another(
    room: Room,
) -> None:
    emergency = EmergencyJournal(room.folder)
    emergency.keep([HALT, STARTED])
    scope, why = f"{SCOPE}{DAMAGE}", "it is new, and the one before is gone"
    found = StateChanged(after(1), RunState.RUNNING, RunState.HALTED, why, "engine", scope=scope)
    accepted = replace(found, at=after(2), from_state=found.to_state, to_state=found.from_state)
    await room.journal.write([found])

    async def ask(work: object) -> int:
        return await answer(room.url, work)  # type: ignore[arg-type]

    again = await take_over(room.journal, emergency, ask)
    kept = room.kept()
    await room.journal.write([accepted])
    at_last = await take_over(room.journal, emergency, ask)

    assert "They stay in" in again
    assert kept == (HALT, STARTED)
    assert at_last == "took over 0 of 2 entries of an earlier run"
    assert room.kept() == ()


async def test_what_can_not_be_read_of_it_is_said_beside_another_journal_too(room: Room) -> None:
    emergency = EmergencyJournal(room.folder)
    emergency.keep([HALT])
    with emergency.path.open("ab") as file:
        file.write(b"\n{torn\n")

    async def ask(work: object) -> int:
        return await answer(room.url, work)  # type: ignore[arg-type]

    words = await take_over(room.journal, emergency, ask, ("it is new",))

    said = f"; 1 could not be read and is in {room.folder / FILE}: look at the broker's orders"
    assert said in words


@pytest.mark.parametrize("is_hanging", [False, True])
async def test_a_file_that_a_start_can_not_read_is_the_operator_s(
    room: Room, *, is_hanging: bool
) -> None:
    if is_hanging:
        os.mkfifo(room.folder / FILE)
    else:
        (room.folder / FILE).mkdir()

    with pytest.raises(OperatorMistake, match="E-DB-011"):
        await take_over(room.journal, EmergencyJournal(room.folder), None)  # type: ignore[arg-type]

    if is_hanging:
        os.close(os.open(room.folder / FILE, os.O_WRONLY | os.O_NONBLOCK))


async def test_a_database_that_does_not_answer_a_start_is_out_of_reach() -> None:
    with pytest.raises(Unreachable, match="has not answered for"):
        await answer("sqlite:///x.db", asyncio.Event().wait(), 0.05)


async def test_work_on_a_thread_gives_its_value_or_its_error() -> None:
    assert await in_time(lambda: 7, 5) == 7
    with pytest.raises(ZeroDivisionError):
        await in_time(lambda: 1 // 0, 5)
