"""SQLite journals shared by several tests: written once, copied for tests that change them."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from pathlib import Path

from bot.journal.database.encoding import instant_text
from bot.journal.database.engines import writing_engine
from bot.journal.database.tables import daily_closes
from bot.journal.journal import Journal
from bot.journal.writing.rows import Row
from bot.journal.writing.storing import Store
from tests.journal.facts import DAY


def written_once(template: Path, folder: Path, write: Callable[[str], Awaitable[None]]) -> Path:
    """The journal that `write` makes of a copy of the migrated file `template`, at rest."""
    file = Path(shutil.copy(template, folder / "journal.db"))

    async def run() -> None:
        await write(url_of(file))

    asyncio.run(run())
    return file


def url_of(file: Path) -> str:
    return f"sqlite:///{file}"


CLOSE: Row = {
    "trading_date": DAY.isoformat(),
    "strategy": "depth-hpg",
    "symbol": "HPG",
    "quantity": 200,
    "cost": 5_410_000,
    "realised": 0,
    "fee": 8_115,
    "tax": 0,
}


def close_day(url: str, at: datetime) -> None:
    """Write a row of `daily_closes`, which the bot doesn't: so that every table holds something."""
    engine = writing_engine(url)
    store = Store(url, engine, None, None)
    store.change(lambda batch: batch.append(daily_closes, {**CLOSE, "at": instant_text(at)}))
    store.end()


async def close_day_in(journal: Journal, at: datetime) -> None:
    """The same, by a journal that is open."""
    row = {**CLOSE, "at": instant_text(at)}
    change = partial(journal._store.change, lambda batch: batch.append(daily_closes, row))
    await journal._thread.do(change)
