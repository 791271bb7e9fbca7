"""Each row of the doctor can fail, and then names what to do."""

import json
import os
import socket
import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.clock import SimulatedClock
from bot.config.rulebook import load_rulebook
from bot.config.settings.load import load_settings
from bot.journal.database.schema import migrate
from bot.journal.writing.batch import Head
from bot.journal.writing.heads import FILE, KeptHeads, append_line
from bot.runtime.health.doctor_here import Finding, Machine, Verdict, look_here, of_notices
from bot.runtime.timetable.morning import calendar_row
from tests.staging import QUIET
from tests.story import once, write_project

TODAY = datetime(2026, 11, 19, 2, 30, tzinfo=UTC)
AFTER_THE_CALENDAR = datetime(2049, 11, 19, 2, 30, tzinfo=UTC)
MACHINE = Machine(free_bytes=lambda _: 10**12)
PAPER: Mapping[str, object] = {"mode": "paper", "broker": {"base_url": "https://broker.example"}}


def rows(
    folder: Path, *, machine: Machine = MACHINE, at: datetime = TODAY, **settings: Any
) -> dict[str, Finding]:
    if not (folder / "bot.yaml").exists():
        write_project(folder, scenario=QUIET, strategies=[once()], **settings)
    loaded = load_settings(folder / "bot.yaml", environment={})
    return {each.name: each for each in look_here(loaded, machine, SimulatedClock(at))}


def has_journal(folder: Path) -> Path:
    state = folder / "state"
    state.mkdir(mode=0o700)
    migrate(f"sqlite:///{state / 'journal.db'}")
    return state


def test_where_all_is_well_no_row_asks_for_anything(tmp_path: Path) -> None:
    has_journal(tmp_path)

    found = rows(tmp_path)

    assert {each.verdict for each in found.values()} == {Verdict.OK}
    assert {each.fix for each in found.values()} == {""}


