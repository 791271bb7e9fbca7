"""T9: a gigabyte and a gzip bomb are left unread beyond the cap, and cost little memory."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bot.clock import SimulatedClock, SystemClock
from bot.sandbox.fault_rule import FaultScript
from bot.sandbox.sandbox import Sandbox
from bot.sandbox.serve import serve
from tests.sandbox.client import RULEBOOK, scenario

GROWTH_MB_MAX = 32
SCRIPT = Path(__file__).with_name("flood_reader.py")
DEPTH = "/market/quotes/stocks/{}/order-book"
FLOODS: list[tuple[str, dict[str, Any]]] = [
    (DEPTH.format("HPG"), {"do": "huge"}),
    (DEPTH.format("SHS"), {"do": "gzip_bomb"}),
    ("*/orders/ORD1", {"do": "huge"}),
    ("*/orders/ORD2", {"do": "gzip_bomb"}),
]


@pytest.mark.process
@pytest.mark.wire
async def test_a_gigabyte_and_a_bomb_grow_the_memory_by_32_megabytes_at_most() -> None:
    played = scenario()
    sandbox = Sandbox(played, RULEBOOK, clock=SimulatedClock(played.starts_at), wire=SystemClock())
    for path, action in FLOODS:
        rule = {"match": {"path": path, "times": 0}, "point": "before_auth", "action": action}
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
        told, _ = await child.communicate()

    seen = json.loads(told)
    assert seen["grown_mb"] <= GROWTH_MB_MAX
    assert seen["reasons"] == [
        "Unreachable stock_depth: the answer is longer than 16777216 bytes",
        "Malformed stock_depth: the body is not UTF-8",
        "NoAnswer sent=True the answer is longer than 1048576 bytes",
    ]
