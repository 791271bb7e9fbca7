"""An order works over the close, and the bot hears nothing of its end before the next morning."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from bot.domain.entry import Fill, OrderUpdated, StateChanged
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.order import OrderState
from tests.story import Story, once, tell, write_project

pytestmark = pytest.mark.skipif(
    "NIGHTS" not in os.environ, reason="NIGHTS=2 asks for a night: make prove"
)
CUT_OFF = {"verb": "GET", "path": "*", "at": "14:25", "until": "23:59:59", "times": 0}
"""From before the close until midnight no read comes through."""
FILLED = {"at": "14:27", "until": "14:50", "bids": [[26_000, 500]], "asks": [[26_500, 900]]}
SCENARIO = {
    "day": "2026-11-17",
    "start": "14:20:00",
    "quota": "PRO",
    "symbols": [
        {
            "symbol": "HPG",
            "exchange": "HOSE",
            "reference": 27_000,
            "standstills": [
                {
                    "at": "14:00",
                    "until": "14:27",
                    "bids": [[26_800, 500]],
                    "asks": [[27_100, 500]],
                },
                FILLED,
            ],
        }
    ],
    "faults": [{"match": CUT_OFF, "action": {"do": "status", "status": 503}}],
}


@pytest.fixture(scope="module")
async def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder: Path = tmp_path_factory.mktemp("closes")
    strategy = once(when={"sessions": ["continuous"]}, params={"price": 26_900})
    config = write_project(folder, scenario=SCENARIO, strategies=[strategy])
    return await tell(config, minutes=18 * 60 + 20, answer_otp_after=timedelta(minutes=1))


async def test_a_fill_of_the_last_minutes_that_no_read_showed_is_told_the_next_morning(
    story: Story,
) -> None:
    [fill] = story.shown.all(Fill)
    at = fill.at.astimezone(EXCHANGE_TZ)

    assert (at.date().isoformat(), f"{at:%H:%M}") == ("2026-11-18", "08:30")
    assert fill.quantity == 100
    assert [row.state for row in story.shown.all(OrderUpdated)][-1] is OrderState.FILLED


async def test_the_morning_after_it_trades_on_and_no_symbol_is_halted(story: Story) -> None:
    states = [each.to_state for each in story.shown.all(StateChanged) if each.scope == "all"]

    assert [each for each in story.shown.all(StateChanged) if each.scope == "symbol:HPG"] == []
    assert states[-2:] == ["RUNNING", "STOPPING"]
