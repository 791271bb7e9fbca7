"""S5: answers to places are lost, and the rows that would tell are hidden, for a while or all day.

While a row is hidden its order stays unknown: it is not counted as not placed, its money stays
reserved, and nothing takes its place. When it shows, it is found.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Any

import pytest

from bot.domain.entry import IntentMoved
from bot.domain.order import SendState
from bot.drill.oracle import faults_in, outcome_of
from tests.faults.strikes import STRIKES, strikes_of_rules, times
from tests.staging import QUIET
from tests.story import Story, once, tell, write_project

SYMBOLS = ("HPG", "FPT", "VNM", "MWG", "SSI", "ACB", "MBB", "VCB", "VIC", "TCB")
PLACES = {"verb": "POST", "path": "*/orders", "times": 0}
LOST = {"match": PLACES, "point": "after_apply", "action": {"do": "rst"}}
ALL_DAY_S = 36_000
SHOWN = (SendState.ACKED, SendState.MATCHED)


def _hidden(seconds: float, **match: object) -> Mapping[str, object]:
    hidden = {"do": "hide_row", "seconds": seconds}
    return {"match": {**PLACES, **match}, "action": hidden}


def written(folder: Path, *faults: Mapping[str, object]) -> Path:
    """Write a project that buys ten symbols at once, and return its configuration."""
    symbols = [
        {"symbol": symbol, "exchange": "HOSE", "reference": 27_000, "swing_ticks": 0}
        for symbol in SYMBOLS
    ]
    accounts = [{"id": "0009000011", "cash": 900_000_000}]
    market = {"symbols": symbols, "accounts": accounts, "faults": faults}
    buyer = once(symbols=SYMBOLS, wake={"quote": "5s"})
    return write_project(
        folder, scenario={**QUIET, **market}, strategies=[buyer], risk={"max_unknown": 10}
    )


async def _told(folder: Path, *hidden: Mapping[str, object]) -> Story:
    return await tell(written(folder, LOST, *hidden), minutes=4)


def _ends(story: Story) -> Mapping[str, SendState]:
    """Where each order was left; each was unknown, and none was ever counted as not placed."""
    moves = story.shown.all(IntentMoved)
    states = {(move.intent_id, move.to_state) for move in moves}
    unknown = {intent_id for intent_id, state in states if state is SendState.UNKNOWN}
    assert unknown == set(story.posts())
    assert SendState.NOT_PLACED not in {state for _, state in states}
    return {move.intent_id: move.to_state for move in moves}


async def test_nothing_takes_the_place_of_an_order_while_its_row_is_hidden(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    struck, seed, wanted = 0, 0, times("S5", len(SYMBOLS))
    while struck < wanted:
        folder, dice, seed = tmp_path / str(seed), Random(seed), seed + 1

        story = await _told(
            folder,
            *(_hidden(dice.uniform(0.2, 60), nth=nth) for nth in range(1, len(SYMBOLS) + 1)),
        )

        assert set(_ends(story).values()) == {SendState.MATCHED}, f"seed {seed}"
        assert len(story.posts()) == len(story.broker_orders()), f"seed {seed}"
        assert faults_in(outcome_of(story.loaded.state_dir)) == [], f"seed {seed}"
        struck += strikes_of_rules(folder) - len(story.posts())  # as many answers were lost
        rmtree(folder)

    record_property(STRIKES, struck)


@pytest.mark.one_strike
async def test_a_row_that_is_hidden_all_day_is_never_taken_for_no_order(tmp_path: Path) -> None:
    story = await _told(tmp_path, _hidden(ALL_DAY_S))

    assert not set(_ends(story).values()) & set(SHOWN)
    assert len(story.posts()) == len(story.broker_orders()) == len(SYMBOLS)
    outcome: Any = outcome_of(story.loaded.state_dir)
    assert not [each for each in faults_in(outcome) if "doubled" in each]
