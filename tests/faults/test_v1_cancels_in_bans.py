"""V1: a cancel or a halt while the exchange cancels nothing: it leaves when that ends, or the order
is said to lapse.
"""

import sqlite3
from contextlib import closing
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.domain.instrument import EXCHANGE_TZ
from bot.drill.oracle import faults_in, outcome_of
from tests.by_hand import Ask, HandStory, tell_by_hand
from tests.staging import DAY, QUIET
from tests.story import once, write_project

HALT = {"do": "halt", "reason": "wrong prices", "by": "me"}
CANCEL = {"do": "cancel", "order_id": "L-0001"}
LATE_S_MAX = 2
BANS = {
    "opening auction, at once": ("09:00:05", "09:01:00", "09:15:00"),
    "opening auction, at its end": ("09:00:05", "09:14:58", "09:15:00"),
    "lunch, at once": ("11:29:00", "11:30:01", "13:00:00"),
    "lunch, in the middle": ("11:29:00", "12:10:00", "13:00:00"),
    "lunch, at its end": ("11:29:00", "12:59:59", "13:00:00"),
}
"""When a story begins, when a person asks, and when the ban ends."""


def _at(text: str) -> datetime:
    return datetime.combine(DAY, time.fromisoformat(text), EXCHANGE_TZ)


async def _told(
    folder: Path, start: str, asked: str, until: datetime, request: dict[str, Any]
) -> HandStory:
    """A person cancels an order that rests, and looks at the status a second later."""
    resting = once(params={"price": 26_000})
    scenario = {**QUIET, "start": start}
    config = write_project(folder, scenario=scenario, strategies=[resting])
    after = _at(asked) - _at(start)
    look = Ask(after + timedelta(seconds=1), {"do": "status"})
    minutes = (until - _at(start)) / timedelta(minutes=1)
    return await tell_by_hand(config, Ask(after, request), look, minutes=minutes)


def _cancels(told: HandStory) -> list[datetime]:
    """When each DELETE left."""
    with closing(sqlite3.connect(told.story.loaded.state_dir / "journal.db")) as journal:
        found = journal.execute("select at from attempts where verb = 'DELETE'").fetchall()
    return [datetime.fromisoformat(at) for (at,) in found]


@pytest.mark.one_strike
@pytest.mark.sampled(3)
@pytest.mark.parametrize("request_", [HALT, CANCEL], ids=["halt", "cancel"])
@pytest.mark.parametrize("ban", BANS)
async def test_a_cancel_leaves_in_the_first_legal_seconds(
    tmp_path: Path, ban: str, request_: dict[str, Any]
) -> None:
    start, asked, end = BANS[ban]

    told = await _told(tmp_path, start, asked, _at(end) + timedelta(minutes=1), request_)

    [order] = told.story.broker_orders().values()
    assert order["status"] == "CANCELLED"
    [left] = _cancels(told)
    assert 0 <= (left - _at(end)).total_seconds() <= LATE_S_MAX
    status: Any = told.replies[1]["status"]
    if _at(end) - _at(asked) > timedelta(seconds=10):
        assert any(f"the cancel goes out at {end}" in text for text in status["alerts"])
    assert faults_in(outcome_of(told.story.loaded.state_dir)) == []


@pytest.mark.one_strike
async def test_in_the_closing_auction_nothing_leaves_and_the_order_is_said_to_lapse(
    tmp_path: Path,
) -> None:
    told = await _told(tmp_path, "14:29:00", "14:31:00", _at("14:50:00"), HALT)

    assert _cancels(told) == []
    status: Any = told.replies[1]["status"]
    assert any("cancels nothing any more today" in text for text in status["alerts"])
    [order] = told.story.broker_orders().values()
    assert order["executed"] == 0
    assert faults_in(outcome_of(told.story.loaded.state_dir)) == []
