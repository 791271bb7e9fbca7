"""S13: an order API that refuses every place is asked three times, and reads go on."""

from pathlib import Path

import pytest

from bot.domain.entry import Note
from tests.staging import QUIET
from tests.story import once, tell, write_project

EAGER = """
from bot import Strategy


class Eager(Strategy):
    def on_quote(self, quote):
        self.shares = getattr(self, "shares", 0) + 100
        self.buy(self.shares, limit=26_000, why="again")
"""
BODY = '{"error_code": "400", "message": "x-new?"}'
CHANGED = {
    "match": {"verb": "POST", "path": "*/orders", "times": 0},
    "action": {"do": "status", "status": 400, "body": BODY},
}


@pytest.mark.scripted
async def test_an_api_that_refuses_every_order_gets_three_and_is_named(tmp_path: Path) -> None:
    eager = once("eager", use="eager", params={})
    config = write_project(tmp_path, scenario={**QUIET, "faults": [CHANGED]}, strategies=[eager])
    (tmp_path / "strategies" / "eager.py").write_text(EAGER)

    story = await tell(config, minutes=3)
    again = await tell(config, minutes=2)

    assert len(story.posts()) == len(again.posts()) == 3
    [alert] = [n for n in story.shown.all(Note) if n.numbers.get("alert") == "API_CHANGED"]
    assert "x-new?" in alert.text
