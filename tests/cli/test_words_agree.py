"""An order that the broker does not have is called one thing, whoever is asked."""

import pytest

from bot.domain.entry import IntentRecorded
from bot.domain.order import SendState
from bot.engine.status import _OUTCOMES
from bot.journal.journal import Journal
from bot.journal.reading.reader import JournalReader
from tests.journal.facts import Story

SETTLED = {
    *(SendState.DENIED, SendState.EXPIRED_LOCAL, SendState.NOT_SENT, SendState.HELD),
    *(SendState.REFUSED, SendState.EOD_ABSENT, SendState.UNKNOWN, SendState.FRESH),
    *(SendState.REACHED, SendState.AMBIGUOUS, SendState.READY),
}
"""Not those that wait for the broker's row, nor NOT_PLACED, which needs its proof."""


@pytest.mark.parametrize("state", sorted(SETTLED))
async def test_status_and_orders_count_alike(state: SendState, sqlite_url: str) -> None:
    journal = Journal.open(sqlite_url)
    story = Story()
    await journal.write([story.decision, IntentRecorded(story.at(0), story.intent, state)])
    await journal.close()

    with JournalReader(sqlite_url) as reader:
        [row] = reader.orders()

    assert row.outcome == _OUTCOMES[state]