def test_the_disk_of_a_journal_that_is_elsewhere_counts_too(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    machine = replace(MACHINE, free_bytes=lambda at: 10**8 if at == elsewhere else 10**12)

    url = f"sqlite:///{elsewhere / 'new' / 'journal.db'}"
    elsewhere.mkdir()
    found = rows(tmp_path, machine=machine, journal_url=url)["disk"]

    assert (found.verdict, found.found) == (Verdict.FAIL, f"100 MB free at {elsewhere}")


def test_it_changes_no_file_and_makes_none(tmp_path: Path) -> None:
    has_journal(tmp_path)
    rows(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

    rows(tmp_path)

    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


@pytest.mark.parametrize(
    ("machine", "settings", "name", "verdict", "fix"),
    [
        (replace(MACHINE, python=(3, 10, 4)), {}, "python", Verdict.FAIL, "install Python 3.11"),
        (
            replace(MACHINE, has_module=lambda _: False),
            {"journal_url": "postgresql://bot@127.0.0.1:1/bot"},
            "extras",
            Verdict.FAIL,
            "pip install 'vnbot[postgres]'",
        ),
        (
            replace(MACHINE, has_module=lambda _: False),
            {"record": True},
            "extras",
            Verdict.WARN,
            "pip install 'vnbot[data]'",
        ),
        (replace(MACHINE, sqlite=(3, 35, 0)), {}, "sqlite", Verdict.FAIL, "later SQLite"),
        (MACHINE, PAPER, "secrets", Verdict.FAIL, "bot secret set api-key"),
        (
            replace(MACHINE, free_bytes=lambda _: 10**8),
            {},
            "disk",
            Verdict.FAIL,
            "make room (df, du): below 64 MB no order leaves",
        ),
        (replace(MACHINE, free_bytes=lambda _: 10**9), {}, "disk", Verdict.WARN, "make room soon"),
        (
            MACHINE,
            {"journal_url": "postgresql://bot@127.0.0.1:1/bot"},
            "journal",
            Verdict.FAIL,
            "bot db check",
        ),
        (
            MACHINE,
            {"broker": {"requests_per_minute": 14}},
            "quota",
            Verdict.WARN,
            "wake seldomer",
        ),
        (
            MACHINE,
            {"broker": {"requests_per_minute": 10}},
            "quota",
            Verdict.FAIL,
            "wake seldomer",
        ),
        (MACHINE, {"log": {"level": "off"}}, "log", Verdict.WARN, "log.level"),
    ],
)
def test_what_is_missing_is_named_with_its_fix(
    tmp_path: Path,
    machine: Machine,
    settings: Mapping[str, Any],
    name: str,
    verdict: Verdict,
    fix: str,
) -> None:
    found = rows(tmp_path, machine=machine, **settings)[name]

    assert (found.verdict, fix in found.fix) == (verdict, True), found


def _open_to_others(state: Path) -> None:
    state.chmod(0o755)


def _older_schema(state: Path) -> None:
    with closing(sqlite3.connect(state / "journal.db")) as journal:
        journal.execute("update alembic_version set version_num = '0001'")
        journal.commit()


def _of_a_later_program(state: Path) -> None:
    with closing(sqlite3.connect(state / "journal.db")) as journal:
        journal.execute("update alembic_version set version_num = '9999'")
        journal.commit()


def _broken(state: Path) -> None:
    with (state / "journal.db").open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 4_000)


def _forged(state: Path) -> None:
    with closing(sqlite3.connect(state / "journal.db")) as journal:
        for (name,) in journal.execute(
            "select name from sqlite_master where type = 'trigger' and tbl_name = 'fills'"
        ).fetchall():
            journal.execute(f'drop trigger "{name}"')
        journal.commit()


def _older(state: Path) -> None:
    heads = {"fills": Head(last_seq=3, row_count=3, head_hash="ab" * 32)}
    append_line(state / FILE, KeptHeads(TODAY, "journal.db", 1, 1, heads).line)


def _older_and_forged(state: Path) -> None:
    _older(state)
    _forged(state)


def _halted(state: Path) -> None:
    (state / "HALT").touch()


@pytest.mark.parametrize(
    ("harm", "name", "verdict", "fix"),
    [
        (_open_to_others, "state folder", Verdict.FAIL, "chmod 700"),
        (_older_schema, "journal", Verdict.FAIL, "bot db migrate"),
        (_of_a_later_program, "journal", Verdict.FAIL, "use the program that wrote it"),
        (_broken, "journal", Verdict.FAIL, "bot db check"),
        (_forged, "chain", Verdict.FAIL, "bot journal verify"),
        (_older, "chain", Verdict.FAIL, "if this one is it, start: its orders are held until you"),
        (_older_and_forged, "chain", Verdict.FAIL, "put the last backup in place"),
        (_halted, "halt file", Verdict.WARN, "bot resume --reason"),
    ],
)
def test_harm_to_the_state_is_found_and_named_with_its_fix(
    tmp_path: Path, harm: Callable[[Path], None], name: str, verdict: Verdict, fix: str
) -> None:
    harm(has_journal(tmp_path))

    found = rows(tmp_path)[name]

    assert (found.verdict, fix in found.fix) == (verdict, True), found


def test_a_strategy_file_that_is_wrong_is_named_with_its_place(tmp_path: Path) -> None:
    rows(tmp_path)
    file = tmp_path / "strategies" / "once.yaml"
    file.write_text(file.read_text() + "colour: blue\n")

    told = rows(tmp_path)
    found = told["strategies"]

    assert (found.verdict, "bot strategy check" in found.fix) == (Verdict.FAIL, True), found
    assert "once.yaml:" in found.found
    assert told["quota"].verdict is Verdict.SKIPPED, "its polls are not known"


def test_a_bot_that_runs_and_does_not_answer_is_found(tmp_path: Path) -> None:
    state = has_journal(tmp_path)
    (state / "control").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as deaf:
        deaf.bind(str(state / "control" / "socket"))
        deaf.listen(1)
        found = rows(tmp_path, machine=replace(MACHINE, answer_s=0.05))["running"]

    assert (found.verdict, "bot halt --yes" in found.fix) == (Verdict.FAIL, True), found


def _running(folder: Path, status: Mapping[str, object]) -> Finding:
    """Return the row about a bot that gives this status."""
    state = has_journal(folder)
    (state / "control").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as bot:
        bot.bind(str(state / "control" / "socket"))
        bot.listen(1)

        def answer() -> None:
            connection, _ = bot.accept()
            with connection, connection.makefile("rb") as asked:
                asked.readline()
                connection.sendall(json.dumps({"ok": True, "status": status}).encode() + b"\n")

        answering = threading.Thread(target=answer, daemon=True)
        answering.start()
        found = rows(folder)["running"]
        answering.join(MACHINE.answer_s)
    return found


API = "no order is sent: API changed? 3 orders in a row were refused"
APART = "journal and broker do not agree: B-0001. Compare them"


@pytest.mark.parametrize(
    ("status", "verdict", "words"),
    [
        (
            {"state": "RUNNING", "causes": [], "blocked_by": []},
            Verdict.OK,
            "this bot runs: RUNNING",
        ),
        ({"state": "STARTING", "reason": "reading"}, Verdict.OK, "this bot runs: STARTING"),
        ({"state": "PAUSED"}, Verdict.WARN, "this bot runs and is PAUSED"),
        (
            {"state": "RUNNING", "causes": [], "blocked_by": [API, "test is paused"]},
            Verdict.WARN,
            f"this bot runs and is RUNNING, and no order leaves: {API}; test is paused",
        ),
        (
            {
                "state": "STARTING",
                "causes": [{"state": "STARTING", "reason": APART, "by": "reconcile"}],
                "blocked_by": [],
            },
            Verdict.WARN,
            f"this bot runs and is STARTING, and no order leaves: {APART}",
        ),
    ],
)
def test_a_bot_that_runs_and_sends_nothing_is_not_called_well(
    tmp_path: Path, status: Mapping[str, object], verdict: Verdict, words: str
) -> None:
    found = _running(tmp_path, status)

    assert (found.verdict, found.found) == (verdict, words)
    assert found.fix.startswith("bot status says") is (verdict is Verdict.WARN)


def test_a_calendar_that_ends_soon_is_found(tmp_path: Path) -> None:
    found = rows(tmp_path, at=AFTER_THE_CALENDAR)["calendar"]

    assert (found.verdict, "market_rules" in found.fix) == (Verdict.FAIL, True), found


def test_the_calendar_is_told_in_the_words_of_the_morning_check(tmp_path: Path) -> None:
    calendar, soon = load_rulebook().calendar, datetime(2027, 12, 10, 2, 30, tzinfo=UTC)

    for at, verdict in ((soon, Verdict.WARN), (AFTER_THE_CALENDAR, Verdict.FAIL)):
        morning, found = calendar_row(calendar, at.date()), rows(tmp_path, at=at)["calendar"]
        assert (found.verdict, found.found, found.fix) == (verdict, morning.found, morning.fix)


def test_a_live_bot_without_todays_token_is_told_so(tmp_path: Path) -> None:
    legal = {"automation_allowed_by_broker": "2026-11-02, letter of the broker"}
    broker = {"base_url": "https://broker.example"}

    found = rows(tmp_path, mode="live", legal=legal, broker=broker)["2FA"]

    assert (found.verdict, found.fix) == (Verdict.WARN, "bot otp")


NOTIFY = "phone: ntfy://127.0.0.1:1/alerts\n"


def notices(
    folder: Path, machine: Machine = MACHINE, text: str = NOTIFY, mode: int = 0o600
) -> Finding:
    folder.chmod(0o700)
    file = folder / "notify.yaml"
    file.write_text(NOTIFY)
    file.chmod(mode)
    return rows(folder, machine=machine)["notices"]


def test_a_channel_of_notices_is_named_and_its_address_is_not(tmp_path: Path) -> None:
    found = notices(tmp_path)

    assert (found.verdict, "phone" in found.found) == (Verdict.OK, True)
    assert "alerts" not in found.found


def test_a_channel_without_its_library_fails_and_names_the_extra(tmp_path: Path) -> None:
    found = notices(tmp_path, replace(MACHINE, has_module=lambda _: False))

    assert (found.verdict, found.fix) == (Verdict.FAIL, "pip install 'vnbot[notify]'")


def test_channels_that_others_can_read_fail(tmp_path: Path) -> None:
    found = notices(tmp_path, mode=0o644)

    assert (found.verdict, "bot notify list" in found.fix) == (Verdict.FAIL, True), found


def test_real_money_without_a_channel_is_warned_of(tmp_path: Path) -> None:
    write_project(tmp_path, scenario=QUIET, strategies=[once()])
    loaded = load_settings(tmp_path / "bot.yaml", environment={})
    live = replace(loaded, settings=loaded.settings.model_copy(update={"mode": "live"}))

    found = of_notices(live, MACHINE)

    assert (found.verdict, "docs/notices.md" in found.fix) == (Verdict.WARN, True), found


@pytest.mark.parametrize(
    ("make", "verdict", "found", "fix"),
    [
        (lambda _: None, Verdict.WARN, "holds none", "bot journal backup"),
        (lambda path: path.touch(), Verdict.FAIL, "not a directory", "mount or mend"),
        (lambda path: backup_of(path, days=9), Verdict.WARN, "9 days old", "see why none is made"),
        (lambda path: backup_of(path, days=1), Verdict.OK, "1 day old", ""),
    ],
    ids=["none", "no folder", "old", "new"],
)
def test_backups_that_are_missing_or_old_are_found(
    tmp_path: Path, make: Callable[[Path], object], verdict: Verdict, found: str, fix: str
) -> None:
    make(tmp_path / "backups")

    row = rows(tmp_path, journal={"backups": "backups"})["backups"]

    assert (row.verdict, found in row.found, fix in row.fix) == (verdict, True, True)


def backup_of(folder: Path, *, days: int) -> None:
    """Have a backup that was made so many days ago."""
    folder.mkdir()
    file = folder / "journal.db"
    file.touch()
    made = (TODAY - timedelta(days=days, hours=1)).timestamp()
    os.utime(file, (made, made))
