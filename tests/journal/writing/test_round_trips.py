"""A write on PostgreSQL waits twice: for what it found and changed, then for its commit."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest
import sqlalchemy as sa

from bot.clock import SystemClock
from bot.domain.order import SendState
from bot.journal.database import tables
from bot.journal.database.engines import writing_engine
from bot.journal.database.postgres_connection import TOGETHER_MAX
from bot.journal.errors import Contradicted, Holder, LeaseLost, WrittenByAnother
from bot.journal.journal import Journal
from bot.journal.upkeep.verify import verify
from bot.journal.writing.lease import acquire
from tests.journal.breaking_proxy import BreakingProxy, breaking_proxy
from tests.journal.facts import Story, after
from tests.journal.stored import close_day
from tests.journal.writing.test_groups import requests_in, together

pytestmark = [pytest.mark.postgres, pytest.mark.wire]
WRONG = Story(1).moved(SendState.SENDING, SendState.ACKED)
"""What the writer's memory contradicts: its intent is READY."""


@pytest.fixture
def proxied(own_postgres_url: str) -> Iterator[tuple[BreakingProxy, str]]:
    with breaking_proxy(own_postgres_url) as both:
        yield both


@pytest.fixture
def proxy(proxied: tuple[BreakingProxy, str]) -> BreakingProxy:
    return proxied[0]


@pytest.fixture
async def journal(
    proxied: tuple[BreakingProxy, str], own_postgres_url: str
) -> AsyncIterator[Journal]:
    """A journal under a lease, with three entries, that has prepared what a decision needs."""
    opened = Journal.open(proxied[1], epoch=taken_by(own_postgres_url, 1))
    await opened.write([Story(1).decision, Story(1).recorded])
    await opened.write([Story(2).decision])
    yield opened
    await opened.close()


def taken_by(url: str, process: int) -> int:
    lease = acquire(url, Holder(process, "here", SystemClock().now()))
    lease.release()
    return lease.epoch


def change(url: str, table: sa.Table, **values: object) -> None:
    engine = writing_engine(url)
    with engine.begin() as connection:
        connection.execute(table.update().values(values))
    engine.dispose()


def cut_off(url: str) -> None:
    """End all other connections to a database."""
    engine = writing_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    engine.dispose()


@pytest.mark.parametrize(("decisions", "trips"), [(1, 2), (TOGETHER_MAX - 2, 2)])
async def test_a_write_is_two_round_trips(
    journal: Journal, proxy: BreakingProxy, own_postgres_url: str, decisions: int, trips: int
) -> None:
    # the first prepares a statement of so many rows
    await journal.write([Story(100 + n).decision for n in range(decisions)])
    before = proxy.trips, proxy.commits

    await journal.write([Story(200 + n).decision for n in range(decisions)])

    assert (proxy.trips - before[0], proxy.commits - before[1]) == (trips, 1)
    assert verify(own_postgres_url).is_whole


async def test_many_large_rows_find_their_way_in_one_round_trip(
    journal: Journal, own_postgres_url: str
) -> None:
    """More than the sockets between hold at once."""
    large = [replace(Story(n).decision, why="x" * 400_000) for n in range(10, 30)]

    await journal.write(large)

    assert len(requests_in(own_postgres_url)) == 2 + len(large)


async def test_nothing_else_stands_still_while_a_server_answers_nothing(
    journal: Journal, proxy: BreakingProxy, own_postgres_url: str
) -> None:
    proxy.flows.clear()
    writing = asyncio.ensure_future(journal.write([Story(3).decision]))

    await asyncio.sleep(0.02)

    assert not writing.done()
    assert journal.stalled_s() > 0
    proxy.flows.set()
    await writing
    assert requests_in(own_postgres_url) == ["L-0001", "L-0002", "L-0003"]


@pytest.mark.parametrize("others", [0, 3])
async def test_of_a_lost_lease_nothing_is_committed(
    journal: Journal, proxy: BreakingProxy, own_postgres_url: str, others: int
) -> None:
    """Where the new owner has written, our rows are refused before we hear of it."""
    other = Journal.open(own_postgres_url, epoch=taken_by(own_postgres_url, 2))
    theirs = [f"L-{number:04d}" for number in range(10, 10 + others)]
    if theirs:
        await other.write([Story(10 + n).decision for n in range(others)])
    await other.close()
    before = proxy.commits

    said = await together(journal, ([Story(3).decision], ()), ([WRONG], ()))
    with pytest.raises(LeaseLost, match="epoch 2, ours is 1"):
        await journal.write([Story(3).decision])

    assert [type(each) for each in said] == [LeaseLost, LeaseLost]
    assert proxy.commits == before
    assert requests_in(own_postgres_url) == ["L-0001", "L-0002", *theirs]


@pytest.mark.parametrize("entry", [Story(3).decision, WRONG])
async def test_what_another_wrote_is_found_whatever_is_written(
    journal: Journal, proxy: BreakingProxy, own_postgres_url: str, entry: object
) -> None:
    close_day(own_postgres_url, at=after(9))
    before = proxy.commits

    with pytest.raises(WrittenByAnother, match="entry 4 is the last, and 3 is what we wrote"):
        await journal.write([entry])  # type: ignore[list-item]

    assert proxy.commits == before


async def test_a_head_that_is_not_where_it_was_left_is_never_committed_over(
    journal: Journal, proxy: BreakingProxy, own_postgres_url: str
) -> None:
    change(own_postgres_url, tables.chains, head_hash="ff")
    before = proxy.commits

    with pytest.raises(WrittenByAnother, match="a row had changed"):
        await journal.write([Story(3).decision])

    assert proxy.commits == before
    assert requests_in(own_postgres_url) == ["L-0001", "L-0002"]


async def test_a_bad_write_leaves_the_connection_as_it_was(
    journal: Journal, own_postgres_url: str
) -> None:
    with pytest.raises(Contradicted):
        await journal.write([WRONG])
    await journal.write([Story(3).decision])

    assert requests_in(own_postgres_url) == ["L-0001", "L-0002", "L-0003"]


async def test_a_connection_that_was_lost_meanwhile_is_made_again_and_stores_once(
    journal: Journal, own_postgres_url: str
) -> None:
    for number in (3, 4):
        cut_off(own_postgres_url)
        await journal.write([Story(number).decision])

    assert requests_in(own_postgres_url) == [f"L-000{number}" for number in (1, 2, 3, 4)]
    assert verify(own_postgres_url).is_whole
