"""`bot status` where no bot runs: how the last run ended, and what it left open."""

import asyncio
import json
import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
import sqlalchemy as sa

from bot.cli import messages
from bot.cli.command import Invocation
from bot.cli.last_run import lines_left_open
from bot.config.problems import ExitCode
from bot.config.settings.places import KNOWN, remember_run
from bot.domain.entry import Entry
from bot.journal.database.schema import migrate
from bot.journal.errors import Holder
from bot.journal.journal import Journal
from bot.journal.writing.lease import Watch, acquire, writer_of
from bot.runtime.journal_file import this_process
from bot.runtime.upkeep import lease_of
from tests.cli.json_keys import declared, differing
from tests.cli.stage import CONFIG, call, make_project
from tests.journal.facts import Story, after

_ANOTHER_RUN: Final = (
    "INSERT INTO runs (run_id, started_at, mode, version, config_sha256, epoch) "
    "SELECT run_id + 1, started_at, mode, version, config_sha256, epoch FROM runs"
)

LET_GO_S_MAX: Final = 60.0


def test_a_stopped_standby_does_not_take_the_bot_that_trades_for_killed(tmp_path: Path) -> None:
    config = _has_run(make_project(tmp_path))
    with closing(sqlite3.connect(tmp_path / "journal.db")) as journal, journal:
        journal.execute(_ANOTHER_RUN)
    lease = acquire(f"sqlite:///{tmp_path}/journal.db", this_process())

    told = call("status", "-c", str(config), columns=300).out
    as_json = call("status", "--json", "-c", str(config)).out
    lease.release()

    fields = json.loads(as_json)
    assert fields["last_run"]["writer"].startswith(f"pid {os.getpid()} on ")
    assert (fields["open_orders"], fields["unknown"]) == ([], [])
    assert f"another bot is at it: pid {os.getpid()} on " in told
    assert "was killed" not in told
    assert "bot run" not in told.replace("Start one: bot run", "")


@pytest.mark.postgres
def test_a_stopped_bot_whose_standby_waits_or_has_its_journal_leaves_its_orders_to_that(
    tmp_path: Path, own_postgres_url: str
) -> None:
    url, resting = own_postgres_url, Story(9, start=1_300)
    asyncio.run(write_more(url, resting.placed()))
    asyncio.run(write_more(url, []))
    (tmp_path / "bot.yaml").write_text(CONFIG.replace("sqlite:///journal.db", url))
    config = _has_run(tmp_path / "bot.yaml", url=url)
    invocation = Invocation(config=config)
    watch, other = Watch(url), Holder(7, "another-machine", datetime.now(UTC))
    until_let_go(url)

    alone = (lines_left_open(invocation), call("status", "-c", str(config), columns=300).out)
    watch.look()
    waits = (lines_left_open(invocation), call("status", "-c", str(config), columns=300).out)
    watch.close()
    lease = acquire(url, other)
    has_it = lines_left_open(invocation)
    lease.release()
    ours = acquire(url, this_process())
    _has_run(config, pid=os.getpid(), url=url)
    still_ending = lines_left_open(invocation)
    ours.release()
    lease = acquire(url, other)
    with sa.create_engine(url, poolclass=sa.NullPool).begin() as journal:
        journal.execute(sa.text(f"{_ANOTHER_RUN} ORDER BY run_id DESC LIMIT 1"))
    watch.look()
    trades = lines_left_open(invocation)
    watch.close()
    lease.release()

    named, *_ = alone[0]
    assert "BUY 500 HPG LIMIT 27,050" in named
    assert alone[0] == [named, messages.LEFT_OPEN]
    assert messages.LEFT_OPEN in alone[1]
    assert waits[0] == has_it == [named, messages.GOES_ON]
    assert trades == [], "who stopped was the standby, which leaves nothing"
    assert messages.GOES_ON in waits[1]
    assert messages.LEFT_OPEN not in waits[1]
    assert still_ending == [named, messages.LEFT_OPEN]


