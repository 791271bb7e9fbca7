"""How soon a pause takes effect under a flood of market data: from the request to the last order
sent.

    .venv/bin/python -m bench.pause [--rounds 20] [--most]

The real bot in real time with a sandbox on loopback, all in this process: 50 strategies that
compute for 20 ms at each quote and request an order, on 20 symbols, and an endless flood of quotes:
10,000 are posted before each request. The request comes over the control socket, like `bot pause`.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

import click

from bot.broker.link import Objection, nothing_against
from bot.broker.signer import SignedRequest
from bot.broker.writes import OrderWriter
from bot.clock import ScaledClock, SystemClock, monotonic_s
from bot.config.rulebook import load_rulebook
from bot.config.settings.load import load_settings
from bot.domain.entry import AuthEvent
from bot.domain.message import QuoteReceived
from bot.protocol.envelope import Answer, NoAnswer
from bot.runtime.control.socket import ask
from bot.runtime.inbox import Urgency
from bot.runtime.parts import Parts
from bot.runtime.run import Run
from bot.runtime.run_controls import RunOptions
from bot.runtime.start.broker import make_environment
from bot.sandbox.sandbox import Sandbox
from bot.sandbox.serve import run_free, serve
from tests.staging import START, scenario
from tests.story import Shown, write_project

SYMBOLS = 20
STRATEGIES = 50
FLOOD = 10_000
SLOW = """
from time import perf_counter

from bot import Strategy


class Slow(Strategy):
    number: int

    def on_quote(self, quote):
        until = perf_counter() + 0.020
        while perf_counter() < until:
            pass
        lots, ticks = 1 + self.number % 10, self.number // 10
        self.buy(100 * lots, limit=quote.floor + 50 * ticks, why="thought about it")
"""
NAMES = [f"AA{chr(65 + number)}" for number in range(SYMBOLS)]


@dataclass(frozen=True, slots=True)
class Found:
    """What came of the floods: from each request to its answer and to the last order begun."""

    answered_ms: list[float]
    last_ms: list[float]
    begun: int
    waiting: int
    passed_over: int


@contextmanager
def stamped(begun: list[float]) -> Iterator[None]:
    """Record each instant at which an order may be sent: its first byte follows."""
    send = OrderWriter.send

    async def noting(
        self: OrderWriter, signed: SignedRequest, objection: Objection = nothing_against
    ) -> Answer | NoAnswer:
        def asked() -> str | None:
            reason = objection()
            if reason is None and signed.method == "POST":
                begun.append(monotonic_s())
            return reason

        return await send(self, signed, asked)

    OrderWriter.send = noting  # type: ignore[method-assign]
    try:
        yield
    finally:
        OrderWriter.send = send  # type: ignore[method-assign]


async def measure(folder: Path, rounds: int) -> Found:
    """Run, flood, pause and resume."""
    wire = SystemClock()
    market = ScaledClock(wire, start=START, speed=1)
    symbols = [
        {"symbol": name, "exchange": "HOSE", "reference": 20_000, "swing_ticks": 0}
        for name in NAMES
    ]
    script = scenario(symbols=symbols, quota="ENTERPRISE").model_copy(update={"speed": 1})
    played = Sandbox(script, load_rulebook(), clock=market, wire=wire)
    given = played.credentials
    strategies = [
        {
            "name": f"slow{number}",
            "use": "slow",
            "symbols": NAMES,
            "params": {"number": number},
            "wake": {"quote": "1s"},
            "order": {"size": {"shares": 100}, "type": "LIMIT", "price": "ask", "expire": "5s"},
            "limits": {"max_order_value": 500_000_000, "max_orders_per_day": 10_000},
        }
        for number in range(STRATEGIES)
    ]
    async with serve(played) as base_url, AsyncExitStack() as stack:
        keep_up = asyncio.create_task(run_free(played, market))
        broker = {"base_url": base_url, "requests_per_minute": 6_000}
        config = write_project(folder, scenario="quiet", strategies=strategies, broker=broker)
        (folder / "strategies" / "slow.py").write_text(SLOW)
        secrets = {"BOT_BROKER__API_KEY": given.api_key, "BOT_BROKER__API_SECRET": given.api_secret}
        loaded = load_settings(config, environment=secrets)
        begun, shown = list[float](), Shown()
        with stamped(begun):
            run = Run(loaded, RunOptions(stop_grace_s=1), shown, stack, make_environment)
            put_together, found = run._assemble, list[Parts]()  # noqa: SLF001

            def keep(*given: Any) -> Parts:
                found.append(put_together(*given))
                return found[0]

            run._assemble = keep  # type: ignore[method-assign,assignment]  # noqa: SLF001
            running = asyncio.create_task(run.to_its_end())
            await until(lambda: any(each.kind == "needed" for each in shown.all(AuthEvent)))
            result = await flooded(found[0], loaded.state_dir, begun, rounds, given.otp_code)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        keep_up.cancel()
        return result


def _grown(begun: list[float], before: int) -> bool:
    return len(begun) > before


async def until(is_so: Callable[[], object]) -> None:
    """Poll every 10 ms."""
    while not is_so():  # noqa: ASYNC110 (nobody tells)
        await asyncio.sleep(0.01)


async def flooded(
    parts: Parts, state_dir: Path, begun: list[float], rounds: int, code: str
) -> Found:
    """Flood and pause, `rounds` times."""

    async def said(word: str, **facts: object) -> float:
        await asyncio.to_thread(ask, state_dir, {"do": word, **facts})
        return monotonic_s()

    await said("otp_request")
    await said("otp_submit", code=code)
    await until(lambda: begun)
    answered, late = list[float](), list[float]()
    for _ in range(rounds):
        before = len(begun)
        for number in range(FLOOD):
            seen = parts.engine.symbol_status(NAMES[number % SYMBOLS]).quote
            assert seen is not None, "the start has read every quote"
            parts.inbox.post(QuoteReceived(parts.environment.market.now(), seen.quote))
        await until(partial(_grown, begun, before))
        asked = monotonic_s()
        answered.append(1000 * (await said("pause") - asked))
        await asyncio.sleep(1.0)
        after = [at for at in begun if at > asked]
        late.append(1000 * (max(after, default=asked) - asked))
        await said("resume")
    waiting, passed = parts.inbox.waiting[Urgency.MARKET], parts.inbox.passed_over
    return Found(answered, late, len(begun), waiting, passed)


def tell(found: Found) -> None:
    """Print the results."""
    for name, times in (("pause answered", found.answered_ms), ("last order begun", found.last_ms)):
        low, high = min(times), max(times)
        p90 = quantiles(times, n=10)[8] if len(times) > 1 else high
        click.echo(
            f"{name:<17} after the ask, ms: min {low:.1f}, median {median(times):.1f}, "
            f"p90 {p90:.1f}, max {high:.1f}"
        )
    click.echo(
        f"{found.begun:,} orders begun; {found.waiting} quotes wait, "
        f"{found.passed_over:,} were passed over"
    )


@click.command()
@click.option("--rounds", default=20, show_default=True)
@click.option("--most", is_flag=True, help="Print only the most that a last order took, in ms.")
def main(rounds: int, most: bool) -> None:  # noqa: FBT001
    """Print how long after a request the last order is sent."""
    with TemporaryDirectory() as folder:
        found = asyncio.run(measure(Path(folder), rounds))
    if most:
        click.echo(max(found.last_ms))
    else:
        tell(found)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
