"""D1: a commit fails before an order leaves, once or from then on: without it nothing leaves."""

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from bot.drill.oracle import faults_in, outcome_of
from bot.journal.database.connections import SqliteConnection
from bot.journal.database.statements import Step
from tests.faults.strikes import STRIKES
from tests.faults.test_s5_hidden_rows import written
from tests.story import tell

FOR_GOOD = 1_000
WORDS = ("database or disk is full", "disk I/O error", "database is locked")


class Failing:
    """The disk of a journal: from the first commit of a send on, as it is counted, so many fail."""

    def __init__(self, first: int, times: int) -> None:
        self.wanted = range(first, first + times)
        self.sends = self.struck = 0
        self._is_send = False

    def put_under(self, monkeypatch: pytest.MonkeyPatch) -> None:
        run, commit = SqliteConnection._run, SqliteConnection._commit

        def running(connection: SqliteConnection, steps: Sequence[Step]) -> list[int]:
            self._is_send |= any("INSERT INTO attempts" in each.statement.text for each in steps)
            return run(connection, steps)

        def committing(connection: SqliteConnection) -> None:
            is_send, self._is_send = self._is_send, False
            self.sends += is_send
            if is_send and self.sends in self.wanted:
                self.struck += 1
                raise sqlite3.OperationalError(WORDS[self.struck % len(WORDS)])
            commit(connection)

        monkeypatch.setattr(SqliteConnection, "_run", running)
        monkeypatch.setattr(SqliteConnection, "_commit", committing)


@pytest.mark.parametrize(("first", "times"), [(1, 1), (3, 2), (2, FOR_GOOD)])
async def test_no_order_leaves_without_its_committed_attempt(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
    first: int,
    times: int,
) -> None:
    config, disk = written(tmp_path), Failing(first, times)
    disk.put_under(monkeypatch)

    story = await tell(config, minutes=2)

    outcome = outcome_of(story.loaded.state_dir)
    # An order that was about to leave stays, too, if another one's commit fails just then.
    kept = outcome.rows("select 1 from attempts where verb = 'POST' and outcome = 'NOT_SENT'")
    assert disk.struck > 0
    assert len(story.posts()) - len(kept) == len(story.broker_orders())
    assert len(story.posts()) >= first - 1
    if times == FOR_GOOD:
        assert len(story.posts()) == first - 1
    assert faults_in(outcome) == []
    record_property(STRIKES, disk.struck)
