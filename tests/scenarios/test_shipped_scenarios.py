"""Every scenario that is shipped can be run by a bot: its broker comes up and an order trades."""

from datetime import datetime, time, timedelta
from pathlib import Path

import pytest

from bot.clock import SystemClock
from bot.config.rulebook import load_rulebook
from bot.config.shipped import scenario_names
from bot.domain.entry import Fill
from bot.domain.instrument import EXCHANGE_TZ
from tests.story import once, tell, write_project

BUYS_SHS = once(symbols=["SHS"], params={"price": 23_000}, when={"sessions": ["continuous"]})
BROKER = {"account": ".1", "requests_per_minute": 3000}


@pytest.mark.parametrize("name", scenario_names())
async def test_every_shipped_scenario_runs_and_an_order_trades(tmp_path: Path, name: str) -> None:
    config = write_project(tmp_path, scenario=name, strategies=[BUYS_SHS], broker=BROKER)

    story = await tell(config, minutes=2)

    assert not story.shown.troubles
    fills = story.shown.all(Fill)
    assert sum(each.quantity for each in fills) == 100


async def test_a_scenario_without_a_day_begins_at_the_end_of_the_last_opening_auction(
    tmp_path: Path,
) -> None:
    config = write_project(tmp_path, scenario="quiet", strategies=[BUYS_SHS], broker=BROKER)

    story = await tell(config, minutes=1)
    again = await tell(config, minutes=1)

    begun = datetime.fromisoformat(str(story.ledger()[0]["at"])).astimezone(EXCHANGE_TZ)
    now = SystemClock().now().astimezone(EXCHANGE_TZ)
    between = range(1, (now.date() - begun.date()).days)  # Tết closes the exchanges for a week
    trades = load_rulebook().calendar.is_trading_day
    assert begun.time() == time(9, 14, 55)
    assert trades(begun.date())
    assert begun <= now
    assert not any(trades(begun.date() + timedelta(days=number)) for number in between)
    assert again.ledger()[0] == story.ledger()[0], "and goes on with that day"


async def test_a_recorded_day_before_the_known_rules_says_by_which_it_is_played(
    tmp_path: Path,
) -> None:
    (tmp_path / "SHS.csv").write_text(
        "time,open,high,low,close,volume\n2024-08-05 09:00,16000,16000,16000,16000,50000\n"
    )
    symbol = {"symbol": "SHS", "exchange": "HNX", "reference": 16_000, "replay": "minutes"}
    recorded = {"day": "2024-08-05", "start": "09:00:30", "replay": {"minutes": "."}}
    config = write_project(
        tmp_path,
        scenario={**recorded, "symbols": [symbol]},
        strategies=[once(symbols=["SHS"], params={"price": 16_500})],
        broker=BROKER,
    )

    story = await tell(config, minutes=2)

    assert ("rules", "2024-08-05 is played by those in effect since 2025-05-05") in [
        (name, text.partition(";")[0]) for name, text in story.shown.rows
    ]
    assert story.shown.all(Fill)
