"""`bot decisions` holds a block of rows at a time, however many the journal has."""

import asyncio
import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest
import sqlalchemy as sa

from bot.cli.show import ROWS_AT_ONCE
from bot.journal.database.schema import migrate
from bot.journal.errors import Holder
from bot.journal.journal import Journal
from bot.journal.reading.values import DecisionRow, ReasonRow
from bot.journal.writing.lease import acquire
from tests.cli.stage import CONFIG, call, no
from tests.journal.facts import T0, but

FEW, MANY = 2 * ROWS_AT_ONCE, 3 * ROWS_AT_ONCE
"""Decisions in the two journals: more than may be held in either."""


class Held:
    """Counts the rows of decisions in memory: as the driver fetched them, as values, and as what is
    read and not yet printed.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.fetched = self.values = self.read = self.printed = 0
        self.most = self.most_ahead = 0

    def count(self, *, fetched: int = 0, values: int = 0) -> None:
        self.fetched += fetched
        self.values += values
        self.read += max(values, 0)
        self.most = max(self.most, self.fetched, self.values)
        self.most_ahead = max(self.most_ahead, self.read - self.printed)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    found = Held()

    class Fetched(tuple[object, ...]):
        """A row of the driver that says when it goes."""

        __slots__ = ()

        def __del__(self) -> None:
            found.count(fetched=-1)

    def fetched(_: object, row: tuple[object, ...]) -> Fetched:
        found.count(fetched=1)
        return Fetched(row)

    def connected(connection: sqlite3.Connection, _: object) -> None:
        connection.row_factory = fetched

    for kind in (DecisionRow, ReasonRow):
        make = kind.__init__

        def counted(self: Any, *given: Any, make: Any = make, **named: Any) -> None:
            found.count(values=1)
            make(self, *given, **named)

        monkeypatch.setattr(kind, "__init__", counted)
        gone = lambda _: found.count(values=-1)  # noqa: E731
        monkeypatch.setattr(kind, "__del__", gone, raising=False)
    echo = click.echo

    def printed(*given: Any, **named: Any) -> None:
        found.printed += 1
        echo(*given, **named)

    monkeypatch.setattr(click, "echo", printed)
    sa.event.listen(sa.pool.Pool, "connect", connected)
    yield found
    sa.event.remove(sa.pool.Pool, "connect", connected)


async def _write(url: str, count: int) -> None:
    lease = acquire(url, Holder(1, "here", T0))
    journal = Journal.open(url, epoch=lease.epoch)
    skip = no(0, 0.1)
    skips = [
        but(skip, at=T0 + timedelta(seconds=number), why=f"no cross (gap {number})")
        for number in range(count)
    ]
    await journal.write(skips)
    await journal.close()
    lease.release()


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two projects, the second with more decisions in its journal."""
    folders = tmp_path_factory.mktemp("few"), tmp_path_factory.mktemp("many")
    for folder, count in zip(folders, (FEW, MANY), strict=True):
        url = f"sqlite:///{folder / 'journal.db'}"
        migrate(url)
        asyncio.run(_write(url, count))
        (folder / "bot.yaml").write_text(CONFIG)
    return folders[0] / "bot.yaml", folders[1] / "bot.yaml"


LISTED = [(), ("-o", "wide"), ("-o", "csv"), ("-o", "jsonl"), ("--json",)]
GROUPED = [("--why-not",), ("--why-not", "FPT")]


@pytest.mark.parametrize("words", LISTED + GROUPED, ids=" ".join)
def test_the_rows_held_at_once_do_not_grow_with_the_journal(
    configs: tuple[Path, Path], held: Held, words: tuple[str, ...]
) -> None:
    most, most_ahead = list[int](), list[int]()
    for config, count in zip(configs, (FEW, MANY), strict=True):
        held.begin()
        ran = call("decisions", "--all", *words, "-c", str(config))
        assert (ran.code, held.read, held.values) == (0, count, 0)
        most.append(held.most)
        most_ahead.append(held.most_ahead)

    assert 0 < most[0] == most[1] <= ROWS_AT_ONCE
    if words in LISTED:  # groups are printed when all of them are known
        assert most_ahead[0] == most_ahead[1] <= ROWS_AT_ONCE + 1
