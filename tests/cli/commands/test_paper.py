"""`bot paper serve`: the first line on stdout is its JSON, and SIGTERM ends it cleanly."""

import json
import signal
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import httpx
import pytest
from pydantic import SecretStr

from bot.config.problems import ExitCode
from bot.config.scenario_file import load_scenario
from bot.runtime.worlds.standalone import with_key
from tests.cli.stage import call
from tests.processes import BotProcess

pytestmark = pytest.mark.process


def test_the_first_line_is_the_address_and_the_keys(tmp_path: Path) -> None:
    server = BotProcess("paper", "serve", "--port", "0", HOME=str(tmp_path))
    try:
        given = json.loads(server.stdout.readline())
        refused = _status_of(given["base_url"] + "/")
        server.send_signal(signal.SIGTERM)
        rest, talk = server.communicate()
    finally:
        server.end()

    assert "served by httptools on uvloop" in talk
    assert list(given) == ["base_url", "api_key", "api_secret", "otp", "user_id", "accounts"]
    assert refused >= 400
    assert (server.returncode, rest) == (ExitCode.DONE, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_set", [False, True])
def test_nobody_can_know_the_key_of_a_served_sandbox_unless_its_file_says_it(is_set: bool) -> None:
    plain = load_scenario("quiet", Path.cwd())
    key = SecretStr("ak_test_of_the_file")
    scenario = plain.model_copy(update={"api_key": key}) if is_set else plain

    first, second = with_key(scenario), with_key(scenario)

    assert (first.key_text == "ak_test_of_the_file") is is_set
    assert (first.key_text == second.key_text) is is_set
    assert first.key_text.startswith("ak_test_")
    assert first.secret_text != second.secret_text != plain.secret_text
    assert len(first.secret_text) == 64


def _status_of(url: str) -> int:
    try:
        with urlopen(url, timeout=60) as answer:  # noqa: S310 - loopback
            status: int = answer.status
            return status
    except HTTPError as error:
        with error:
            return error.code


def test_a_sandbox_that_is_started_in_the_afternoon_has_had_a_morning(tmp_path: Path) -> None:
    story = tmp_path / "one.yaml"
    story.write_text("symbols: [{symbol: HPG, exchange: HOSE, reference: 27_000}]\n")
    arguments = ("--scenario", str(story), "--now", "2026-11-19T14:35")
    server = BotProcess("paper", "serve", "--port", "0", *arguments)
    try:
        given = json.loads(server.stdout.readline())
        address = f"{given['base_url']}/market/quotes/stocks/HPG"
        quote = httpx.get(address, headers={"X-FH-APIKEY": given["api_key"]}).json()["data"]
    finally:
        server.end()

    assert quote["low"] <= quote["open"] <= quote["high"]
    assert quote["volume"] > 0
    assert quote["updated_at"].startswith("2026-11-19T14:35:0")


def test_a_bad_time_is_a_wrong_command_line() -> None:
    ran = call("paper", "serve", "--now", "noon")

    assert (ran.code, ran.out) == (ExitCode.USAGE, "")


@pytest.mark.parametrize("speed", ["inf", "nan", "1e300", "0", "-1"])
def test_a_speed_that_no_clock_can_have_is_a_wrong_command_line(speed: str) -> None:
    ran = call("paper", "serve", "--port", "0", "--speed", speed)

    assert (ran.code, ran.out) == (ExitCode.USAGE, "")
    assert "--speed" in ran.err


def test_a_day_that_was_not_recorded_is_refused(tmp_path: Path) -> None:
    (tmp_path / "HPG.csv").write_text(
        "time,open,high,low,close,volume\n2026-11-19 09:15,27000,27100,26950,27050,5000\n"
    )
    symbol = "{symbol: HPG, exchange: HOSE, reference: 27_000, replay: minutes}"
    story = tmp_path / "replayed.yaml"
    story.write_text(f"day: 2026-11-19\nreplay: {{minutes: .}}\nsymbols:\n  - {symbol}\n")

    ran = call("paper", "serve", "--scenario", str(story), "--now", "2026-11-20T09:00:00")

    assert (ran.code, ran.out) == (ExitCode.CONFIG, "")
    assert "replays what was recorded from 2026-11-19" in ran.err


def test_an_unknown_scenario_names_those_that_there_are() -> None:
    ran = call("paper", "serve", "--scenario", "nope", "--port", "0")

    assert ran.code == ExitCode.CONFIG
    assert "demo" in ran.err


def test_a_day_outside_the_calendar_is_refused() -> None:
    ran = call("paper", "serve", "--port", "0", "--now", "2031-01-06T10:00:00")

    assert ran.code == 3
    assert "E-MKT-005 --now 2031-01-06: the calendar covers 2024 to 2027" in ran.err
