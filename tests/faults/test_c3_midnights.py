"""C3: four hundred days, in stretches without a restart: each midnight ends a token and a day.

The calendar of 2028 and 2029 is invented, and most of its days end early, as only midnights count
here. Each day the second factor is asked for anew; orders are requested at its opening, in its last
seconds and at 23:59:59, answers are lost and rows hidden.
"""

from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from ruamel.yaml import YAML

from bot.config.scenario_file import load_scenario
from bot.config.settings.load import load_settings
from bot.domain.entry import DAY_NOTE, AuthEvent, Decision, Note, Verdict
from bot.domain.instrument import EXCHANGE_TZ
from bot.drill.oracle import StoryResult, faults_in, outcome_of
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunOptions
from bot.runtime.worlds.environment import EnvironmentSpec
from bot.runtime.worlds.sandbox import wake_sandbox
from tests.faults.strikes import STRIKES, is_in_full, times
from tests.story import InProcessEnvironment, Shown, write_project

FIRST_DAY = date(2027, 12, 30)
LEAP_DAY, LAST_OF_YEAR = date(2028, 2, 29), date(2027, 12, 31)
CLOSED = (date(2028, 1, 3), date(2028, 1, 31), date(2028, 2, 1), date(2028, 5, 1), date(2029, 1, 1))
WHOLE = (LEAP_DAY, date(2028, 12, 29))
"""These days are as long as the exchanges' own; the others end at `EARLY`."""
EARLY, LAST_SECOND = "09:03", time(23, 59, 59)
TIMES = ("09:00:30", "09:02:58", "14:44:58", str(LAST_SECOND))
FEW = 2
STRETCHES = range(4) if is_in_full() else range(1)
"""Runs of a hundred days each, one after another; two days of the first where few are enough."""
Row = TypeVar("Row", AuthEvent, Decision, Note)
DICE = """
from random import Random

from bot import Strategy


class Dice(Strategy):
    def on_timer(self, timer):
        dice = Random(f"{self.now}|{self.symbol}")
        last = self.quote.last if self.quote else 18_500
        limit = last + 100 * dice.randint(-4, 2)
        if dice.random() < 0.2:
            self.cancel(why="dice")
        elif self.position.sellable and dice.random() < 0.5:
            self.close(limit=limit, why="dice")
        else:
            self.buy(100 * dice.randint(1, 3), limit=limit, why="dice")
"""
FATES = (
    {"point": "after_apply", "action": {"do": "rst"}},
    {"point": "accept", "action": {"do": "rst"}},
    {"action": {"do": "hide_row", "seconds": 20}},
    {"action": {"do": "reject", "code": "-900017"}},
)


def _days(first: date, count: int) -> Iterator[date]:
    """The trading days among so many."""
    for number in range(count):
        day = first + timedelta(days=number)
        if day.weekday() < 5 and day not in CLOSED:
            yield day


def _project(folder: Path, first: date, days: int) -> Path:
    name = "an invented day"
    short = [day for day in _days(first, days + 7) if day not in WHOLE]
    rules = {
        "years": {2028: "OPERATOR", 2029: "OPERATOR"},
        "closed": [{"date": day, "name": name} for day in CLOSED],
        "early_closes": [{"date": day, "at": EARLY, "name": name} for day in short],
    }
    YAML(typ="safe").dump(rules, folder / "rules.yaml")
    match = {"verb": "POST", "path": "*/orders", "prob": 0.06}
    scenario = {
        "day": FIRST_DAY,
        "start": "08:00:00",
        "seed": 5,
        "symbols": [{"symbol": "SHS", "exchange": "HNX", "reference": 18_500}],
        "quota": "PRO",
        "accounts": [{"id": "0009000011", "cash": 900_000_000, "holdings": {"SHS": 2_000}}],
        "faults": [{"match": match, **fate} for fate in FATES],
    }
    strategy = {
        "name": "dice",
        "use": "dice",
        "symbols": ["SHS"],
        "wake": {"timer": list(TIMES)},
        "order": {"size": {"shares": 100}, "type": "LIMIT"},
        "on_2fa": "hold 60s",
    }
    config = write_project(
        folder,
        scenario=scenario,
        strategies=[strategy],
        market_rules="rules.yaml",
        log={"level": "off"},
    )
    (folder / "strategies" / "dice.py").write_text(DICE)
    return config


INTENTS = "select trading_date, created_at from intents"
WRITES = (
    "select a.verb, o.trading_date, a.at from attempts a join orders o on a.order_id = o.order_id"
)
MOVES = "select t.to_state, o.trading_date, t.at from transitions t join orders o using (order_id)"


def _kept_days(outcome: StoryResult) -> list[str]:
    """What was done to an order, or became of it, on another day than its own."""
    rows = [*outcome.rows(WRITES), *outcome.rows(MOVES)]
    days = [(row, str(_local(datetime.fromisoformat(row["at"])).date())) for row in rows]
    return [f"{row} on {day}" for row, day in days if day != str(row["trading_date"])]


def _begin_on(day: date, spec: EnvironmentSpec) -> InProcessEnvironment:
    """A scenario's own day has to be one of the shipped calendar."""
    script = load_scenario(spec.loaded.settings.sandbox.scenario, spec.loaded.base_dir)
    sandbox, clock = wake_sandbox(spec, script.model_copy(update={"day": day}))
    return InProcessEnvironment(sandbox, clock, spec)


def _local(at: datetime) -> datetime:
    return at.astimezone(EXCHANGE_TZ)


def _days_with(story: Shown, kind: type[Row], is_meant: Callable[[Row], bool]) -> list[date]:
    found = {_local(each.at).date() for each in story.all(kind) if is_meant(each)}
    return sorted(found)


@pytest.mark.parametrize("stretch", STRETCHES)
async def test_no_midnight_loses_or_doubles_anything(
    stretch: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    count = times("C3", FEW) // len(STRETCHES)
    first = FIRST_DAY + timedelta(days=count * stretch)
    traded = [*_days(first, count)]

    loaded, story = load_settings(_project(tmp_path, first, count)), Shown()
    options = RunOptions(run_for=timedelta(days=count), answer_otp_after=timedelta(minutes=1))
    await run_bot(loaded, options, story, make=partial(_begin_on, first))

    outcome = outcome_of(tmp_path / "state")
    assert faults_in(outcome) == []
    assert _kept_days(outcome) == []
    tokens = _days_with(story, AuthEvent, lambda it: it.kind == "ready")
    assert {*traded} <= {*tokens} <= {first, *traded}, "a token a day, and one at the start"
    assert _days_with(story, Note, lambda it: it.kind == DAY_NOTE) == traded
    late = [each for each in story.all(Decision) if _local(each.at).time() == LAST_SECOND]
    assert [_local(each.at).date() for each in late] == traded
    assert {each.verdict for each in late} <= {Verdict.BLOCKED, Verdict.SKIPPED}
    asked = {date.fromisoformat(row["trading_date"]) for row in outcome.rows(INTENTS)}
    assert {LAST_OF_YEAR, LEAP_DAY} & {*traded} <= asked <= {*traded}
    record_property(STRIKES, count)
