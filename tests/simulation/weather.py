"""Bad weather between bot and broker: answers lost, late, doubled, stale, of unknown words.

It stands in front of the sandbox's application and draws from one seeded stream, so a story under
it can be told again. What the scenario's own faults can do is left to them.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random
from typing import Any, Generic, TypeVar

from bot.broker.link import AsgiApp
from bot.clock import Clock
from bot.runtime.worlds.environment import Access, EnvironmentSpec
from tests.story import InProcessEnvironment, in_process

Message = Mapping[str, Any]
BOOK = "/order-book"


@dataclass(frozen=True)
class Exchange:
    """A whole request, to be put to the sandbox, once or again."""

    scope: Mapping[str, Any]
    body: bytes

    @property
    def verb(self) -> str:
        return str(self.scope["method"])

    @property
    def path(self) -> str:
        return str(self.scope["path"])

    async def put_to(self, app: AsgiApp) -> list[Message]:
        """Carry it out and return the messages of its answer."""
        answer: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": self.body, "more_body": False}

        async def send(message: Message) -> None:
            answer.append(message)

        await app(dict(self.scope), receive, send)
        return answer


class Lost(ConnectionResetError):
    """The connection is gone; nobody hears the answer."""


@dataclass
class Weather:
    """Until `until` (market time) it is bad, afterwards fine. `at` is read for every request."""

    app: AsgiApp
    clock: Clock
    until: datetime
    dice: Random
    late: list[tuple[datetime, Exchange]] = field(default_factory=list)
    seen: dict[str, list[tuple[datetime, list[Message]]]] = field(default_factory=dict)
    marks: list[str] = field(default_factory=list)

    async def __call__(
        self,
        scope: Mapping[str, Any],
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        exchange = Exchange(scope, await _whole(receive))
        await self._deliver_late()
        for message in await self._answer(exchange):
            await send(message)

    async def _answer(self, exchange: Exchange) -> list[Message]:
        is_bad = self.clock.now() < self.until
        kind = self._kind(exchange) if is_bad else "fine"
        if kind != "fine":
            self.marks.append(f"{exchange.verb} {kind}")
        answer: list[Message] = await getattr(self, f"_{kind}")(exchange)
        return answer

    def _kind(self, exchange: Exchange) -> str:
        odds = _ODDS.get(exchange.verb, {})
        if exchange.verb == "GET" and BOOK not in exchange.path:
            odds = {"lost": 0.02}
        if exchange.verb == "POST" and not exchange.path.endswith("/orders"):
            odds = {}
        roll = self.dice.random()
        for kind, chance in odds.items():
            roll -= chance
            if roll < 0:
                return kind
        return "fine"

    # ------------------------------------------------------------------------------- the kinds

    async def _fine(self, exchange: Exchange) -> list[Message]:
        answer = await exchange.put_to(self.app)
        if BOOK in exchange.path:
            self.seen.setdefault(exchange.path, []).append((self.clock.now(), answer))
        return answer

    async def _lost(self, exchange: Exchange) -> list[Message]:
        """Carried out, and the answer lost."""
        await exchange.put_to(self.app)
        raise Lost(exchange.path)

    async def _never(self, exchange: Exchange) -> list[Message]:
        """Lost on its way."""
        raise Lost(exchange.path)

    async def _twice(self, exchange: Exchange) -> list[Message]:
        """A proxy duplicates it; the second answer is the one that is received.

        Of two equal requests the second is refused for its nonce, or by the quota, which is checked
        first; the latter leaves a ghost order, as another test shows.
        """
        first = await exchange.put_to(self.app)
        second = await exchange.put_to(self.app)
        return second if _status(second) in {200, 401} else first

    async def _delayed(self, exchange: Exchange) -> list[Message]:
        """Kept by a proxy after the client gave up, and delivered later."""
        after = timedelta(seconds=self.dice.uniform(0, 120))
        self.late.append((self.clock.now() + after, exchange))
        raise Lost(exchange.path)

    async def _stale(self, exchange: Exchange) -> list[Message]:
        """Another node answers from what it knew a while ago."""
        known = self.seen.get(exchange.path, [])
        asked = self.clock.now()
        recent = [answer for at, answer in known if asked - at <= timedelta(seconds=30)]
        return self.dice.choice(recent) if recent else await self._fine(exchange)

    async def _strange(self, exchange: Exchange) -> list[Message]:
        """Rows whose status is a word that nobody knows."""
        return [_with_status(each, "PONDERING") for each in await self._fine(exchange)]

    async def _deliver_late(self) -> None:
        due = [one for at, one in self.late if at <= self.clock.now()]
        self.late = [(at, one) for at, one in self.late if at > self.clock.now()]
        for exchange in due:
            await exchange.put_to(self.app)


_ODDS: Mapping[str, Mapping[str, float]] = {
    "POST": {"lost": 0.12, "never": 0.08, "twice": 0.06, "delayed": 0.1},
    "DELETE": {"lost": 0.15, "never": 0.15, "twice": 0.1, "delayed": 0.1},
    "GET": {"lost": 0.05, "stale": 0.1, "strange": 0.05},
}


@dataclass
class BadReads:
    """Reads of orders that are old, and lists that lack their newest row, or show rows twice."""

    app: AsgiApp
    clock: Clock
    dice: Random
    seen: dict[str, list[tuple[datetime, list[Message]]]] = field(default_factory=dict)

    async def __call__(
        self,
        scope: Mapping[str, Any],
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        exchange = Exchange(scope, await _whole(receive))
        answer = await exchange.put_to(self.app)
        if exchange.verb == "GET" and BOOK in exchange.path and _status(answer) == 200:
            answer = self._spoilt(exchange.path, answer)
        for message in answer:
            await send(message)

    def _spoilt(self, path: str, answer: list[Message]) -> list[Message]:
        past, now = self.seen.setdefault(path, []), self.clock.now()
        past.append((now, answer))
        old = [known for at, known in past if now - at <= LAG]
        rows, roll = _rows(answer), self.dice.random()
        if roll < 0.15:
            return self.dice.choice(old)
        if rows is None or roll > 0.45:
            return answer
        by_age = sorted(rows, key=lambda row: str(row["orderid"]))
        if roll < 0.25:
            return _with_rows(answer, by_age[:-1])
        twins = _rows(self.dice.choice(old)) or []
        return _with_rows(answer, self.dice.sample(both := [*rows, *twins], len(both)))


LAG = timedelta(seconds=30)


def _rows(answer: list[Message]) -> list[dict[str, Any]] | None:
    """Return the rows of a day order book, None for any other answer."""
    found = json.loads(answer[1]["body"]).get("result")
    return found if isinstance(found, list) else None


def _with_rows(answer: list[Message], rows: list[dict[str, Any]]) -> list[Message]:
    content = {**json.loads(answer[1]["body"]), "result": rows}
    headers = [one for one in answer[0]["headers"] if one[0] != b"content-length"]
    body = {**answer[1], "body": json.dumps(content).encode()}
    return [{**answer[0], "headers": headers}, body]


async def _whole(receive: Callable[[], Awaitable[Message]]) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


def _status(answer: list[Message]) -> int:
    return int(answer[0]["status"])


def _with_status(message: Message, status: str) -> Message:
    if message["type"] != "http.response.body":
        return {
            **message,
            "headers": [one for one in message["headers"] if one[0] != b"content-length"],
        }
    content = json.loads(message["body"])
    rows = content.get("result", content.get("data"))
    for row in rows if isinstance(rows, list) else [rows]:
        if isinstance(row, dict) and "status" in row:
            row["status"] = row["status_"] = status
    return {**message, "body": json.dumps(content).encode()}


W = TypeVar("W", bound=Weather)


@dataclass
class BehindWeather(Generic[W]):
    """Makes environments in which the weather stays; `made` has that of each afterwards."""

    make: Callable[[AsgiApp, Clock, datetime, Random], W]
    dice: Random
    made: list[W] = field(default_factory=list)

    def __call__(self, spec: EnvironmentSpec) -> InProcessEnvironment:
        environment = in_process(spec)
        opened, market = environment.open, environment.market

        async def behind(stack: AsyncExitStack, /) -> Access:
            access = await opened(stack)
            assert access.app is not None
            until = market.now() + timedelta(days=1)
            self.made.append(self.make(access.app, market, until, self.dice))
            return replace(access, app=self.made[-1])

        environment.open = behind  # type: ignore[method-assign]
        return environment
