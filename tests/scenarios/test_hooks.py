"""Strategies that act again inside their hooks: none of it may end the run or lose an order."""

from pathlib import Path

import pytest

from bot.domain.entry import Decision, IntentMoved, StrategySwitched, Verdict
from bot.domain.order import SendState
from tests.staging import QUIET
from tests.story import once, tell, write_project

LOST = {
    "match": {"verb": "POST", "path": "*/orders"},
    "point": "accept",
    "action": {"do": "rst"},
}
AGAIN = """
from bot import Strategy


class Again(Strategy):
    price: int

    def on_start(self):
        self.asked = False

    def on_quote(self, quote):
        if not self.asked and self.now.minute == 20:
            self.asked = True
            self.buy(100, limit=self.price, why="first")

    def on_reject(self, rejection):
        self.buy(100, limit=self.price - 50, why=f"again after {rejection.code}")
"""


async def test_a_strategy_that_orders_again_in_on_reject_neither_ends_the_run_nor_a_restart(
    tmp_path: Path,
) -> None:
    config = write_project(
        tmp_path, scenario={**QUIET, "faults": [LOST]}, strategies=[once("again", use="again")]
    )
    (tmp_path / "strategies" / "again.py").write_text(AGAIN)

    told = await tell(config, minutes=6)
    moves = [each for each in told.shown.all(IntentMoved) if each.intent_id == "L-0001"]
    assert [each.to_state for each in moves][-2:] == [SendState.FRESH, SendState.NOT_PLACED]
    assert told.posts() == ["L-0001", "L-0002"]
    for _ in range(2):
        told = await tell(config, minutes=8)

    assert told.posts() == ["L-0001", "L-0002"]
    assert len(told.broker_orders()) == 1


HARMFUL = """
from asyncio import CancelledError

from bot import Strategy


class Harmful(Strategy):
    def on_quote(self, quote):
        {does}
"""


@pytest.mark.parametrize(
    "does",
    [
        "raise CancelledError",
        "raise BaseException",
        "self.buy(10**20)",
        "self.buy(limit=10**20)",
        "self.buy(why=object())",
    ],
)
async def test_a_strategy_that_raises_or_wishes_anything_at_all_stops_itself_alone(
    tmp_path: Path, does: str
) -> None:
    harmful = once("harmful", use="harmful", params={}, symbols=["SHS"])
    config = write_project(tmp_path, scenario=QUIET, strategies=[harmful, once()])
    (tmp_path / "strategies" / "harmful.py").write_text(HARMFUL.format(does=does))

    told = await tell(config, minutes=1)

    failed = [one for one in told.shown.all(Decision) if one.verdict is Verdict.FAILED]
    assert {one.strategy for one in failed} == {"harmful"}
    assert [one.strategy for one in told.shown.all(StrategySwitched)] == ["harmful"]
    assert len(told.broker_orders()) == 1
