"""What holds for all that is stored, broken once each: nothing is stored, and the run ends."""

from typing import NoReturn

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, OperationalError

from bot.clock import SystemClock
from bot.domain.errors import InvariantBroken
from bot.journal.database import tables
from bot.journal.database.engines import reading_engine, writing_engine
from bot.journal.database.writer_connection import WriterConnection
from bot.journal.errors import (
    Contradicted,
    Holder,
    JournalError,
    LeaseLost,
    OutcomeUnknown,
    WrittenByAnother,
)
from bot.journal.journal import Journal
from bot.journal.upkeep.verify import verify
from bot.journal.writing.lease import acquire
from bot.journal.writing.sends import Send
from bot.journal.writing.storing import Store
from bot.runtime.supervisor import ends_the_run
from tests.journal.facts import EPOCH, Story, after, but
from tests.journal.stored import close_day


@pytest.fixture(autouse=True)
def epoch(db_url: str) -> None:
    acquire(db_url, Holder(1, "here", SystemClock().now())).release()


def count(url: str, table: sa.Table) -> int:
    with reading_engine(url).connect() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()


def send_of(story: Story) -> Send:
    return Send(tuple(story.sending), EPOCH, story.intent.fingerprint)


async def test_i2_a_send_of_two_attempts_is_refused(journal: Journal, db_url: str) -> None:
    story = Story()
    await journal.write([story.recorded])

    with pytest.raises(InvariantBroken, match="I2: "):
        Send((story.started, story.started), EPOCH, story.intent.fingerprint)

    assert count(db_url, tables.attempts) == 0


async def test_i4_a_nonce_is_stored_once_ever(journal: Journal, db_url: str) -> None:
    first, second = Story(1), Story(2)
    await journal.write([first.recorded, second.recorded, *first.sending])

    with pytest.raises(Contradicted):
        await journal.write([but(second.started, nonce=first.started.nonce)])

    assert count(db_url, tables.attempts) == 1


async def test_i14_a_second_writer_makes_the_first_one_send_nothing(db_url: str) -> None:
    story, fenced = Story(), Journal.open(db_url, epoch=EPOCH)
    await fenced.write([story.recorded])
    acquire(db_url, Holder(2, "there", SystemClock().now())).release()

    with pytest.raises(LeaseLost) as lost:
        await fenced.write((), [send_of(story)])
    await fenced.close()

    assert ends_the_run(lost.value)
    assert count(db_url, tables.attempts) == 0


async def test_i17_a_row_that_another_has_changed_is_not_built_on(db_url: str) -> None:
    story, ours = Story(), Journal.open(db_url, epoch=EPOCH)
    await ours.write([story.recorded])
    engine = writing_engine(db_url)
    with engine.begin() as connection:
        connection.execute(
            tables.chains.update()
            .where(tables.chains.c.name == "journal")
            .values(last_seq=tables.chains.c.last_seq + 1)
        )
    engine.dispose()

    with pytest.raises(JournalError) as found:
        await ours.write((), [send_of(story)])
    await ours.close()

    assert isinstance(found.value, WrittenByAnother)
    assert ends_the_run(found.value)
    assert count(db_url, tables.attempts) == 0
    assert verify(db_url).problems


async def test_i17_after_a_commit_in_doubt_nothing_is_stored_on_what_another_wrote(
    db_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither is what was in doubt: repeated, it could be there twice."""
    first, second, ours = Story(1), Story(2), Journal.open(db_url, epoch=EPOCH)
    await ours.write([first.decision])
    with monkeypatch.context() as broken:
        broken.setattr(WriterConnection, "commit", _lose_answer)
        broken.setattr(Store, "_settle", _find_nobody)
        with pytest.raises(OutcomeUnknown):
            await ours.write([second.decision])
    close_day(db_url, at=after(9))

    for again in (second.decision, Story(3).decision, second.decision):
        with pytest.raises(InvariantBroken, match=r"I17: .*entry 3 is the last after 1 or 2") as it:
            await ours.write([again])
        assert ends_the_run(it.value)
    await ours.close()

    assert count(db_url, tables.decisions) == 2
    assert verify(db_url).is_whole


def _lose_answer(connection: WriterConnection) -> None:
    connection._commit()
    raise OperationalError("COMMIT", None, ConnectionError("its answer is lost"))


def _find_nobody(store: Store, _writes: object, error: DBAPIError) -> NoReturn:
    raise store._unknown("nobody answers") from error
