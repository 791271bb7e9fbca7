"""Faults of the engine in a whole run: it halts, goes on, answers, and starts again as halted."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest

from bot.config.scenario_file import load_scenario
from bot.config.settings.load import load_settings
from bot.domain.entry import Entry, Fill, Note, RunState
from bot.journal.errors import Contradicted
from bot.journal.upkeep.verify import verify
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunOptions
from bot.runtime.timetable.schedule import Fire, Job, Report
from bot.runtime.worlds.environment import Access, Driver, EnvironmentSpec
from bot.runtime.worlds.sandbox import wake_sandbox
from tests.by_hand import Ask, HandStory, tell_by_hand
from tests.staging import QUIET
from tests.story import InProcessEnvironment, Shown, in_process, once, write_project

ODD = """
from bot import Strategy
from bot.strategy import Request, RequestKind

NO_KIND = str.__new__(RequestKind, "none")
NO_KIND._name_ = NO_KIND._value_ = "none"


class Odd(Strategy):
    price: int

    def on_quote(self, quote):
        self.quotes = getattr(self, "quotes", 0) + 1
        if self.quotes == 1:
            self.buy(100, limit=self.price, why="first")
        if self.quotes >= 4:
            self.context.requests.append(Request(NO_KIND))
"""
"""After 20 s it asks for what only a bug can ask for, at each quote: the engine raises."""


def _project(folder: Path, **order: object) -> Path:
    whole = {"size": {"shares": 100}, "type": "LIMIT", "price": "ask", **order}
    odd = once("odd", use="odd", params={"price": 26_000}, order=whole)
    config = write_project(folder, scenario=QUIET, strategies=[odd])
    (folder / "strategies" / "odd.py").write_text(ODD)
    return config


def _ask(seconds: float, do: str, **more: object) -> Ask:
    return Ask(timedelta(seconds=seconds), {"do": do, **more})


def _faults(told: HandStory) -> list[Note]:
    return [note for note in told.story.shown.all(Note) if note.kind == "FAULT"]


def _status(reply: Mapping[str, object]) -> dict[str, Any]:
    status = reply["status"]
    assert isinstance(status, dict)
    return status


def _kept(report: Path) -> tuple[int, bool]:
    """Who may read it, and whether it says what was raised."""
    return report.stat().st_mode & 0o777, "KeyError" in report.read_text()


def _report(told: HandStory) -> Path:
    return Path(_status(told.replies[0])["faults"][0]["report"])


async def test_a_fault_of_the_engine_halts_entries_and_the_bot_goes_on(tmp_path: Path) -> None:
    told = await tell_by_hand(
        _project(tmp_path, expire="60s"), _ask(40, "status"), minutes=2, may_fault=True
    )

    status = _status(told.replies[0])
    assert (status["state"], status["reason"]) == ("HALTED", "engine fault")
    assert len(_faults(told)) == 1
    assert str(_report(told)) in _faults(told)[0].text
    assert _kept(_report(told)) == (0o600, True)
    [order] = told.story.broker_orders().values()
    assert order["status"] == "CANCELLED"


async def test_the_trace_of_a_fault_is_in_the_journal_and_sealed(tmp_path: Path) -> None:
    told = await tell_by_hand(_project(tmp_path), minutes=1, may_fault=True)
    journal = told.story.loaded.state_dir / "journal.db"

    assert "Traceback" in str(_faults(told)[0].numbers["trace"])
    assert verify(f"sqlite:///{journal}").problems == ()
    with sqlite3.connect(journal) as connection:
        connection.execute("drop trigger if exists notes_no_update")
        connection.execute("update notes set numbers = '{}' where kind = 'FAULT'")
    connection.close()
    assert verify(f"sqlite:///{journal}").problems


async def test_a_fault_stays_over_restarts_until_somebody_resumes_with_a_reason(
    tmp_path: Path,
) -> None:
    config = _project(tmp_path)
    await tell_by_hand(config, minutes=1, may_fault=True)

    again = await tell_by_hand(config, _ask(30, "status"), minutes=2, may_fault=True)
    resumed = await tell_by_hand(
        config,
        _ask(1, "resume", reason="looked into it"),
        _ask(3, "status"),
        _ask(40, "status"),
        minutes=3,
        may_fault=True,
    )

    assert _status(again.replies[0])["reason"] == "engine fault"
    assert again.story.posts() == ["L-0001"]
    assert [order["status"] for order in again.story.broker_orders().values()] == ["SENT"]
    states = [_status(each)["state"] for each in resumed.replies[1:]]
    assert states == [RunState.RUNNING, RunState.HALTED]


async def test_after_a_fault_halt_cancels_and_stop_ends_the_bot(tmp_path: Path) -> None:
    told = await tell_by_hand(
        _project(tmp_path),
        _ask(30, "halt", reason="enough"),
        _ask(40, "status"),
        _ask(50, "stop", reason="done", by="me"),
        minutes=5,
        may_fault=True,
    )

    assert _status(told.replies[1])["reason"] == "enough"
    assert [order["status"] for order in told.story.broker_orders().values()] == ["CANCELLED"]
    assert told.story.end.seconds < 60
    assert [note.kind for note in told.story.shown.all(Note)].count("FAULT") == 1


class BrokenBooks(InProcessEnvironment):
    """An environment in which each read of the day order book raises in our client, from the
    second minute on.
    """

    error: Exception = KeyError("of the test")

    async def open(self, stack: AsyncExitStack, /) -> Access:
        access = await super().open(stack)
        app, end = access.app, self.market.now() + timedelta(minutes=1)
        assert app is not None

        async def breaking(scope: Mapping[str, Any], *rest: Any) -> None:
            if scope["path"].endswith("/order-book") and self.market.now() > end:
                raise self.error
            await app(scope, *rest)

        return replace(access, app=breaking)


def _place(environment: type[InProcessEnvironment], spec: EnvironmentSpec) -> InProcessEnvironment:
    sandbox, clock = wake_sandbox(spec, load_scenario("story.yaml", spec.loaded.base_dir))
    return environment(sandbox, clock, spec)


async def test_work_in_the_background_that_raises_halts_and_does_not_end_the_run(
    tmp_path: Path,
) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[once(params={"price": 26_000})])

    told = await tell_by_hand(
        config,
        _ask(150, "status"),
        minutes=4,
        place_in=partial(_place, BrokenBooks),
        may_fault=True,
    )

    status = _status(told.replies[0])
    assert (status["state"], status["reason"]) == ("HALTED", "engine fault")
    assert status["faults"][0]["where"] == "work in the background"
    assert status["faults"][0]["count"] > 2
    assert len(_faults(told)) == 1


class BrokenJournal(BrokenBooks):
    """What is raised there comes from the journal: nothing can go on after it."""

    error = Contradicted("of the test")


async def test_work_in_the_background_that_finds_the_journal_wrong_ends_the_run(
    tmp_path: Path,
) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[once(params={"price": 26_000})])

    with pytest.raises(Contradicted):
        await tell_by_hand(config, minutes=4, place_in=partial(_place, BrokenJournal))


class OddTime(datetime):
    """An instant whose local time nobody can tell."""

    def astimezone(self, tz: tzinfo | None = None) -> Self:  # noqa: ARG002
        raise KeyError("astimezone")


class OddDays(InProcessEnvironment):
    """An environment in which the day's own job is given an odd time."""

    def drive(self, jobs: Sequence[Job], on_due: Fire, report: Report) -> Driver:
        now = self.market.now()
        for day in (job for job in jobs if job.name == "day"):
            day.fire(OddTime(now.year, now.month, now.day, tzinfo=UTC))
        return super().drive(jobs, on_due, report)


async def test_a_job_of_the_timetable_that_raises_halts_and_does_not_end_the_run(
    tmp_path: Path,
) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[once(params={"price": 26_000})])

    told = await tell_by_hand(
        config, _ask(30, "status"), minutes=1, place_in=partial(_place, OddDays), may_fault=True
    )

    status = _status(told.replies[0])
    assert (status["state"], status["reason"]) == ("HALTED", "engine fault")
    assert status["faults"][0]["where"] == "the job day"


class OddScreen(Shown):
    """A screen that cannot show a fill."""

    def entry(self, entry: Entry) -> None:
        if isinstance(entry, Fill):
            raise KeyError("of the test")
        super().entry(entry)


async def test_a_line_that_cannot_be_shown_halts_and_does_not_end_the_run(tmp_path: Path) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[once()])
    shown, options = OddScreen(), RunOptions(run_for=timedelta(minutes=2))

    end = await run_bot(load_settings(config), options, shown, make=in_process)

    assert end.reason == "2 min are over"
    assert [note.numbers["where"] for note in shown.all(Note) if note.kind == "FAULT"] == [
        "the screen"
    ]
