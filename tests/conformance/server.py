"""A sandbox to test, intact or with something broken in it, and the run against it."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from bot.broker.broker import connect
from bot.broker.budget import RequestBudget
from bot.broker.clock_offset import ClockOffset
from bot.broker.link import AsgiApp, Traffic
from bot.clock import SimulatedClock
from bot.config.rulebook import load_rulebook
from bot.config.scenario_file import load_scenario
from bot.conformance.finding import ConformanceReport, Finding, Show, Verdict, nobody
from bot.conformance.raw_client import Key, RawClient
from bot.conformance.run import ConformancePlan, conform
from bot.protocol.secret import Secret
from bot.sandbox.sandbox import Sandbox
from bot.sandbox.scenario import Switches
from tests.broker.loopback import JumpingWaiter

CONTINUOUS = datetime(2026, 11, 19, 2, 20, tzinfo=UTC)
ACCOUNT = ".1"
PER_MINUTE = 500

Send = Callable[[Mapping[str, Any]], Awaitable[None]]
Change = Callable[[str, int, Any], tuple[int, Any]]
"""Takes path, status and JSON of an answer; returns what is sent instead."""


@dataclass
class Server:
    """The sandbox of `bot paper serve`, in this process, on a clock that jumps."""

    sandbox: Sandbox
    clock: SimulatedClock
    app: AsgiApp

    @property
    def key(self) -> Key:
        """Its key."""
        given = self.sandbox.credentials
        return Key(Secret(given.api_key), Secret(given.api_secret), "conformance-test")

    @property
    def client(self) -> RawClient:
        """A client that talks to it."""
        offset, waiter = ClockOffset(self.clock), JumpingWaiter(self.clock)
        budget = RequestBudget(per_minute=PER_MINUTE, waiter=waiter, jitter=Random(1))
        link = connect("http://127.0.0.1:1", traffic=Traffic(), app=self.app)
        return RawClient(
            link, self.key, wire=self.clock, offset=offset, budget=budget, waiter=waiter
        )

    async def run(
        self,
        *,
        writes: bool = True,
        of_nonces: bool = False,
        at_market: bool = True,
        per_minute: int = PER_MINUTE,
        show: Show = nobody,
    ) -> ConformanceReport:
        """Do the whole run."""

        async def code(_: str) -> str:
            return self.sandbox.credentials.otp_code

        plan = ConformancePlan(
            "http://127.0.0.1:1",
            self.key,
            account=ACCOUNT,
            ask_code=code if writes else None,
            of_nonces=of_nonces,
            at_market=at_market,
            per_minute=per_minute,
            app=self.app,
        )
        return await conform(plan, wire=self.clock, waiter=JumpingWaiter(self.clock), show=show)


def server(
    change: Change | None = None,
    *,
    at: datetime = CONTINUOUS,
    switches: Mapping[str, object] | None = None,
) -> Server:
    """Play the quiet scenario; `change` breaks its answers."""
    turned = Switches.model_validate(switches or {})
    scenario = load_scenario("quiet", Path()).on(at).model_copy(update={"switches": turned})
    clock = SimulatedClock(scenario.starts_at)
    sandbox = Sandbox(scenario, load_rulebook(), clock=clock, wire=clock)
    return Server(sandbox, clock, changed(sandbox.app, change) if change else sandbox.app)


def changed(app: AsgiApp, change: Change) -> AsgiApp:
    """Wrap an application so that its answers go through `change`."""

    async def wrapped(scope: Mapping[str, Any], receive: object, send: Send) -> None:
        start: dict[str, Any] = {}

        async def altered(message: Mapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
                return
            status, body = change(scope["path"], start["status"], json.loads(message["body"]))
            raw = json.dumps(body).encode()
            kept = [pair for pair in start["headers"] if pair[0] != b"content-length"]
            length = [(b"content-length", str(len(raw)).encode())]
            await send({**start, "status": status, "headers": [*kept, *length]})
            await send({**message, "body": raw})

        await app(scope, receive, altered)

    return wrapped


def verdicts(findings: list[Finding], *ids: str) -> list[Verdict]:
    """Return the verdicts of the named findings."""
    by_id = {finding.id: finding.verdict for finding in findings}
    return [by_id[id_] for id_ in ids]
