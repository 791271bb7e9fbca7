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
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlsplit

import httpx

from bot.broker.errors import ForbiddenAddress
from bot.broker.traffic import Traffic
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

# httpx and httpcore look for sniffio at every request and lock: where it is absent, each look would
# search the whole path again. None says once and for all that it is not there.
if importlib.util.find_spec("sniffio") is None:
    sys.modules["sniffio"] = None  # type: ignore[assignment]

AsgiApp = Callable[..., Awaitable[None]]


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
"""Of any read; each call has a size of its own besides."""
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
    """An answer came that no second try would better: too long, or of two lengths."""


class _Unusable(Exception):
    """What came is not to be read, or not to be believed; the text says why."""


def connect(base_url: str, *, traffic: Traffic, app: AsgiApp | None = None) -> "Link":
    """Make a link with connections of its own; with `app`, to an ASGI application in this process.

    Raises ForbiddenAddress unless `base_url` is https, or http to a loopback host, without a path.
    """
    origin = _checked(base_url)
    if app is not None:
        carrier = _InProcess(app)
        return Link(traffic, lambda: carrier)
    tls = _trusting_nobody() if origin.scheme == "http" else _verifying()
    return Link(traffic, lambda: _Wire(origin, tls))


def _checked(base_url: str) -> httpx.URL:
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
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _verifying() -> ssl.SSLContext:
    """Python itself would write all keys to the file that SSLKEYLOGFILE names."""
    context = httpx.create_ssl_context(verify=True, trust_env=False)
    context.keylog_filename = None  # type: ignore[assignment]  # which turns it off
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _trusting_nobody() -> ssl.SSLContext:
    """For plain http to loopback, where no TLS happens: a context without a single authority."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class _Carrier(Protocol):
    """Brings requests to one origin and their whole answers back."""

    is_in_process: bool
    """True when there is no wire, so that nobody can say which bytes have left."""

    async def carry(self, request: HttpRequest, bounds: Bounds, trip: "_Trip") -> Answer: ...
    async def close(self) -> None: ...


class _Pool:
    """A carrier with a count of its users; a retired one is closed by its last user."""

    def __init__(self, carrier: _Carrier) -> None:
        self.carrier = carrier
        self._users = 0
        self.is_retired = False

    def enter(self) -> None:
        """One more user."""
        self._users += 1

    async def leave(self) -> None:
        """One user less."""
        self._users -= 1
        if self.is_retired and self._users == 0:
            await self.carrier.close()

    async def close(self) -> None:
        """Close it now, or when its last user has left."""
        self.enter()
        self.is_retired = True
        await self.leave()


class _Trip:
    """One exchange as it goes: when it started, and whether a byte of it may have left."""

    def __init__(self, *, is_sent: bool) -> None:
        self._started_s = performance_s()
        self.is_sent = is_sent

    async def trace(self, name: str, _: object) -> None:
        """Hear from the transport what it is about to do."""
        self.is_sent = self.is_sent or name == _FIRST_BYTE

    @property
    def latency_ms(self) -> int:
        """Milliseconds since the start, rounded."""
        return round((performance_s() - self._started_s) * 1000)

    def answered(self, status: int, headers: dict[str, str], body: bytes) -> Answer:
        """The whole answer is here."""
        return Answer(status, headers, body, self.latency_ms)

    def failed(self, reason: str) -> NoAnswer:
        """There will be no answer."""
        return NoAnswer(reason, is_sent=self.is_sent, latency_ms=self.latency_ms)

    def unusable(self, reason: str) -> UnusableAnswer:
        """What came will not be used."""
        return UnusableAnswer(reason, is_sent=self.is_sent, latency_ms=self.latency_ms)

    def late(self, bounds: Bounds) -> LateAnswer:
        """The deadline has passed."""
        reason = f"no whole answer within {bounds.deadline_s:g} s"
        return LateAnswer(reason, is_sent=self.is_sent, latency_ms=self.latency_ms)


class Link:
    """Exchanges with one origin over a pool that is replaced whenever a deadline cut into it."""

    def __init__(self, traffic: Traffic, make: Callable[[], _Carrier]) -> None:
        self._traffic = traffic
        self._make = make
        self._pool = _Pool(make())

    async def exchange(self, request: HttpRequest, bounds: Bounds) -> Answer | NoAnswer:
        """Send once and read the whole answer. Goes on to its end when the caller is cancelled."""
        return await self._traffic.carry(self._exchange(request, bounds))

    async def _exchange(self, request: HttpRequest, bounds: Bounds) -> Answer | NoAnswer:
        pool = self._pool
        pool.enter()
        try:
            return await self._within_deadline(pool, request, bounds)
        finally:
            await pool.leave()

    async def _within_deadline(
        self, pool: _Pool, request: HttpRequest, bounds: Bounds
    ) -> Answer | NoAnswer:
        trip = _Trip(is_sent=pool.carrier.is_in_process)
        try:
            async with asyncio.timeout(bounds.deadline_s):
                return await pool.carrier.carry(request, bounds, trip)
        except httpx.ConnectTimeout:
            return trip.failed(f"no connection within {bounds.connect_s:.1f} s")
        except (TimeoutError, httpx.TimeoutException):
            self._retire(pool)
            return trip.late(bounds)
        except _Unusable as error:
            self._retire(pool)
            return trip.unusable(str(error))
        except (httpx.TransportError, OSError) as error:
            return trip.failed(f"{type(error).__name__}: {error}")

    def _retire(self, pool: _Pool) -> None:
        """Use new connections from now on: a request that was cut off may have leaked its place."""
        pool.is_retired = True
        if pool is self._pool:
            self._pool = _Pool(self._make())

    async def close(self) -> None:
        """Wait for what is under way, then close every connection."""
        await self._traffic.drain()
        await self._pool.close()


# ------------------------------------------------------------------------------- over the network


class _Wire:
    """Connections to one origin."""

    is_in_process = False

    def __init__(self, origin: httpx.URL, tls: ssl.SSLContext) -> None:
        self._origin = origin
        limits = httpx.Limits(
            max_connections=CONNECTIONS_MAX,
            max_keepalive_connections=CONNECTIONS_MAX,
            keepalive_expiry=IDLE_S_MAX,
        )
        self._transport = httpx.AsyncHTTPTransport(
            verify=tls, trust_env=False, limits=limits, retries=0
        )

    async def carry(self, request: HttpRequest, bounds: Bounds, trip: _Trip) -> Answer:
        """Send once and read the whole answer. Raises httpx's TransportError, or _Unusable."""
        outgoing = self._outgoing(request, bounds, trip)
        response = await self._transport.handle_async_request(outgoing)
        body = await _body(response, bounds.body_bytes_max)
        _refuse_two_lengths(response.headers)
        return trip.answered(response.status_code, dict(response.headers), body)

    def _outgoing(self, request: HttpRequest, bounds: Bounds, trip: _Trip) -> httpx.Request:
        target = request.target.encode("ascii")
        url = self._origin.copy_with(raw_path=target)
        assert url.raw_path == target, "the target on the wire is the target that was signed"
        timeout = httpx.Timeout(bounds.deadline_s, connect=bounds.connect_s).as_dict()
        return httpx.Request(
            request.method,
            url,
            headers={**_ALWAYS, **request.headers},
            content=request.body,
            extensions={"timeout": timeout, "trace": trip.trace},
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._transport.aclose()


async def _body(response: httpx.Response, bytes_max: int) -> bytes:
    """Read the body as it came over the wire: compressed bytes stay so, and count as such."""
    body = bytearray()
    try:
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > bytes_max:
                raise _too_long(bytes_max)
    finally:
        await response.aclose()
    return bytes(body)


def _too_long(bytes_max: int) -> _Unusable:
    return _Unusable(f"wanted at most {bytes_max:,} bytes, found more")


def _refuse_two_lengths(headers: Mapping[str, str]) -> None:
    """An answer with both lengths ends elsewhere for someone on the way: RFC 9112, 6.3 (3)."""
    if "content-length" in headers and "transfer-encoding" in headers:
        raise _Unusable("the answer has both Content-Length and Transfer-Encoding")


# ------------------------------------------------------------------------------- in this process


class _InProcess:
    """An ASGI application instead of a wire. What it raises leaves the answer unfinished."""

    is_in_process = True

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def carry(self, request: HttpRequest, bounds: Bounds, trip: _Trip) -> Answer:
        """Call the application once. Raises OSError as it does, or _Unusable."""
        said = _Said(request.body)
        await self._app(_scope(request), said.receive, said.send)
        if len(said.body) > bounds.body_bytes_max:
            raise _too_long(bounds.body_bytes_max)
        if not said.is_whole:
            raise ConnectionError("the answer ended before its end")
        _refuse_two_lengths(said.headers)
        return trip.answered(said.status, said.headers, bytes(said.body))

    async def close(self) -> None:
        """Nothing is open."""


class _Said:
    """What the two sides of an ASGI application say to each other in one request."""

    def __init__(self, request_body: bytes) -> None:
        self._request_body = request_body
        self.status = 500
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.is_whole = False

    async def receive(self) -> dict[str, object]:
        """Hand over the request's body."""
        return {"type": "http.request", "body": self._request_body}

    async def send(self, message: Mapping[str, Any]) -> None:
        """Take the head or a part of the body of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            pairs = message.get("headers", ())
            self.headers = {name.decode("latin-1"): text.decode("latin-1") for name, text in pairs}
        else:
            self.body += message.get("body", b"")
            self.is_whole = not message.get("more_body", False)


def _scope(request: HttpRequest) -> dict[str, object]:
    raw_path, _, query = request.target.partition("?")
    headers = {**_ALWAYS, **request.headers}
    if request.body:
        headers["Content-Length"] = str(len(request.body))
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote(raw_path),
        "raw_path": raw_path.encode("ascii"),
        "query_string": query.encode("ascii"),
        "headers": [(name.lower().encode(), text.encode()) for name, text in headers.items()],
        "client": None,
        "server": None,
    }
