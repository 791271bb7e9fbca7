"""Reads floods in a separate process, whose memory can be measured, and prints the result.

    python flood_reader.py BASE_URL API_KEY API_SECRET

The faults of the server make every answer a flood but that of the quote.
"""

import asyncio
import json
import resource
import sys
from collections.abc import Awaitable, Coroutine
from dataclasses import replace
from pathlib import Path
from random import Random

import click

from bot.broker.broker import AllBounds, Broker, open_broker
from bot.broker.budget import RequestBudget, SystemWaiter
from bot.broker.errors import BrokerError
from bot.broker.link import ORDER_BOUNDS, READ_BOUNDS, Bounds
from bot.broker.signer import Credentials, SignedRequest
from bot.clock import SystemClock
from bot.domain.account import SubAccount
from bot.protocol.envelope import NoAnswer
from bot.protocol.secret import Secret

KINDS = range(4)
"""Kinds of floods; the last digit of an account, or of a symbol, says which it meets."""
DRIP = 3
BOUNDS = Bounds(deadline_s=1.5, body_bytes_max=READ_BOUNDS.body_bytes_max)


sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.staging import START, intent  # noqa: E402  # it runs as a script


def peak_kb() -> int:
    """The most memory that this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


async def floods(broker: Broker) -> list[str]:
    """Return the result of each answer, kind by kind: depth, day order book, place, cancel."""
    found = [await one for kind in KINDS if kind != DRIP for one in _of_kind(broker, kind)]
    return found + await asyncio.gather(*_of_kind(broker, DRIP))


def _of_kind(broker: Broker, kind: int) -> list[Coroutine[None, None, str]]:
    client, writer = broker.client, broker.writer
    broker.two_factor.set_token(Secret("canary-token"))
    account = SubAccount(f"000900001{kind}", "120C900001.1", "Normal")
    return [
        _read(client.depth(f"AA{kind}")),
        _read(client.todays_orders(account, START)),
        _sent(broker, writer.prepare_place(account, intent())),
        _sent(broker, writer.prepare_cancel(account, "ORD1")),
    ]


async def _read(asked: Awaitable[object]) -> str:
    try:
        await asked
    except BrokerError as error:
        return f"{type(error).__name__} {error}"
    return "taken"


async def _sent(broker: Broker, signed: SignedRequest) -> str:
    answer = await broker.writer.send(signed)
    if isinstance(answer, NoAnswer):
        return f"NoAnswer sent={answer.is_sent} {answer.reason}"
    return f"an answer of {len(answer.body) // 2**20} MB"


async def main(base_url: str, key: str, secret: str) -> None:
    """Read something small, then the floods."""
    clock = SystemClock()
    waiter = SystemWaiter(clock)
    budget = RequestBudget(per_minute=3_000, waiter=waiter, jitter=Random(1))
    given = Credentials(Secret(key), Secret(secret), "flood")
    broker = open_broker(
        base_url,
        given,
        wire=clock,
        waiter=waiter,
        budget=budget,
        bounds=AllBounds(read=BOUNDS, order=replace(ORDER_BOUNDS, deadline_s=1.5)),
    )
    await broker.client.quote("HPG")
    before_kb = peak_kb()
    reasons = await floods(broker)
    grown_kb = peak_kb() - before_kb
    await broker.close()
    click.echo(json.dumps({"grown_mb": grown_kb / 1024, "reasons": reasons}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
