"""What holds for all that is stored, broken once each: nothing is stored, and the run ends."""

import pytest
import sqlalchemy as sa

from bot.clock import SystemClock
from bot.domain.errors import InvariantBroken
from bot.journal.database import tables
from bot.journal.database.engines import reading_engine, writing_engine
from bot.journal.errors import Contradicted, Holder, JournalError, LeaseLost, WrittenByAnother
from bot.journal.journal import Journal
from bot.journal.upkeep.verify import verify
from bot.journal.writing.lease import acquire
from bot.journal.writing.sends import Send
from bot.runtime.supervisor import ends_the_run
from tests.journal.facts import EPOCH, Story, but


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
    twice = Send((story.started, story.started), EPOCH, story.intent.fingerprint)

    with pytest.raises(InvariantBroken, match="I2: "):
        await journal.write((), [twice])

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
