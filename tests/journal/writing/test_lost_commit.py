"""A commit whose answer is lost is looked up; nothing is stored twice, nothing is forgotten."""

from collections.abc import AsyncIterator, Iterator

import pytest
import sqlalchemy as sa

from bot.clock import SystemClock
from bot.domain.order import SendState
from bot.journal.database import tables
from bot.journal.database.engines import reading_engine
from bot.journal.errors import Contradicted, Holder, OutcomeUnknown, Unreachable
from bot.journal.journal import Journal
from bot.journal.upkeep.verify import verify
from bot.journal.writing.lease import acquire
from tests.journal.breaking_proxy import Break, BreakingProxy, breaking_proxy
from tests.journal.facts import Story
from tests.journal.writing.test_groups import Asked, together

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
