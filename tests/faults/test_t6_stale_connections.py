"""T6: a server closes a connection that was kept open, in all ways, as an order is about to use it.

Each order is applied once at most, with both carriers: none is sent again in silence, and what is
said not to have left was never applied. In full some have idled for 61 s before.
"""

import asyncio
from asyncio import StreamReader as Reader
from asyncio import StreamWriter as Writer
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from bot.broker.broker import connect, connect_lanes
from bot.broker.link import Bounds, HttpRequest, Link, Traffic
from bot.protocol.endpoints.endpoint import Lane
from bot.protocol.envelope import Answer, NoAnswer
from tests.broker.loopback import RawServer, raw_server, reply, reset
from tests.faults.strikes import STRIKES, is_in_full, times

FEW, SEED = 72, 6
IDLE_S = (0.0, 0.0, 0.01)
IDLE_IN_FULL_S = (*IDLE_S, 1.0, 3.9, 4.1, 61.0, 61.0)
"""How long a connection has not been used; one of more than 4 s is not used again."""
BOUNDS = Bounds(deadline_s=60.0, body_bytes_max=1000)
VERBS = ("POST", "PUT", "DELETE")
WAYS = (
    "closes when idle",
    "resets when idle",
    "closes on the next read",
    "resets on the next read",
    "closes at the next head",
    "cuts the next answer",
)


async def _serve(reader: Reader, writer: Writer, server: RawServer, applied: Counter[str]) -> None:
    """Answer one request, and treat the connection as that request says; orders are applied."""
    first = await server.read(reader)
    _note(first.line, applied)
    writer.write(reply())
    await writer.drain()
    way = first.headers.get("x-way", "")
    if way == "resets when idle":
        reset(writer)
    if way.endswith("when idle"):
        return
    if way == "closes at the next head":
        await reader.readuntil(b"\r\n\r\n")
        return
    request = await server.read(reader)
    _note(request.line, applied)
    if way == "resets on the next read":
        reset(writer)
    elif way == "cuts the next answer":
        writer.write(reply()[:-1])
        await writer.drain()


def _note(line: str, applied: Counter[str]) -> None:
    verb, target, _ = line.split(" ")
    if verb in VERBS:
        applied[target] += 1


def _link(dice: Random, base_url: str) -> Link:
    traffic = Traffic()
    if dice.random() < 0.5:
        return connect(base_url, traffic=traffic)
    return connect_lanes(base_url, traffic=traffic)[Lane.PLACE]


async def _strike(number: int, base_url: str, applied: Counter[str]) -> str:
    """Use a connection that has gone stale for an order; return what is wrong."""
    dice = Random(SEED * 1_000_000 + number)
    way, verb = WAYS[number % len(WAYS)], VERBS[number // len(WAYS) % len(VERBS)]
    link, target = _link(dice, base_url), f"/orders/{number}"
    warm = await link.exchange(HttpRequest("GET", "/warm", {"X-Way": way}), BOUNDS)
    assert isinstance(warm, Answer)
    await asyncio.sleep(dice.choice(IDLE_IN_FULL_S if is_in_full() else IDLE_S))
    body = b"{}" * (verb != "DELETE")

    answer = await link.exchange(HttpRequest(verb, target, {}, body), BOUNDS)

    await link.close()
    said = answer.reason if isinstance(answer, NoAnswer) else "an answer"
    where = f"seed {SEED}, {number}: {verb}, a server that {way}: {said}"
    if applied[target] > 1:
        return f"{where}, applied {applied[target]} times"
    if isinstance(answer, Answer) and applied[target] != 1:
        return f"{where}, and never applied"
    if isinstance(answer, NoAnswer) and not answer.is_sent:
        return f"{where}, and it says that nothing left, on a server that takes connections"
    return ""


@pytest.mark.wire
async def test_no_order_that_meets_a_stale_connection_is_applied_twice(
    record_property: Callable[[str, object], None],
) -> None:
    applied, wanted = Counter[str](), times("T6", FEW)

    async def script(reader: Reader, writer: Writer, server: RawServer) -> None:
        await _serve(reader, writer, server, applied)

    async with raw_server(script) as server:
        strikes = [_strike(number, server.base_url, applied) for number in range(wanted)]
        found = await asyncio.gather(*strikes)

    assert [each for each in found if each] == []
    assert len(server.requests) <= 2 * wanted
    record_property(STRIKES, wanted)
