"""The interface below the client: one request goes out, one answer or none comes back.

All carriers share what is here: ours for calls that trading waits for (`carrier.py`), httpx for all
others and as the reference (`http.py`), and the direct call of an application in this process
(`in_process.py`). They follow the same rules. Nothing is followed, repeated, stored or unpacked: no
redirects, no retries, no proxies or other settings from the environment, no cookies, no
decompression. A request's target and body are sent as exactly the bytes that were signed. Every
exchange ends by its deadline, stops at its size limit and never raises: a missing answer is a value
that says whether any byte of the request may have left.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from bot.clock import performance_s
from bot.protocol.envelope import LARGE, SMALL, Answer, NoAnswer

IDLE_S_MAX: Final = 4.0
"""A connection idle for longer is not used again: many servers close theirs after 5 s, and a write
must not meet one that is being closed."""
HEAD_BYTES_MAX: Final = 100 * 1024
"""Limit for the head of an answer and for each of its lines; httpx's own limit."""
ALWAYS: Final = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": "vnbot",
}
AFTER_THE_END: Final = "the program ends, and nothing more is sent"
TWO_LENGTHS: Final = "the answer has both Content-Length and Transfer-Encoding"
"""Something in between may see it end elsewhere: RFC 9112, 6.3 (3)."""

AsgiApp = Callable[..., Awaitable[None]]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long one exchange may take in total, and how many bytes of body are read."""

    deadline_s: float
    body_bytes_max: int

    @property
    def connect_s(self) -> float:
        """The time for TCP, and again for TLS: both end before the overall deadline."""
        return self.deadline_s / 3


READ_BOUNDS: Final = Bounds(deadline_s=8.0, body_bytes_max=LARGE.bytes_max)
"""Bounds of any read; each call also has its own size limit."""
DRAIN_S: Final = 0.5
"""How long a close waits for requests that their callers have abandoned."""
ORDER_BOUNDS: Final = Bounds(deadline_s=10.0, body_bytes_max=SMALL.bytes_max)
BURN_BOUNDS: Final = Bounds(deadline_s=4.0, body_bytes_max=SMALL.bytes_max)


Objection = Callable[[], str | None]
"""Called just before the first byte: returns why not to send after all, None to send."""


def nothing_against() -> None:
    """Object to nothing."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What goes out. `target` is percent-encoded ASCII, path and query; headers hold secrets.

    A connection may take seconds to open, so `objection` is called after that.
    """

    method: str
    target: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(default=b"", repr=False)
    objection: Objection = field(default=nothing_against, kw_only=True, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class LateAnswer(NoAnswer):
    """The deadline passed first."""


@dataclass(frozen=True, slots=True)
class UnusableAnswer(NoAnswer):
    """An answer that a retry would not improve: too long, or with two lengths."""


class Unusable(Exception):
    """The answer cannot be read or cannot be trusted; the text says why."""


def too_long(bytes_max: int) -> Unusable:
    """Return the exception for a body beyond its limit."""
    return Unusable(f"wanted at most {bytes_max:,} bytes, found more")


class Link(Protocol):
    """Exchanges with one origin."""

    async def exchange(self, request: HttpRequest, bounds: Bounds) -> Answer | NoAnswer:
        """Send once and read the whole answer. Continues to the end if the caller is cancelled."""

    async def close(self) -> None:
        """Wait for the exchanges under way, then close every connection. Nothing is sent after."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The server of a link: `host` as it is looked up, `name` as in the Host header."""

    scheme: str
    host: str
    port: int
    name: str

    @property
    def is_secure(self) -> bool:
        """True for TLS."""
        return self.scheme == "https"


class Traffic:
    """The requests of one key that are under way, reads and writes together.

    A cancelled caller never cuts off a request: the exchange continues without it, so that the
    answer to an order is read to its end and no pool loses a connection. With `max_concurrent=1`,
    which is for an application in this process, requests start and finish strictly in the order in
    which they were made.
    """

    def __init__(self, *, max_concurrent: int | None = None) -> None:
        self._turn: AbstractAsyncContextManager[object] = (
            nullcontext() if max_concurrent is None else asyncio.Semaphore(max_concurrent)
        )
        self._under_way: set[object] = set()
        self._is_over = asyncio.Event()

    def begin(self, exchange: object) -> None:
        """Count an exchange that needs no task of its own, until `end` is called."""
        self._under_way.add(exchange)

    def end(self, exchange: object) -> None:
        """Count an exchange as over."""
        self._under_way.discard(exchange)
        if not self._under_way:
            self._is_over.set()

    async def carry(self, request: Coroutine[object, object, Result]) -> Result:
        """Run one request to its end, in turn, even when the caller is cancelled meanwhile.

        It runs as its own task under a shield: cancelling an httpx request would leak its place in
        the pool (httpcore issue 1093), and cancelling an application would cut off what it does.
        """

        async def in_turn() -> Result:
            async with self._turn:
                return await request

        task = asyncio.create_task(in_turn())
        self.begin(task)
        task.add_done_callback(self.end)
        return await asyncio.shield(task)

    async def drain(self) -> None:
        """Wait a short while until nothing is under way; abandoned requests may go on
        after that.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                while self._under_way:
                    self._is_over.clear()
                    await self._is_over.wait()


def unconnected_words(error: BaseException, origin: Origin) -> str:
    """Return why no connection came about, in words for a person: what to look at differs.

    A carrier may have wrapped what the system said: the innermost cause counts.
    """
    found = [error]
    while (cause := found[-1].__cause__ or found[-1].__context__) is not None:
        found.append(cause.exceptions[0] if isinstance(cause, ExceptionGroup) else cause)
    name, waits = origin.name, (ssl.SSLWantReadError, ssl.SSLWantWriteError)  # of before the cause
    causes = (each for each in reversed(found) if isinstance(each, OSError))
    match next((each for each in causes if not isinstance(each, waits)), error):
        case ssl.SSLCertVerificationError() as refusal:
            why = refusal.verify_message.rstrip(".")
            return f"the certificate shown by {name} is not good: {why}. It may not be the broker"
        case ssl.SSLEOFError() | ssl.SSLZeroReturnError():
            return f"{name} cut the connection while it was being opened"
        case ssl.SSLError() as refusal:
            return f"{name} offers no TLS that is good enough: {refusal.reason or refusal}"
        case socket.gaierror() as refusal:
            return f"the name {origin.host} was not found: {refusal.strerror or refusal}"
        case ConnectionRefusedError():
            return f"nothing listens at {name}: the connection was refused"
        case ConnectionResetError() | ConnectionAbortedError():
            return f"{name} cut the connection while it was being opened"
        case OSError() as refusal:
            return f"no connection to {name}: {refusal.strerror or refusal}"
    return f"no connection to {name}: {type(error).__name__}: {error}".rstrip(": ")


def ms_since(started_s: float) -> int:
    """Whole milliseconds since a reading of the finest clock."""
    return round((performance_s() - started_s) * 1000)
