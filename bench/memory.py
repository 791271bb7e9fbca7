"""Whether the sandbox's memory stays flat: its resident size over 100,000 requests, in process.

    .venv/bin/python bench/memory.py [--requests 100000]

Reads of depth, quote, day order book and portfolio, and now and then an order that rests and is
cancelled at once, on clocks that advance by 20 ms per request. The day's orders are kept for the
day order book; they are few here, so any growth is a leak. The first fifth is the warm-up: nonces
are remembered for 300 seconds, which is 15,000 requests.
"""

import asyncio
import gc
import json
import os
from collections.abc import MutableMapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from bench.sandbox import DEPTH, ORDER, ORDERS, Signer
from bench.servers import START, sandbox
from bot.clock import SimulatedClock
from bot.sandbox.sandbox import Sandbox

WIRE_START = datetime(2026, 11, 19, 2, 20, tzinfo=UTC)
STEP = timedelta(milliseconds=20)
"""50 per second, below the largest quota (10,000 in 60 s)."""
ORDER_EVERY = 1_000
STOPS = 10
WARM_STOP = 1
READS = (
    DEPTH,
    "/market/quotes/stocks/HPG",
    "/trading/v1/accounts/0009000011/order-book",
    "/trading/v2/sub-accounts/0009000011/portfolio",
)


def resident_mb() -> float:
    """Return the present memory of this process."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class Direct:
    """Calls a sandbox's application without a wire."""

    def __init__(self, served: Sandbox, clock: SimulatedClock, wire: SimulatedClock) -> None:
        given = served.credentials
        facts = {"api_key": given.api_key, "api_secret": given.api_secret}
        self._signer = Signer(facts, wire)
        self._app, self._clocks = served.app, (clock, wire)

    async def log_in(self, code: str) -> None:
        """Get the token that order writes need."""
        two_factor = "/auth/v1/openapi/2fa"
        ticket = await self.call(two_factor + "/request", {"channel": "EMAIL"})
        proof = {"ticket_id": ticket["ticket_id"], "otp_code": code}
        self._signer.token = (await self.call(two_factor + "/verify", proof))["session_token"]

    async def call(
        self, target: str, fields: dict[str, Any] | None = None, method: str | None = None
    ) -> Any:
        """Make one request and return its JSON; raises RuntimeError unless the answer is 200."""
        for clock in self._clocks:
            clock.advance_to(clock.now() + STEP)
        verb, headers, body = self._signer.parts(target, fields, method)
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        await self._app(_scope(verb, target, headers), receive, send)
        if sent[0]["status"] != 200:
            raise RuntimeError(f"{verb} {target}: {sent}")
        return json.loads(sent[1]["body"])


def _scope(method: str, target: str, headers: dict[str, str]) -> dict[str, Any]:
    pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    path = {"path": target, "raw_path": target.encode(), "query_string": b""}
    return {"type": "http", "method": method, "headers": pairs, "client": None, **path}


async def order_and_cancel(direct: Direct) -> None:
    """Place an order that rests, and cancel it."""
    [result] = (await direct.call(ORDERS, ORDER))["result"]
    body = {"sub_account": ORDER["sub_account"]}
    await direct.call(f"{ORDERS}/{result['order_id']}", body, "DELETE")


async def run(count: int, ledger: Path | None) -> None:
    """Make the requests and print the size along the way."""
    clock, wire = SimulatedClock(START), SimulatedClock(WIRE_START)
    served = sandbox(clock, wire, ledger)
    direct = Direct(served, clock, wire)
    await direct.log_in(served.credentials.otp_code)
    sizes = []
    for number in range(count):
        if number % ORDER_EVERY == 0:
            await order_and_cancel(direct)
        await direct.call(READS[number % len(READS)])
        if number % (count // STOPS) == count // STOPS - 1:
            gc.collect()
            sizes.append(resident_mb())
            click.echo(f"{number + 1:7} requests  {sizes[-1]:6.1f} MB")
    click.echo(f"grown by {sizes[-1] - sizes[WARM_STOP]:.1f} MB after the warm-up")
    served.close()


@click.command()
@click.option("--requests", "count", default=100_000, show_default=True)
@click.option("--ledger", type=click.Path(path_type=Path), help="keep a ledger file there")
def main(count: int, ledger: Path | None) -> None:
    """Print the resident size at each tenth of the way."""
    asyncio.run(run(count, ledger))


if __name__ == "__main__":
    main()
