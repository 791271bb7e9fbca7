"""A clean stop with a journal that answers, but slowly."""

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from bot.journal.database.connections import SqliteConnection
from bot.runtime import daemon
from bot.runtime.live import LiveLoop
from tests.staging import QUIET
from tests.story import Story, once, tell, write_project

pytestmark = pytest.mark.wire

COMMIT_S = 0.7
"""Longer than the last events get if a stop has no more time; a journal that takes 1 s hangs."""


def _slow_from_the_end_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """From when the run ends, each commit takes a while."""
    fast, finish = SqliteConnection._commit, LiveLoop.finish

    def slow(self: SqliteConnection) -> None:
        time.sleep(COMMIT_S)
        fast(self)

    async def finish_slowly(self: LiveLoop) -> None:
        monkeypatch.setattr(SqliteConnection, "_commit", slow)
        await finish(self)

    monkeypatch.setattr(LiveLoop, "finish", finish_slowly)


def _folded(story: Story) -> int:
    """How many decisions the rows of the journal stand for beside themselves."""
    query = "select coalesce(sum(json_extract(numbers, '$.folded') - 1), 0) from decisions"
    with closing(sqlite3.connect(story.loaded.state_dir / "journal.db")) as journal:
        return int(journal.execute(query).fetchone()[0])


@pytest.fixture
def project(tmp_path: Path) -> Callable[[], Path]:
    def made() -> Path:
        return write_project(tmp_path, scenario=QUIET, strategies=[once(wake={"quote": "5s"})])

    return made


async def test_what_was_folded_is_stored_though_its_commits_take_longer_than_half_a_second(
    project: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    _slow_from_the_end_on(monkeypatch)

    story = await tell(project(), minutes=3)

    assert _folded(story) > 0
    assert story.shown.troubles == []


async def test_what_a_stop_had_no_time_to_store_is_named(
    project: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    _slow_from_the_end_on(monkeypatch)
    monkeypatch.setattr(daemon, "DRAIN_S", 0.1)
    monkeypatch.setattr(daemon, "FINISH_S", 0.1)

    story = await tell(project(), minutes=3)

    [trouble] = story.shown.troubles
    assert trouble.startswith("stopped before the journal had taken 1 Decision: no order was sent")
