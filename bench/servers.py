"""The measured servers, each in its own process: a sandbox, and a bare ASGI application.

    python bench/servers.py bare|memory|ledger

prints one JSON line when it listens, and serves until its standard input closes. `bare` reads the
body and answers bytes of the size of the sandbox's own answer, on uvicorn with httptools and
uvloop, which `bot paper serve` uses too; `memory` is the sandbox without a ledger file, `ledger`
one that syncs every order to the disk.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import click
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.loops.uvloop import uvloop_loop_factory

from bot.clock import Clock, ScaledClock, SystemClock
from bot.config.rulebook import load_rulebook
from bot.sandbox.sandbox import Sandbox
from bot.sandbox.scenario import Scenario
from bot.sandbox.serve import credentials_line, run_free, serve

START = datetime(2026, 11, 19, 2, 20, tzinfo=UTC)  # 09:20 in Vietnam, continuous everywhere
SCENARIO = {
    "name": "bench",
    "day": "2026-11-19",
    "start": "09:20:00",
    "quota": "ENTERPRISE",
    "symbols": [
        {"symbol": "HPG", "exchange": "HOSE", "reference": 27_000},
        {"symbol": "SHS", "exchange": "HNX", "reference": 18_500},
    ],
    "accounts": [{"id": "0009000011", "cash": 10**13, "holdings": {"HPG": 1_000}}],
}
BARE_SIZES = {"POST": 520, "GET": 420}
"""Bytes of the sandbox's answers to an order and to a depth request."""


def sandbox(clock: Clock, wire: Clock, ledger: Path | None = None) -> Sandbox:
    """Make a sandbox with two symbols and the largest quota."""
    script = Scenario.model_validate(SCENARIO)
    return Sandbox(script, load_rulebook(), clock=clock, wire=wire, ledger=ledger)


async def bare(scope: Scope, receive: Receive, send: Send) -> None:
    """Read the whole body and answer."""
    while (await receive()).get("more_body"):
        pass
    body = b"x" * BARE_SIZES[scope["method"]]
    headers = [
        (b"content-length", str(len(body)).encode()),
        (b"content-type", b"application/json"),
        (b"date", b"Thu, 19 Nov 2026 02:20:00 GMT"),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def serve_bare() -> AsyncIterator[str]:
    """Serve the bare application by uvicorn with the settings of the sandbox's own server."""
    config = uvicorn.Config(
        bare,
        port=0,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        date_header=False,
        server_header=False,
        timeout_keep_alive=75,
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await serving


async def _input_closed() -> None:
    await asyncio.to_thread(sys.stdin.read)


async def _run_bare() -> None:
    async with serve_bare() as base_url:
        click.echo(json.dumps({"base_url": base_url}))
        await _input_closed()


async def _run_sandbox(ledger: Path | None) -> None:
    wire = SystemClock()
    clock = ScaledClock(wire, start=START, speed=1)
    served = sandbox(clock, wire, ledger)
    async with serve(served) as base_url:
        click.echo(credentials_line(served, base_url))
        pacing = asyncio.create_task(run_free(served, clock))
        await _input_closed()
        pacing.cancel()
        with suppress(asyncio.CancelledError):
            await pacing
    served.close()


def main(kind: str) -> None:
    """Serve one of the kinds."""
    with asyncio.Runner(loop_factory=uvloop_loop_factory()) as runner:
        if kind == "bare":
            runner.run(_run_bare())
            return
        with tempfile.TemporaryDirectory() as folder:
            runner.run(_run_sandbox(Path(folder) / "ledger.jsonl" if kind == "ledger" else None))


if __name__ == "__main__":
    main(sys.argv[1])
