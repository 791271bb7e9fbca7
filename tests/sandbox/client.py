"""A client for the tests of the sandbox: signs with the protocol's own signer, in process."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import httpx

from bot.broker.link import AsgiApp
from bot.clock import SimulatedClock, wire_ms
from bot.config.rulebook import load_rulebook
from bot.domain.rulebook import Rulebook
from bot.protocol.signing import body_sha256, sign
from bot.sandbox.house.checkpoint import CHECKPOINT_EVERY
from bot.sandbox.house.ledger import resumed_at
from bot.sandbox.sandbox import Sandbox
from bot.sandbox.scenario import Scenario

WIRE_START = datetime(2026, 11, 19, 2, 15, tzinfo=UTC)
RULEBOOK = load_rulebook()
ACCOUNT = "0009000011"
EXTENDED = "120C900001.1"
OPENED: list[Sandbox] = []
"""Closed when the test ends."""


LEVELS = {"bids": [[26_950, 1_000], [26_900, 2_000]], "asks": [[27_000, 300], [27_050, 500]]}
DEFAULTS: dict[str, Any] = {
    "name": "still",
    "day": "2026-11-19",
    "start": "09:16:00",
    "symbols": [
        {
            "symbol": "HPG",
            "exchange": "HOSE",
            "reference": 27_000,
            "standstills": [{"at": "09:16", "until": "16:00", **LEVELS}],
        },
        {"symbol": "SHS", "exchange": "HNX", "reference": 21_500},
        {"symbol": "E1VFVN30", "exchange": "HOSE", "kind": "ETF", "reference": 32_500},
    ],
    "accounts": [{"id": ACCOUNT, "cash": 100_000_000, "holdings": {"HPG": 1_000}}],
}


def scenario(**keys: Any) -> Scenario:
    """A still market: HPG at 27,000 with levels of our own choosing, where nobody else trades."""
    return Scenario.model_validate(DEFAULTS | keys)


@dataclass
class Bench:
    """A sandbox, its two clocks and a client that signs."""

    sandbox: Sandbox
    clock: SimulatedClock
    wire: SimulatedClock
    naps: list[float] = field(default_factory=list)
    token: str = ""
    numbers: int = 0

    async def call(
        self,
        method: str,
        target: str,
        body: Mapping[str, Any] | bytes | None = None,
        *,
        headers: Mapping[str, str | None] | None = None,
    ) -> httpx.Response:
        """Send one request, signed as it should be but for `headers` (None: absent)."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode() if body else b""
        merged = self.signed(method, target, content) | dict(headers or {})
        present = {name: value for name, value in merged.items() if value is not None}
        return await answer_of(self.sandbox.app, method, target, present, content)

    def signed(self, method: str, target: str, content: bytes) -> dict[str, str | None]:
        self.numbers += 1
        given, stamp = self.sandbox.credentials, wire_ms(self.wire.now())
        digest = body_sha256(content)
        return {
            "X-FH-APIKEY": given.api_key,
            "X-FH-TIMESTAMP": str(stamp),
            "X-FH-NONCE": f"nonce-{self.numbers}",
            "X-FH-SIGNATURE": sign(
                given.api_secret,
                timestamp_ms=stamp,
                method=method,
                target=target,
                body_sha256=digest,
            ),
            "X-FH-BODYHASH": digest or None,
            "device-id": "test-device",
            "X-FH-2FA-TOKEN": self.token or None,
        }

    async def log_in(self) -> None:
        """Exchange the code for a token."""
        ticket = await self.call("POST", "/auth/v1/openapi/2fa/request", {"channel": "EMAIL"})
        code = {"ticket_id": ticket.json()["ticket_id"], "otp_code": "424242"}
        answer = await self.call("POST", "/auth/v1/openapi/2fa/verify", code)
        self.token = answer.json()["session_token"]

    async def place(self, **fields: Any) -> dict[str, Any]:
        """Place an order and return its one result."""
        answer = await self.call("POST", orders_path(), order_body(**fields))
        assert answer.status_code == 200, answer.text
        (result,) = answer.json()["result"]
        return dict(result)

    async def row(self, order_id: str) -> dict[str, Any]:
        """Return an order's detail row."""
        target = f"/trading/v1/accounts/{ACCOUNT}/order-book/{order_id}"
        return dict((await self.call("GET", target)).json()["data"])

    async def get(self, target: str) -> Any:
        """Return the payload of a read."""
        answer = (await self.call("GET", target)).json()
        return answer.get("data", answer.get("result"))

    def pass_time(self, seconds: float) -> None:
        """Move both clocks."""
        for clock in (self.clock, self.wire):
            clock.advance_to(clock.now() + timedelta(seconds=seconds))
        self.sandbox.advance(self.clock.now())


