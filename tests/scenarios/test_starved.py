"""A machine that lets a story wait in the middle of a hook makes no other story of it."""

from pathlib import Path

from tests.staging import QUIET
from tests.story import once, tell, write_project

WAITING = """
import time

from bot import Strategy


class Waiting(Strategy):
    def on_quote(self, quote):
        if not self.position.qty:
            time.sleep(0.3)  # as long as a busy machine may take to go on
            self.buy(100, limit=quote.ceiling, why="late")
"""


async def test_a_hook_that_had_to_wait_for_a_core_is_not_too_slow(tmp_path: Path) -> None:
    waiting = once("waiting", use="waiting", params={})
    config = write_project(tmp_path, scenario=QUIET, strategies=[waiting])
    (tmp_path / "strategies" / "waiting.py").write_text(WAITING)

    story = await tell(config, minutes=2)

    assert len(story.posts()) == len(story.broker_orders()) == 1
