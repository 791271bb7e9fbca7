"""A field that the broker adds or renames is noted once in a run's journal, and harms nothing."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from bot.domain.entry import Note, OrderUpdated
from bot.runtime.company import RunOptions
from bot.runtime.run import run_bot
from bot.runtime.settings import load_settings
from bot.runtime.world import Access
from bot.runtime.worlds import Place
from tests.conformance.server import changed
from tests.story import InProcessWorld, Shown, in_process, once, write_project

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


class ChangedWorld(InProcessWorld):
    """The sandbox with a broker that has changed its API a little."""

    async def open(self, stack: AsyncExitStack, /) -> Access:
        access = await super().open(stack)
        assert access.app is not None
        return replace(access, app=changed(access.app, with_a_new_field))


def changed_world(place: Place) -> ChangedWorld:
    made = in_process(place)
    return ChangedWorld(made._played, made._clock, place)


async def test_drift_is_noted_once_for_each_field_and_the_run_goes_on(tmp_path: Path) -> None:
    config = write_project(tmp_path, scenario=SCENARIO, strategies=[once()])
    shown = Shown()

    options = RunOptions(run_for=timedelta(minutes=3))
    await run_bot(load_settings(config), options, shown, make=changed_world)

    notes = [note.text for note in shown.all(Note) if note.kind == "DRIFT"]
    assert notes == [
        "stock_quote is not as documented: lot_size added",
        "todays_orders is not as documented: [].custody_cd renamed (was [].custodycd)",
    ]
    assert shown.all(OrderUpdated)[-1].executed_quantity == 100
