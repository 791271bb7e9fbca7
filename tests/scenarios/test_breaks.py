"""What journal and broker do not agree on holds a start, until a person accepts it."""

import asyncio
import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest

from bot.config.settings.load import load_settings
from bot.domain.entry import Entry, IntentRecorded, Note, RunState, StateChanged
from bot.journal.upkeep.copying import back_up
from bot.journal.writing.emergency import EmergencyJournal
from bot.journal.writing.heads import FILE
from bot.runtime.control.socket import NoBotRunning, ask
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunOptions
from tests.cli.stage import call
from tests.story import Shown, Story, in_process, once, tell, write_project

SCENARIO = {
    "day": "2026-11-17",
    "start": "09:20:00",
    "quota": "PRO",
    "symbols": [{"symbol": "HPG", "exchange": "HOSE", "reference": 27_000, "swing_ticks": 0}],
}
NONE_YET = '{"code": null, "message": null, "error_code": "0", "data": []}'
PATIENCE_S = 30.0
AT = datetime(2026, 11, 17, 2, 21, 30, tzinfo=UTC)


@dataclass
class Waiting(Shown):
    """A screen that says when the gate opens."""

    is_open: asyncio.Event = field(default_factory=asyncio.Event)

    def entry(self, entry: Entry) -> None:
        super().entry(entry)
        if isinstance(entry, StateChanged) and (entry.scope, entry.to_state) == ("all", "RUNNING"):
            self.is_open.set()


async def _begun(folder: Path) -> Story:
    config = write_project(folder, scenario=SCENARIO, strategies=[once()])
    return await tell(config, minutes=3)


def _scopes(story: Story) -> list[str]:
    return [each.scope for each in story.shown.all(StateChanged) if each.scope != "all"]


async def test_a_day_that_agrees_goes_on_after_a_restart_without_a_break(tmp_path: Path) -> None:
    story = await _begun(tmp_path)
    assert "base:120C900001.1" in _scopes(story)

    again = await tell(tmp_path / "bot.yaml", minutes=6)

    assert [scope for scope in _scopes(again) if scope.startswith("break:")] == []
    states = [each.to_state for each in again.shown.all(StateChanged) if each.scope == "all"]
    assert states == ["RUNNING", "STOPPING"]


async def _held_by(state_dir: Path, name: str) -> Mapping[str, object]:
    """Return the first status of a start that has read the broker and is held by a break alone:
    until then it names the break too, but takes no acceptance.
    """
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(NoBotRunning, TimeoutError):
                status = (await _answer(state_dir, {"do": "status"}))["status"]
                if status["reason"].startswith(f"journal and broker do not agree: {name}."):  # type: ignore[index]
                    return cast("Mapping[str, object]", status)
            await asyncio.sleep(0.02)


async def _answer(state_dir: Path, request: Mapping[str, object]) -> Mapping[str, object]:
    return await asyncio.to_thread(ask, state_dir, request)


OFF_BY_ONE = {
    "match": {"verb": "GET", "path": "*/summary", "at": "09:24", "until": "15:00", "times": 0},
    "action": {"do": "set_fields", "fields": {"ci_balance": 99_999_999}},
}


