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
from bot.broker.link import ORDER_BOUNDS, READ_BOUNDS
from bot.broker.signer import Credentials, SignedRequest
from bot.clock import SystemClock
from bot.domain.account import SubAccount
from bot.protocol.envelope import NoAnswer
from bot.protocol.secret import Secret

KINDS = range(4)
"""Kinds of floods; the last digit of an account, or of a symbol, says which it meets."""
DRIP = 3
DRIP_S, PATIENCE_S = 3.0, 60.0
"""How long an answer may take that never ends, and one that does."""


sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.staging import START, intent  # noqa: E402  # it runs as a script


def peak_kb() -> int:
    """The most memory that this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


async def floods(patient: Broker, dripped: Broker) -> list[str]:
    """Return the result of each answer, kind by kind: depth, day order book, place, cancel."""
    found = [await one for kind in KINDS if kind != DRIP for one in _of_kind(patient, kind)]
    return found + await asyncio.gather(*_of_kind(dripped, DRIP))


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


def _opened(base_url: str, key: str, secret: str, deadline_s: float) -> Broker:
    clock = SystemClock()
    waiter = SystemWaiter(clock)
    return open_broker(
        base_url,
        Credentials(Secret(key), Secret(secret), "flood"),
        wire=clock,
        waiter=waiter,
        budget=RequestBudget(per_minute=3_000, waiter=waiter, jitter=Random(1)),
        bounds=AllBounds(
            read=replace(READ_BOUNDS, deadline_s=deadline_s),
            order=replace(ORDER_BOUNDS, deadline_s=deadline_s),
        ),
    )


async def main(base_url: str, key: str, secret: str) -> None:
    """Read something small, then the floods."""
    patient, dripped = (_opened(base_url, key, secret, each) for each in (PATIENCE_S, DRIP_S))
    for broker in (patient, dripped):
        await broker.client.quote("HPG")
    before_kb = peak_kb()
    reasons = await floods(patient, dripped)
    grown_kb = peak_kb() - before_kb
    for broker in (patient, dripped):
        await broker.close()
    click.echo(json.dumps({"grown_mb": grown_kb / 1024, "reasons": reasons}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
