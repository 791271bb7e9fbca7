"""A tiny broker in this process: gives scripted answers and records the requests."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from bot.broker.broker import Broker, open_broker
from bot.broker.budget import OnWait, RequestBudget
from bot.broker.signer import Credentials
from bot.clock import SimulatedClock
from bot.domain.account import SubAccount
from bot.protocol.secret import Secret
from bot.protocol.signing import SigningKey, body_sha256
from tests.broker.loopback import START, JumpingWaiter

KEY: Final = "ak_test_canary0001"
SECRET: Final = "canary-3f9a1c7e5b2d8064af13c95e70b8d246"
ACCOUNT: Final = SubAccount("0001234567", "120C000008.1", "Normal")

Send = Callable[[object], Awaitable[None]]
Receive = Callable[[], Awaitable[Mapping[str, bytes]]]


@dataclass(frozen=True)
class Reply:
    """One answer. A mapping becomes JSON."""

    body: object = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def raw(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass(frozen=True)
class Asked:
    """One request as the application saw it."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_signed(self) -> bool:
        """True if the signature matches the bytes that came, including the hash."""
        digest = self.headers.get("x-fh-bodyhash", "")
        return digest == body_sha256(self.body) and SigningKey(SECRET).has_signed(
            self.headers["x-fh-signature"],
            timestamp_ms=self.headers["x-fh-timestamp"],
            method=self.method,
            target=self.target,
            body_sha256=digest,
        )


class PlayedBroker:
    """Gives its replies one after another, repeating the last one. `while_asked` is what happens
    between a request and its answer.
    """

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.asked: list[Asked] = []
        self.while_asked: Callable[[], None] = lambda: None

    async def app(self, scope: Mapping[str, object], receive: Receive, send: Send) -> None:
        self.asked.append(Asked(*_line(scope), _headers(scope), (await receive())["body"]))
        self.while_asked()
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        headers = [(name.lower().encode(), value.encode()) for name, value in reply.headers.items()]
        start = {"type": "http.response.start", "status": reply.status, "headers": headers}
        await send(start)
        await send({"type": "http.response.body", "body": reply.raw})


def _line(scope: Mapping[str, object]) -> tuple[str, str]:
    raw_path, query = scope["raw_path"], scope["query_string"]
    assert isinstance(raw_path, bytes)
    assert isinstance(query, bytes)
    return str(scope["method"]), (raw_path + (b"?" + query if query else b"")).decode()


def _headers(scope: Mapping[str, object]) -> dict[str, str]:
    pairs = scope["headers"]
    assert isinstance(pairs, list)
    return {name.decode().lower(): value.decode() for name, value in pairs}


@dataclass
class Desk:
    """A broker's client and its surroundings, on a clock that jumps."""

    broker: Broker
    played: PlayedBroker
    waiter: JumpingWaiter
    clock: SimulatedClock


def desk(*replies: Reply, per_minute: int = 600, on_wait: OnWait | None = None) -> Desk:
    """Wire the real parts to a scripted broker."""
    clock = SimulatedClock(START)
    waiter = JumpingWaiter(clock)
    played = PlayedBroker(*replies)
    budget = RequestBudget(per_minute=per_minute, waiter=waiter, jitter=Random(7), on_wait=on_wait)
    broker = open_broker(
        "http://127.0.0.1",
        Credentials(Secret(KEY), Secret(SECRET), "test-device"),
        wire=clock,
        waiter=waiter,
        budget=budget,
        app=played.app,
    )
    return Desk(broker, played, waiter, clock)
