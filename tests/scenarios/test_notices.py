"""Stories of a person who is away: what a real service on loopback is told of a run."""

from pathlib import Path

import pytest

from bot.domain.entry import NOTICE_NOTE, Note
from tests.by_hand import tell_by_hand
from tests.notice_server import notice_server
from tests.staging import QUIET
from tests.story import once, write_project

pytestmark = pytest.mark.wire


async def test_a_fill_arrives_with_its_reason_and_is_journalled_as_taken(tmp_path: Path) -> None:
    with notice_server() as service:
        config = write_project(
            tmp_path, scenario=QUIET, strategies=[once()], notify={"urls": [service.url]}
        )
        told = await tell_by_hand(config, minutes=2)

    [fill] = [each for each in service.messages if "filled" in each["title"]]
    assert fill["title"].startswith("SANDBOX ")
    assert "BUY 100 HPG" in fill["message"]
    assert "Why:" in fill["message"]
    notes = [each for each in told.story.shown.all(Note) if each.kind == NOTICE_NOTE]
    assert all(each.numbers["is_taken"] for each in notes)


async def test_a_limit_that_is_used_to_four_fifths_is_told_of_once_a_day(tmp_path: Path) -> None:
    limits = {"max_order_value": 500_000_000, "max_orders_per_day": 1}
    with notice_server() as service:
        config = write_project(
            tmp_path,
            scenario=QUIET,
            strategies=[once(limits=limits)],
            notify={"urls": [service.url]},
        )
        await tell_by_hand(config, minutes=16)

    told = [each["message"] for each in service.messages if "near a limit" in each["title"]]
    assert sum("strategy once max_orders_per_day: 1 of 1" in text for text in told) == 1, told


async def test_each_trading_day_has_a_calm_word_at_a_quarter_to_nine(tmp_path: Path) -> None:
    scenario = {**QUIET, "start": "08:44:40"}
    with notice_server() as service:
        config = write_project(
            tmp_path,
            scenario=scenario,
            strategies=[once()],
            notify={"urls": [service.url]},
            sandbox={"scenario": "story.yaml", "speed": 60, "port": 0},
        )
        await tell_by_hand(config, minutes=1.5)

    told = [each for each in service.messages if "alive" in each["title"]]
    assert len(told) == 1
    assert "Alive and " in told[0]["message"]
