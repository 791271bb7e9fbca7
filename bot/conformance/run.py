"""The whole run against one server: find out what there is, then assert line by line.

Source: broker open API 0.2.0-preview.3. Nothing is placed, amended or asked by mail unless writes
are wanted.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from random import Random
from typing import Final

from bot.broker.budget import OnWait, RequestBudget
from bot.broker.clock_offset import ClockOffset
from bot.broker.errors import ForbiddenAddress, RateLimited
from bot.broker.http import AsgiApp, Traffic, connect
from bot.broker.waiter import Waiter
from bot.clock import Clock
from bot.config.problems import ExitCode, OperatorMistake
from bot.conformance.access import ME, check_access, check_tiers
from bot.conformance.data import reads, refusals
from bot.conformance.facts import FUND_PATHS, Facts, find_facts
from bot.conformance.finding import Finding, Report, Show, Verdict, judged, nobody
from bot.conformance.orders import check_orders
from bot.conformance.reads import check_read, check_refusal
from bot.conformance.sense import check_sense
from bot.conformance.talk import Key, Talker
from bot.conformance.two_factor import (
    AskCode,
    check_gate,
    check_lock,
    check_revoke,
    sign_in,
)

PER_MINUTE: Final = 500
"""Requests of a run; the least quota of the document is 600."""
_OF_AN_ORDER: Final = "{order_id}"


@dataclass(frozen=True, slots=True)
class ConformancePlan:
    """What to ask whom. `ask_code` None: reads only. `app`: the server is in this process."""

    base_url: str
    key: Key
    account: str = "normal"
    stock: str | None = None
    ask_code: AskCode | None = None
    per_minute: int = PER_MINUTE
    app: AsgiApp | None = None


async def conform(
    plan: ConformancePlan,
    *,
    wire: Clock,
    waiter: Waiter,
    show: Show = nobody,
    on_left: Show = nobody,
    on_wait: OnWait | None = None,
) -> Report:
    """Make the run; `on_wait` hears until when the quota makes it wait.

    Cancelled, or when `show` finds nobody who reads, it clears up what it has placed before it
    ends; `on_left` hears what became of that. Raises OperatorMistake for an unsafe address, no
    answer, a refused key or a limit without end, and the OSError of `show`.
    """
    offset = ClockOffset(wire)
    budget = RequestBudget(
        per_minute=plan.per_minute, waiter=waiter, jitter=Random(1), on_wait=on_wait
    )
    try:
        link = connect(plan.base_url, traffic=Traffic(), app=plan.app)
    except ForbiddenAddress as error:
        raise OperatorMistake.of("E-CFG-043", f"--base-url: {error.reason}") from error
    talker = Talker(link, plan.key, wire=wire, offset=offset, budget=budget, waiter=waiter)
    findings: list[Finding] = []
    unread: OSError | None = None
    try:
        async for finding in _everything(plan, talker, on_left):
            findings.append(finding)
            try:
                show(finding)
            except OSError as error:
                unread = error
                if task := asyncio.current_task():
                    task.cancel()
    except asyncio.CancelledError:
        if unread is None:
            raise
        raise unread from None
    except RateLimited as error:
        text = f"the server limits our requests: {error.reason}"
        raise OperatorMistake.of("E-NET-001", text, ExitCode.UNREACHABLE) from error
    finally:
        await link.close()
    return Report(tuple(findings))


async def _everything(
    plan: ConformancePlan, talker: Talker, on_left: Show
) -> AsyncIterator[Finding]:
    may_write = plan.ask_code is not None
    await _require_an_answer(talker)
    facts = await find_facts(talker, account=plan.account, stock=plan.stock)
    why = facts.absent.get(FUND_PATHS, "")
    what = "the fund paths are there: one description has them, a newer one has not"
    yield judged(
        "4.9 paths", what, is_met=not why, found=why or "so it is", otherwise=Verdict.DRIFT
    )
    for check in (
        check_access(talker, facts, may_post=may_write),
        check_tiers(talker, facts, reads()),
        _reads(talker, facts, may_write=may_write),
        check_sense(talker, facts),
        _refusals(talker, facts),
        _writes(talker, facts, plan.ask_code, on_left),
    ):
        async for finding in check:
            yield finding


async def _require_an_answer(talker: Talker) -> None:
    """Without an answer, or with a key that is refused, there is nothing to find out."""
    reply = await talker.get(ME)
    if reply.status == 0:
        text = f"the server did not answer: {reply}"
        raise OperatorMistake.of("E-NET-001", text, ExitCode.UNREACHABLE)
    if reply.status == 401:
        text = f"the server refuses this key or its signature ({reply})"
        raise OperatorMistake.of("E-CNF-001", text, ExitCode.SECRET)


async def _reads(talker: Talker, facts: Facts, *, may_write: bool) -> AsyncIterator[Finding]:
    """An order's detail is read when there is an order: with writes, later."""
    for read in reads():
        if not (may_write and _OF_AN_ORDER in read.path):
            async for finding in check_read(talker, facts, read):
                yield finding


async def _refusals(talker: Talker, facts: Facts) -> AsyncIterator[Finding]:
    for refusal in refusals():
        yield await check_refusal(talker, facts, refusal)


async def _writes(
    talker: Talker, facts: Facts, ask_code: AskCode | None, on_left: Show
) -> AsyncIterator[Finding]:
    if ask_code is None:
        yield Finding(
            "4.2 writes", "order writes and 2FA", Verdict.SKIPPED, "only reads are wanted"
        )
        return
    for check in (
        check_gate(talker, facts),
        sign_in(talker, ask_code),
        check_orders(talker, facts, on_left=on_left),
    ):
        async for finding in check:
            yield finding
    for read in reads():
        if _OF_AN_ORDER in read.path:
            async for finding in check_read(talker, facts, read):
                yield finding
    for check in (check_lock(talker), check_revoke(talker, facts)):
        async for finding in check:
            yield finding
