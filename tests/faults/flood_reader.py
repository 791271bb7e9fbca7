"""Reads floods in a process of its own, whose memory can be measured, and prints what came of it.

    python flood_reader.py BASE_URL API_KEY API_SECRET

The faults of the server make every answer a flood but that of the quote.
"""

import asyncio
import json
import resource
import sys
from random import Random

import click

from bot.broker.broker import Broker, open_broker
from bot.broker.budget import RequestBudget
from bot.broker.errors import BrokerError
from bot.broker.signer import Credentials
from bot.broker.waiter import SystemWaiter
from bot.clock import SystemClock
from bot.domain.account import SubAccount
from bot.protocol.answer import NoAnswer
from bot.protocol.secret import Secret

ACCOUNT = SubAccount("0009000011", "120C900001.1", "Normal")


def peak_kb() -> int:
    """The most memory that this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


async def floods(broker: Broker) -> list[str]:
    """Return why each answer was not taken."""
    reasons = []
    for symbol in ("HPG", "SHS"):
        try:
            await broker.client.depth(symbol)
        except BrokerError as error:
            reasons.append(f"{type(error).__name__} {error}")
    for order_id in ("ORD1", "ORD2"):
        answer = await broker.writer.send(broker.writer.prepare_cancel(ACCOUNT, order_id))
        if isinstance(answer, NoAnswer):
            reasons.append(f"NoAnswer sent={answer.is_sent} {answer.reason}")
    return reasons


async def main(base_url: str, key: str, secret: str) -> None:
    """Read something small, then the floods."""
    clock = SystemClock()
    waiter = SystemWaiter(clock)
    budget = RequestBudget(per_minute=3_000, waiter=waiter, jitter=Random(1))
    given = Credentials(Secret(key), Secret(secret), "flood")
    broker = open_broker(base_url, given, wire=clock, waiter=waiter, budget=budget)
    await broker.client.quote("HPG")
    before_kb = peak_kb()
    reasons = await floods(broker)
    grown_kb = peak_kb() - before_kb
    await broker.close()
    click.echo(json.dumps({"grown_mb": grown_kb / 1024, "reasons": reasons}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
