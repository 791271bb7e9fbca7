"""Whatever kept a symbol from being ordered, `bot decisions --why-not SYMBOL` names it."""

import asyncio
import json
import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pytest

from bot.cli.telling.narrator import Narrator
from bot.config.problems import ExitCode
from bot.domain.entry import (
    ENTRIES_SCOPE,
    REDUCED_SCOPE,
    CheckResult,
    Decision,
    Entry,
    Note,
    Numbers,
    RunState,
    StateChanged,
    StrategySwitched,
    Verdict,
)
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.order import Side
from bot.journal.database.schema import migrate
from bot.journal.journal import Journal
from bot.journal.reading.folding import DecisionFolder
from bot.journal.reading.reader import JournalReader
from bot.journal.reading.values import LASTS
from tests.cli.commands.test_journal_commands import url_of
from tests.cli.stage import call
from tests.journal.facts import after
from tests.staging import QUIET
from tests.story import once, tell, write_project

SYMBOL = "VHM"
"""Nothing else in the journal concerns it."""


def no(
    code: str,
    why: str,
    verdict: Verdict = Verdict.SKIPPED,
    *,
    numbers: Numbers | None = None,
    checks: Sequence[CheckResult] = (),
    request_id: str | None = None,
) -> list[Entry]:
    facts = {"numbers": numbers or {}, "checks": tuple(checks), "request_id": request_id}
    return [Decision(after(300), "sma", SYMBOL, verdict, code, why, **facts)]  # type: ignore[arg-type]


def refused(code: str, text: str, number: int) -> list[Entry]:
    check = CheckResult(code, False, {}, text)
    return no(code, "crossed", Verdict.BLOCKED, checks=[check], request_id=f"L-90{number:02}")


def shut(code: str, state: str, reason: str) -> list[Entry]:
    return no(code, "crossed", Verdict.BLOCKED, numbers={"state": state, "reason": reason})


def moved(state: RunState, reason: str, scope: str = "all") -> list[Entry]:
    before = RunState.RUNNING
    return [StateChanged(after(310), before, state, reason, "operator", scope)]


def off(state: str, reason: str) -> list[Entry]:
    return [StrategySwitched(after(310), "sma", state, reason, "operator")]


PLANTED: dict[str, tuple[list[Entry], str]] = {
    "no signal": (no("NO_SIGNAL", "SMA5 71,000 below SMA20 71,200"), "SMA5 71,000 below"),
    "own words": (no("SKIP", "no cross (gap 0.21%)"), "no cross (gap 0.21%)"),
    "warming": (no("WARMING", "not enough bars yet for SMA20"), "not enough bars yet"),
    "order working": (no("ORDER_WORKING", "order working"), "order working"),
    "no price": (no("NO_PRICE", "no ask to price against"), "no ask to price against"),
    "not settled": (no("NOT_SETTLED", "not settled until Friday"), "not settled until"),
    "gate": (shut("TWO_FACTOR", "NEEDS_2FA", "403 OTP_SESSION_EXPIRED"), "OTP_SESSION_EXPIRED"),
    "halted": (shut("HALTED", "HALTED", "wrong prices"), "wrong prices"),
    "paused": (shut("PAUSED", "paused", "lunch"), "lunch"),
    "disabled": (shut("DISABLED", "disabled", "3 faults"), "3 faults"),
    "held data": (shut("HELD_DATA", "", "price off the tick"), "price off the tick"),
    "window": (refused("WINDOW", "14:25 is outside 09:15 - 14:20", 1), "is outside 09:15"),
    "limit": (refused("MAX_ORDER_VALUE", "order 64.7M of 50M", 2), "order 64.7M of 50M"),
    "cash": (refused("CASH", "order 5M of 1M", 3), "order 5M of 1M"),
    "watching": (no("WATCH", "crossed up", Verdict.WATCHED), "crossed up"),
    "held for 2FA": (no("TWO_FACTOR", "asked", Verdict.HELD, request_id="L-9904"), "waits for 2FA"),
    "fault": (no("EXCEPTION", "on_bar: ZeroDivisionError", Verdict.FAILED), "ZeroDivisionError"),
    "bot halted": (moved(RunState.HALTED, "going home"), "HALTED by operator: going home"),
    "symbol halted": (
        moved(RunState.HALTED, "odd fill", f"symbol:{SYMBOL}"),
        "symbol: HALTED by operator: odd fill",
    ),
    "strategy off": (off("paused", "not today"), "strategy: PAUSED by operator: not today"),
    "no buys, without a word": (
        moved(RunState.HALTED, "", REDUCED_SCOPE),
        "entries: REDUCING by operator\n",
    ),
    "alert": (
        [Note(after(310), "ALERT", "VHM: data held", {"alert": "DATA_HELD"}, SYMBOL)],
        "VHM: data held",
    ),
}