def orders_path(order_id: str | None = None) -> str:
    path = f"/trading/oa/sub-accounts/{ACCOUNT}/orders"
    return f"{path}/{order_id}" if order_id else path


def order_body(**fields: Any) -> dict[str, Any]:
    return {
        "sub_account": EXTENDED,
        "side": "BUY",
        "symbol": "HPG",
        "quantity": 100,
        "type": "LIMIT",
        "limit_price": 27_000,
        "market_price": None,
        "stock_type": "STOCK",
    } | fields


async def ready(played: Scenario | None = None, ledger: Path | None = None) -> Bench:
    """A sandbox that we have logged in to."""
    made = bench(played, ledger)
    await made.log_in()
    return made


def bench(
    played: Scenario | None = None,
    ledger: Path | None = None,
    seed: int | None = None,
    rulebook: Rulebook = RULEBOOK,
    checkpoint_every: int = CHECKPOINT_EVERY,
    speed: float = 1.0,
) -> Bench:
    """A sandbox with clocks that stand still."""
    played = played or scenario()
    start = resumed_at(ledger) if ledger else None
    clock, wire = SimulatedClock(start or played.starts_at), SimulatedClock(WIRE_START)
    naps: list[float] = []

    async def nap(seconds: float) -> None:
        naps.append(seconds)

    sandbox = Sandbox(
        played,
        rulebook,
        clock=clock,
        wire=wire,
        seed=seed,
        ledger=ledger,
        checkpoint_every=checkpoint_every,
        speed=speed,
        sleep=nap,
    )
    OPENED.append(sandbox)
    return Bench(sandbox, clock, wire, naps)


# ------------------------------------------------------------------------------------ in process


async def answer_of(
    app: AsgiApp, method: str, target: str, headers: Mapping[str, str], content: bytes
) -> httpx.Response:
    """Send one request to an application, like httpx's own transport but without its client."""
    pairs = [(name.lower().encode(), text.encode()) for name, text in headers.items()]
    length = [(b"content-length", str(len(content)).encode())] if content else []
    scope = _line_of(target) | {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "headers": [(b"host", b"sandbox"), *length, *pairs],
        "scheme": "http",
        "server": ("sandbox", None),
        "client": ("127.0.0.1", 123),
        "root_path": "",
    }
    said = _Said(content)
    await app(scope, said.receive, said.send)
    assert said.is_whole.is_set(), "the answer ended before its end"
    return httpx.Response(said.status, headers=said.headers, content=bytes(said.body))


@lru_cache(maxsize=256)
def _line_of(target: str) -> dict[str, object]:
    """Return what a scope says of a target, quoted where a person would have to."""
    url = httpx.URL(f"http://sandbox{target}")
    path = url.raw_path.partition(b"?")[0]
    return {"path": url.path, "raw_path": path, "query_string": url.query}


class _Said:
    """The messages of client and application in one request."""

    def __init__(self, content: bytes) -> None:
        self._chunks = [content]
        self.is_whole = asyncio.Event()
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = bytearray()

    async def receive(self) -> dict[str, object]:
        """Return the body; after the answer, that the client has left."""
        if self._chunks:
            return {"type": "http.request", "body": self._chunks.pop(), "more_body": False}
        await self.is_whole.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Mapping[str, Any]) -> None:
        """Take the head or a part of the body of the answer."""
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], list(message.get("headers", []))
            return
        assert not self.is_whole.is_set(), "an answer has one end"
        self.body += message.get("body", b"")
        if not message.get("more_body", False):
            self.is_whole.set()
