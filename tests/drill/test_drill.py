"""The drill for real: a fault that passes, one that stays, and a bot that must fail its drill."""

import asyncio
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from bot.clock import monotonic_s
from bot.config.problems import OperatorMistake
from bot.config.settings.load import load_settings
from bot.config.shipped import shipped
from bot.drill import story
from bot.drill.exercise import Exercise, exercises, names
from bot.drill.project import Project, project_of
from bot.drill.run import DRILL_S_MAX, run
from bot.drill.story import Kept, Told, judge, tell
from bot.runtime.health.process_log import log_file

pytestmark = [pytest.mark.wire, pytest.mark.timeout(240)]


def the(name: str) -> Exercise:
    return next(each for each in exercises() if each.name == name)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """What `bot init` writes, with its limits for a small account."""
    return project_of(shipped("config/bot.yaml"), tmp_path, 7)


async def told_of(project: Project, name: str) -> Told:
    return await tell(project, the(name), project.folder / name)


def change(told: Told, *statements: str) -> None:
    """Change a journal behind the bot's back."""
    with closing(sqlite3.connect(told.state_dir / "journal.db")) as connection:
        connection.execute("pragma foreign_keys = off")
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def showing(told: Told, **fields: object) -> Told:
    """Let the bot's status show these fields."""
    replies = list[tuple[timedelta, Mapping[str, object]]]()
    for after, reply in told.asked.replies:
        replies.append((after, {**reply, "status": {**_of(reply), **fields}}))
    return replace(told, asked=replace(told.asked, replies=replies))


async def test_a_lost_answer_is_settled_and_what_is_done_to_the_journal_fails(
    project: Project,
) -> None:
    told = await told_of(project, "answer-lost")

    problems, did = judge(told)

    assert problems == []
    assert " 1 unknown" in did
    assert did.endswith("; orders go out again")

    change(
        told,
        "drop trigger if exists decisions_no_update",
        "update decisions set verdict = 'FAILED', strategy = 'mine', why = 'on_bar: no idea'"
        " where rowid = (select min(rowid) from decisions where code = 'NO_SIGNAL')",
    )
    assert "; mine failed 1x: on_bar: no idea; orders go out again" in judge(told)[1]

    first, *others = sorted(told.outcome.orders)
    intent = "(select intent_id from orders where order_id = '{}')"
    change(
        told,
        "drop trigger if exists orders_no_change",
        f"update orders set intent_id = {intent.format(first)} where order_id = '{others[0]}'",
    )
    doubled, _ = judge(told)
    assert any("has 2 orders" in each for each in doubled)

    lost = replace(
        told.outcome, orders={**told.outcome.orders, "ORD-x": told.outcome.orders[first]}
    )
    missing, _ = judge(replace(told, outcome=lost))
    assert "ORD-x is not in the journal" in missing


def test_the_drills_broker_charges_the_fee_that_the_bot_reckons_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOT_RISK__FEE_PPM", "1200")

    project = project_of(shipped("config/bot.yaml"), tmp_path, 7)

    assert project.scenario().fee_ppm == 1_200


def test_a_drill_notifies_nobody_and_listens_on_no_port(tmp_path: Path) -> None:
    bot, drills = tmp_path / "bot", tmp_path / "drills"
    bot.mkdir(mode=0o700)
    drills.mkdir(mode=0o700)
    config, phone = bot / "bot.yaml", bot / "notify.yaml"
    config.write_text(
        f"strategies: {shipped('config')}/strategies/*.yaml\nhealth: {{port: 9466}}\n"
        "notify: {urls: ['json://localhost:1/x'], channels: {phone: {fill: off}}}\n"
    )
    phone.write_text("phone: json://localhost:1/y\n")
    phone.chmod(0o600)
    loaded = load_settings(config, environment={})
    assert [each.name for each in loaded.channels({})] == ["phone", "url1"]

    project = project_of(config, drills, 7)
    laid = project.lay(drills / "story", project.scenario(), beat_s=1)

    for drilled in (project.loaded, project.load(laid)):
        assert drilled.channels({}) == ()
        assert drilled.settings.health.port is None


def test_a_drill_does_not_write_into_the_log_of_the_bot(tmp_path: Path) -> None:
    config, drills = tmp_path / "bot.yaml", tmp_path / "drills"
    drills.mkdir(mode=0o700)
    strategies = shipped("config") / "strategies" / "*.yaml"
    config.write_text(f"strategies: {strategies}\nlog: {{file: bot.log}}\n")
    project = project_of(config, drills, 7)

    laid = project.lay(drills / "story", project.scenario(), beat_s=1)

    assert log_file(load_settings(config, environment={})) == tmp_path / "bot.log"
    assert log_file(project.load(laid)) == drills / "story" / "state" / "bot.log"


async def test_a_fault_that_stays_is_named_and_a_silent_bot_fails(project: Project) -> None:
    told = await told_of(project, "quotes-frozen")

    problems, did = judge(told)

    assert problems == []
    assert "is not believed" in did
    assert "halt: 0 open" in did

    silent = replace(showing(told, alerts=[]), kept=type(told.kept)())
    assert "neither bot status nor an alert named it" in judge(silent)[0]

    late = replace(told, exercise=replace(told.exercise, named_within_s=10))
    at_pace = showing(late, rate={"polls": {"slower": 1.0}})
    assert [each[:24] for each in judge(at_pace)[0]] == ["it was named only after "]
    slowed = showing(late, rate={"polls": {"slower": 2.0}})
    assert judge(slowed)[0] == [], "the quota slows what shows it by as much"