@pytest.fixture(scope="module")
def planted(config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with every block in its journal, and a run that has ended."""
    own = shutil.copytree(config.parent, tmp_path_factory.mktemp("planted") / "own") / config.name

    async def plant() -> None:
        journal = Journal.open(url_of(own))
        facts = {"mode": "sandbox", "version": "1", "config_sha256": ""}
        run_id = await journal.start_run(at=after(200), **facts)
        for entries, _ in PLANTED.values():
            await journal.write(entries)
        await journal.end_run(run_id, "stopped by operator", at=after(400))
        again = await journal.start_run(at=after(700), **facts)
        await journal.end_run(again, "the hour is over", at=after(800))
        await journal.close()

    asyncio.run(plant())
    return own


def test_there_are_twenty_at_least() -> None:
    assert len(PLANTED) >= 20


@pytest.mark.parametrize("name", PLANTED)
def test_a_block_is_named(name: str, planted: Path) -> None:
    ran = call("decisions", "--why-not", SYMBOL, "-c", str(planted))

    assert (ran.code, ran.err) == (ExitCode.DONE, "")
    assert PLANTED[name][1] in ran.out


def test_the_time_without_a_bot_is_named(planted: Path) -> None:
    groups = json.loads(call("decisions", "--why-not", SYMBOL, "--json", "-c", str(planted)).out)

    found = [each["why"] for each in groups["decisions"] if each["code"] == "NOT_RUNNING"]
    assert "the bot did not run (stopped by operator)" in found
    assert "the bot has not run since (the hour is over)" in found


def test_a_symbol_that_nobody_polls_is_named(planted: Path) -> None:
    ran = call("decisions", "--why-not", "abc", "-c", str(planted))

    assert "no strategy has ABC among its symbols, so it is not polled" in ran.out


def test_alike_ones_that_were_folded_are_one_line_with_their_range(
    config: Path, tmp_path: Path
) -> None:
    own = shutil.copytree(config.parent, tmp_path / "own") / config.name
    fold, gaps = DecisionFolder(), (0.40, 0.05, 0.21)
    skips = [
        Decision(after(300 + at), "sma", SYMBOL, Verdict.SKIPPED, "SKIP", f"no cross (gap {gap}%)")
        for at, gap in enumerate(gaps * 20)
    ]

    async def plant() -> None:
        journal = Journal.open(url_of(own))
        await journal.write([*fold.take(skips), *fold.rest()])
        await journal.close()

    asyncio.run(plant())
    ran = call("decisions", "--why-not", SYMBOL, "-c", str(own))

    assert "no cross (gap 0.05 to 0.4%)" in ran.out
    assert " 60x " in ran.out


def test_one_symbol_is_enough(planted: Path) -> None:
    ran = call("decisions", "--why-not", "FPT", "--symbol", "HPG", "-c", str(planted))

    assert (ran.code, "use one of them" in ran.err) == (ExitCode.USAGE, True)


def test_times_of_more_than_one_day_are_told_with_their_days(config: Path, tmp_path: Path) -> None:
    own = shutil.copytree(config.parent, tmp_path / "own") / config.name
    day = 86_400

    async def plant() -> None:
        journal = Journal.open(url_of(own))
        times = {"no cross": (300, 300 + day), "no bars": (300 + day, 420 + day)}
        for why, both in times.items():
            facts = ("sma", SYMBOL, Verdict.SKIPPED, "SKIP", why)
            await journal.write([Decision(after(at), *facts) for at in both])
        await journal.close()

    asyncio.run(plant())
    grouped = call("decisions", "--why-not", SYMBOL, "-c", str(own)).out.splitlines()
    listed = call("decisions", "--symbol", SYMBOL, "-c", str(own)).out.splitlines()
    newest = call("decisions", "--limit", "2", "-c", str(own)).out.splitlines()
    wide = call("decisions", "--limit", "1", "-o", "wide", "-c", str(own)).out.splitlines()

    assert grouped[1].startswith("2026-11-19 09:26-2026-11-20 09:26 sma")
    assert grouped[2].startswith("2026-11-20 09:26-09:28            sma")
    assert [row[:20] for row in listed[1:3]] == ["2026-11-19 09:26:00 ", "2026-11-20 09:26:00 "]
    assert newest[1].startswith("09:26:00 sma")
    assert wide[1].startswith("2026-11-20 09:28:00 sma")


def stops_of(
    folder: Path, *entries: Entry, again: float | None = None
) -> list[tuple[str, datetime, datetime]]:
    """The times in which nothing was ordered, of a journal with these entries: code, begin, end.
    `again`: when the bot was started again, having been killed.
    """
    url = f"sqlite:///{folder / 'journal.db'}"
    migrate(url)

    async def plant() -> None:
        journal = Journal.open(url)
        facts = {"mode": "sandbox", "version": "1", "config_sha256": ""}
        await journal.start_run(at=after(0), **facts)
        await journal.write(entries)
        if again is not None:
            await journal.start_run(at=after(again), **facts)
            await journal.write([changed(again + 2, RunState.STARTING, RunState.RUNNING)])
        await journal.close()

    asyncio.run(plant())
    with JournalReader(url) as reader:
        return [
            (each.code, each.first_at, each.last_at)
            for each in reader.stops(SYMBOL, strategy=None, since=None)
        ]


def changed(at: float, before: RunState, state: RunState, scope: str = "all") -> StateChanged:
    return StateChanged(after(at), before, state, "because", "bot", scope)


STARTED = changed(2, RunState.STARTING, RunState.RUNNING)
NEEDED = changed(100, RunState.RUNNING, RunState.NEEDS_2FA)


def test_a_pause_that_a_stronger_state_hid_ends_as_a_row_of_its_own_once_it_shows(
    tmp_path: Path,
) -> None:
    hidden = changed(160, RunState.RUNNING, RunState.PAUSED, "operator")
    shown = changed(220, RunState.NEEDS_2FA, RunState.PAUSED)
    ended = changed(400, RunState.PAUSED, RunState.RUNNING)

    stops = stops_of(tmp_path, STARTED, NEEDED, hidden, shown, ended)

    assert stops == [
        ("NEEDS_2FA", after(100), after(220)),
        ("PAUSED", after(160), after(220)),
        ("PAUSED", after(220), after(400)),
    ]


def test_a_pause_that_is_hidden_goes_on_while_other_states_hide_it(tmp_path: Path) -> None:
    hidden = changed(160, RunState.RUNNING, RunState.PAUSED, "operator")
    degraded = changed(220, RunState.NEEDS_2FA, RunState.DEGRADED)

    stops = stops_of(tmp_path, STARTED, NEEDED, hidden, degraded)

    assert ("PAUSED", after(160), LASTS) in stops


@pytest.mark.parametrize("scope", [f"{ENTRIES_SCOPE}120C900001.1", REDUCED_SCOPE])
def test_a_day_s_loss_limit_ends_with_its_day_and_a_person_s_does_not(
    tmp_path: Path, scope: str
) -> None:
    reduced = changed(100, RunState.RUNNING, RunState.HALTED, scope)

    [stop] = stops_of(tmp_path, STARTED, reduced)

    midnight = datetime(2026, 11, 20, tzinfo=EXCHANGE_TZ)
    assert stop == ("REDUCING", after(100), LASTS if scope == REDUCED_SCOPE else midnight)


def test_a_day_s_loss_limit_that_ends_before_ends_then(tmp_path: Path) -> None:
    scope = f"{ENTRIES_SCOPE}120C900001.1"
    reduced = changed(100, RunState.RUNNING, RunState.HALTED, scope)
    raised = changed(200, RunState.HALTED, RunState.RUNNING, scope)

    assert stops_of(tmp_path, STARTED, reduced, raised) == [("REDUCING", after(100), after(200))]


@pytest.mark.parametrize(("seconds", "is_told"), [(59.9, False), (60, True)])
def test_a_start_is_told_once_it_takes_a_minute(
    tmp_path: Path, seconds: float, *, is_told: bool
) -> None:
    stops = stops_of(tmp_path, changed(seconds, RunState.STARTING, RunState.RUNNING))

    assert stops == ([("STARTING", after(0), after(seconds))] if is_told else [])


def test_a_start_that_was_killed_is_no_start_while_the_bot_is_off(tmp_path: Path) -> None:
    last = Note(after(90), "BOT", "still waiting", {})

    stops = stops_of(tmp_path, last, again=3_600)

    assert stops == [
        ("STARTING", after(0), after(90)),
        ("NOT_RUNNING", after(90), after(3_600)),
    ]


def test_an_order_that_passed_every_check_and_never_left_is_named(tmp_path: Path) -> None:
    route = {"verb": "GET", "path": "/trading/*/order-book", "times": 0}
    hangs = {
        "match": {**route, "at": "09:20:01", "until": "09:30"},
        "action": {"do": "hang", "seconds": 9},
    }
    project = write_project(
        tmp_path,
        scenario={**QUIET, "faults": [hangs]},
        strategies=[once(wake={"quote": "8s"})],
    )

    story = asyncio.run(tell(project, minutes=1))

    [told] = [each for each in story.shown.all(Decision) if each.verdict is Verdict.EXPIRED]
    assert (told.code, told.request_id) == ("NOT_SENT", "L-0001")
    assert (told.side, told.quantity) == (Side.BUY, 100)
    groups = json.loads(call("decisions", "--why-not", "HPG", "--json", "-c", str(project)).out)
    [row] = [each for each in groups["decisions"] if each["code"] == "NOT_SENT"]
    assert (row["count"], row["verdict"]) == (1, "EXPIRED")
    assert row["why"].startswith("the day order book was read 8.0 s ago, limit 5 s")
    narrator = Narrator()
    lines = [line for each in story.shown.entries for line in narrator.lines_of(each)]
    assert len([line for line in lines if "not sent: the day order book" in line]) == 1
