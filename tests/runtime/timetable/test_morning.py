"""The rows before the open: each can fail, and names its fix."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from bot.config.rulebook import load_rulebook
from bot.domain.account import Break
from bot.domain.calendar import DayStatus, TradingCalendar
from bot.domain.entry import ACCOUNT_SCOPE, REDUCED_SCOPE, Note, RunState
from bot.domain.recovery import RecoveredStrategy, Recovery
from bot.engine.account_status import GoneShares, Reconciliation
from bot.runtime.timetable.morning import (
    AT_START,
    book_rows,
    calendar_row,
    halt_rows,
    rules_row,
    symbols_row,
    token_row,
)
from tests.engine.stage import ACCOUNT, DAY, PLAN, Stage
from tests.staging import QUIET
from tests.story import once, tell, write_project

NOW = datetime.combine(DAY, datetime.min.time(), UTC) + timedelta(hours=2)
AGREED = Reconciliation(NOW, NOW, (), (), (), (), (), (), (), ())
ENDS = TradingCalendar({2026: DayStatus.CONFIRMED}, {})


def test_a_calendar_that_has_ended_or_soon_will_is_told_with_its_day() -> None:
    in_time = calendar_row(ENDS, date(2026, 11, 19))
    soon = calendar_row(ENDS, date(2026, 12, 2))
    over = calendar_row(ENDS, date(2027, 1, 4))

    assert (in_time.is_ok, in_time.found) == (True, "Thu 2026-11-19, a trading day")
    assert (soon.is_ok, soon.found) == (
        False,
        "the calendar ends on 2026-12-31: no day after is traded",
    )
    assert not over.is_ok
    assert over.found.endswith("which ends on 2026-12-31: nothing is traded")
    assert "market_rules" in over.fix


def test_a_saturday_is_known_and_no_fault() -> None:
    row = calendar_row(load_rulebook().calendar, date(2026, 11, 21))

    assert (row.is_ok, row.found) == (True, "Sat 2026-11-21, closed: weekend")


def test_rules_that_have_changed_since_the_start_are_told_until_a_restart() -> None:
    rulebook = load_rulebook(date(2026, 11, 18))
    later = replace(rulebook.rules[0], rule="HNX.ticks", since=DAY, until=None)
    rulebook = replace(rulebook, rules=(*rulebook.rules, later))

    before, since = (rules_row(rulebook, day) for day in (date(2026, 11, 18), DAY))

    assert before == calendar_row(rulebook.calendar, date(2026, 11, 18))
    assert (since.name, since.is_ok) == ("calendar", False)
    assert (
        since.found
        == "rules have changed since this run began (HNX.ticks), and it does not use them"
    )
    assert since.fix == "restart the bot before the open"


def test_no_token_is_missed_on_a_day_without_trading() -> None:
    calendar = load_rulebook().calendar

    holiday = token_row(calendar, date(2026, 11, 24), is_ready=False)
    workday = token_row(calendar, DAY, is_ready=False)

    assert (holiday.is_ok, workday.is_ok) == (True, False)
    assert workday.fix == "bot otp request"


def test_a_symbol_that_was_not_listed_today_is_named() -> None:
    listed_on = {"FPT": DAY, "HPG": DAY - timedelta(days=1)}

    assert symbols_row(["FPT"], listed_on, DAY, is_day_begun=True).is_ok
    unsaid = symbols_row(["FPT", "HPG", "VNM"], listed_on, DAY, is_day_begun=True)
    assert unsaid.found == "the broker has not said today where HPG, VNM trades: it may have moved"
    assert "restart the bot" in unsaid.fix


def test_a_day_that_waits_for_its_start_asks_for_no_restart() -> None:
    row = symbols_row(["FPT", "HPG"], {"FPT": DAY}, DAY, is_day_begun=False)

    assert not row.is_ok
    assert row.found == (
        "the start of the day waits for the broker, and then asks where HPG trades"
    )
    assert "restart" not in row.fix
    assert "bot status" in row.fix


async def test_a_morning_on_which_the_broker_is_away_asks_for_no_restart(tmp_path: Path) -> None:
    match = {"path": "/trading/*", "at": "23:55:00", "times": 0}
    fault = {"match": match, "action": {"do": "status", "status": 503}}
    scenario = {**QUIET, "day": "2026-11-18", "start": "23:50:00", "faults": [fault]}
    config = write_project(tmp_path, scenario=scenario, strategies=[once()])

    story = await tell(config, minutes=9 * 60)

    checks = [n for n in story.shown.all(Note) if n.numbers.get("alert") == "MORNING_CHECK"]
    assert {"symbols", "token"} <= {note.numbers["check"] for note in checks}
    assert [note.text for note in checks if "restart" in note.text] == []


def test_orders_of_an_earlier_day_and_differences_are_named() -> None:
    stage = Stage()
    stage.working(100, 27_000, "ORD7")
    status, apart = stage.engine.status(), Break("B-1", "HPG: expected 100, found 200")
    tomorrow = DAY + timedelta(days=1)

    today = list(book_rows(status, AGREED, DAY))
    later = list(book_rows(status, replace(AGREED, breaks=(apart,)), tomorrow))
    unread = list(book_rows(status, replace(AGREED, account_read_at=None), DAY))
    gone = GoneShares("120C900001.1", "HPG", 200)
    [_, missing] = book_rows(status, replace(AGREED, gone=(gone,)), DAY)

    assert [(row.name, row.is_ok) for row in today] == [("orders", True), ("positions", True)]
    assert [row.found for row in later] == [
        "not known how ORD7 of an earlier day ended",
        apart.text,
    ]
    assert [row.fix for row in later] == ["bot order ORD7 --timeline", "bot reconcile"]
    assert [row.is_ok for row in unread] == [True, False]
    assert (missing.is_ok, missing.fix) == (False, "bot reconcile")
    assert missing.found == "200 HPG that strategies count are gone"


def test_what_keeps_orders_from_leaving_is_named_with_what_to_type() -> None:
    scopes = {f"{ACCOUNT_SCOPE}{ACCOUNT}": "API changed?", REDUCED_SCOPE: "earnings"}
    off = RecoveredStrategy({}, 0, 0, 0, "paused", "3 of its orders were refused", "engine")
    found = [
        Recovery(DAY),
        Recovery(DAY, run_state=RunState.PAUSED, run_state_reason="lunch"),
        Recovery(DAY, halted_scopes=scopes),
        Recovery(DAY, strategies={"test": off}),
        Recovery(DAY, halted_symbols={"HPG": "more than ordered"}),
    ]
    calendar, both = load_rulebook().calendar, replace(PLAN, symbols=("HPG", "FPT"))

    told = [halt_rows(calendar, DAY, Stage(both, recovery=one).engine.status()) for one in found]
    rest = [
        row
        for one in found
        for row in halt_rows(calendar, date(2026, 11, 21), Stage(recovery=one).engine.status())
    ]

    rows = [[(row.name, row.is_ok, row.found, row.fix) for row in rows] for rows in told]
    well = ("halts", True, "nothing waits for bot resume", "bot resume --reason …")
    able = ("strategies", True, "at least one can order, or all only watch", "bot status")
    halts = [
        "PAUSED, lunch: nothing is bought or sold",
        "no order is sent: API changed?; REDUCING by you (earnings): nothing is bought",
    ]
    paused = "test is paused: 3 of its orders were refused"
    assert rows[0] == [well, able]
    assert rows[1:3] == [[("halts", False, each, well[3]), able] for each in halts]
    assert rows[3] == [well, ("strategies", False, paused, able[3])]
    assert rows[4] == [("halts", False, "HPG is halted: more than ordered", well[3]), able]
    assert "strategies" in AT_START, "nothing else tells it after a restart"
    assert all(row.is_ok for row in rest), "on a Saturday nobody misses it"


async def test_a_start_says_in_one_line_that_all_is_there(tmp_path: Path) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[once()])

    story = await tell(config, minutes=1)

    lines = [each.text for each in story.shown.all(Note) if each.kind == "MORNING"]
    assert lines == ["11 of 11 checks ok"]


async def test_a_disk_that_does_not_answer_is_not_called_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(_: Path) -> int:
        raise OSError

    monkeypatch.setattr("bot.runtime.timetable.morning.free_on", hang)
    config = write_project(tmp_path, scenario=QUIET, strategies=[once()])

    story = await tell(config, minutes=1)

    [line] = [each.text for each in story.shown.all(Note) if each.kind == "MORNING"]
    assert line == "10 of 11 checks ok · disk: it does not answer (bot db check, bot status)"


async def test_each_morning_of_a_bot_that_runs_is_checked_and_what_fails_is_an_alert(
    tmp_path: Path,
) -> None:
    scenario = {**QUIET, "day": "2026-11-18", "start": "14:58:00"}
    config = write_project(tmp_path, scenario=scenario, strategies=[once()])

    story = await tell(config, minutes=18 * 60)

    told = [each.text for each in story.shown.all(Note) if each.kind == "MORNING"]
    alerts = [
        each.numbers["check"]
        for each in story.shown.all(Note)
        if each.numbers.get("alert") == "MORNING_CHECK"
    ]
    assert told == [
        "11 of 11 checks ok",
        "10 of 11 checks ok · token: no 2FA token that is good today (bot otp request)",
    ]
    assert alerts == ["token"]
