"""Where a standby makes no sense it is refused, and the refusal says what to change; a stop ends
one even as it takes over.
"""

import asyncio
import errno
import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from bot.config.problems import OperatorMistake
from bot.config.settings.load import load_settings
from bot.journal.errors import Holder, LeaseHeld, LeaseLost, Unreachable
from bot.journal.writing.lease import Lease, Seen
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunOptions
from bot.runtime.start import opening
from bot.runtime.start import standby as waiting
from bot.runtime.start.opening import begin_state, keep_lease, wait_for_database
from bot.runtime.start.standby import Standby
from tests.engine.stage import START
from tests.rows import every_row
from tests.story import Shown, once, write_project

URL = "postgresql://bot@127.0.0.1/journal"
HOLDER = Holder(1, "here", START)


def refusal(folder: Path, **settings: object) -> str:
    config = write_project(folder, scenario="quiet", strategies=[once()], **settings)  # type: ignore[arg-type]
    loaded = load_settings(config, environment={})
    with pytest.raises(OperatorMistake) as refused:
        begin_state(loaded, RunOptions(is_standby=True))
    assert not (loaded.state_dir / "last-run.json").exists()  # nothing has begun
    return str(refused.value)


def test_a_journal_in_a_file_has_no_standby(tmp_path: Path) -> None:
    said = refusal(tmp_path, broker={"base_url": "http://127.0.0.1:1"})

    assert "a standby needs a journal in PostgreSQL" in said
    assert "run without --standby" in said


def test_a_broker_inside_one_bot_has_no_standby(tmp_path: Path) -> None:
    said = refusal(tmp_path, journal_url=URL)

    assert "a standby needs a broker that both bots reach" in said
    assert "broker.base_url" in said


class Stopped(Standby):
    """Sees a free lease, and is told to stop while it looks, or while it takes it."""

    def __init__(self, when: str) -> None:
        super().__init__(URL, HOLDER, print, print, self._taking)
        self._when, self._loop = when, asyncio.get_running_loop()
        self.taken = self.released = 0

    def _look(self) -> Seen:
        if self._when not in {"taking", "late"}:
            self._loop.call_soon_threadsafe(self.stop, "SIGTERM", "signal")
        if self._when == "without a thread":
            raise OSError(errno.EAGAIN, "can't start new thread")
        return Seen(3, None, 0, None, is_free=True)

    def _taking(self, url: str, _holder: Holder, seen: Seen) -> Lease:
        self.taken += 1
        # Both arrive in one pass of the loop: the stop, and the lease that is returned here.
        self._loop.call_soon_threadsafe(self.stop, "SIGTERM", "signal")
        if self._when == "late":
            time.sleep(0.05)
        return Lease(url, seen.epoch + 1, self._release)

    def _release(self) -> None:
        self.released += 1


@pytest.mark.parametrize("when", ["looking", "taking", "late"])
async def test_a_stop_ends_a_standby_even_as_the_lease_becomes_its_own(when: str) -> None:
    standby = Stopped(when)

    lease = await standby.lease()

    assert (lease, standby.reason) == (None, "SIGTERM")
    async with asyncio.timeout(5):
        while standby.released < standby.taken:  # noqa: ASYNC110 (a thread may bring it later)
            await asyncio.sleep(0.001)
    assert standby.released == standby.taken == (when != "looking")
    has_looked_only = standby.trouble == "standby: looking for who holds the journal"
    assert has_looked_only == (when == "looking"), "what it saw then is not judged any more"


async def test_a_standby_without_a_thread_for_a_moment_goes_on_asking() -> None:
    standby = Stopped("without a thread")

    lease = await standby.lease()

    assert lease is None
    assert "can't start new thread); this standby goes on asking" in standby.trouble


