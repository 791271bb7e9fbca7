"""A start whose machine's clock is wrong, as before the time service of a boot has set it: the
broker refuses what is signed by it with 401, and the key is right.
"""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from bot.broker import clock_offset
from bot.broker.budget import SystemWaiter
from bot.clock import ScaledClock, SteadyClock, SystemClock
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.rulebook import load_rulebook
from bot.config.settings.load import load_settings
from bot.domain.entry import Note
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunEnd, RunOptions
from bot.runtime.start import retry as asking
from bot.runtime.worlds.environment import Access, EnvironmentSpec, access_of
from bot.runtime.worlds.system import ServedEnvironment
from bot.sandbox.sandbox import Sandbox
from bot.sandbox.serve import serve
from tests.rows import every_row
from tests.staging import START, scenario
from tests.story import Shown, once, write_project

pytestmark = pytest.mark.wire

SHORT = timedelta(seconds=1)
BEHIND, AHEAD = timedelta(seconds=600), -timedelta(hours=7)
PARSED = clock_offset._parsed


@dataclass(frozen=True)
class WrongClock:
    """The wall clock of a machine that is behind, or ahead if `behind` is negative."""

    behind: timedelta

    def now(self) -> datetime:
        return SystemClock().now() - self.behind


class Wrong(ServedEnvironment):
    """Is run by a wrong clock. `is_real`: as with a real broker, whose time is the machine's."""

    def __init__(self, spec: EnvironmentSpec, behind: timedelta, *, is_real: bool) -> None:
        super().__init__(access_of(spec.loaded))
        self._steady = SteadyClock(WrongClock(behind))
        self.wire = self.market = self._steady
        self.waiter = SystemWaiter(self.wire)
        self._is_real = is_real

    async def open(self, stack: AsyncExitStack) -> Access:
        access = await super().open(stack)
        self.has_machines_time = self._is_real
        return access


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "RETRY_S", (0.01,))


async def _run(
    folder: Path,
    behind: timedelta,
    shown: Shown,
    *,
    is_service: bool,
    is_real: bool = False,
    secret: str = "",
) -> RunEnd:
    wire = SystemClock()
    market = ScaledClock(wire, start=START, speed=1)
    played = Sandbox(scenario(), load_rulebook(), clock=market, wire=wire)
    async with serve(played) as base_url:
        config = write_project(
            folder, scenario="quiet", strategies=[once()], broker={"base_url": base_url}
        )
        secrets = {
            "BOT_BROKER__API_KEY": played.credentials.api_key,
            "BOT_BROKER__API_SECRET": secret or played.credentials.api_secret,
        }
        loaded = load_settings(config, environment=secrets)
        options = RunOptions(run_for=SHORT, is_service=is_service, stop_grace_s=1)
        return await run_bot(
            loaded, options, shown, make=lambda spec: Wrong(spec, behind, is_real=is_real)
        )


@every_row("is_service", [True, False])
@every_row(("behind", "words"), [(BEHIND, "behind"), (AHEAD, "ahead of")])
async def test_a_401_that_the_clock_explains_is_not_the_keys(
    tmp_path: Path, behind: timedelta, words: str, *, is_service: bool
) -> None:
    shown = Shown()

    end = await _run(tmp_path, behind, shown, is_service=is_service)

    assert end.reason == "1 s are over"
    asked_again = [text for text in shown.troubles if "asks again" in text]
    assert len(asked_again) == 2
    assert all(text.startswith("our clock is ") for text in asked_again)
    assert all(f" s {words} the broker's, which refuses what is" in text for text in asked_again)
    alerts = [note for note in shown.all(Note) if note.numbers.get("alert") == "CLOCK_OFFSET"]
    assert [note.numbers["are_orders_held"] for note in alerts] == [True]


@every_row("is_service", [True, False])
@every_row("behind", [BEHIND, AHEAD])
async def test_a_wrong_secret_by_a_wrong_clock_is_the_secret_in_the_end(
    tmp_path: Path, behind: timedelta, *, is_service: bool
) -> None:
    shown = Shown()

    with pytest.raises(OperatorMistake) as ended:
        await _run(tmp_path, behind, shown, is_service=is_service, secret="not-the-secret")

    assert ended.value.exit_code == ExitCode.SECRET
    assert str(ended.value).startswith("E-SEC-004 the broker refuses our key or its signature")
    assert len(shown.troubles) == (4 if is_service else 2), "as often as the clock may explain it"


async def test_a_wrong_secret_by_a_right_clock_ends_a_service_at_once(tmp_path: Path) -> None:
    shown = Shown()

    with pytest.raises(OperatorMistake) as ended:
        await _run(tmp_path, timedelta(), shown, is_service=True, secret="not-the-secret")

    assert (ended.value.exit_code, shown.troubles) == (ExitCode.SECRET, [])


@every_row("is_service", [True, False])
async def test_a_clock_that_was_set_during_the_start_is_read_by_another_one(
    tmp_path: Path, *, is_service: bool
) -> None:
    shown = Shown()

    with pytest.raises(OperatorMistake, match="clock was set while the bot started") as ended:
        await _run(tmp_path, BEHIND, shown, is_service=is_service, is_real=True)

    assert ended.value.problems[0].code == "E-NET-004"
    assert ended.value.exit_code == ExitCode.UNREACHABLE, "which starts a service again"
    assert shown.entries == []


@every_row("is_service", [True, False])
async def test_a_date_that_is_wrong_on_every_answer_holds_no_start_whose_signatures_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_service: bool
) -> None:
    def wrong(date: str) -> datetime | None:
        return None if (read := PARSED(date)) is None else read + BEHIND

    monkeypatch.setattr(clock_offset, "_parsed", wrong)
    shown = Shown()

    async with asyncio.timeout(20):
        end = await _run(tmp_path, timedelta(), shown, is_service=is_service, is_real=True)

    assert (end.reason, [text for text in shown.troubles if "no run begins" in text]) == (
        "1 s are over",
        [],
    )
