"""Stories of a place that got lost while what would explain it is broken too, and stays broken."""

import sqlite3
from collections.abc import Mapping
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from datetime import time, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from bot.config.scenario_file import load_scenario
from bot.domain.entry import CODE_NOTE, Fill, IntentMoved, Note
from bot.domain.local_time import instant_of
from bot.domain.order import SendState
from bot.protocol.secret import Secret
from bot.protocol.signing import HEADER_API_KEY, HEADER_NONCE
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunOptions
from bot.runtime.worlds.environment import Access, EnvironmentSpec
from bot.runtime.worlds.sandbox import wake_sandbox
from tests.by_hand import Ask, tell_by_hand
from tests.staging import DAY, QUIET
from tests.story import InProcessEnvironment, Shown, Story, once, tell, write_project

NEVER_ARRIVES = {
    "match": {"verb": "POST", "path": "*/orders"},
    "point": "accept",
    "action": {"do": "rst"},
}


def _no_user_until(until: str) -> Mapping[str, object]:
    match = {"verb": "GET", "path": "*/users/me", "at": "09:20:04", "until": until, "times": 0}
    return {"match": match, "action": {"do": "status", "status": 500}}


def _states(story: Story) -> list[SendState]:
    return [move.to_state for move in story.shown.all(IntentMoved)]


def _alerts(story: Story) -> list[object]:
    notes = story.shown.all(Note)
    return [note.numbers["alert"] for note in notes if "alert" in note.numbers]


async def test_a_place_whose_nonce_cannot_be_tried_ends_by_a_persons_verdict(
    tmp_path: Path,
) -> None:
    faults = [NEVER_ARRIVES, _no_user_until("11:00:00")]
    config = write_project(tmp_path, scenario={**QUIET, "faults": faults}, strategies=[once()])
    verdict = {"do": "verdict", "intent_id": "L-0001", "reason": "not in the app"}

    told = await tell_by_hand(
        config,
        Ask(timedelta(minutes=1), verdict),
        Ask(timedelta(minutes=6), {"do": "status"}),
        Ask(timedelta(minutes=6, seconds=1), verdict),
        Ask(timedelta(minutes=6, seconds=20), {"do": "status"}),
        minutes=7,
    )

    too_early, before, taken, after = told.replies
    assert too_early["ok"] is False
    assert "still being found out" in str(too_early["message"])
    assert "--not-placed" in str(before["status"])
    assert taken["ok"] is True
    status = after["status"]
    assert isinstance(status, Mapping)
    assert (status["unknown"], status["alerts"]) == ([], [])
    story = told.story
    wanted = [SendState.UNKNOWN, SendState.REACHED, SendState.NOT_PLACED]
    assert _states(story)[-3:] == wanted
    assert _alerts(story) == ["UNKNOWN_OPEN", "ORDER_REACHED"]
    assert story.posts() == ["L-0001"]


async def test_a_restart_goes_on_trying_the_nonce_where_the_last_run_ended(
    tmp_path: Path,
) -> None:
    faults = [NEVER_ARRIVES, _no_user_until("09:22:40")]
    config = write_project(tmp_path, scenario={**QUIET, "faults": faults}, strategies=[once()])

    first = await tell(config, minutes=1, stop_grace_s=0)
    second = await tell(config, minutes=5)

    assert _states(first)[-1] is SendState.UNKNOWN
    assert _states(second)[:2] == [SendState.FRESH, SendState.NOT_PLACED]
    assert second.posts() == ["L-0001", "L-0002"]  # its strategy has asked again
    assert len(second.broker_orders()) == 1


class OtherKey(InProcessEnvironment):
    """Signs with another key, which the broker takes as well."""

    async def open(self, stack: AsyncExitStack, /) -> Access:
        access = await super().open(stack)
        app, known = access.app, access.api_key.reveal().encode()
        assert app is not None

        async def taking_both(scope: Mapping[str, Any], *rest: Any) -> None:
            headers = [
                (name, known if name.lower() == HEADER_API_KEY.lower().encode() else value)
                for name, value in scope["headers"]
            ]
            await app({**scope, "headers": headers}, *rest)

        return replace(access, api_key=Secret("ak_test_another"), app=taking_both)


