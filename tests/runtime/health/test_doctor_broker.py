"""The doctor's questions to a broker: each row fails for its own reason."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from bot.clock import ScaledClock, SystemClock
from bot.config.rulebook import load_rulebook
from bot.config.settings.load import load_settings
from bot.runtime.health.doctor_broker import look_at_broker
from bot.runtime.health.doctor_here import Finding, Verdict
from bot.sandbox.sandbox import Sandbox
from bot.sandbox.serve import serve
from tests.staging import START, scenario
from tests.story import once, write_project

pytestmark = pytest.mark.wire


class Shifted(SystemClock):
    """A broker's clock that is ahead of ours."""

    def __init__(self, ahead: timedelta) -> None:
        self._ahead = ahead

    def now(self) -> datetime:
        return super().now() + self._ahead


@asynccontextmanager
async def played(
    ahead_s: float = 0, **changes: object
) -> AsyncIterator[tuple[str, Mapping[str, str]]]:
    wire = Shifted(timedelta(seconds=ahead_s))
    sandbox = Sandbox(
        scenario(**changes),
        load_rulebook(),
        clock=ScaledClock(wire, start=START, speed=1.0),
        wire=wire,
    )
    given = sandbox.credentials
    async with serve(sandbox) as base_url:
        yield (
            base_url,
            {"BOT_BROKER__API_KEY": given.api_key, "BOT_BROKER__API_SECRET": given.api_secret},
        )
    sandbox.close()


async def rows(
    folder: Path,
    base_url: str,
    secrets: Mapping[str, str],
    *,
    account: str = ".1",
    symbols: tuple[str, ...] = ("HPG",),
    mode: str = "sandbox",
) -> dict[str, Finding]:
    config = write_project(
        folder,
        scenario="quiet",
        strategies=[once(symbols=list(symbols))],
        broker={"base_url": base_url, "account": account, "requests_per_minute": 600},
    )
    loaded = load_settings(config, environment={**secrets, "BOT_MODE": mode})
    return {each.name: each for each in await look_at_broker(loaded)}


async def test_a_broker_that_takes_the_key_and_knows_the_rest_is_well(tmp_path: Path) -> None:
    async with played() as (base_url, secrets):
        found = await rows(tmp_path, base_url, secrets)

    assert {each.verdict for each in found.values()} == {Verdict.OK}, found
    assert found["account"].found.startswith("…")


async def test_a_broker_out_of_reach_fails_and_the_rest_is_not_asked(tmp_path: Path) -> None:
    secrets = {"BOT_BROKER__API_KEY": "a-key", "BOT_BROKER__API_SECRET": "a-secret"}

    found = await rows(tmp_path, "http://127.0.0.1:9", secrets)

    assert found["broker"].verdict is Verdict.FAIL
    assert "broker.base_url" in found["broker"].fix
    assert {found[name].verdict for name in ("clock", "key", "account", "symbols")} == {
        Verdict.SKIPPED
    }


async def test_a_refused_key_is_told_from_a_broker_that_is_away(tmp_path: Path) -> None:
    async with played() as (base_url, secrets):
        wrong = {**secrets, "BOT_BROKER__API_SECRET": "another-secret"}
        found = await rows(tmp_path, base_url, wrong)

    assert (found["broker"].verdict, found["key"].verdict) == (Verdict.OK, Verdict.FAIL)
    assert "bot secret set api-key" in found["key"].fix


async def test_an_account_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    async with played() as (base_url, secrets):
        found = await rows(tmp_path, base_url, secrets, account="margin")
        played_here = await rows(tmp_path, base_url, secrets, account="margin", mode="paper")

    assert found["account"].verdict is Verdict.FAIL
    assert "bot api sub-accounts" in found["account"].fix
    assert played_here["account"].verdict is Verdict.SKIPPED


async def test_a_symbol_that_the_broker_does_not_know_is_named(tmp_path: Path) -> None:
    async with played() as (base_url, secrets):
        found = await rows(tmp_path, base_url, secrets, symbols=("HPG", "ZZZ"))

    assert found["symbols"].verdict is Verdict.FAIL
    assert found["symbols"].found == "the broker knows no ZZZ"
    assert "strategy file" in found["symbols"].fix


@pytest.mark.parametrize(
    ("ahead_s", "verdict"), [(8, Verdict.WARN), (25, Verdict.FAIL), (60, Verdict.FAIL)]
)
async def test_a_clock_that_is_off_is_measured(
    tmp_path: Path, ahead_s: float, verdict: Verdict
) -> None:
    async with played(ahead_s) as (base_url, secrets):
        found = await rows(tmp_path, base_url, secrets)

    assert found["clock"].verdict is verdict, found
    assert "behind the broker's" in found["clock"].found
    assert found["key"].verdict is Verdict.OK
    assert found["clock"].fix == (
        "set the clock: timedatectl set-ntp true; then restart a bot that runs, as only a start "
        "reads it"
    )


async def test_an_embedded_broker_is_not_asked(tmp_path: Path) -> None:
    loaded = load_settings(
        write_project(tmp_path, scenario="quiet", strategies=[once()]), environment={}
    )

    found = await look_at_broker(loaded)

    assert [each.verdict for each in found] == [Verdict.OK, *[Verdict.SKIPPED] * 4]