class CutOff(Standby):
    """Is cut off from its database, which then answers with a lock that nobody holds."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(URL, HOLDER, tell, lambda _: None, self._taking)
        self._failures = iter((Unreachable("it is restarted", database="journal"),))
        self.looked = 0

    def _look(self) -> Seen:
        for failure in self._failures:
            raise failure
        self.looked += 1
        if self.looked == 3:
            self.stop("SIGTERM", "signal")
        return Seen(3, 20_000, 1_000, HOLDER, is_free=True)

    def _taking(self, url: str, _holder: Holder, seen: Seen) -> Lease:
        return Lease(url, seen.epoch + 1, lambda: None)


async def test_a_database_that_was_restarted_leaves_its_lock_to_the_bot_that_had_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting, "LOOK_S", 0.001)
    told = list[str]()
    standby = CutOff(told.append)

    lease = await standby.lease()

    assert (lease, standby.looked) == (None, 3)
    assert told == [
        "the database answers again: the bot that held the journal has 6 s to hold it again"
    ]


async def test_a_lock_that_is_still_free_afterwards_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting, "LOOK_S", 0.001)
    clock = iter((100.0, 105.9, 106.0))
    monkeypatch.setattr(waiting, "boottime_s", lambda: next(clock))
    told = list[str]()
    standby = CutOff(told.append)

    lease = await standby.lease()

    assert (lease is not None, standby.looked) == (True, 2)
    assert told[1:] == ["took over from here pid 1: it no longer held the journal"]


class Lock:
    """A lease's lock that is dropped once, and is another's at the first try to take it again."""

    def __init__(self) -> None:
        self.tries = 0
        self._beats = iter((True, False, False, True))

    async def beat(self) -> bool:
        if (is_locked := next(self._beats, None)) is None:
            raise LeaseLost(stored=2, ours=1)
        return is_locked

    def lock_again(self) -> None:
        self.tries += 1
        if self.tries == 1:
            raise LeaseHeld(None)


async def test_a_lock_that_is_gone_is_taken_again_and_the_lease_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(opening, "BEAT_S", 0)
    lock, lost = Lock(), list[str]()

    with pytest.raises(LeaseLost):
        await keep_lease(lock, lock, URL, lost.append)  # type: ignore[arg-type]

    assert (lock.tries, lost) == (2, [])


class Machine:
    """The machine of a database: each look of a start at it takes what comes next."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *reasons: str, look_s: float = 1) -> None:
        self._answers = iter(reasons)
        self.told, self.people = list[str](), list[str]()
        clock = itertools.count(100.0, look_s)
        monkeypatch.setattr(opening, "RETRY_S", (0.0,))
        monkeypatch.setattr(opening, "boottime_s", lambda: next(clock))
        monkeypatch.setattr(opening, "check", self._check)

    def _check(self, _url: str) -> None:
        if (reason := next(self._answers, None)) is not None:
            raise Unreachable(reason, database="journal", host="nas")

    async def wait(self) -> None:
        await wait_for_database(URL, self.told.append, self.people.append)


REFUSED: Final = "Connection refused"


async def test_a_service_waits_for_a_database_whose_machine_is_still_starting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starting = "FATAL:  the database system is starting up"
    away = [REFUSED, "failed to resolve host 'nas'", "it has not answered for 12 s", starting]
    machine = Machine(monkeypatch, *away)

    await machine.wait()

    says = "the database of the journal does not answer ({}). The bot stays and asks again in 0 s. "
    assert machine.told == [f"{says.format(why)}To end it: systemctl stop" for why in away]
    assert machine.people == []


@every_row(("looks", "told"), [(2, []), (3, [REFUSED, ""]), (5, [REFUSED, ""])])
async def test_people_are_told_once_of_a_database_that_is_away_for_a_minute(
    monkeypatch: pytest.MonkeyPatch, looks: int, told: list[str]
) -> None:
    machine = Machine(monkeypatch, *[REFUSED] * looks, look_s=20)

    await machine.wait()

    assert machine.people == told


@every_row(
    "reason",
    [
        'FATAL:  password authentication failed for user "bot"',
        'FATAL:  database "nosuch" does not exist',
        "FATAL:  no pg_hba.conf entry for host",
        "fe_sendauth: no password supplied",
        "server does not support SSL, but SSL was required",
    ],
)
async def test_a_database_that_refuses_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    machine = Machine(monkeypatch, reason)

    with pytest.raises(Unreachable, match=reason):
        await machine.wait()

    assert machine.told == []


def test_a_file_that_is_not_there_is_not_waited_for() -> None:
    assert not Unreachable("no such file", database="/x/journal.db", is_absent=True).may_pass


async def _start(folder: Path, shown: Shown, *, is_service: bool) -> None:
    broker = {"base_url": "http://127.0.0.1:9"}
    away = "postgresql+psycopg://bot@127.0.0.1:9/journal"
    config = write_project(
        folder, scenario="quiet", strategies=[once()], broker=broker, journal_url=away
    )
    loaded = load_settings(config, environment={})
    await run_bot(loaded, RunOptions(is_service=is_service), shown)


@pytest.mark.wire
async def test_only_a_service_waits_for_its_database(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    watched, alone = Shown(), Shown()

    with pytest.raises(OperatorMistake) as ended:
        async with asyncio.timeout(30):
            await _start(tmp_path, watched, is_service=False)
    waiting_for_it = asyncio.create_task(_start(tmp_path, alone, is_service=True))
    async with asyncio.timeout(30):
        while not alone.troubles:  # noqa: ASYNC110 (a thread looks)
            await asyncio.sleep(0.01)
    waiting_for_it.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting_for_it

    assert (ended.value.problems[0].code, watched.troubles) == ("E-DB-001", [])
    said = f"the database of the journal does not answer ({REFUSED})"
    assert alone.troubles[0].startswith(said)
