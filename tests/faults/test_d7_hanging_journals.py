"""D7: a journal that takes a write and does not return holds up orders, and nothing else.

`python -m tests.crash.stops 200 --hangs` stops a bot with such a journal as often as the catalogue
asks, with `--db postgres` on a server that answers nothing.
"""

import asyncio
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa

from bot.journal.database.engines import reading
from bot.journal.upkeep.verify import verify
from bot.journal.writing.emergency import FILE
from tests.crash.harness import databases
from tests.crash.stops import stop_many
from tests.faults.hanging import WITHIN_S, Hanging, locked, playing_itself, trading
from tests.faults.strikes import STRIKES, is_in_full, times
from tests.journal.breaking_proxy import BreakingProxy, breaking_proxy
from tests.notice_server import notice_server

pytestmark = [pytest.mark.wire, pytest.mark.process, pytest.mark.timeout(240)]


def _lock(hanging: Hanging) -> AbstractContextManager[None]:
    return locked(hanging.state_dir / "journal.db")


def _rows(hanging: Hanging, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(hanging.state_dir / "journal.db")) as journal:
        return journal.execute(query).fetchall()


async def _until_answers_are_stored(hanging: Hanging) -> None:
    """An order is open a moment before its answer is in the journal."""
    give_up = time.monotonic() + WITHIN_S
    while len(_rows(hanging, "select 1 from attempts where outcome = 'ACCEPTED'")) < 2:
        assert time.monotonic() < give_up
        await asyncio.sleep(0.02)


def _kept(hanging: Hanging, kind: str) -> int:
    return (hanging.state_dir / FILE).read_text().count(kind)


async def _until(is_so: Callable[[], object]) -> None:
    give_up = time.monotonic() + WITHIN_S
    while not is_so():
        assert time.monotonic() < give_up
        await asyncio.sleep(0.05)


@contextmanager
def _silent(proxy: BreakingProxy, _: Hanging) -> Iterator[None]:
    proxy.flows.clear()
    yield
    proxy.flows.set()


def _is_halted_and_flat(status: object) -> bool:
    assert isinstance(status, dict)
    return status["state"] == "HALTED" and not status["open_orders"]


@pytest.mark.one_strike
async def test_a_halt_under_a_hang_cancels_all_and_the_journal_has_it_afterwards(
    tmp_path: Path,
) -> None:
    async with trading(tmp_path) as hanging:
        await _until_answers_are_stored(hanging)
        with _lock(hanging):
            degraded = await hanging.until(lambda it: it["state"] == "DEGRADED")
            await hanging.ask("halt", reason="wrong prices")
            await hanging.until(lambda it: it["state"] == "HALTED")
            await hanging.until(_is_halted_and_flat)
            at_the_broker = set(hanging.orders().values())
            # An answer is there a moment after it is known.
            await _until(lambda: _kept(hanging, "AttemptFinished") == 2)
            started = _kept(hanging, "AttemptStarted")
        await hanging.until(lambda it: it["trouble"] is None)
        code, out, err, _ = await hanging.end()

    assert "the journal has not answered for 1 s" in degraded["trouble"]["text"]
    assert at_the_broker == {"CANCELLED"}
    assert started == 2
    assert (code, "Traceback" in out + err) == (0, False)
    assert "the journal answers again after" in err
    assert not (hanging.state_dir / FILE).exists()
    attempts = _rows(hanging, "select verb, outcome from attempts")
    assert Counter(attempts) == {("POST", "ACCEPTED"): 2, ("DELETE", "ACCEPTED"): 2}
    assert _rows(hanging, "select distinct state from orders") == [("CANCELLED",)]
    assert list(verify(f"sqlite:///{hanging.state_dir / 'journal.db'}").problems) == []


@pytest.mark.long
async def test_a_bot_that_plays_its_own_broker_outlasts_a_hang_too(tmp_path: Path) -> None:
    async with playing_itself(tmp_path) as hanging:
        with _lock(hanging):
            await hanging.until(lambda it: it["state"] == "DEGRADED")
            await hanging.ask("halt", reason="wrong prices")
            await hanging.until(_is_halted_and_flat)
        await hanging.until(lambda it: it["trouble"] is None)
        code, out, err, _ = await hanging.end()

    assert (code, "Traceback" in out + err) == (0, False)
    assert set(hanging.orders().values()) == {"CANCELLED"}
    attempts = _rows(hanging, "select verb, outcome from attempts")
    assert Counter(attempts) == {("POST", "ACCEPTED"): 2, ("DELETE", "ACCEPTED"): 2}
    assert verify(f"sqlite:///{hanging.state_dir / 'journal.db'}").problems == ()


