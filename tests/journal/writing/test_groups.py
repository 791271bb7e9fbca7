"""What waits is stored together and answered apart; the tables are those of one write at a time."""

import asyncio
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
import sqlalchemy as sa

from bot.clock import SystemClock
from bot.domain.entry import Entry, Note, RunState, StateChanged
from bot.domain.order import SendState
from bot.journal.database import tables
from bot.journal.database.engines import file_of, reading_engine, writing_engine
from bot.journal.errors import (
    Contradicted,
    Holder,
    LeaseLost,
    OutcomeUnknown,
    Unreachable,
    WrittenByAnother,
)
from bot.journal.journal import Journal
from bot.journal.upkeep.verify import verify
from bot.journal.writing.lease import acquire
from bot.journal.writing.sends import Send
from bot.journal.writing.storing import Store, Verdicts
from bot.journal.writing.thread import WriterThread
from tests.journal.breaking_proxy import Break, breaking_proxy
from tests.journal.facts import EPOCH, EVERY_KIND, Story, after, but
from tests.journal.stored import close_day

Asked = tuple[Sequence[Entry], Sequence[Send]]


def send_of(story: Story) -> Send:
    return Send(tuple(story.sending), EPOCH, story.intent.fingerprint)


def a_day() -> list[Asked]:
    """What a bot asks of its journal on a day, with a twin and a halt that hold orders back."""
    asked: list[Asked] = [(EVERY_KIND, ())]
    for number in range(5, 25):
        story = Story(number, price=27_000 + 50 * number)
        twin = but(story, number=number + 100)
        asked += [
            ([story.decision, story.recorded, twin.recorded], [send_of(story), send_of(twin)]),
            (story.placed()[-1], ()),
            ([story.result(1, "A"), story.result(2, "A"), story.result(3, f"B{number}")], ()),
            (story.filled(200, position=200), ()),
            ([story.result(4, f"B{number}"), story.decision], ()),
        ]
    halt = StateChanged(after(1), RunState.RUNNING, RunState.HALTED, "drift", "broker")
    late = Story(50)
    return [*asked, ([halt, late.recorded], [send_of(late)])]


def content(url: str) -> dict[str, list[tuple[object, ...]]]:
    """All that a journal holds."""
    with reading_engine(url).connect() as connection:
        return {
            name: sorted(map(tuple, connection.execute(sa.select(table))), key=repr)
            for name, table in tables.metadata.tables.items()
            if name != "lease"
        }


def requests_in(url: str) -> list[str | None]:
    with reading_engine(url).connect() as connection:
        query = sa.select(tables.decisions.c.request_id).order_by(tables.decisions.c.seq)
        return list(connection.execute(query).scalars())


async def together(journal: Journal, *asked: Asked) -> list[Verdicts | BaseException]:
    """What each of several writes that wait together returns or raises."""
    gate = threading.Event()
    held = journal._thread.do(gate.wait)
    waiting = [asyncio.ensure_future(journal.write(*each)) for each in asked]
    await asyncio.sleep(0)
    gate.set()
    await held
    return await asyncio.gather(*waiting, return_exceptions=True)


@pytest.fixture
def epoch(db_url: str) -> int:
    lease = acquire(db_url, Holder(1, "here", SystemClock().now()))
    lease.release()
    return lease.epoch


