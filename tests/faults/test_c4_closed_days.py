"""C4: on a day without trading nothing leaves, whatever the strategies ask for and when."""

from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from random import Random
from shutil import rmtree

import pytest

from bot.config.rulebook import load_rulebook
from bot.domain.entry import Decision, Note, Verdict
from bot.drill.oracle import faults_in, outcome_of
from tests.faults.strikes import STRIKES, is_in_full
from tests.staging import QUIET
from tests.story import Story, once, tell, write_project

DAYS = [date(2026, 1, 1) + timedelta(days=number) for number in range(365)]
MAKE_UP = date(2026, 8, 22)
"""A Saturday that is a working day: no exchange is open."""
SATURDAY = 5
WHOLE_DAY = 380
REQUESTS = 5
"""At its start; while nothing is open no other hook is called."""
ASKING = """
from bot import Strategy


class Asking(Strategy):
    def ask(self, why):
        self.buy(100, limit=27_000, why=why)
        self.sell(100, limit=27_000, why=why)
        for market in ("ATO", "MTL", "ATC"):
            self.buy(100, market=market, why=why)

    def on_start(self):
        self.ask("on_start")

    def on_quote(self, quote):
        self.ask("on_quote")

    def on_depth(self, depth):
        self.ask("on_depth")

    def on_session(self, phase):
        self.ask("on_session")

    def on_timer(self, timer):
        self.ask("on_timer")
"""


async def _told(folder: Path, day: date, start: str, minutes: float) -> Story:
    strategy = once(
        "asking",
        use="asking",
        params={},
        wake={"quote": "5s", "depth": "5s", "session": True, "timer": ["09:05", "10:00", "14:35"]},
    )
    accounts = [{"id": "0009000011", "cash": 900_000_000, "holdings": {"HPG": 2_000}}]
    scenario = {**QUIET, "day": day, "start": start, "accounts": accounts}
    config = write_project(folder, scenario=scenario, strategies=[strategy])
    (folder / "strategies" / "asking.py").write_text(ASKING)
    return await tell(config, minutes=minutes)


async def test_on_a_trading_day_the_strategy_does_buy(tmp_path: Path) -> None:
    story = await _told(tmp_path, date(2026, 11, 19), "09:20:00", minutes=1)

    assert story.posts()


@pytest.mark.long
async def test_on_a_closed_day_nothing_leaves_and_each_request_is_answered(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    calendar = load_rulebook().calendar
    closed = [day for day in DAYS if not calendar.is_trading_day(day)]
    weekdays = [day for day in closed if day.weekday() < SATURDAY]
    days = closed if is_in_full() else [MAKE_UP, *Random(4).sample(weekdays, 2)]
    for day in days:
        folder = tmp_path / f"{day}"

        story = await _told(folder, day, "08:50:00", WHOLE_DAY)

        decided = [(it.verdict, it.code) for it in story.shown.all(Decision)]
        assert (story.posts(), story.broker_orders()) == ([], {}), f"{day}"
        assert decided == [(Verdict.BLOCKED, "PHASE")] * REQUESTS, f"{day}"
        assert "HOSE closed" in [it.text for it in story.shown.all(Note)], f"{day}"
        assert faults_in(outcome_of(story.loaded.state_dir)) == [], f"{day}"
        rmtree(folder)

    record_property(STRIKES, len(days))