def until_let_go(url: str) -> None:
    """PostgreSQL notices a moment later that the connection with the lock was closed."""
    give_up = time.monotonic() + LET_GO_S_MAX
    while writer_of(url) is not None:
        assert time.monotonic() < give_up, "nobody writes the journal, and it is not free"
        time.sleep(0.01)


def test_a_bot_that_starts_after_a_kill_is_starting_and_no_other_bot(tmp_path: Path) -> None:
    config = _has_run(make_project(tmp_path), pid=os.getpid())
    with closing(sqlite3.connect(tmp_path / "journal.db")) as journal, journal:
        journal.execute(_ANOTHER_RUN)
    lease = acquire(f"sqlite:///{tmp_path}/journal.db", this_process())

    told = call("status", "-c", str(config), columns=300)
    as_json = call("status", "--json", "-c", str(config))
    late = call("status", "-c", str(config), "--wait", "RUNNING", "--timeout", "0s")
    lease.release()

    assert (told.code, told.err) == (0, "")
    assert told.out.splitlines() == ["STARTING  mine (sandbox)", f"why         {messages.OPENING}"]
    fields = json.loads(as_json.out)
    assert (fields["state"], fields["reason"]) == ("STARTING", messages.OPENING)
    assert "last_run" not in fields
    assert "the bot is STARTING, not RUNNING" in late.err


def test_a_bot_that_has_the_journal_and_whose_run_has_begun_is_not_starting(tmp_path: Path) -> None:
    config = _has_run(make_project(tmp_path), pid=os.getpid())
    lease = acquire(f"sqlite:///{tmp_path}/journal.db", this_process())
    with closing(sqlite3.connect(tmp_path / "journal.db")) as journal, journal:
        journal.execute(_ANOTHER_RUN.replace(", epoch FROM", f", {lease.epoch} FROM"))

    told = call("status", "-c", str(config), columns=300)
    lease.release()

    assert told.code == ExitCode.NOT_RUNNING
    assert told.out.startswith("STOPPED  mine (sandbox)\n")
    assert "another bot" not in told.out


def test_a_bot_that_ended_while_it_started_is_stopped(tmp_path: Path) -> None:
    config = _has_run(make_project(tmp_path), pid=os.getpid())
    elsewhere = Holder(os.getpid(), "another-machine", datetime.now(UTC))
    acquire(f"sqlite:///{tmp_path}/journal.db", elsewhere).release()

    assert call("status", "-c", str(config)).out.startswith("STOPPED  mine (sandbox)\n")


def _has_run(config: Path, pid: int | None = None, url: str | None = None) -> Path:
    """Leave behind what a run leaves in its state directory."""
    state_dir = config.parent / "state"
    state_dir.mkdir(mode=0o700, exist_ok=True)
    bot = {"name": "mine", "mode": "sandbox", "config": str(config)}
    url = url or f"sqlite:///{config.parent}/journal.db"
    remember_run(state_dir, config, os.environ, bot, "en", url, pid)
    return config


def test_a_stopped_bot_says_how_its_run_ended_and_what_works_on(config: Path) -> None:
    ran = call("status", "-c", str(_has_run(config)), columns=90)

    assert ran.code == ExitCode.NOT_RUNNING
    assert ran.out.splitlines() == [
        "STOPPED  mine (sandbox)",
        "last run    began 2026-11-19 09:11:00, ended 09:42:00: the hour is over",
        "open        L-0008 BUY 300 HPG LIMIT 27,000, 0 filled, UNKNOWN",
        "            while the bot is down nothing expires or cancels them: start it (bot run), or",
        "            cancel them in the broker's app; what is left ends with its trading day",
    ]
    assert ran.err.startswith("E-RUN-001 no bot is running on ")


