"""`bot secret test` against a broker on a socket: what it says of each key, and with which code."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from bot.config.problems import ExitCode
from bot.runtime.health.doctor_here import Verdict
from tests.cli.stage import Ran, call
from tests.forbidding import forbidding
from tests.runtime.health.test_doctor_broker import played, rows
from tests.staging import QUIET
from tests.story import once, write_project

pytestmark = pytest.mark.wire


KEY, SECRET = "wrong-key-0001", "wrong-secret-0001"


async def secret_test(
    folder: Path, base_url: str, key: str, secret: str, *words: str, **settings: object
) -> Ran:
    """Put both in, as a person does, and ask the broker. Neither is ever printed."""

    broker = {"base_url": base_url, **settings}
    config = write_project(folder, scenario=QUIET, strategies=[once()], mode="paper", broker=broker)
    for name, value in (("api-key", key), ("api-secret", secret)):
        assert call("secret", "set", name, "-", "-c", str(config), stdin=f"{value}\n").code == 0
    ran = await asyncio.to_thread(call, "secret", "test", "-c", str(config), *words)
    assert key not in ran.out + ran.err
    assert secret not in ran.out + ran.err
    return ran


async def test_the_right_key_is_taken_and_nothing_else_is_said(tmp_path: Path) -> None:
    async with played() as (base_url, given):
        ran = await secret_test(tmp_path, base_url, *given.values())
        as_json = await secret_test(tmp_path, base_url, *given.values(), "--json")

    line = f"{tmp_path.name} (paper): 127.0.0.1 accepts the key and its signature\n"
    assert ran == Ran(ExitCode.DONE, line, "")
    fields = json.loads(as_json.out)
    assert (as_json.code, fields["accepted"], fields["host"]) == (0, True, "127.0.0.1")


@pytest.mark.parametrize(
    ("key", "secret", "says"),
    [
        (KEY, None, "user: HTTP 401: Invalid API key."),
        (None, SECRET, "user: HTTP 401: Invalid signature."),
    ],
)
async def test_a_wrong_key_or_secret_is_told_from_the_other(
    tmp_path: Path, key: str | None, secret: str | None, says: str
) -> None:
    async with played() as (base_url, given):
        right_key, right_secret = given.values()
        ran = await secret_test(tmp_path, base_url, key or right_key, secret or right_secret)

    assert ran == Ran(
        ExitCode.SECRET,
        "",
        f"E-SEC-004 the broker refuses our key or its signature: {says} Nothing was sent. "
        "Check the API key and its secret, and the clock of this machine\n",
    )


@pytest.mark.parametrize(
    ("ahead_s", "found"),
    [(60, "(59|6.)\\.. s behind the broker's: no order leaves from 20 s on"),
     (-60, "(59|6.)\\.. s ahead of the broker's: no order leaves from 20 s on"),
     (8, "[78]\\.. s behind the broker's")],
)  # fmt: skip
async def test_a_clock_that_is_off_is_named_and_hides_no_right_key(
    tmp_path: Path, ahead_s: float, found: str
) -> None:
    async with played(ahead_s) as (base_url, given):
        ran = await secret_test(tmp_path, base_url, *given.values())

    says = f"warning: this machine's clock: ours is {found}. Do: set the clock: .*\n"
    assert ran.code == ExitCode.DONE
    assert ran.out.endswith(" accepts the key and its signature\n")
    assert re.fullmatch(says, ran.err), ran.err


async def test_a_clock_that_is_off_hides_no_wrong_secret(tmp_path: Path) -> None:
    async with played(60) as (base_url, given):
        ran = await secret_test(tmp_path, base_url, next(iter(given.values())), SECRET)

    assert ran.code == ExitCode.SECRET
    assert "HTTP 401: Invalid signature" in ran.err


async def test_a_broker_that_is_away_is_no_wrong_key(tmp_path: Path) -> None:
    ran = await secret_test(tmp_path, "http://127.0.0.1:9", KEY, SECRET)

    assert ran.code == ExitCode.UNREACHABLE
    words = "nothing listens at 127.0.0.1:9: the connection was refused"
    assert ran.err.startswith(f"E-NET-001 the broker did not answer: user: {words}")
    assert ran.err.endswith("Nothing was sent.\n")


async def test_a_key_of_another_host_is_sent_nowhere(tmp_path: Path) -> None:
    await secret_test(tmp_path, "https://broker.invalid", KEY, SECRET)
    async with played() as (base_url, _):
        config = tmp_path / "bot.yaml"
        config.write_text(config.read_text().replace("https://broker.invalid", base_url))
        ran = await asyncio.to_thread(call, "secret", "test", "-c", str(config))

    assert ran.code == ExitCode.SECRET
    assert "E-SEC-005" in ran.err


async def test_a_broker_that_forbids_to_read_has_answered(tmp_path: Path) -> None:
    async with forbidding() as base_url:
        ran = await secret_test(tmp_path, base_url, KEY, SECRET)
        given = {"BOT_BROKER__API_KEY": KEY, "BOT_BROKER__API_SECRET": SECRET}
        found = await rows(tmp_path / "doctor", base_url, given)

    asked = "is the key active, may it read, and may it be used from this IP address?"
    assert ran.code == ExitCode.SECRET
    assert ran.err.startswith("E-SEC-004 the broker answered, and refuses to let this key read")
    assert asked in ran.err
    assert (found["broker"].verdict, found["key"].verdict) == (Verdict.OK, Verdict.FAIL)
    assert asked in found["key"].fix
