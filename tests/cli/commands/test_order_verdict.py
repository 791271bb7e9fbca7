"""`bot order ID --not-placed` or `--is`: the bot hears it, and its state afterwards is shown."""

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
    ("verdict", "order_id", "reads", "shown"),
    [
        (["--not-placed"], None, 3, "L-0003 was never placed: FAILED"),
        (["--is", "ORD7"], "ORD7", 3, "L-0003 is ORD7: FAILED"),
        (
            ["--not-placed"],
            None,
            10**9,
            "L-0003 was never placed: accepted, but not in the journal yet",
        ),
    ],
)
async def test_the_state_after_the_verdict_is_shown(
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    verdict: list[str],
    order_id: str | None,
    reads: int,
    shown: str,
) -> None:
    asked = list[Request]()
    monkeypatch.setattr(order, "SETTLE_S", 0.5)
    monkeypatch.setattr(order, "open_journal", lambda _: nullcontext(_LateReader(reads)))
    monkeypatch.setattr(order, "find_order", lambda *_: BEFORE)

    async def answer(_: Request) -> Reply:
        return {"ok": True, "status": {"state": "RUNNING", "unknown": []}}

    async def take(request: Request) -> Reply:
        asked.append(request)
        return {"ok": True, "asked_at": "2026-11-19T02:20:00+00:00"}

    sender = {"bot": {"name": "mybot", "mode": "live", "config": str(config)}}
    server = ControlServer(config.parent / "state", {"status": answer, "verdict": take}, sender)
    await server.start()
    words = ("order", "L-0003", *verdict, "--reason", "looked", "-c", str(config))
    try:
        ran = await asyncio.to_thread(call, *words)
    finally:
        await server.stop()

    assert (ran.code, ran.out) == (ExitCode.DONE, f"mybot (live): {shown}\n")
    [request] = asked
    given = {"intent_id": "L-0003", "order_id": order_id, "reason": "looked", "by": "operator"}
    assert {name: request[name] for name in given} == given
