"""The whole run against one server: find what it has, then assert line by line.

Source: broker open API 0.2.0-preview.3. Nothing is placed, amended or mailed unless writes are
requested. A signal ends a run: the first stops the checks and leaves time for the cleanup, a second
one shortens that. Both times are bounded, and a request under way has its deadline: no broker can
keep the process from ending.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from bot.broker.broker import connect
from bot.broker.budget import OnWait, RequestBudget, Waiter
from bot.broker.clock_offset import ClockOffset
from bot.broker.errors import ForbiddenAddress, RateLimited
from bot.broker.link import AsgiApp, Traffic
from bot.clock import Clock
from bot.config.problems import ExitCode, OperatorMistake
from bot.conformance.access import ME, check_access, check_nonce_memory, check_tiers
from bot.conformance.content import check_content
from bot.conformance.data import Read, Refusal
from bot.conformance.facts import FUND_PATHS, find_facts
from bot.conformance.finding import (
    ConformanceReport,
    Finding,
    Show,
    Verdict,
    judged,
    nobody,
    skipped,
)
from bot.conformance.orders import check_orders
from bot.conformance.raw_client import Key, RawClient
from bot.conformance.reads import check_read, check_refusal
from bot.conformance.two_factor import (
    AskCode,
    check_incomplete,
    check_lock,
    check_revoke,
    sign_in,
)

PER_MINUTE: Final = 500
"""Requests of a run; the document's smallest quota is 600."""
_OF_AN_ORDER: Final = "{order_id}"


@dataclass(frozen=True, slots=True)
class ConformancePlan:
    """Which server, and what to check.

    `ask_code` None: reads only. `of_nonces`: only how it keeps nonces. `at_market`: try also
    what trades if it is not refused. `app`: the server is in this process.
    """

    base_url: str
    key: Key
    account: str = "normal"
    stock: str | None = None
    ask_code: AskCode | None = None
    of_nonces: bool = False
    at_market: bool = False
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
) -> ConformanceReport:
    """Make the run; `on_wait` gets until when the quota makes it wait.

    If cancelled, or if `show` has lost its reader, it cleans up what it has placed before it ends;
    `on_left` gets the result of that. Raises OperatorMistake for an unsafe address, no answer, a
    refused key or a limit without end, and the OSError of `show`.
    """
    offset = ClockOffset(wire)
    budget = RequestBudget(
        per_minute=plan.per_minute, waiter=waiter, jitter=Random(1), on_wait=on_wait
    )
    try:
        link = connect(plan.base_url, traffic=Traffic(), app=plan.app)
    except ForbiddenAddress as error:
        raise OperatorMistake.of("E-CFG-043", f"--base-url: {error.reason}") from error
    client = RawClient(link, plan.key, wire=wire, offset=offset, budget=budget, waiter=waiter)
    findings: list[Finding] = []
    unread: OSError | None = None
    try:
        reply = await client.get(ME)
        if reply.status == 0:
            text = f"the server did not answer: {reply}"
            raise OperatorMistake.of("E-NET-001", text, ExitCode.UNREACHABLE)
        if reply.status == 401:
            text = f"the server refuses this key or its signature ({reply})"
            raise OperatorMistake.of("E-CNF-001", text, ExitCode.SECRET)
        is_whole = not plan.of_nonces
        checks = _checks(plan, client, on_left) if is_whole else check_nonce_memory(client)
        async for finding in checks:
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
    return ConformanceReport(tuple(findings))


async def _checks(
    plan: ConformancePlan, client: RawClient, on_left: Show
) -> AsyncIterator[Finding]:
    facts = await find_facts(client, account=plan.account, stock=plan.stock)
    why = facts.absent.get(FUND_PATHS, "")
    what = "the server has the fund paths, which one description has and a newer one lacks"
    yield judged("4.9 paths", what, is_met=not why, found=why or "there", otherwise=Verdict.DRIFT)
    async for finding in check_access(client, facts, may_post=plan.ask_code is not None):
        yield finding
    async for finding in check_tiers(client, facts):
        yield finding
    # an order's detail is read once there is an order: later, with the writes
    for read in Read.rows():
        if plan.ask_code is None or _OF_AN_ORDER not in read.path:
            async for finding in check_read(client, facts, read):
                yield finding
    async for finding in check_content(client, facts):
        yield finding
    for refusal in Refusal.rows():
        yield await check_refusal(client, facts, refusal)
    if plan.ask_code is None:
        yield skipped("4.2 writes", "order writes and 2FA", "only reads were requested")
        return
    for check in (
        check_incomplete(client, facts),
        sign_in(client, plan.ask_code),
        check_orders(client, facts, at_market=plan.at_market, on_left=on_left),
        *(check_read(client, facts, read) for read in Read.rows() if _OF_AN_ORDER in read.path),
        check_lock(client),
        check_revoke(client, facts),
    ):
        async for finding in check:
            yield finding


SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
CLEANUP_S_MAX: Final = 60.0
AGAIN_S_MAX: Final = 5.0


class Interrupted(Exception):
    """A signal has ended the run, which has cleaned up as far as possible."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.number = number


async def until_signal(
    run: Coroutine[Any, Any, ConformanceReport],
    on_signal: Callable[[signal.Signals], None],
    *,
    again_s: float = AGAIN_S_MAX,
) -> ConformanceReport:
    """Make the run and return its report; `on_signal` gets each signal. Raises Interrupted."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(run)
    seen: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        if not seen:
            task.cancel()
        loop.call_later(again_s if seen else CLEANUP_S_MAX, task.cancel)
        seen.append(number)
        with suppress(OSError):  # the terminal is gone
            on_signal(number)

    is_by_nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    for number in SIGNALS[:-1] if is_by_nohup else SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except (asyncio.CancelledError, OSError):
        if not seen:
            raise
        raise Interrupted(seen[0]) from None
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