async def test_one_vnd_holds_the_next_start_until_somebody_accepts_it(tmp_path: Path) -> None:
    scenario = {**SCENARIO, "faults": [OFF_BY_ONE]}
    watching = once(mode="watch")
    config = write_project(tmp_path, scenario=scenario, strategies=[watching])
    first = await tell(config, minutes=7)
    assert [scope for scope in _scopes(first) if scope.startswith("break:")] == ["break:B-0001"]
    slow = {"scenario": "story.yaml", "speed": 1, "port": 0}
    write_project(tmp_path, scenario=scenario, strategies=[watching], sandbox=slow)
    loaded, shown = load_settings(config), Waiting()
    running = asyncio.create_task(run_bot(loaded, RunOptions(), shown, make=in_process))

    held = await _held_by(loaded.state_dir, "B-0001")
    compared = await _answer(loaded.state_dir, {"do": "reconcile"})
    wrong = await _answer(loaded.state_dir, {"do": "accept", "break_id": "B-7", "reason": "x"})
    silent = await _answer(loaded.state_dir, {"do": "accept", "break_id": "B-0001"})
    taken = await _answer(
        loaded.state_dir, {"do": "accept", "break_id": "B-0001", "reason": "interest", "by": "me"}
    )
    await asyncio.wait_for(shown.is_open.wait(), PATIENCE_S)
    await _answer(loaded.state_dir, {"do": "stop", "reason": "", "by": "me"})
    await asyncio.wait_for(running, PATIENCE_S)

    assert held["state"] == "STARTING"
    assert [each["break_id"] for each in compared["compared"]["breaks"]] == ["B-0001"]  # type: ignore[index]
    assert (wrong["ok"], silent["ok"], taken["ok"]) == (False, False, True)
    with closing(sqlite3.connect(loaded.state_dir / "journal.db")) as connection:
        rows = connection.execute(
            "select to_state, reason, by_whom from halts where scope = 'break:B-0001' order by seq"
        ).fetchall()
    assert [row[0] for row in rows] == ["HALTED", "RUNNING"]
    assert rows[1][1:] == ("interest", "me")


@pytest.mark.parametrize("begins_anew", [False, True])
async def test_a_new_journal_in_the_place_of_a_lost_one_holds_the_start(
    tmp_path: Path, begins_anew: bool
) -> None:
    config = write_project(tmp_path, scenario=SCENARIO, strategies=[once()])
    await tell(config, minutes=2)
    for name in ("journal.db", "journal.db-wal", "journal.db-shm", *[FILE] * begins_anew):
        (tmp_path / "state" / name).unlink(missing_ok=True)

    second = await tell(config, minutes=4)

    alerts = [n for n in second.shown.all(Note) if n.numbers.get("alert") == "JOURNAL_DAMAGED"]
    assert len(alerts) == (0 if begins_anew else 1)
    assert all("it is new, and the one of the heads of" in each.text for each in alerts)
    states = [each.to_state for each in second.shown.all(StateChanged) if each.scope == "all"]
    assert ("RUNNING" in states) is begins_anew
    assert len(second.posts()) == begins_anew


async def test_an_older_copy_of_the_journal_holds_the_start(tmp_path: Path) -> None:
    config = write_project(tmp_path, scenario=SCENARIO, strategies=[once()])
    await tell(config, minutes=1)
    journal = tmp_path / "state" / "journal.db"
    older = journal.read_bytes()
    second = await tell(config, minutes=4)
    assert second.shown.all(StateChanged)[-2].to_state == "RUNNING"
    journal.write_bytes(older)
    for name in ("journal.db-wal", "journal.db-shm"):
        journal.with_name(name).unlink(missing_ok=True)

    third = await tell(config, minutes=6)

    [alert] = [n for n in third.shown.all(Note) if n.numbers.get("alert") == "JOURNAL_DAMAGED"]
    assert "older copy" in alert.text
    assert "bot journal verify" in alert.text
    states = [each.to_state for each in third.shown.all(StateChanged) if each.scope == "all"]
    assert "RUNNING" not in states


def _alerts(story: Story) -> list[str]:
    found = story.shown.all(Note)
    return [each.text for each in found if each.numbers.get("alert") == "JOURNAL_DAMAGED"]


def _runs(story: Story) -> bool:
    states = [each.to_state for each in story.shown.all(StateChanged) if each.scope == "all"]
    return "RUNNING" in states


