"""T10: one byte a second, dripping heads and silence end at the deadline, and hold up nothing."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from bot.broker.broker import AllBounds, Broker, open_broker
from bot.broker.budget import RequestBudget, SystemWaiter
from bot.broker.errors import Timeout
from bot.broker.link import Bounds, LateAnswer
from bot.broker.signer import Credentials
from bot.clock import SimulatedClock, SystemClock
from bot.domain.outcome import Unknown
from bot.domain.quote import Depth
from bot.protocol.classify import classify_place
from bot.protocol.secret import Secret
from bot.sandbox.faults.script import FaultScript
from bot.sandbox.sandbox import Sandbox
from bot.sandbox.serve import serve
from tests.faults.strikes import STRIKES
from tests.sandbox.client import ACCOUNT, RULEBOOK, scenario
from tests.staging import DAY, START, intent

pytestmark = pytest.mark.wire
SHORT = Bounds(deadline_s=3, body_bytes_max=2**20)
LONG = Bounds(deadline_s=30, body_bytes_max=2**20)
SLOW: list[tuple[str, dict[str, Any]]] = [
    ("after_apply", {"do": "trickle"}),  # the head drips too
    ("headers_sent", {"do": "trickle"}),
    ("mid_body", {"do": "trickle"}),
    ("accept", {"do": "hang", "seconds": 600}),
    ("headers_sent", {"do": "hang", "seconds": 600}),
    ("mid_body", {"do": "hang", "seconds": 600}),
]


@asynccontextmanager
async def environment(
    *rules: Mapping[str, Any], read: Bounds = SHORT, symbols: Sequence[str] = ("HPG",)
) -> AsyncIterator[tuple[Sandbox, Broker]]:
    """A served sandbox with faults, and a client of it."""
    listed = [{"symbol": name, "exchange": "HOSE", "reference": 27_000} for name in symbols]
    played, wire = scenario(symbols=listed, accounts=[{"id": ACCOUNT}]), SystemClock()
    sandbox = Sandbox(played, RULEBOOK, clock=SimulatedClock(played.starts_at), wire=wire)
    for rule in rules:
        sandbox.add_fault(FaultScript.model_validate(rule))
    given, waiter = sandbox.credentials, SystemWaiter(wire)
    async with serve(sandbox) as base_url:
        broker = open_broker(
            base_url,
            Credentials(Secret(given.api_key), Secret(given.api_secret), "slow"),
            wire=wire,
            waiter=waiter,
            budget=RequestBudget(per_minute=3_000, waiter=waiter, jitter=Random(1)),
            bounds=AllBounds(read=read, order=SHORT),
        )
        yield sandbox, broker
        await broker.close()


async def test_slow_reads_are_timeouts_while_another_is_answered(
    record_property: Callable[[str, object], None],
) -> None:
    rules = [
        {"match": {"path": f"*/AA{number}/order-book"}, "point": point, "action": action}
        for number, (point, action) in enumerate(SLOW)
    ]
    names = [f"AA{number}" for number in range(len(SLOW) + 1)]

    async with environment(*rules, symbols=names) as (_, broker):
        *slow, good = await asyncio.gather(*map(broker.client.depth, names), return_exceptions=True)

    assert isinstance(good, Depth)
    assert [str(each) for each in slow if isinstance(each, Timeout)] == [
        "stock depth: no complete answer within 3 s"
    ] * len(SLOW)
    record_property(STRIKES, len(SLOW))


@pytest.mark.parametrize(("point", "action"), [SLOW[0], SLOW[3], SLOW[5]])
async def test_a_slow_answer_to_a_place_is_unknown_and_never_sent_again(
    point: str, action: Mapping[str, Any]
) -> None:
    rule = {"match": {"path": "*/orders", "times": 0}, "point": point, "action": action}
    wanted = intent(limit_price=26_950)

    async with environment(rule, read=LONG) as (sandbox, broker):
        ticket = await broker.client.request_otp()
        token = await broker.client.verify_otp(ticket.ticket_id, Secret("424242"))
        broker.two_factor.set_token(token.token, token.expires_at)
        account = sandbox.credentials.accounts[0]
        answer = await broker.writer.send(broker.writer.prepare_place(account, wanted))
        found = await broker.client.todays_orders(account, START)

    assert isinstance(answer, LateAnswer)
    known = frozenset[str]()
    outcome = classify_place(wanted, answer, today=DAY, known_ids=known, account=account)
    assert isinstance(outcome, Unknown)
    assert len(found.reports) == (0 if point == "accept" else 1)
