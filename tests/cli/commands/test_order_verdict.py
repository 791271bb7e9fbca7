"""`bot order ID --not-placed`: it shows what the journal says after the verdict."""

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from bot.cli.commands import order
from bot.config.problems import ExitCode
from bot.journal.reading.values import OrderRow
from bot.runtime.control.server import ControlServer
from bot.runtime.control.socket import Reply, Request
from tests.cli.stage import call
from tests.cli.telling.test_order_story import LOST

ENDED = replace(LOST, status="FAILED", send_state="NOT_PLACED", is_open=False)
BEFORE = replace(LOST, send_state="REACHED")


class _LateReader:
    """A journal that has the verdict only after it was read some times."""

    def __init__(self, reads: int) -> None:
        self._reads = reads

    def order(self, _: str) -> OrderRow:
        self._reads -= 1
        return ENDED if self._reads < 0 else BEFORE


@pytest.mark.parametrize(
    ("reads", "shown"),
    [
        (3, "L-0003 was never placed: FAILED"),
        (10**9, "L-0003 was never placed: accepted, but not in the journal yet"),
    ],
)
async def test_the_state_after_the_verdict_is_shown(
    config: Path, monkeypatch: pytest.MonkeyPatch, reads: int, shown: str
) -> None:
    monkeypatch.setattr(order, "SETTLE_S", 0.5)
    monkeypatch.setattr(order, "open_journal", lambda _: nullcontext(_LateReader(reads)))
    monkeypatch.setattr(order, "find_order", lambda *_: BEFORE)

    async def answer(_: Request) -> Reply:
        return {"ok": True, "status": {"state": "RUNNING", "unknown": []}}

    async def take(_: Request) -> Reply:
        return {"ok": True, "asked_at": "2026-11-19T02:20:00+00:00"}

    sender = {"bot": {"name": "mybot", "mode": "live", "config": str(config)}}
    server = ControlServer(config.parent / "state", {"status": answer, "verdict": take}, sender)
    await server.start()
    words = ("order", "L-0003", "--not-placed", "--reason", "looked", "-c", str(config))
    try:
        ran = await asyncio.to_thread(call, *words)
    finally:
        await server.stop()

    assert (ran.code, ran.out) == (ExitCode.DONE, f"mybot (live): {shown}\n")
