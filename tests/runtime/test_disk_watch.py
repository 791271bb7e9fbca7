"""The watch speaks while there is little room, and once more when there is enough."""

from datetime import UTC, datetime
from pathlib import Path

from bot.domain.message import Event
from bot.domain.operations import DiskSeen
from bot.engine.health import LOW_BYTES
from bot.runtime.disk_watch import DiskWatch, free_on

NOW = datetime(2026, 11, 19, 2, 20, tzinfo=UTC)


async def test_only_little_room_and_its_end_are_told(tmp_path: Path) -> None:
    told, rooms = list[Event](), [LOW_BYTES, 9, 8, LOW_BYTES, LOW_BYTES]
    watch = DiskWatch(tmp_path, told.append, lambda: NOW, lambda _: rooms.pop(0))

    for _ in range(5):
        await watch.look()

    assert told == [DiskSeen(NOW, 9), DiskSeen(NOW, 8), DiskSeen(NOW, LOW_BYTES)]


async def test_a_disk_that_gives_no_answer_says_nothing(tmp_path: Path) -> None:
    told = list[Event]()
    watch = DiskWatch(tmp_path / "gone", told.append, lambda: NOW)

    await watch.look()

    assert told == []
    assert free_on(tmp_path) > 0
