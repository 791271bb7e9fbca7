"""`bot session --jobs` and `--missed`: the bot's own timetable."""

import asyncio
import json
from datetime import time, timedelta
from pathlib import Path

from bot.config.problems import ExitCode
from bot.config.rulebook import load_rulebook
from bot.domain.entry import Note
from bot.journal.errors import Holder
from bot.journal.journal import Journal
from bot.journal.writing.lease import acquire
from bot.runtime.control.status import job_fields
from bot.runtime.timetable.notes import DOWN, late_note, missed_note
from bot.runtime.timetable.schedule import Firing, Job, OnTradingDays, WhenMissed, every
from tests.cli.stage import call, make_project
from tests.journal.facts import T0, after

TIMER = Job(
    "timer sma 14:40:00",
    OnTradingDays(load_rulebook().calendar, time(14, 40)),
    lambda _: None,
    late_max=timedelta(seconds=30),
    missed=WhenMissed.LIST,
)


async def _miss(url: str) -> None:
    firing = TIMER.passed_while_down(T0 - timedelta(days=3), T0)
    assert firing is not None
    lease = acquire(url, Holder(1, "test", T0))
    journal = Journal.open(url, epoch=lease.epoch)
    late = Firing(TIMER, T0, T0, 1, timedelta(seconds=12), is_run=True)
    old = Note(after(1_256), "SCHEDULE", "quote FPT came 6.0 s late: busy")
    rows = [missed_note(firing, DOWN, after(1_255)), old, late_note([late], "busy", after(1_257))]
    await journal.write(rows)
    await journal.close()
    lease.release()


def test_what_was_missed_is_listed_with_its_times_and_why(tmp_path: Path) -> None:
    config = make_project(tmp_path)
    asyncio.run(_miss(f"sqlite:///{tmp_path / 'journal.db'}"))

    ran = call("session", "--missed", "-c", str(config), columns=140)
    told = json.loads(call("session", "--missed", "--since", "1h", "--json", "-c", str(config)).out)

    assert ran.code == ExitCode.DONE
    head, row, late, foot = ran.out.splitlines()
    assert head.split() == ["TOLD", "JOB", "RUNS", "FROM", "TO", "THEN", "WHY"]
    assert " ".join(row.split()).endswith(
        "timer sma 14:40:00 3 2026-11-16 14:40:00 2026-11-18 14:40:00 not run the bot was down"
    )
    assert late.endswith("run, 12.0 s late busy")
    assert foot == "3 runs missed, 1 late"
    assert [(row["job"], row["count"], row["then"]) for row in told["missed"]] == [
        ("timer sma 14:40:00", 3, "not run"),
        ("timer sma 14:40:00", 1, "run, 12.0 s late"),
    ]


def test_a_job_is_told_with_its_next_time_and_its_policy() -> None:
    poll = Job("quote FPT", every(timedelta(seconds=10), start=T0), lambda _: None)

    assert job_fields(TIMER, T0) == {
        "job": "timer sma 14:40:00",
        "next": "2026-11-19T07:40:00+00:00",
        "every_s": None,
        "late_max_s": 30.0,
        "missed": "list only",
        "overlapping": "skip",
        "done_by_start": False,
    }
    assert job_fields(poll, T0)["every_s"] == 10.0


def test_the_timetable_is_a_running_bots(tmp_path: Path) -> None:
    config = str(make_project(tmp_path))

    ran, mixed = (
        call("session", "--jobs", "-c", config),
        call("session", "--jobs", "FPT", "-c", config),
    )

    assert ran.code == ExitCode.NOT_RUNNING
    assert mixed.code == ExitCode.USAGE
