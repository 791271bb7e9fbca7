"""A field that the broker adds or renames is journalled once, shown in the status, and harmless."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from bot.cli.commands.status import lines_of
from bot.domain.entry import Note, OrderUpdated
from bot.drill.oracle import outcome_of
from bot.runtime.worlds.environment import Access, EnvironmentSpec
from tests.by_hand import Ask, tell_by_hand
from tests.conformance.server import changed
from tests.story import InProcessEnvironment, in_process, once, write_project

SCENARIO: Mapping[str, object] = {
    "day": "2026-11-19",
    "start": "09:20:00",
    "symbols": [{"symbol": "HPG", "exchange": "HOSE", "reference": 27_000, "swing_ticks": 0}],
    "quota": "PRO",
}


def with_a_new_field(path: str, status: int, body: Any) -> tuple[int, Any]:
    if status == 200 and path == "/market/quotes/stocks/HPG":
        return status, {**body, "data": {**body["data"], "lot_size": 100}}
    if status == 200 and path.endswith("/order-book"):
        key = "result" if "result" in body else "data"
        return status, {**body, key: _renamed(body[key])}
    return status, body


def _renamed(value: Any) -> Any:
    if isinstance(value, list):
        return [_renamed(each) for each in value]
    return {("custody_cd" if name == "custodycd" else name): each for name, each in value.items()}


class Changed(InProcessEnvironment):
    """The sandbox with a broker that has changed its API a little."""

    async def open(self, stack: AsyncExitStack, /) -> Access:
        access = await super().open(stack)
        assert access.app is not None
        return replace(access, app=changed(access.app, with_a_new_field))


def with_changes(spec: EnvironmentSpec) -> Changed:
    made = in_process(spec)
    return Changed(made._played, made._clock, spec)


async def test_drift_in_a_run_is_journalled_once_told_and_shown(tmp_path: Path) -> None:
    config = write_project(tmp_path, scenario=SCENARIO, strategies=[once()])
    status = Ask(timedelta(minutes=2), {"do": "status"})

    told = await tell_by_hand(config, status, minutes=3, place_in=with_changes)

    shown = told.story.shown
    notes = [note.text for note in shown.all(Note) if note.kind == "DRIFT"]
    assert notes == [
        "stock_quote is not as documented: lot_size added",
        "todays_orders is not as documented: [].custody_cd renamed (was [].custodycd)",
    ]
    journal = outcome_of(told.story.loaded.state_dir)
    stored = journal.rows("select text from notes where kind = 'DRIFT' order by seq")
    assert [row["text"] for row in stored] == notes
    [reply] = told.replies
    answered: Any = reply["status"]
    [line] = [line for line in lines_of(answered, "mybot (sandbox)") if line.startswith("drift")]
    assert "stock_quote lot_size added" in line
    assert "todays_orders [].custody_cd renamed (was [].custodycd)" in line
    assert shown.all(OrderUpdated)[-1].executed_quantity == 100