def test_a_bot_that_was_killed_is_said_to_have_no_end(tmp_path: Path) -> None:
    config = _has_run(make_project(tmp_path))
    with closing(sqlite3.connect(tmp_path / "journal.db")) as journal, journal:
        journal.execute(_ANOTHER_RUN)

    _, last, *_ = call("status", "-c", str(config), columns=300).out.splitlines()
    fields = json.loads(call("status", "--json", "-c", str(config)).out)["last_run"]

    assert last.startswith(
        "last run    began 2026-11-19 09:11:00, and has no end in the journal: it was killed, or "
    )
    assert (fields["ended_at"], fields["reason"], fields["writer"]) == (None, "", "")


def test_a_stopped_bot_whose_journal_cannot_be_read_is_stopped_all_the_same(tmp_path: Path) -> None:
    config = _has_run(make_project(tmp_path))
    (tmp_path / "journal.db").write_text("no database")

    ran = call("status", "-c", str(config))

    assert (ran.code, ran.out) == (ExitCode.NOT_RUNNING, "STOPPED  mine (sandbox)\n")
    assert ran.err.startswith("E-DB-0")


@pytest.mark.parametrize("left", ["", "\0\0", "{"])
def test_a_note_that_a_power_cut_emptied_hides_no_open_order(config: Path, left: str) -> None:
    _has_run(config)
    _, *rows = call("status", "-c", str(config), columns=90).out.splitlines()
    (config.parent / "state" / KNOWN).write_text(left)

    assert call("status", "-c", str(config), columns=90).out.splitlines()[1:] == rows
    assert "open        L-0008 BUY 300 HPG LIMIT 27,000, 0 filled, UNKNOWN" in rows


def test_a_program_is_told_how_a_stopped_bot_ended_and_what_works_on(tmp_path: Path) -> None:
    config, resting = _has_run(make_project(tmp_path)), Story(9, start=1_300)
    asyncio.run(write_more(f"sqlite:///{tmp_path}/journal.db", resting.placed()))

    ran = call("status", "--json", "-c", str(config))
    told = call("status", "-c", str(config)).out

    fields = json.loads(ran.out)
    assert ran.code == ExitCode.NOT_RUNNING
    assert fields["last_run"] == {
        "started_at": "2026-11-19T02:11:00.102000+00:00",
        "ended_at": "2026-11-19T02:42:00.102000+00:00",
        "reason": "the hour is over",
        "writer": "",
    }
    assert fields["unknown"] == ["L-0008"]
    [order] = fields["open_orders"]
    assert (order["order_id"], order["intent_id"]) == (resting.order_id, "L-0009")
    assert f"open        {resting.order_id} BUY 500 HPG LIMIT 27,050, 0 filled, SENT" in told
    shape = declared()["bot status"]
    assert isinstance(shape, dict)
    same = {name: shape[name] for name in ("state", "open_orders", "unknown")}
    same["last_run"] = shape["last_run?"]
    found = {name: value for name, value in fields.items() if name != "bot"}
    assert list(differing(found, same, "bot status")) == []


def test_a_program_is_told_the_last_run_of_a_bot_that_left_nothing_open(tmp_path: Path) -> None:
    config = tmp_path / "bot.yaml"
    config.write_text(CONFIG)
    url = f"sqlite:///{tmp_path}/journal.db"
    migrate(url)
    before = json.loads(call("status", "--json", "-c", str(config)).out)
    asyncio.run(write_more(url, [], reason="bot stop"))

    fields = json.loads(call("status", "--json", "-c", str(_has_run(config))).out)

    assert "last_run" not in before
    assert fields["last_run"]["reason"] == "bot stop"
    assert (fields["open_orders"], fields["unknown"]) == ([], [])


async def write_more(
    url: str, batches: Sequence[Sequence[Entry]], reason: str = "the hour is over"
) -> None:
    """Write these; with none, a run that ends for `reason`."""
    with lease_of(url) as lease:
        journal = Journal.open(url, epoch=lease.epoch)
        for entries in batches:
            await journal.write(entries)
        if not batches:
            facts = {"mode": "sandbox", "version": "0.1.0", "config_sha256": ""}
            run_id = await journal.start_run(at=after(0), **facts)
            await journal.end_run(run_id, reason, at=after(60))
        await journal.close()
