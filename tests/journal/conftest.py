"""A journal, open for writing, on each kind of database."""

from collections.abc import AsyncIterator

import pytest

from bot.journal.journal import Journal


@pytest.fixture
async def journal(db_url: str) -> AsyncIterator[Journal]:
    opened = Journal.open(db_url)
    yield opened
    await opened.close()