async def test_a_restart_with_another_key_proves_nothing_by_the_old_ones_nonce(
    tmp_path: Path,
) -> None:
    faults = [NEVER_ARRIVES, _no_user_until("09:21:00")]
    config = write_project(tmp_path, scenario={**QUIET, "faults": faults}, strategies=[once()])
    first = await tell(config, minutes=0.5, stop_grace_s=0)
    script = load_scenario("story.yaml", first.loaded.base_dir)

    def make(spec: EnvironmentSpec) -> OtherKey:
        return OtherKey(*wake_sandbox(spec, script), spec)

    second = await tell(config, minutes=3, make=make)

    assert _states(first)[-1] is SendState.UNKNOWN
    assert _states(second) == [SendState.REACHED]
    assert second.posts() == ["L-0001"]
    [noted] = [note for note in second.shown.all(Note) if note.kind == CODE_NOTE]
    assert noted.numbers["signed_by_others"]
    assert "ak_test" not in str(noted)


async def test_a_restart_goes_on_trying_the_nonce_of_a_lost_amendment(tmp_path: Path) -> None:
    put = {"match": {"verb": "PUT", "path": "*/orders/*"}, "point": "accept"}
    faults = [{**put, "action": {"do": "rst"}}, _no_user_until("09:21:40")]
    order = {"size": {"shares": 100}, "type": "LIMIT", "price": "ask", "expire": "10m"}
    config = write_project(
        tmp_path,
        scenario={**QUIET, "faults": faults},
        strategies=[once(params={"price": 25_200, "shares": 500}, order=order)],
        risk={"allow_amend": True},
    )
    change = {"do": "modify", "order_id": "L-0001", "quantity": 300}

    first = await tell_by_hand(
        config, Ask(timedelta(seconds=15), change), minutes=1, stop_grace_s=0
    )
    second = await tell(config, minutes=3)

    assert first.story.attempts() == [("POST", "L-0001"), ("PUT", "L-0001")]
    assert _resolutions(first.story) == []
    assert _resolutions(second) == ["FRESH"]


def _resolutions(story: Story) -> list[object]:
    notes = [note for note in story.shown.all(Note) if note.kind == "AMEND"]
    return [note.numbers["resolution"] for note in notes if "resolution" in note.numbers]


class Heard(InProcessEnvironment):
    """Keeps the nonce of each request, in order; None: it had none."""

    nonces: ClassVar[list[str | None]] = []

    async def open(self, stack: AsyncExitStack, /) -> Access:
        access = await super().open(stack)
        app = access.app
        assert app is not None

        async def listening(scope: Mapping[str, Any], *rest: Any) -> None:
            headers = {name.lower(): value.decode() for name, value in scope["headers"]}
            self.nonces.append(headers.get(HEADER_NONCE.lower().encode()))
            await app(scope, *rest)

        return replace(access, app=listening)


async def test_a_start_tries_the_nonces_of_lost_places_before_it_asks_anything_else(
    tmp_path: Path,
) -> None:
    faults = [NEVER_ARRIVES, _no_user_until("09:20:55")]
    config = write_project(tmp_path, scenario={**QUIET, "faults": faults}, strategies=[once()])
    first = await tell(config, minutes=1, stop_grace_s=0)
    assert _states(first)[-1] is SendState.UNKNOWN
    with closing(sqlite3.connect(first.loaded.state_dir / "journal.db")) as connection:
        [(lost,)] = connection.execute("select nonce from attempts").fetchall()
    script = load_scenario("story.yaml", first.loaded.base_dir)

    def make(spec: EnvironmentSpec) -> Heard:
        return Heard(*wake_sandbox(spec, script), spec)

    Heard.nonces = []
    options = RunOptions(run_for=timedelta(seconds=5), stop_grace_s=0)
    await run_bot(first.loaded, options, Shown(), make=make)

    assert Heard.nonces[0] == lost


