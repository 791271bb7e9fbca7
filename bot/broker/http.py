"""Bytes over HTTP/1.1: one request, one answer or none. The one module that imports httpx.

It speaks to the transport below httpx's client, so there is nothing to switch off and nothing that
could come back: no redirects, no retries, no proxies or other settings from the environment, no
cookies, no decompression. A request's target and body go out as the very bytes that were signed.
Every exchange ends by its deadline, stops at its size limit and never raises: an answer that did
not come is a value that says whether any byte of the request may have left.
"""

import asyncio
import importlib.util
import ipaddress
import ssl
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import httpx

from bot.broker.errors import ForbiddenAddress
from bot.clock import performance_s
from bot.protocol.answer import Answer, NoAnswer
from bot.protocol.sizes import LARGE, SMALL

IDLE_S_MAX: Final = 4.0
"""A connection idle for longer is not used again: many servers close theirs after 5 s, and a write
must not meet one that is being closed."""
CONNECTIONS_MAX: Final = 20
_FIRST_BYTE: Final = "http11.send_request_headers.started"
_ALWAYS: Final = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": "vnbot",
}

AsgiApp = Callable[..., Awaitable[None]]
Message = MutableMapping[str, Any]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long one exchange may take in all, and how many bytes of body are read."""

    deadline_s: float
    body_bytes_max: int

    @property
    def connect_s(self) -> float:
        """The share for TCP, and again for TLS: both end before the deadline cuts them off."""
        return self.deadline_s / 3


READ_BOUNDS: Final = Bounds(deadline_s=8.0, body_bytes_max=LARGE.bytes_max)
"""Of any read; each call also has a size limit of its own."""
ORDER_BOUNDS: Final = Bounds(deadline_s=10.0, body_bytes_max=SMALL.bytes_max)
BURN_BOUNDS: Final = Bounds(deadline_s=4.0, body_bytes_max=SMALL.bytes_max)


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What goes out. `target` is percent-encoded ASCII, path and query; headers hold secrets."""

    method: str
    target: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class LateAnswer(NoAnswer):
    """The deadline passed first."""


@dataclass(frozen=True, slots=True)
class UnusableAnswer(NoAnswer):
    """An answer came that asking again would not improve: too long, or with two lengths."""


class _Unusable(Exception):
    """What came can't be read or can't be believed; the text says why."""


class Traffic:
    """The requests of one key that are under way, reads and writes together.

    Every request is a task of its own under a shield: a caller that goes away never cuts off a
    request, so the answer to an order is never thrown away and no connection is lost from the pool
    (cancelling an httpx request leaks its place there: httpcore issue 1093). With
    `max_concurrent=1` requests start and finish strictly in the order in which they were made.
    """

    def __init__(self, *, max_concurrent: int | None = None) -> None:
        self._turn: AbstractAsyncContextManager[object] = (
            nullcontext() if max_concurrent is None else asyncio.Semaphore(max_concurrent)
        )
        self._under_way: set[asyncio.Task[object]] = set()

    @property
    def in_flight(self) -> int:
        """Requests made and not yet answered, including those that wait for their turn."""
        return len(self._under_way)

    async def carry(self, request: Coroutine[object, object, Result]) -> Result:
        """Run one request to its end, in turn, even when the caller is cancelled meanwhile."""

        async def in_turn() -> Result:
            async with self._turn:
                return await request

        task = asyncio.create_task(in_turn())
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def drain(self) -> None:
        """Wait until nothing is under way; every request has a deadline of its own."""
        while self._under_way:
            await asyncio.wait(set(self._under_way))


def connect(base_url: str, *, traffic: Traffic, app: AsgiApp | None = None) -> "Link":
    """Make a link with connections of its own; with `app`, to an ASGI application in this process.

    Raises ForbiddenAddress unless `base_url` is https, or http to a loopback host, without a path.
    """
    origin = _origin_of(base_url)
    # httpx and httpcore look for sniffio up to four times a request. Where it isn't installed, each
    # look searches the whole path again, a third of the time of a request; None says that it isn't
    # there. It is said only here, by when strategies have imported whatever they need.
    if importlib.util.find_spec("sniffio") is None:
        sys.modules["sniffio"] = None  # type: ignore[assignment]
    if app is not None:
        return Link(origin, traffic, lambda: httpx.ASGITransport(_breaking_off(app)), is_sent=True)
    make = partial(
        httpx.AsyncHTTPTransport,
        verify=_tls() if origin.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        trust_env=False,
        limits=httpx.Limits(
            max_connections=CONNECTIONS_MAX,
            max_keepalive_connections=CONNECTIONS_MAX,
            keepalive_expiry=IDLE_S_MAX,
        ),
        retries=0,
    )
    return Link(origin, traffic, make, is_sent=False)