async def test_a_day_in_groups_is_the_day_one_by_one(
    db_url: str, epoch: int, sqlite_template: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other_url = f"sqlite:///{shutil.copy(sqlite_template, tmp_path / 'other' / 'journal.db')}"
    acquire(other_url, Holder(1, "here", SystemClock().now())).release()

    many = Journal.open(db_url, epoch=epoch)
    grouped = await together(many, *a_day())
    await many.close()
    alone = Journal.open(other_url, epoch=EPOCH)
    single = [await alone.write(*asked) for asked in a_day()]
    await alone.close()

    assert grouped == single
    assert single[1] == (None, "the same order is unresolved: L-0005")
    assert single[-1] == ("halted (all): drift",)
    assert content(db_url) == content(other_url)
    assert verify(db_url).is_whole


async def test_a_journal_that_remembers_nothing_writes_the_same(
    sqlite_url: str, sqlite_template: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other_url = f"sqlite:///{shutil.copy(sqlite_template, tmp_path / 'other' / 'journal.db')}"
    for url in (sqlite_url, other_url):
        acquire(url, Holder(1, "here", SystemClock().now())).release()

    kept = Journal.open(sqlite_url, epoch=EPOCH)
    for asked in a_day():
        await kept.write(*asked)
        forgetful = Journal.open(other_url, epoch=EPOCH)
        await forgetful.write(*asked)
        await forgetful.close()
    await kept.close()

    assert content(sqlite_url) == content(other_url)


async def test_one_bad_write_of_a_group_fails_alone(journal: Journal, db_url: str) -> None:
    bad: list[Entry] = [Story(2).decision, Story(2).moved(SendState.READY, SendState.SENDING)]

    said = await together(journal, ([Story(1).decision], ()), (bad, ()), ([Story(3).decision], ()))

    assert [type(each) for each in said] == [tuple, Contradicted, tuple]
    assert requests_in(db_url) == ["L-0001", "L-0003"]
    assert verify(db_url).is_whole


async def test_a_caller_that_goes_away_cuts_nothing_off(journal: Journal, db_url: str) -> None:
    gone = asyncio.ensure_future(journal.write([Story(1).decision]))
    stays = asyncio.ensure_future(journal.write([Story(2).decision]))
    await asyncio.sleep(0)
    gone.cancel()

    await stays

    assert gone.cancelled()
    assert requests_in(db_url) == ["L-0001", "L-0002"]


async def test_a_group_of_a_lost_lease_is_refused_whole(db_url: str, epoch: int) -> None:
    journal = Journal.open(db_url, epoch=epoch)
    acquire(db_url, Holder(2, "there", SystemClock().now())).release()

    said = await together(journal, ([Story(1).decision], ()), ([Story(2).decision], ()))
    await journal.close()

    assert [type(each) for each in said] == [LeaseLost, LeaseLost]
    assert requests_in(db_url) == []


async def test_what_another_program_wrote_is_not_written_over(db_url: str, epoch: int) -> None:
    journal = Journal.open(db_url, epoch=epoch)
    await journal.write([Story(1).decision])
    close_day(db_url, at=after(9))

    with pytest.raises(WrittenByAnother, match="entry 2 is the last, and 1 is what we wrote"):
        await journal.write([Story(2).decision])

    await journal.write([Story(3).decision])
    await journal.close()
    assert requests_in(db_url) == ["L-0001", "L-0003"]
    assert verify(db_url).is_whole


@pytest.mark.parametrize(
    ("table", "column"), [(tables.chains, "head_hash"), (tables.intents, "seal")]
)
async def test_what_was_changed_meanwhile_is_not_written_over(
    db_url: str, epoch: int, table: sa.Table, column: str
) -> None:
    journal = Journal.open(db_url, epoch=epoch)
    await journal.write([Story().recorded])
    engine = writing_engine(db_url)
    with engine.begin() as connection:
        connection.execute(table.update().values({column: "ff"}))
    engine.dispose()

    with pytest.raises(WrittenByAnother, match="a row had changed"):
        await journal.write([Story().moved(SendState.READY, SendState.SENDING)])

    await journal.close()
    assert content(db_url)["transitions"] == []


async def test_a_journal_that_hangs_is_told_and_closed_in_time(sqlite_url: str) -> None:
    journal = Journal.open(sqlite_url)
    await journal.write([Story(1).decision])
    assert journal.stalled_s() == 0
    other = sa.create_engine(f"sqlite:///{file_of(sqlite_url)}")
    with other.connect() as holding:
        holding.exec_driver_sql("BEGIN IMMEDIATE")
        stuck = asyncio.ensure_future(journal.write([Story(2).decision]))
        await asyncio.sleep(0)

        is_done = await journal.close(timeout_s=0.02)

        assert not is_done
        assert 0.02 <= journal.stalled_s() < 60
        assert not stuck.done()
    other.dispose()
    await stuck
    assert requests_in(sqlite_url) == ["L-0001", "L-0002"]


async def test_a_database_that_gave_up_on_the_last_work_is_away_until_it_answers() -> None:
    thread = WriterThread(cast(Store, None))

    def give_up() -> None:
        raise Unreachable("locked", database="journal.db")

    with pytest.raises(Unreachable):
        await thread.do(give_up)
    was_away = thread.is_away()
    await thread.do(lambda: None, is_last=True)
    thread.join(5)

    assert was_away
    assert not thread.is_away()


@pytest.mark.postgres
async def test_a_connection_lost_between_two_writes_is_made_again(own_postgres_url: str) -> None:
    journal = Journal.open(own_postgres_url)
    await journal.write([Story(1).decision])
    others = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
    )
    engine = writing_engine(own_postgres_url)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"{others} AND pid <> pg_backend_pid()")
    engine.dispose()

    await journal.write([Story(2).decision])
    await journal.close()

    assert requests_in(own_postgres_url) == ["L-0001", "L-0002"]


@pytest.mark.postgres
@pytest.mark.wire
@pytest.mark.parametrize("when", [Break.BEFORE, Break.AFTER])
async def test_a_group_whose_commit_is_lost_is_stored_once(postgres_url: str, when: Break) -> None:
    with breaking_proxy(postgres_url) as (proxy, url):
        journal = Journal.open(url)
        proxy.armed, proxy.refuse = when, True
        first: Asked = ([Note(after(1), "PULSE", "alive"), Story(1).decision], ())
        second: Asked = ([Story(2).decision], ())

        said = await together(journal, first, second)
        proxy.refuse = False
        again = await together(journal, second, first)
        await journal.write([Story(3).decision])
        await journal.close()

    assert [type(each) for each in said] == [OutcomeUnknown, OutcomeUnknown]
    assert again == [(), ()]
    assert sorted(map(str, requests_in(postgres_url))) == ["L-0001", "L-0002", "L-0003"]
    assert verify(postgres_url).is_whole


@pytest.mark.postgres
@pytest.mark.wire
@pytest.mark.parametrize("when", [Break.BEFORE, Break.AFTER])
async def test_a_group_whose_commit_can_be_asked_after_is_stored(
    postgres_url: str, when: Break
) -> None:
    with breaking_proxy(postgres_url) as (proxy, url):
        journal = Journal.open(url)
        proxy.armed = when

        said = await together(journal, ([Story(1).decision], ()), ([Story(2).decision], ()))
        await journal.close()

    assert said == [(), ()]
    assert requests_in(postgres_url) == ["L-0001", "L-0002"]