async def test_an_older_copy_in_another_place_holds_the_start(tmp_path: Path) -> None:
    """As where journal.url is set to a backup; and what only the emergency journal has, stays."""
    config = write_project(tmp_path, scenario=SCENARIO, strategies=[once(mode="watch")])
    await tell(config, minutes=1)
    journal, state = tmp_path / "state" / "journal.db", tmp_path / "state"
    back_up(f"sqlite:///{journal}", tmp_path / "backup.db")
    config = write_project(tmp_path, scenario=SCENARIO, strategies=[once()])
    second = await tell(config, minutes=4)
    assert (len(second.broker_orders()), _alerts(second)) == (1, [])
    halt = StateChanged(AT, RunState.RUNNING, RunState.HALTED, "by hand", "operator")
    EmergencyJournal(state).keep([halt])
    elsewhere = {"journal_url": f"sqlite:///{tmp_path / 'backup.db'}"}
    write_project(tmp_path, scenario=SCENARIO, strategies=[once()], **elsewhere)

    third = await tell(config, minutes=6)

    [alert] = _alerts(third)
    assert "the last run wrote another journal, journal.db: if you have not moved it" in alert
    assert (len(third.broker_orders()), _runs(third)) == (1, False)
    assert EmergencyJournal(state).read().entries == (halt,)


async def test_a_new_journal_beside_the_one_that_the_last_run_wrote_holds_the_start(
    tmp_path: Path,
) -> None:
    config = write_project(tmp_path, scenario=SCENARIO, strategies=[once()])
    first = await tell(config, minutes=3)
    assert len(first.broker_orders()) == 1
    elsewhere = {"journal_url": f"sqlite:///{tmp_path / 'other.db'}"}
    write_project(tmp_path, scenario=SCENARIO, strategies=[once()], **elsewhere)

    second = await tell(config, minutes=6)

    [alert] = _alerts(second)
    assert "is another, journal.db: which orders are the bot's" in alert
    assert "set journal.url back to it" in alert
    assert (len(second.broker_orders()), _runs(second)) == (1, False)


async def test_the_whole_journal_in_another_place_goes_on_and_the_one_that_is_left_does_not(
    tmp_path: Path,
) -> None:
    config = write_project(tmp_path, scenario=SCENARIO, strategies=[once(mode="watch")])
    await tell(config, minutes=1)
    journal = tmp_path / "state" / "journal.db"
    back_up(f"sqlite:///{journal}", tmp_path / "moved.db")
    elsewhere = {"journal_url": f"sqlite:///{tmp_path / 'moved.db'}"}
    write_project(tmp_path, scenario=SCENARIO, strategies=[once()], **elsewhere)

    moved = await tell(config, minutes=4)
    bought = len(moved.broker_orders())
    write_project(tmp_path, scenario=SCENARIO, strategies=[once()])
    left = await tell(config, minutes=6)

    assert (bought, _runs(moved), _alerts(moved)) == (1, True, [])
    assert (len(left.broker_orders()), _runs(left), len(_alerts(left))) == (1, False, 1)


async def test_a_journal_in_another_place_after_a_run_that_was_killed_holds_the_start(
    tmp_path: Path,
) -> None:
    """The heads of that run may be a minute old."""
    config = write_project(tmp_path, scenario=SCENARIO, strategies=[once(mode="watch")])
    await tell(config, minutes=1)
    state = tmp_path / "state"
    back_up(f"sqlite:///{state / 'journal.db'}", tmp_path / "moved.db")
    killed = (state / FILE).read_text().replace('"last":true', '"last":false')
    (state / FILE).write_text(killed)
    elsewhere = {"journal_url": f"sqlite:///{tmp_path / 'moved.db'}"}
    write_project(tmp_path, scenario=SCENARIO, strategies=[once()], **elsewhere)

    moved = await tell(config, minutes=4)

    assert (len(moved.broker_orders()), _runs(moved), len(_alerts(moved))) == (0, False, 1)


def _unseen(story: Story) -> list[str]:
    found = story.shown.all(Note)
    return [each.text for each in found if each.numbers.get("alert") == "ORDERS_UNKNOWN_HERE"]


