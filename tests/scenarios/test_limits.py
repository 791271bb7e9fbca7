"""The request quota: a 429 is waited out on market time, and orders come first after it."""

from datetime import timedelta
from pathlib import Path

from bot.domain.entry import AccountSeen, Note
from tests.staging import QUIET
from tests.story import once, tell, write_project


async def test_a_429_is_said_waited_out_and_over(tmp_path: Path) -> None:
    fault = {"match": {"at": "09:22:00"}, "action": {"do": "too_many", "reset_s": 30}}
    config = write_project(tmp_path, scenario={**QUIET, "faults": [fault]}, strategies=[once()])

    story = await tell(config, minutes=10)

    limits = [note for note in story.shown.all(Note) if note.kind == "LIMIT"]
    assert len(limits) == 1
    until = limits[0].at + timedelta(seconds=31)
    seen = [each.at for each in story.shown.all(AccountSeen)]
    assert any(at > until for at in seen)
    assert story.shown.troubles == []