@pytest.mark.long  # make test has the others of a halt under a hang
@pytest.mark.parametrize(
    "database", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
)
async def test_a_hang_and_a_halt_under_it_are_told_to_who_is_away(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    database: str,
) -> None:
    pytest.importorskip("apprise")

    def told(words: str) -> int:
        return sum(words in each["title"] + each["message"] for each in service.messages)

    with ExitStack() as stack:
        service, url = stack.enter_context(notice_server()), None
        hang: Callable[[Hanging], AbstractContextManager[None]] = _lock
        if database == "postgres":
            address = request.getfixturevalue("own_postgres_url")
            proxy, url = stack.enter_context(breaking_proxy(address))
            hang = partial(_silent, proxy)
        monkeypatch.setenv("BOT_NOTIFY__URLS", service.url)
        async with trading(tmp_path, url) as hanging:
            with hang(hanging):
                await hanging.until(lambda it: it["state"] == "DEGRADED")
                await hanging.ask("halt", reason="wrong prices")
                await _until(lambda: told("HALTED: wrong prices") and told("no order leaves"))
            await hanging.until(lambda it: it["trouble"] is None)
            await _until(lambda: told("the journal answers again"))
            await hanging.end()

    assert [told("HALTED: wrong prices"), told("no order leaves"), told("DEGRADED")] == [1, 1, 0]


@pytest.mark.one_strike
async def test_a_halt_under_a_hang_holds_after_a_kill(tmp_path: Path) -> None:
    async with trading(tmp_path) as hanging:
        with _lock(hanging):
            await hanging.until(lambda it: it["state"] == "DEGRADED")
            await hanging.ask("halt", reason="wrong prices")
            await hanging.until(_is_halted_and_flat)
            await hanging.kill()
        hanging.start_again()
        again = await hanging.until(lambda it: it["state"] == "HALTED" and "counts" in it)
        code, out, err, _ = await hanging.end()

    assert again["reason"] == "wrong prices"
    assert "took over" in err
    assert (code, "Traceback" in out + err) == (0, False)
    attempts = _rows(
        hanging, "select verb, count(distinct attempt_id), count(*) from attempts group by verb"
    )
    assert attempts == [("DELETE", 2, 2), ("POST", 2, 2)]
    assert len(hanging.orders()) == 2
    assert not (hanging.state_dir / FILE).exists()


@pytest.mark.one_strike
@pytest.mark.long
async def test_a_stop_under_a_hang_ends_in_time_and_says_what_is_missing(tmp_path: Path) -> None:
    async with trading(tmp_path) as hanging:
        with _lock(hanging):
            await hanging.until(lambda it: it["state"] == "DEGRADED")
            code, out, err, seconds = await hanging.end()

    assert seconds < 60
    assert code == 7
    assert "E-DB-010" in err
    assert "Not written" in err
    assert "Traceback" not in out + err


@pytest.mark.long
@pytest.mark.skipif(not is_in_full(), reason="half an hour a database: FAULT_STRIKES=full")
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_stop_at_a_moment_of_chance_under_a_hang_ends_in_time_and_loses_nothing(
    record_property: Callable[[str, object], None], database: str
) -> None:
    with databases(database) as new:
        seconds, problems = stop_many(times("D7", 0) // 2, 101, new, hangs=True)

    assert problems == []
    record_property(STRIKES, len(seconds))


# ------------------------------------------------------------------- a server that answers nothing


@pytest.mark.long
@pytest.mark.postgres
async def test_a_server_that_takes_bytes_and_answers_nothing_is_outlasted(
    tmp_path: Path, own_postgres_url: str
) -> None:
    with breaking_proxy(own_postgres_url) as (proxy, url):
        async with trading(tmp_path, url) as hanging:
            proxy.flows.clear()
            await hanging.until(lambda it: it["state"] == "DEGRADED")
            shown, status_s = await hanging.call("status")
            paused, pause_s = await hanging.call("pause")
            resumed, resume_s = await hanging.call("resume")
            halted, halt_s = await hanging.call("halt", "--yes", "--reason", "wrong prices")
            await hanging.until(_is_halted_and_flat)
            proxy.flows.set()
            await hanging.until(lambda it: it["trouble"] is None)
            code, out, err, _ = await hanging.end()

    assert (code, "Traceback" in out + err) == (0, False)
    assert shown.startswith("TROUBLE")
    assert "accepted" in paused + resumed
    assert "still open: none" in halted
    assert max(status_s, pause_s, resume_s, halt_s) < 60
    with reading(own_postgres_url) as journal:
        attempts = journal.execute(sa.text("select verb, outcome from attempts")).all()
    assert Counter(attempts) == {("POST", "ACCEPTED"): 2, ("DELETE", "ACCEPTED"): 2}
    assert verify(own_postgres_url).problems == ()


@pytest.mark.long
@pytest.mark.postgres
async def test_stop_and_start_take_a_bounded_time_with_a_server_that_answers_nothing(
    tmp_path: Path, own_postgres_url: str
) -> None:
    with breaking_proxy(own_postgres_url) as (proxy, url):
        async with trading(tmp_path, url) as hanging:
            proxy.flows.clear()
            await hanging.until(lambda it: it["state"] == "DEGRADED")
            code, out, err, stop_s = await hanging.end()
            started = time.monotonic()
            hanging.start_again()
            again, told = await asyncio.to_thread(hanging.bot.communicate)
            start_s = time.monotonic() - started

    assert (code, "E-DB-010" in err, "Traceback" in out + err) == (7, True, False)
    assert stop_s < 60
    assert (hanging.bot.returncode, "E-DB-001" in told, "Traceback" in again + told) == (
        7,
        True,
        False,
    )
    assert start_s < 60
