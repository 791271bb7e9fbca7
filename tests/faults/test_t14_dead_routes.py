"""T14: a route that is dead for the rest of the day. A halt leaves no order open, or says why."""

import asyncio
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.domain.entry import Note, RunState, StateChanged
from bot.drill.oracle import faults_in, outcome_of
from bot.engine.health import DETAIL
from bot.sandbox.faults.script import FaultScript
from tests.by_hand import Ask, HandStory, tell_by_hand
from tests.faults.hanging import trading
from tests.staging import QUIET
from tests.story import once, write_project

DETAILS = "/trading/*/order-book/*"
BOOK = "/trading/*/order-book"
BOTH = "/trading/*/order-book*"
DEAD: dict[str, dict[str, Any]] = {
    "500": {"action": {"do": "status", "status": 500}},
    "404": {"action": {"do": "status", "status": 404}},
}
RESTING = once(params={"price": 26_000}, wake={"quote": "2s", "depth": "3s"})
HALT = Ask(timedelta(seconds=40), {"do": "halt", "reason": "by hand", "by": "me"})
LONG_BEFORE_S, CANCELLED_S, TOLD_S = 4.0, 12.0, 20.0
"""How long a route has hung before the halt, and what may pass after it on a loaded machine."""
TEN_SECONDS_LATER = Ask(timedelta(seconds=50), {"do": "status"})


async def _told(folder: Path, path: str, how: str, *more: Ask, **scenario: object) -> HandStory:
    dead = {"match": {"verb": "GET", "path": path, "at": "09:20:30", "times": 0}, **DEAD[how]}
    config = write_project(
        folder, scenario={**QUIET, "faults": [dead], **scenario}, strategies=[RESTING]
    )
    return await tell_by_hand(config, HALT, TEN_SECONDS_LATER, *more, minutes=4)


def _open_after_ten_seconds(told: HandStory) -> tuple[list[Any], list[str]]:
    status = told.replies[1]["status"]
    assert isinstance(status, dict)
    return status["open_orders"], status["alerts"]


@pytest.mark.scripted
@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", DEAD)
@pytest.mark.parametrize("path", [DETAILS, BOOK])
async def test_one_dead_route_of_rows_keeps_no_halt_from_cancelling(
    tmp_path: Path, path: str, how: str
) -> None:
    told = await _told(tmp_path, path, how)

    orders = told.story.broker_orders().values()
    assert [order["status"] for order in orders] == ["CANCELLED"]
    assert _open_after_ten_seconds(told)[0] == []
    assert faults_in(outcome_of(told.story.loaded.state_dir)) == []


@pytest.mark.scripted
@pytest.mark.parametrize("how", DEAD)
async def test_without_any_row_the_cancel_leaves_and_what_cannot_be_seen_is_named(
    tmp_path: Path, how: str
) -> None:
    told = await _told(tmp_path, BOTH, how)

    orders = told.story.broker_orders().values()
    assert [order["status"] for order in orders] == ["CANCELLED"]
    still_open, alerts = _open_after_ten_seconds(told)
    assert len(still_open) == 1
    assert any("(L-0001, BUY 100 HPG at 26,000) is still open after" in each for each in alerts)
    said = [note.numbers.get("alert") for note in told.story.shown.all(Note)]
    assert {"CANCEL_LATE", "CANCEL_STUCK"} <= set(said)


@pytest.mark.scripted
async def test_a_dead_detail_is_named_once_a_cancel_needed_it(tmp_path: Path) -> None:
    told = await _told(tmp_path, DETAILS, "500")

    notes = [note.numbers for note in told.story.shown.all(Note)]
    assert [each["read"] for each in notes if each.get("alert") == "READ_FAILS"] == [DETAIL]
    states = [each.to_state for each in told.story.shown.all(StateChanged)]
    assert RunState.DEGRADED not in states


@pytest.mark.scripted
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("path", "read"),
    [
        ("/market/quotes/stocks/HPG", "the quote"),
        ("/market/quotes/stocks/HPG/order-book", "the depth"),
        ("/trading/*/portfolio", "the account"),
        ("/trading/*/summary", "the account"),
    ],
)
async def test_a_dead_route_of_market_or_account_is_named_and_keeps_no_halt_from_cancelling(
    tmp_path: Path, path: str, read: str
) -> None:
    told = await _told(tmp_path, path, "404")

    orders = told.story.broker_orders().values()
    assert [order["status"] for order in orders] == ["CANCELLED"]
    notes = [note.numbers for note in told.story.shown.all(Note)]
    assert [each["read"] for each in notes if each.get("alert") == "READ_FAILS"] == [read]
    assert _open_after_ten_seconds(told)[0] == []
    assert faults_in(outcome_of(told.story.loaded.state_dir)) == []


async def test_a_route_that_stays_dead_after_all_were_is_told_of(tmp_path: Path) -> None:
    quote = {"verb": "GET", "path": "/market/quotes/stocks/HPG", "at": "09:20:30", "times": 0}
    outage = {**quote, "path": "*", "until": "09:22:00"}
    faults = [{"match": outage, **DEAD["500"]}, {"match": quote, **DEAD["404"]}]
    config = write_project(tmp_path, scenario={**QUIET, "faults": faults}, strategies=[RESTING])

    told = await tell_by_hand(config, minutes=4)

    before, after = [note for note in told.story.shown.all(Note) if "alert" in note.numbers]
    assert before.text.startswith("the quote of HPG can't be read (HTTP 500")
    assert after.text.startswith("the quote of HPG can't be read (HTTP 404")


