"""`bot modify`: what it says of a change that is done."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from bot.cli.commands import modify
from bot.config.problems import ExitCode
from bot.runtime.control.server import ControlServer
from bot.runtime.control.socket import Reply, Request
from tests.cli.stage import call

ASKED_AT = "2026-11-19T02:20:00+00:00"
CHANGE = {"order_id": "ORD1", "asked_at": ASKED_AT, "field": "quantity", "old": 500, "new": 800}
BESIDE = "-701111"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("done", ""),
        ("done, and its id is now ORD2", "the answer is about another order"),
        (f"done ({BESIDE})", BESIDE),
    ],
)
async def test_a_change_that_is_done_says_so_plainly(
    config: Path, monkeypatch: pytest.MonkeyPatch, text: str, code: str
) -> None:
    monkeypatch.setattr(modify, "find_order", lambda *_: SimpleNamespace(id="ORD1"))
    amend = {**CHANGE, "verdict": "DONE", "code": code, "text": text}

    async def answer(_: Request) -> Reply:
        return {"ok": True, "status": {"state": "RUNNING", "amends": [amend]}}

    async def take(_: Request) -> Reply:
        return {"ok": True, "asked_at": ASKED_AT}

    sender = {"bot": {"name": "mybot", "mode": "live", "config": str(config)}}
    server = ControlServer(config.parent / "state", {"status": answer, "modify": take}, sender)
    await server.start()
    try:
        ran = await asyncio.to_thread(call, "modify", "ORD1", "--qty", "800", "-c", str(config))
    finally:
        await server.stop()

    assert ran.code == ExitCode.DONE
    assert ran.out == f"mybot (live): ORD1 quantity 500 to 800: {text}\n"
