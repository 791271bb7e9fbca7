"""D6: a disk that fills: it is said, then orders stop while cancels leave, then all goes on."""

from pathlib import Path

import pytest

from bot.clock import SimulatedClock
from bot.domain.entry import Note, RunState
from bot.domain.message import CancelOrder, Event
from bot.domain.operations import CancelAsked, DiskSeen
from bot.engine.health import LOW_BYTES, RESERVE_BYTES
from bot.journal.database.schema import migrate
from bot.journal.journal import Journal
from bot.runtime.watches import DiskWatch
from tests.engine.stage import START, Stage, report_of
from tests.staging import commits_of


def _disk_seen(stage: Stage, free: int) -> RunState:
    stage.after(10).handle(DiskSeen(stage.now, free))
    return stage.engine.status().state


def _disk_alerts(stage: Stage) -> list[object]:
    notes = [one for one in stage.all(Note) if one.kind == "ALERT"]
    return [(one.numbers["alert"], one.numbers["free_mb"]) for one in notes]


@pytest.mark.one_strike
def test_little_room_is_told_once_and_orders_go_on() -> None:
    stage = Stage()

    states = [_disk_seen(stage, LOW_BYTES - 1), _disk_seen(stage, LOW_BYTES - 9)]
    [standing] = stage.engine.status().alerts

    assert states == [RunState.RUNNING, RunState.RUNNING]
    assert _disk_alerts(stage) == [("DISK_LOW", 511)]
    assert standing.startswith("the disk of the journal has 511 MB left: below 64 MB no order")


@pytest.mark.one_strike
def test_on_the_journals_last_room_cancels_leave_and_no_order() -> None:
    stage = Stage()
    intent = stage.working()

    state = _disk_seen(stage, RESERVE_BYTES - 1)
    stage.handle(CancelAsked(stage.now, "ORD1", "me", "by hand"))
    stage.row(report_of(intent))

    assert state is RunState.DEGRADED
    assert _disk_alerts(stage) == [("DISK_LOW", 63)]
    assert stage.all(CancelOrder)


@pytest.mark.parametrize("before", [LOW_BYTES - 1, RESERVE_BYTES - 1])
def test_with_room_again_everything_goes_on(before: int) -> None:
    stage = Stage()
    _disk_seen(stage, before)

    state = _disk_seen(stage, LOW_BYTES)

    assert (state, stage.engine.status().alerts) == (RunState.RUNNING, ())


@pytest.mark.one_strike
@pytest.mark.parametrize("full", ["state", "elsewhere"])
async def test_the_fuller_of_both_disks_counts_where_the_journal_is_elsewhere(
    tmp_path: Path, full: str
) -> None:
    state, elsewhere = tmp_path / "state", tmp_path / "elsewhere"
    state.mkdir()
    elsewhere.mkdir()
    url = f"sqlite:///{elsewhere / 'journal.db'}"
    migrate(url)
    linked = state / "journal.db"
    linked.symlink_to(elsewhere / "journal.db")
    journal, told = Journal.open(f"sqlite:///{linked}"), list[Event]()
    folders = commits_of(journal, state, told.append, SimulatedClock(START)).folders
    rooms = {folder: RESERVE_BYTES - 1 if folder.name == full else LOW_BYTES for folder in folders}

    await DiskWatch(folders, told.append, lambda: START, rooms.__getitem__).look()
    await journal.close()

    assert told == [DiskSeen(START, RESERVE_BYTES - 1)]