@pytest.mark.scripted
@pytest.mark.parametrize("how", DEAD)
async def test_a_dead_route_of_the_user_is_not_missed_by_a_halt(tmp_path: Path, how: str) -> None:
    told = await _told(tmp_path, "/users/v1/users/me", how)

    orders = told.story.broker_orders().values()
    assert [order["status"] for order in orders] == ["CANCELLED"]
    assert _open_after_ten_seconds(told) == ([], [])
    assert faults_in(outcome_of(told.story.loaded.state_dir)) == []


ALWAYS = """
from bot import Strategy


class Always(Strategy):
    def on_start(self):
        self.asked = 0

    def again(self, *_):
        self.cancel(why="always")
        if self.asked < 5:
            self.asked += 1
            self.buy(100, limit=26_000 + 50 * self.asked, why="always")

    on_quote = on_depth = on_fill = on_reject = on_session = on_stop = again
"""


@pytest.mark.parametrize("path", [DETAILS, BOTH])
async def test_a_plug_in_that_cancels_in_every_hook_loses_and_doubles_nothing(
    tmp_path: Path, path: str
) -> None:
    dead = {"match": {"verb": "GET", "path": path, "at": "09:20:30", "times": 0}, **DEAD["500"]}
    always = once("always", use="always", params={}, wake={"quote": "2s", "depth": "3s"})
    config = write_project(
        tmp_path, scenario={**QUIET, "faults": [dead]}, strategies=[always, once()]
    )
    (tmp_path / "strategies" / "always.py").write_text(ALWAYS)

    told = await tell_by_hand(config, HALT, minutes=3)

    state = {order["status"] for order in told.story.broker_orders().values()}
    assert state <= {"CANCELLED", "MATCHED_ALL"}
    posts = told.story.posts()
    assert len(posts) > 1
    assert len(posts) == len(set(posts)) == len(told.story.broker_orders())


STEADY = """
from bot import Strategy


class Steady(Strategy):
    def on_start(self):
        self.asked = 0

    def on_quote(self, quote):
        if self.asked < 8:
            self.asked += 1
            self.buy(100, limit=28_000 + 50 * self.asked, why="steadily")
"""


async def test_an_order_route_whose_answers_are_always_lost_is_told_of_until_it_is_well(
    tmp_path: Path,
) -> None:
    match = {"verb": "POST", "path": "*/orders", "at": "09:20:00", "until": "09:24:00", "times": 0}
    lost = {"match": match, "point": "after_apply", "action": {"do": "rst"}}
    steady = once("steady", use="steady", params={}, wake={"quote": "45s"})
    config = write_project(tmp_path, scenario={**QUIET, "faults": [lost]}, strategies=[steady])
    (tmp_path / "strategies" / "steady.py").write_text(STEADY)
    looks = [Ask(timedelta(seconds=after), {"do": "status"}) for after in (60, 235, 500)]

    told = await tell_by_hand(config, *looks, minutes=9)

    said = [len(reply["status"]["alerts"]) for reply in told.replies]  # type: ignore[index]
    assert said == [0, 1, 0]
    notes = told.story.shown.all(Note)
    alerts = [note.numbers["alert"] for note in notes if note.kind == "ALERT"]
    assert alerts.count("PLACES_ILL") == 1
    assert set(alerts) == {"PLACES_ILL"}, "each one's row is there before it is told"
    assert "the broker answers orders in time again" in [note.text for note in notes]
    assert len(told.story.posts()) == len(told.story.broker_orders()) == 8
    assert faults_in(outcome_of(told.story.loaded.state_dir)) == []


@pytest.mark.long
@pytest.mark.process
@pytest.mark.wire
@pytest.mark.timeout(200)
@pytest.mark.parametrize("path", [DETAILS, BOOK, BOTH, "/trading/*/summary", "/users/v1/users/me"])
async def test_a_route_that_hangs_all_day_keeps_no_halt_from_cancelling(
    tmp_path: Path, path: str
) -> None:
    """At wall-clock pace: with the broker in the same process its market would wait too."""
    hang = {"do": "hang", "seconds": 36_000}
    rule = {"match": {"verb": "GET", "path": path, "times": 0}, "action": hang}
    async with trading(tmp_path) as hanging:
        hanging.add_fault(FaultScript.model_validate(rule))
        await asyncio.sleep(LONG_BEFORE_S)
        asked_s = time.monotonic()
        await hanging.ask("halt", reason="by hand", by="me")
        while set(hanging.orders().values()) != {"CANCELLED"}:
            assert time.monotonic() - asked_s < CANCELLED_S, hanging.orders()
            await asyncio.sleep(0.05)
        if path == BOTH:  # each order says what can't be seen
            told = await hanging.until(lambda it: len(it["alerts"]) >= len(hanging.orders()))
            assert all(
                any(name in each for each in told["alerts"]) for name in ("L-0001", "L-0002")
            )
            assert time.monotonic() - asked_s < TOLD_S
        else:
            await hanging.until(lambda it: not it["open_orders"])
