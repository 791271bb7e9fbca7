"""A commit whose answer is lost is looked up; nothing is stored twice, nothing is forgotten."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from bot.clock import SystemClock
from bot.domain.order import SendState
from bot.journal.database import tables
from bot.journal.database.engines import reading_engine
from bot.journal.errors import Contradicted, Holder, OlderCopy, OutcomeUnknown, Unreachable
from bot.journal.journal import Journal
from bot.journal.upkeep.verify import damage_of, verify
from bot.journal.writing.heads import HeadsKeeper, read_heads_file
from bot.journal.writing.lease import acquire
from tests.journal.breaking_proxy import Break, BreakingProxy, breaking_proxy
from tests.journal.facts import Story, after
from tests.journal.writing.test_groups import Asked, together
from tests.postgres_database import replica

pytestmark = [pytest.mark.postgres, pytest.mark.wire]


@pytest.fixture
def proxied(postgres_url: str) -> Iterator[tuple[BreakingProxy, str]]:
    with breaking_proxy(postgres_url) as both:
        yield both


@pytest.fixture
def proxy(proxied: tuple[BreakingProxy, str]) -> BreakingProxy:
    return proxied[0]


@pytest.fixture(params=["without a lease", "under a lease"])
async def journal(
    proxied: tuple[BreakingProxy, str], postgres_url: str, request: pytest.FixtureRequest
) -> AsyncIterator[Journal]:
    """Under a lease a transaction begins with its first change."""
    lease = acquire(postgres_url, Holder(1, "here", SystemClock().now()))
    lease.release()
    opened = Journal.open(
        proxied[1], epoch=lease.epoch if request.param == "under a lease" else None
    )
    yield opened
    await opened.close()


def decisions(url: str) -> list[str]:
    with reading_engine(url).connect() as connection:
        query = sa.select(tables.decisions.c.request_id).order_by(tables.decisions.c.seq)
        return list(connection.execute(query).scalars())


async def test_a_commit_that_was_done_is_reported_done(
    journal: Journal, proxy: BreakingProxy, postgres_url: str
) -> None:
    proxy.armed = Break.AFTER

    await journal.write([Story(1).decision])

    assert proxy.armed is Break.NEVER  # it did break
    assert decisions(postgres_url) == ["L-0001"]


async def test_a_commit_that_was_not_done_is_an_error_and_leaves_nothing(
    journal: Journal, proxy: BreakingProxy, postgres_url: str
) -> None:
    proxy.armed = Break.BEFORE

    with pytest.raises(Unreachable, match="the commit failed") as caught:
        await journal.write([Story(1).decision])

    assert not isinstance(caught.value, OutcomeUnknown)
    assert decisions(postgres_url) == []


@pytest.mark.one_strike
@pytest.mark.parametrize("when", [Break.BEFORE, Break.AFTER])
async def test_writing_again_after_an_unknown_commit_stores_once(
    journal: Journal, proxy: BreakingProxy, postgres_url: str, when: Break
) -> None:
    proxy.armed, proxy.refuse = when, True
    entries = [Story(1).decision]

    with pytest.raises(OutcomeUnknown):
        await journal.write(entries)
    with pytest.raises(OutcomeUnknown):
        await journal.write(entries)
    proxy.refuse = False
    await journal.write(entries)
    await journal.write([Story(2).decision])

    assert decisions(postgres_url) == ["L-0001", "L-0002"]
    assert verify(postgres_url).is_whole


async def test_other_entries_after_an_unknown_commit_are_stored_too(
    journal: Journal, proxy: BreakingProxy, postgres_url: str
) -> None:
    proxy.armed, proxy.refuse = Break.AFTER, True
    with pytest.raises(OutcomeUnknown):
        await journal.write([Story(1).decision])

    proxy.refuse = False
    await journal.write([Story(2).decision])
    await journal.write([Story(1).decision])

    assert decisions(postgres_url) == ["L-0001", "L-0002"]


async def test_what_is_known_to_be_stored_stays_in_doubt_for_one_who_can_not_be_told(
    journal: Journal, proxy: BreakingProxy, postgres_url: str
) -> None:
    proxy.armed, proxy.refuse = Break.AFTER, True
    with pytest.raises(OutcomeUnknown):
        await journal.write([Story(1).decision])
    proxy.refuse = False
    await journal.write([Story(2).decision])

    proxy.armed, proxy.refuse = Break.BEFORE, True
    with pytest.raises(OutcomeUnknown):
        await journal.write([Story(3).decision])
    with pytest.raises(OutcomeUnknown):
        await journal.write([Story(1).decision])
    with pytest.raises(Unreachable) as caught:
        await journal.write([Story(4).decision])
    proxy.refuse = False
    await journal.write([Story(1).decision])

    assert not isinstance(caught.value, OutcomeUnknown)
    assert decisions(postgres_url) == ["L-0001", "L-0002"]


async def test_what_is_known_to_be_stored_is_stored_once_beside_a_bad_write(
    journal: Journal, proxy: BreakingProxy, postgres_url: str
) -> None:
    proxy.armed, proxy.refuse = Break.AFTER, True
    with pytest.raises(OutcomeUnknown):
        await journal.write([Story(1).decision])
    proxy.refuse = False
    bad: Asked = ([Story(2).moved(SendState.READY, SendState.SENDING)], ())

    said = await together(journal, ([Story(1).decision], ()), bad)

    assert [type(each) for each in said] == [tuple, Contradicted]
    assert decisions(postgres_url) == ["L-0001"]


async def test_what_is_known_to_be_stored_stays_in_doubt_when_hearing_of_it_fails(
    journal: Journal, proxy: BreakingProxy, postgres_url: str
) -> None:
    proxy.armed, proxy.refuse = Break.AFTER, True
    with pytest.raises(OutcomeUnknown):
        await journal.write([Story(1).decision])
    proxy.refuse = False
    await journal.write([Story(2).decision])

    proxy.armed = Break.BEFORE
    with pytest.raises(OutcomeUnknown):
        await journal.write([Story(1).decision])
    await journal.write([Story(1).decision])

    assert decisions(postgres_url) == ["L-0001", "L-0002"]


@pytest.mark.parametrize(
    "last", ["write", "write whose answer was lost", "write, then one in doubt", "take over"]
)
async def test_a_server_that_lacks_the_last_commit_takes_no_more(
    own_postgres_url: str, pg_server: str, tmp_path: Path, last: str
) -> None:
    """It failed over; and the next start sees what is missing, by the heads."""
    lease = acquire(own_postgres_url, Holder(1, "here", SystemClock().now()))
    lease.release()
    keeper = HeadsKeeper(tmp_path, own_postgres_url, SystemClock(), print)
    with breaking_proxy(own_postgres_url) as (proxy, url):
        journal = Journal.open(url, epoch=lease.epoch, keeper=keeper)
        facts = {"mode": "live", "version": "1", "config_sha256": "x"}
        await journal.start_run(at=after(0), **facts)
        await journal.write([Story(1).decision])
        with replica(pg_server, own_postgres_url.rsplit("/", 1)[1]) as fail_over:
            if "lost" in last:
                proxy.armed = Break.AFTER
            if "write" in last:
                await journal.write([Story(2).decision])
            else:
                assert await journal.take_over([Story(2).decision]) == 1
            if "doubt" in last:
                proxy.armed, proxy.refuse = Break.BEFORE, True
                with pytest.raises(OutcomeUnknown):
                    await journal.write([Story(3).decision])
            fail_over()
            proxy.refuse = False

            for _ in range(2):
                with pytest.raises(OlderCopy, match="entry 1 is the last, and 2 was stored"):
                    await journal.write([Story(3).decision])
            with pytest.raises(OlderCopy):
                await journal.beat()
            await journal.close()

            kept = read_heads_file(tmp_path, own_postgres_url).kept
            found = damage_of(own_postgres_url, kept[-1], lease.epoch + 1)
    assert proxy.armed is Break.NEVER
    assert found[0].endswith("run 1: the end was cut off, or this is an older copy")
    assert decisions(own_postgres_url) == ["L-0001"]
