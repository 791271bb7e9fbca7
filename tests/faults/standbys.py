"""Two bots in processes of their own, at one broker and one journal: one trades, one waits."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from bot.journal.database.engines import reading
from tests.faults.hanging import Hanging
from tests.processes import BotProcess
from tests.story import once

WAITS = "holds the journal since"
BUSY = """
from bot import Strategy


class Busy(Strategy):
    def on_quote(self, quote):
        lots = self.position.qty // 100
        lower = 100 * (lots % 4)  # the same order is not sent twice on a day
        self.buy(100 * (1 + lots // 4), limit=quote.ceiling - lower, why="again")
"""

WANTING = """
import os
from pathlib import Path

from bot import Strategy


class Wanting(Strategy):
    folder: str

    def on_quote(self, quote):
        file = Path(self.folder, f"wanted.{os.getpid()}")
        if file.exists():
            with file.open("a") as wanted:
                wanted.write("once more ")
            self.buy(100, limit=quote.ceiling, why="wanted")
"""


def wanting(folder: Path) -> dict[str, object]:
    """A strategy that wants to buy at each quote of the bot that is to want something."""
    (folder / "strategies").mkdir()
    (folder / "strategies" / "wanting.py").write_text(WANTING)
    params = {"folder": str(folder)}
    return once("wanting", use="wanting", params=params, wake={"quote": "1s"})


def wanted_by(bot: Hanging) -> Path:
    """The file that lets a bot's strategy want something; it has a word for each time."""
    return bot.folder / f"wanted.{bot.bot.pid}"


def busy(folder: Path) -> list[dict[str, object]]:
    """Two strategies that buy again as soon as they have what they bought."""
    (folder / "strategies").mkdir()
    (folder / "strategies" / "busy.py").write_text(BUSY)
    often = {"use": "busy", "params": {}, "wake": {"quote": "1s"}}
    return [once(each, symbols=[each.upper()], **often) for each in ("hpg", "shs")]


def waits(status: Mapping[str, Any]) -> bool:
    """Whether that is the state of one who waits for the other's journal."""
    return status["state"] == "STARTING" and WAITS in str(status["reason"])


def sends(status: Mapping[str, Any]) -> bool:
    """Whether that is the state of one who has met the broker."""
    return bool(status["state"] != "STARTING")


@asynccontextmanager
async def standby_of(
    first: Hanging, url: str, *, is_waiting: bool = True
) -> AsyncIterator[Hanging]:
    """Yield a second bot, which waits for the journal that it reaches by `url`."""
    folder = first.folder / "second"
    folder.mkdir()
    settings = {"BOT_STATE_DIR": str(folder / "state"), "BOT_JOURNAL__URL": url}
    settings |= {"BOT_JOURNAL__WRITE_TIMEOUT_S": "1", **first.secrets}
    bot = BotProcess("run", "--standby", "-c", str(first.config), **settings)
    second = replace(first, folder=folder, bot=bot, secrets=settings)
    try:
        if is_waiting:
            await second.until(waits)
        yield second
    finally:
        bot.end()


def rows(url: str, query: str) -> Sequence[tuple[Any, ...]]:
    """What the journal has."""
    with reading(url) as journal:
        return [tuple(row) for row in journal.execute(sa.text(query))]


def posts(url: str) -> Sequence[tuple[Any, ...]]:
    """By intent, how many POSTs it has, and the epoch of the bot that sent them."""
    query = "select intent_id, count(*), max(epoch) from attempts where verb = 'POST'"
    return rows(url, f"{query} group by intent_id order by intent_id")
