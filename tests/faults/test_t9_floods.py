"""T9, T10: a gigabyte, a gzip bomb, half an answer and one byte a second cost little memory."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.clock import SimulatedClock, SystemClock
from bot.sandbox.faults.script import FaultScript
from bot.sandbox.sandbox import Sandbox
from bot.sandbox.serve import serve
from tests.faults.strikes import STRIKES
from tests.sandbox.client import RULEBOOK, scenario

GROWTH_MB_MAX = 32
SCRIPT = Path(__file__).with_name("flood_reader.py")
FLOODS: list[dict[str, Any]] = [
    {"do": "huge"},
    {"do": "gzip_bomb"},
    {"do": "truncate", "length": 20},
    {"do": "trickle"},
]
"""By the last digit of the account or the symbol."""
POINTS = {"huge": "before_auth", "gzip_bomb": "before_auth"}
CUT = "RemoteProtocolError: peer closed connection"
TOLD = [
    "Malformed stock depth: wanted at most 65,536 bytes, found more",
    "Malformed todays orders: wanted at most 4,194,304 bytes, found more",
    *["NoAnswer sent=True wanted at most 65,536 bytes, found more"] * 2,
    "Malformed stock depth: wanted at most 65,536 bytes, found more",
    "Malformed todays orders: the body is not UTF-8",
    *["NoAnswer sent=True wanted at most 65,536 bytes, found more"] * 2,
    f"Unreachable stock depth: {CUT}",
    f"Unreachable todays orders: {CUT}",
    *[f"NoAnswer sent=True {CUT}"] * 2,
    "Timeout stock depth: no complete answer within 3 s",
    "Timeout todays orders: no complete answer within 3 s",
    *["NoAnswer sent=True no complete answer within 3 s"] * 2,
]
"""Of each kind: depth, day order book, place, cancel."""


def rules() -> Iterator[dict[str, Any]]:
    """Every answer about the symbol or the account of a kind is that flood."""
    for number, action in enumerate(FLOODS):
        for path in (f"*/AA{number}/order-book", f"*/000900001{number}/*"):
            point = POINTS.get(action["do"])
            yield {"match": {"path": path, "times": 0}, "point": point, "action": action}


@pytest.mark.process
@pytest.mark.wire
async def test_floods_grow_the_memory_by_32_megabytes_at_most(
    record_property: Callable[[str, object], None],
) -> None:
    listed = [{"symbol": f"AA{n}", "exchange": "HOSE", "reference": 27_000} for n in range(4)]
    accounts = [{"id": f"000900001{n}", "depository_number": f"120C90000{n}"} for n in range(4)]
    quoted = {"symbol": "HPG", "exchange": "HOSE", "reference": 27_000}
    played = scenario(symbols=[quoted, *listed], accounts=accounts)
    sandbox = Sandbox(played, RULEBOOK, clock=SimulatedClock(played.starts_at), wire=SystemClock())
    for rule in rules():
        sandbox.add_fault(FaultScript.model_validate(rule))
    given = sandbox.credentials

    async with serve(sandbox) as base_url:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            SCRIPT,
            base_url,
            given.api_key,
            given.api_secret,
            stdout=asyncio.subprocess.PIPE,
        )
        written, _ = await child.communicate()

    seen = json.loads(written)
    assert seen["grown_mb"] <= GROWTH_MB_MAX
    pairs = list(zip(seen["reasons"], TOLD, strict=True))
    assert [found for found, told in pairs if not found.startswith(told)] == []
    record_property(STRIKES, len(pairs))
