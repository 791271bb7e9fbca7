"""A run against a sandbox that somebody else serves, with real time on the wire."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.clock import ScaledClock, SystemClock
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.rulebook import load_rulebook
from bot.config.settings.load import load_settings
from bot.domain.entry import AuthEvent, OrderUpdated
from bot.domain.order import OrderState
from bot.runtime.control.socket import ask
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunOptions
from bot.sandbox.sandbox import Sandbox
from bot.sandbox.serve import run_free, serve
from tests.staging import START, scenario
from tests.story import Shown, once, write_project

pytestmark = pytest.mark.wire
SPEED = 10.0


async def test_an_operator_signs_in_by_the_control_socket_and_an_order_is_filled(
    tmp_path: Path,
) -> None:
    wire, shown = SystemClock(), Shown()
    market = ScaledClock(wire, start=START, speed=SPEED)
    script = scenario().model_copy(update={"speed": SPEED})
    played = Sandbox(script, load_rulebook(), clock=market, wire=wire)
    given = played.credentials
    async with serve(played) as base_url:
        keep_up = asyncio.create_task(run_free(played, market))
        broker = {"base_url": base_url, "requests_per_minute": 3000}
        config = write_project(tmp_path, scenario="quiet", strategies=[once()], broker=broker)
        secrets = {"BOT_BROKER__API_KEY": given.api_key, "BOT_BROKER__API_SECRET": given.api_secret}
        loaded = load_settings(config, environment=secrets)
        running = asyncio.create_task(run_bot(loaded, RunOptions(), shown))
        await _until(lambda: any(each.kind == "needed" for each in shown.all(AuthEvent)))
        await asyncio.to_thread(ask, loaded.state_dir, {"do": "otp_request"})
        code = {"do": "otp_submit", "code": given.otp_code}
        reply = await asyncio.to_thread(ask, loaded.state_dir, code)
        await _until(lambda: OrderState.FILLED in _states(shown))
        await asyncio.to_thread(ask, loaded.state_dir, {"do": "stop"})
        await running
        keep_up.cancel()

    assert reply["ok"] is True


def _states(shown: Shown) -> set[OrderState]:
    return {each.state for each in shown.all(OrderUpdated)}


async def test_a_broker_that_nobody_serves_is_said_and_exits_with_6(tmp_path: Path) -> None:
    broker = {"base_url": "http://127.0.0.1:9", "requests_per_minute": 3000}
    config = write_project(tmp_path, scenario="quiet", strategies=[once()], broker=broker)
    secrets = {"BOT_BROKER__API_KEY": "ak_test_x", "BOT_BROKER__API_SECRET": "y"}
    loaded = load_settings(config, environment=secrets)

    with pytest.raises(OperatorMistake) as mistake:
        await run_bot(loaded, RunOptions(), Shown())

    assert mistake.value.exit_code == ExitCode.UNREACHABLE


async def test_a_secret_that_the_broker_refuses_is_said_and_exits_with_4(tmp_path: Path) -> None:
    clock = SystemClock()
    played = Sandbox(scenario(), load_rulebook(), clock=clock, wire=clock)
    async with serve(played) as base_url:
        config = write_project(
            tmp_path, scenario="quiet", strategies=[once()], broker={"base_url": base_url}
        )
        secrets = {
            "BOT_BROKER__API_KEY": played.credentials.api_key,
            "BOT_BROKER__API_SECRET": "not-the-secret",
        }
        loaded = load_settings(config, environment=secrets)

        with pytest.raises(OperatorMistake) as mistake:
            await run_bot(loaded, RunOptions(), Shown())

    assert mistake.value.exit_code == ExitCode.SECRET
    assert str(mistake.value).startswith("E-SEC-004 the broker refuses our key or its signature")
    assert "not-the-secret" not in str(mistake.value)


async def _until(is_so: Callable[[], bool], deadline_s: float = 40.0) -> None:
    for _ in range(int(deadline_s / 0.02)):
        if is_so():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it never came to be")