async def test_a_place_that_never_arrived_ends_by_a_verdict_while_no_list_comes_and_stays_so(
    tmp_path: Path,
) -> None:
    match = {
        "verb": "GET",
        "path": "*/order-book",
        "at": "09:20:04",
        "until": "09:25:30",
        "times": 0,
    }
    faults = [NEVER_ARRIVES, {"match": match, "action": {"do": "status", "status": 500}}]
    config = write_project(tmp_path, scenario={**QUIET, "faults": faults}, strategies=[once()])
    verdict = {"do": "verdict", "intent_id": "L-0001", "reason": "not in the app"}

    told = await tell_by_hand(
        config,
        Ask(timedelta(minutes=1), verdict),
        Ask(timedelta(minutes=5), {"do": "status"}),
        Ask(timedelta(minutes=5, seconds=1), verdict),
        minutes=6,
        stop_grace_s=0,
    )
    with closing(sqlite3.connect(told.story.loaded.state_dir / "journal.db")) as connection:
        stored = connection.execute("select state, proof from intents").fetchall()
    second = await tell(config, minutes=8)

    too_early, before, taken = told.replies
    assert (too_early["ok"], taken["ok"]) == (False, True)
    assert "after 09:22:15" in str(too_early["message"])
    assert "bot order L-0001 --not-placed" in str(before["status"])
    assert _states(told.story)[-2:] == [SendState.FRESH, SendState.NOT_PLACED]
    assert _alerts(told.story).count("ABSENCE_UNPROVED") == 1
    [(state, proof)] = stored
    assert (state, proof.partition(";")[0]) == ("NOT_PLACED", "nonce unused")
    assert proof.endswith("not in the app")
    assert second.posts() == ["L-0001", "L-0002"]  # its strategy has asked again
    assert len(second.broker_orders()) == 1


ANSWER_LOST = {"match": {"verb": "POST", "path": "*/orders"}, "action": {"do": "rst"}}


@pytest.mark.parametrize("is_history_dead", [False, True])
async def test_a_place_that_was_lost_with_its_day_is_found_in_the_order_history(
    tmp_path: Path, *, is_history_dead: bool
) -> None:
    dead = {"action": {"do": "status", "status": 500}}
    book = {"verb": "GET", "path": "*/order-book", "at": "09:20:04", "until": "09:21:00"}
    faults = [ANSWER_LOST, {"match": {**book, "times": 0}, **dead}]
    if is_history_dead:
        history = {"verb": "GET", "path": "/trading/sub-accounts/*/orders*", "times": 0}
        faults.append({"match": history, **dead})
    config = write_project(tmp_path, scenario={**QUIET, "faults": faults}, strategies=[once()])
    lost = await tell(config, minutes=0.5, stop_grace_s=0)
    assert _states(lost)[-1] is SendState.REACHED
    next_day = instant_of(DAY + timedelta(days=1), time(8, 40))

    def make(spec: EnvironmentSpec) -> InProcessEnvironment:
        script = load_scenario("story.yaml", lost.loaded.base_dir)
        sandbox, clock = wake_sandbox(spec, script)
        clock.advance_to(next_day)
        sandbox.advance(next_day)
        return InProcessEnvironment(sandbox, clock, spec)

    shown = Shown()
    options = RunOptions(run_for=timedelta(hours=23, minutes=30), stop_grace_s=0)
    story = Story(await run_bot(lost.loaded, options, shown, make=make), shown, lost.loaded)

    wanted = [SendState.EOD_ABSENT] if is_history_dead else [SendState.MATCHED]
    assert _states(story)[:1] == wanted
    fills = [(fill.intent_id, fill.quantity) for fill in shown.all(Fill)]
    assert fills[:1] == ([] if is_history_dead else [("L-0001", 100)])
    assert ("HISTORY_UNREAD" in _alerts(story)) is is_history_dead
    assert ("SYMBOL_HALTED" in _alerts(story)) is is_history_dead
    assert ("BREAK" in _alerts(story)) is is_history_dead, "shares that no order explains"