async def test_a_detail_that_is_dead_is_named_if_it_was_needed_twice(project: Project) -> None:
    told = await told_of(project, "detail-dead")
    silent = replace(showing(told, alerts=[]), kept=type(told.kept)())
    seldom = replace(silent, exercise=replace(told.exercise, named_from=1_000))

    assert judge(told)[0] == []
    assert "the detail of an order can't be read" in judge(told)[1]
    assert "neither bot status nor an alert named it" in judge(silent)[0]
    assert judge(seldom)[0] == []


@pytest.mark.parametrize(
    ("name", "settings", "broken"),
    [
        ("clock-off", "clock: {max_offset_s: 6}", "the broker's clock is 5 s behind ours, all day"),
        (
            "clock-off",
            "clock: {max_offset_s: 25}",
            "the broker's clock is 8 s behind ours, all day",
        ),
        ("answer-lost", "broker: {requests_per_minute: 1}", ""),
        ("quotes-frozen", "broker: {requests_per_minute: 30}", ""),
        ("quotes-frozen", "risk: {max_source_age_s: {depth: 120}}", ""),
        ("quotes-frozen", "risk: {max_source_age_s: {depth: 3600}}", ""),
    ],
)
def test_a_bot_that_does_what_its_settings_say_fails_no_drill(
    tmp_path: Path, name: str, settings: str, broken: str
) -> None:
    config, strategies = tmp_path / "bot.yaml", shipped("config") / "strategies" / "*.yaml"
    config.write_text(f"strategies: {strategies}\n{settings}\n")
    (tmp_path / "drill").mkdir(mode=0o700)

    [row] = run(project_of(config, tmp_path / "drill", 7), (name,), lambda _: None, monotonic_s())

    assert row.problems == []
    assert broken in row.broken


@pytest.mark.parametrize(("given", "played"), [(1, 42), (42, 42), (600, 600)])
def test_a_quota_that_lets_too_few_orders_out_is_raised_and_no_other(
    tmp_path: Path, given: int, played: int
) -> None:
    """Two symbols every 5 s for bars, one of ours every 5 and 10 s: 42 a minute, half as often."""
    (tmp_path / "mine.yaml").write_text(
        "{name: mine, use: sma_cross, symbols: [FPT, HPG], params: {fast: 5, slow: 20},"
        " wake: {bar: 1m}, order: {size: {shares: 100}, type: LIMIT, price: ask}}"
    )
    config = tmp_path / "bot.yaml"
    config.write_text(f"strategies: mine.yaml\nbroker: {{requests_per_minute: {given}}}\n")

    project = project_of(config, tmp_path, 7)

    assert project.quota == played
    assert f"'{played}'" in str(project.lay(tmp_path / "story", project.scenario(), beat_s=1))


async def test_a_fault_that_met_no_request_is_no_pass(project: Project) -> None:
    fault = {"match": {"path": "/nowhere", "at": "09:31:00"}, "action": {"do": "rst"}}
    away = replace(the("answer-lost"), faults=(fault,))

    told = await tell(project, away, project.folder / "away")

    assert judge(told)[0] == ["the fault never struck: no request met it"]


def _of(reply: object) -> dict[str, object]:
    found = reply.get("status") if isinstance(reply, dict) else None
    return found if isinstance(found, dict) else {}


async def test_a_story_that_stands_still_ends_and_fails_with_what_the_bot_said(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stand(_: object, __: object, kept: Kept, **___: object) -> None:
        kept.trouble("the journal cannot be written: no space left")
        await asyncio.Event().wait()

    monkeypatch.setattr(story, "run_bot", stand)
    monkeypatch.setattr(story, "STORY_S_MAX", 0.1)

    row = await story.drill(project, the("answer-lost"), project.folder / "stuck")

    said = "it was not over after 0.1 s: the journal cannot be written: no space left"
    assert row.problems == [said]


def test_a_drill_ends_with_a_table_in_which_what_was_not_played_fails(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stand(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(story, "run_bot", stand)
    started = monotonic_s()

    rows = list(run(project, (), lambda _: None, started - DRILL_S_MAX + 1))

    assert monotonic_s() - started < 10
    assert [row.name for row in rows] == names()
    over = "the 270 s of the drill are over; play it alone"
    told = [problem for row in rows for problem in row.problems]
    assert told == [f"broken off: {over}", *[f"not played: {over}"] * (len(rows) - 1)]
    assert all(row.broken and not row.is_passed for row in rows)


async def test_a_mistake_that_ends_a_story_is_not_told_as_one_of_the_users_bot(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise OperatorMistake.of("E-DB-010", "stopped by Ctrl-C, but the journal does not answer")

    monkeypatch.setattr(story, "run_bot", fail)

    with pytest.raises(OperatorMistake, match="this was the drill's own bot; yours is not touched"):
        await story.drill(project, the("answer-lost"), project.folder / "stuck")
