"""The request quota: a 429 is waited out on market time, and orders come first after it."""

from datetime import timedelta
from pathlib import Path

from bot.domain.entry import AccountSeen, Note
from tests.by_hand import Ask, tell_by_hand
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


async def test_a_route_that_is_limited_for_long_is_an_alert_and_in_the_status_until_it_is_over(
    tmp_path: Path,
) -> None:
    match = {"verb": "GET", "path": "*/summary", "at": "09:20:30", "until": "09:23:00"}
    fault = {"match": match, "action": {"do": "status", "status": 429}}
    config = write_project(tmp_path, scenario={**QUIET, "faults": [fault]}, strategies=[once()])
    soon, later, over = (
        Ask(timedelta(seconds=after), {"do": "status"}) for after in (75, 150, 420)
    )

    told = await tell_by_hand(config, soon, later, over, minutes=8)

    said = [reply["status"]["alerts"] for reply in told.replies]  # type: ignore[index]
    assert "the last one at 09:22:00, not even a cancel" in said[0][0]
    assert "the last one at 09:23:00, not even a cancel" in said[1][0]
    assert list(map(len, said)) == [1, 1, 0]
    alerts = [note.numbers.get("alert") for note in told.story.shown.all(Note)]
    assert [each for each in alerts if each] == ["RATE_LIMITED"]
    [end] = [note for note in told.story.shown.all(Note) if note.kind == "RESUME"]
    assert end.text == "the broker no longer limits us: a whole minute without a 429"
