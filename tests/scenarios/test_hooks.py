"""Strategies that act again inside their hooks: nothing of it may end the run or lose an order."""

from pathlib import Path

from bot.domain.entry import IntentMoved
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