def _origin_of(base_url: str) -> httpx.URL:
    try:
        parts = urlsplit(base_url)
        _ = parts.port
    except ValueError as error:
        raise ForbiddenAddress("base_url", f"{error}; write https://HOST") from error
    if parts.path.strip("/") or parts.query or parts.fragment or parts.username:
        raise ForbiddenAddress("base_url", "give scheme, host and port only")
    if not parts.hostname:
        raise ForbiddenAddress("base_url", "no host in it; write https://HOST")
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(parts.hostname)):
        raise ForbiddenAddress("base_url", "only https, or http to this machine, is allowed")
    return httpx.URL(f"{parts.scheme}://{parts.netloc}")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _tls() -> ssl.SSLContext:
    """Python itself would write all keys to the file that SSLKEYLOGFILE names."""
    context = httpx.create_ssl_context(verify=True, trust_env=False)
    context.keylog_filename = None  # type: ignore[assignment]  # which turns it off
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _breaking_off(app: AsgiApp) -> AsgiApp:
    """Make an application that stops in mid-answer break the connection, as a server would.

    httpx takes that for a bug of ours and fails an assertion.
    """

    async def call(
        scope: Message, receive: Callable[[], Awaitable[Message]], send: AsgiApp
    ) -> None:
        is_whole = False

        async def watched(message: Message) -> None:
            nonlocal is_whole
            is_whole = message["type"] == "http.response.body" and not message.get("more_body")
            await send(message)

        await app(scope, receive, watched)
        if not is_whole:
            raise ConnectionError("the answer ended before its end")

    return call


@dataclass(eq=False, slots=True)
class _Pool:
    """Connections and the number of their users; the last user of a retired pool closes it."""

    transport: httpx.AsyncBaseTransport
    users: int = 0
    is_retired: bool = False

    async def leave(self) -> None:
        """One user less."""
        self.users -= 1
        if self.is_retired and self.users == 0:
            await self.transport.aclose()


class Link:
    """Exchanges with one origin over a pool that is replaced whenever a deadline cut into it.

    `is_sent` is what a request begins with: true without a wire, where no one can say which bytes
    have left.
    """

    def __init__(
        self,
        origin: httpx.URL,
        traffic: Traffic,
        make: Callable[[], httpx.AsyncBaseTransport],
        *,
        is_sent: bool,
    ) -> None:
        self._origin = origin
        self._traffic = traffic
        self._make = make
        self._is_sent = is_sent
        self._pool = _Pool(make())

    async def exchange(self, request: HttpRequest, bounds: Bounds) -> Answer | NoAnswer:
        """Send once and read the whole answer. Goes on to its end when the caller is cancelled."""
        return await self._traffic.carry(self._exchange(request, bounds))

    async def _exchange(self, request: HttpRequest, bounds: Bounds) -> Answer | NoAnswer:
        started_s, is_sent, pool = performance_s(), self._is_sent, self._pool

        async def trace(event: str, _: object) -> None:
            nonlocal is_sent
            is_sent = is_sent or event == _FIRST_BYTE

        def silence(kind: type[NoAnswer], reason: str) -> NoAnswer:
            return kind(reason, is_sent=is_sent, latency_ms=_ms_since(started_s))

        pool.users += 1
        try:
            async with asyncio.timeout(bounds.deadline_s):
                response = await pool.transport.handle_async_request(
                    self._outgoing(request, bounds, trace)
                )
                body = await _body(response, bounds.body_bytes_max)
            headers = dict(response.headers)
            if "content-length" in headers and "transfer-encoding" in headers:
                # It ends elsewhere for someone on the way: RFC 9112, 6.3 (3).
                raise _Unusable("the answer has both Content-Length and Transfer-Encoding")
            return Answer(response.status_code, headers, body, _ms_since(started_s))
        except httpx.ConnectTimeout:
            return silence(NoAnswer, f"no connection within {bounds.connect_s:.1f} s")
        except (TimeoutError, httpx.TimeoutException):
            self._retire(pool)
            return silence(LateAnswer, f"no complete answer within {bounds.deadline_s:g} s")
        except _Unusable as error:
            self._retire(pool)
            return silence(UnusableAnswer, str(error))
        except (httpx.TransportError, OSError) as error:
            return silence(NoAnswer, f"{type(error).__name__}: {error}")
        finally:
            await pool.leave()

    def _outgoing(
        self, request: HttpRequest, bounds: Bounds, trace: Callable[[str, object], Awaitable[None]]
    ) -> httpx.Request:
        target = request.target.encode("ascii")
        url = self._origin.copy_with(raw_path=target)
        assert url.raw_path == target, "the target on the wire is the target that was signed"
        timeout = httpx.Timeout(bounds.deadline_s, connect=bounds.connect_s).as_dict()
        return httpx.Request(
            request.method,
            url,
            headers={**_ALWAYS, **request.headers},
            content=request.body,
            extensions={"timeout": timeout, "trace": trace},
        )

    def _retire(self, pool: _Pool) -> None:
        """Use new connections from now on: a request that was cut off may have leaked its place."""
        pool.is_retired = True
        if pool is self._pool:
            self._pool = _Pool(self._make())

    async def close(self) -> None:
        """Wait for what is under way, then close every connection."""
        await self._traffic.drain()
        self._pool.users += 1
        self._pool.is_retired = True
        await self._pool.leave()


def _ms_since(started_s: float) -> int:
    return round((performance_s() - started_s) * 1000)


async def _body(response: httpx.Response, bytes_max: int) -> bytes:
    """Read the body undecoded: compressed bytes stay so, and count as such."""
    body = bytearray()
    try:
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > bytes_max:
                raise _Unusable(f"wanted at most {bytes_max:,} bytes, found more")
    finally:
        await response.aclose()
    return bytes(body)
