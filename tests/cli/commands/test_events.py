"""`bot events`: the story of a day, from a journal at rest."""

import asyncio
import json
import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from bot.cli.commands.events import OVERLAP, followed
from bot.config.problems import ExitCode
from bot.domain.entry import AuthEvent, Entry, Note, RunState, StateChanged
from bot.journal.errors import Holder
from bot.journal.journal import Journal
from bot.journal.reading.events import AUTH_WORDS
from bot.journal.reading.values import EventRow
from bot.journal.writing.lease import acquire
from tests.cli.stage import call, make_project
from tests.journal.facts import T0, after

ROOT = Path(__file__).resolve().parents[3] / "bot"
DAY_S = 86_400
NEXT: list[Entry] = [
    AuthEvent(after(DAY_S), "needed", "OTP_SESSION_EXPIRED", "the session has ended", "L-0009"),
    StateChanged(after(DAY_S), RunState.RUNNING, RunState.NEEDS_2FA, "needs 2FA", "2fa"),
    Note(after(DAY_S), "ALERT", "2FA needed since 09:21", {"alert": "TWO_FACTOR_NEEDED"}),
    AuthEvent(after(DAY_S + 20), "CODE_REQUESTED", "", "sent to d***@example.com"),
    AuthEvent(after(DAY_S + 30), "TYPED", "", "a code, by bot otp"),
    AuthEvent(after(DAY_S + 31), "TAKEN", "", "token …4f2a, by a code, bot otp"),
    AuthEvent(after(DAY_S + 31), "ready", "", "until 23:59"),
    AuthEvent(after(DAY_S + 60), "proved", "", "proved by ORD10000008", "L-0010"),
]


async def _write(url: str, entries: list[Entry]) -> None:
    lease = acquire(url, Holder(1, "test", T0))
    journal = Journal.open(url, epoch=lease.epoch)
    await journal.write(entries)
    await journal.close()
    lease.release()


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("events")
    made = make_project(folder)
    asyncio.run(_write(f"sqlite:///{folder / 'journal.db'}", NEXT))
    return made


def test_what_is_written_while_one_looks_on_is_told_once_whatever_its_order() -> None:
    old, early, late = (
        EventRow(after(second), "state", "HALTED", "", "", f"{second}") for second in (0, 30, 40)
    )
    written = iter([[old], [old, late, late], [old, early, late, late]])
    asked: list[datetime | None] = []

    def look(since: datetime | None) -> list[EventRow]:
        asked.append(since)
        return next(written)

    assert list(followed(look, [old], looks=3, every_s=0)) == [late, late, early]
    assert asked == [old.at - OVERLAP, old.at - OVERLAP, late.at - OVERLAP]


def test_events_go_on_as_lines_of_json(config: Path) -> None:
    ran = call("events", "-f", "--looks", "1", "--json", "-c", str(config))
    whole = json.loads(call("events", "--json", "-c", str(config)).out)["events"]

    assert [json.loads(line) for line in ran.out.splitlines()] == whole


def test_neither_the_number_of_an_account_nor_the_engine_s_own_rows_are_told(
    tmp_path: Path,
) -> None:
    made = make_project(tmp_path)
    scopes = ("base:120C900001.1", "account:120C900001.1")
    told: list[Entry] = [
        StateChanged(after(DAY_S), RunState.RUNNING, RunState.HALTED, "why", "x", scope=scope)
        for scope in scopes
    ]
    asyncio.run(_write(f"sqlite:///{tmp_path / 'journal.db'}", told))

    found = json.loads(call("events", "--json", "--kind", "state", "-c", str(made)).out)["events"]

    assert [row["about"] for row in found] == ["account:…001.1"]


def test_the_second_factor_s_story_of_the_last_day_is_told_in_order(config: Path) -> None:
    ran = call("events", "--kind", "2fa", "-c", str(config))

    assert (ran.code, ran.err) == (ExitCode.DONE, "")
    lines = [re.sub(r" +", " ", line) for line in ran.out.splitlines()]
    assert lines == [
        "TIME KIND WHAT CODE ABOUT TEXT",
        "09:21:00 2fa write refused OTP_SESSION_EXPIRED L-0009 the session has ended",
        "09:21:20 2fa code asked for - - sent to d***@example.com",
        "09:21:30 2fa code typed - - a code, by bot otp",
        "09:21:31 2fa token taken - - token …4f2a, by a code, bot otp",
        "09:21:31 2fa ready - - until 23:59",
        "09:22:00 2fa first write - L-0010 proved by ORD10000008",
        "6 events",
    ]


def test_without_a_kind_states_and_alerts_stand_among_them_by_their_time(config: Path) -> None:
    told = json.loads(call("events", "--json", "-c", str(config)).out)["events"]

    assert [(row["kind"], row["what"]) for row in told[:4]] == [
        ("2fa", "write refused"),
        ("state", "NEEDS_2FA"),
        ("alert", "ALERT"),
        ("2fa", "code asked for"),
    ]
    assert [row["code"] for row in told[:3]] == ["OTP_SESSION_EXPIRED", "", "TWO_FACTOR_NEEDED"]


def test_since_goes_back_to_days_before(config: Path) -> None:
    since = (after(0) - timedelta(hours=1)).isoformat()

    all_of_it = json.loads(call("events", "--since", since, "--json", "-c", str(config)).out)

    assert len(all_of_it["events"]) > len(NEXT)


def test_a_journal_in_which_nothing_happened_has_no_event(tmp_path: Path) -> None:
    ran = call("events", "--kind", "alert", "-c", str(make_project(tmp_path)))

    assert (ran.code, ran.out.splitlines()[-1]) == (ExitCode.DONE, "0 events")


def test_every_row_of_the_second_factor_has_words() -> None:
    sources = "".join(
        (ROOT / path).read_text("utf-8")
        for path in ("runtime/second_factor.py", "engine/two_factor.py", "engine/orders/sends.py")
    )
    literal = set(re.findall(r'_note\("([A-Z_]+)"|AuthEvent\(state.now, "([a-z]+)"', sources))
    used = {name for pair in literal for name in pair if name}

    assert len(used) >= 7
    assert used <= set(AUTH_WORDS)