async def _restored_on_its_day(folder: Path, *, without: Sequence[str] = ()) -> Path:
    """A journal as it was before the day's orders, of which one was filled and one works."""
    config = write_project(folder, scenario=SCENARIO, strategies=[once(mode="watch")])
    await tell(config, minutes=2)
    state = folder / "state"
    back_up(f"sqlite:///{state / 'journal.db'}", folder / "backup.db")
    both = [once(), once("rest", params={"price": 26_000})]
    config = write_project(folder, scenario=SCENARIO, strategies=both)
    before = await tell(config, minutes=5)
    assert (len(before.posts()), _unseen(before)) == (2, [])
    for name in ("journal.db", "journal.db-wal", "journal.db-shm", *without):
        (state / name).unlink(missing_ok=True)
    (folder / "backup.db").rename(state / "journal.db")
    return config


async def test_orders_of_today_that_a_restored_journal_has_never_seen_are_told_once(
    tmp_path: Path,
) -> None:
    """As they explain cash and shares to the VND, no break holds this start."""
    config = await _restored_on_its_day(tmp_path, without=[FILE])

    restored = await tell(config, minutes=8)
    orders = len(restored.broker_orders())
    again = await tell(config, minutes=10)

    assert (_runs(restored), orders, _alerts(restored)) == (True, 4, [])
    [told] = _unseen(restored)
    assert "today: ORD10000001 BUY 100 HPG, ORD10000002 BUY 100 HPG. They count" in told
    shown = restored.shown.entries
    [at] = [n for n, each in enumerate(shown) if isinstance(each, Note) and each.text == told]
    assert not any(isinstance(each, IntentRecorded) for each in shown[:at]), "before it orders"
    assert _unseen(again) == []


async def test_a_journal_restored_on_its_day_beside_its_heads_is_held_until_it_is_accepted(
    tmp_path: Path,
) -> None:
    config = await _restored_on_its_day(tmp_path)

    held = await tell(config, minutes=8)

    assert (_runs(held), len(held.broker_orders()), len(_alerts(held))) == (False, 2, 1)
    assert len(_unseen(held)) == 1


async def test_a_start_that_a_break_holds_is_why_nothing_is_ordered(tmp_path: Path) -> None:
    scenario = {**SCENARIO, "faults": [OFF_BY_ONE]}
    config = write_project(tmp_path, scenario=scenario, strategies=[once(mode="watch")])
    await tell(config, minutes=7)

    await tell(config, minutes=20)
    asked = ("decisions", "--why-not", "HPG", "--json", "-c", str(config))
    groups = json.loads((await asyncio.to_thread(call, *asked)).out)["decisions"]

    [held] = [each for each in groups if each["code"] == "STARTING"]
    assert held["why"] == "the start is held: journal and broker do not agree on B-0001"
    span = datetime.fromisoformat(held["last_at"]) - datetime.fromisoformat(held["first_at"])
    assert span == timedelta(minutes=13)  # from its begin to the stop


async def test_new_shares_that_the_first_read_of_the_rights_did_not_name_are_no_break(
    tmp_path: Path,
) -> None:
    stock = {"do": "stock_dividend", "symbol": "HPG", "new": 7, "held": 100}
    scenario = {
        **SCENARIO,
        "start": "14:50:00",
        "accounts": [{"id": "1", "cash": 500_000_000, "holdings": {"HPG": 1_000}}],
        "corporate_actions": [{**stock, "ex_date": "2026-11-18", "pays_on": "2026-11-25"}],
        "faults": [
            {
                "match": {"path": "*/user-rights", "times": 2},
                "action": {"do": "status", "status": 200, "body": NONE_YET},
            }
        ],
    }
    config = write_project(tmp_path, scenario=scenario, strategies=[once()])

    story = await tell(config, minutes=17 * 60 + 20, answer_otp_after=timedelta(minutes=1))

    found = [each for each in story.shown.all(Note) if each.kind == "RECONCILE"]
    assert found[-1].text == "stock dividend HPG 100:7: +70 shares"
    assert not any(each.numbers.get("alert") == "BREAK" for each in story.shown.all(Note))
