"""A client written with nothing but curl and openssl works against the served sandbox.

It shares no code with signer, encoders or verifier of this project, so it judges all three.
"""

import asyncio
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bot.clock import SimulatedClock, SystemClock
from bot.config.rulebook import load_rulebook
from bot.sandbox.sandbox import Sandbox
from bot.sandbox.scenario import Scenario
from bot.sandbox.serve import serve

SCRIPT = Path(__file__).parent / "curl_client.sh"
MISSING = [tool for tool in ("sh", "curl", "openssl") if shutil.which(tool) is None]
PLAYED: dict[str, Any] = {
    "day": "2026-11-19",
    "start": "09:16:00",
    "symbols": [{"symbol": "HPG", "exchange": "HOSE", "reference": 27_000}],
}
EXPECTED = """\
bootstrap 200 error_code=0
sub-accounts 200 type=Normal
quote 200 symbol=HPG
without-token 403 error_code=OTP_SESSION_REQUIRED
otp-request 200 masked_destination=d***@example.com
otp-verify 200
place 200 order_status=SENT
detail 200 status=SENT
modify 200 order_quantity=200
cancel 200 order_status=CANCELLED
after-cancel 200 remainqtty=0
"""


async def run_script(base_url: str, sandbox: Sandbox) -> tuple[int | None, str]:
    given = sandbox.credentials
    environment = {
        "PATH": os.environ["PATH"],
        "BASE_URL": base_url,
        "API_KEY": given.api_key,
        "API_SECRET": given.api_secret,
        "OTP_CODE": given.otp_code,
        "SYMBOL": "HPG",
    }
    process = await asyncio.create_subprocess_exec(
        "sh",
        str(SCRIPT),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode, output.decode()


@pytest.mark.wire
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
async def test_curl_and_openssl_are_enough_for_a_whole_order() -> None:
    played = Scenario.model_validate(PLAYED)
    clock = SimulatedClock(played.starts_at)
    sandbox = Sandbox(played, load_rulebook(), clock=clock, wire=SystemClock())

    async with serve(sandbox) as base_url:
        code, output = await run_script(base_url, sandbox)

    assert output == EXPECTED
    assert code == 0
    assert sandbox.now == datetime(2026, 11, 19, 2, 16, tzinfo=UTC)
