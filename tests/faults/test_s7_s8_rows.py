"""S7, S8: rows of the day order book that say what cannot be, told as whole stories."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bot.domain.entry import Decision, Fill, Note, RunState, StateChanged
from tests.staging import QUIET
from tests.story import Story, once, tell, write_project

ROWS = {"verb": "GET", "path": "/trading/*/order-book*", "times": 0}


async def _told(folder: Path, action: Mapping[str, Any]) -> Story:
    faults = [{"match": ROWS, "action": action}]
    config = write_project(folder, scenario={**QUIET, "faults": faults}, strategies=[once()])
    return await tell(config, minutes=4)


def _alerts(story: Story) -> list[str]:
    return [note.text for note in story.shown.all(Note) if note.kind == "ALERT"]


@pytest.mark.scripted
@pytest.mark.parametrize(("status", "code"), [("DREAMING", "06"), (None, None), ("", "99")])
async def test_an_unknown_status_is_live_told_once_and_its_fills_count(
    tmp_path: Path, status: str | None, code: str | None
) -> None:
    story = await _told(tmp_path, {"do": "status_override", "status": status, "code": code})

    assert len(story.posts()) == 1
    assert len(_alerts(story)) == 1
    assert "is unknown; it counts as open" in _alerts(story)[0]
    assert sum(fill.quantity for fill in story.shown.all(Fill)) == 100


@pytest.mark.scripted
@pytest.mark.parametrize(
    "fields",
    [{"execqtty": 500}, {"execqtty": -100}, {"execamt": 1}, {"execprice": 1}],
    ids=["more than ordered", "negative", "amount", "average price"],
)
async def test_impossible_figures_halt_the_symbol_and_book_nothing(
    tmp_path: Path, fields: Mapping[str, int]
) -> None:
    story = await _told(tmp_path, {"do": "set_fields", "fields": fields})

    states = [change.to_state for change in story.shown.all(StateChanged)]
    assert RunState.HALTED in states
    assert any(alert.startswith("HPG halted") for alert in _alerts(story))
    assert story.shown.all(Fill) == []
    assert len(story.posts()) == 1


@pytest.mark.parametrize("lacking", [["symbol"], ["execqtty", "remainqtty"], ["execamt"]])
async def test_a_row_that_leaves_something_out_spoils_no_book_and_its_order_goes_on(
    tmp_path: Path, lacking: list[str]
) -> None:
    listed = {"verb": "GET", "path": "/trading/v1/accounts/*/order-book", "times": 0}
    left_out = {"do": "set_fields", "fields": dict.fromkeys(lacking)}
    scenario = {**QUIET, "faults": [{"match": listed, "action": left_out}]}
    strategy = once(name="again", use="again")
    config = write_project(tmp_path, scenario=scenario, strategies=[strategy])
    (config.parent / "strategies" / "again.py").write_text(AGAIN)

    story = await tell(config, minutes=4)

    [told] = _alerts(story)
    assert "ORD10000001 can't be read" in told
    assert "nothing is bought in HPG" in told
    assert len(story.posts()) == 1
    assert sum(fill.quantity for fill in story.shown.all(Fill)) == 100
    assert "SYMBOL_HALTED" in {each.code for each in story.shown.all(Decision)}


@pytest.mark.parametrize("lacking", [["symbol"], ["execqtty", "remainqtty"]])
async def test_an_order_whose_rows_all_leave_something_out_is_cancelled_all_the_same(
    tmp_path: Path, lacking: list[str]
) -> None:
    left_out = {"do": "set_fields", "fields": dict.fromkeys(lacking)}
    order = {"size": {"shares": 100}, "type": "LIMIT", "price": "ask", "expire": "30s"}
    config = write_project(
        tmp_path,
        scenario={**QUIET, "faults": [{"match": ROWS, "action": left_out}]},
        strategies=[once(params={"price": 26_000}, order=order)],
    )

    story = await tell(config, minutes=3)

    [placed] = story.broker_orders().values()
    assert (placed["status"], len(story.posts())) == ("CANCELLED", 1)


AGAIN = """
from bot import Strategy


class Again(Strategy):
    price: int

    def on_quote(self, quote):
        self.buy(100, limit=self.price, why="again")
"""
"""A plug-in that asks for an order on every quote."""
