"""The reference carrier, over httpx, for every call that trading does not wait for. Only this
module imports httpx.

It uses the transport below httpx's client, so none of what a client adds by itself (listed in
`link.py`) needs to be switched off or could come back. Our own carrier is tested against this one,
answer by answer.

A connection carries one exchange only. httpx would keep bytes that follow an answer, such as the
same answer again, and take them for the answer to the next request. Its calls are seconds apart:
few could use a connection again anyway.
"""

import asyncio
import importlib.util
import ssl
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from bot.broker.link import (
    AFTER_THE_END,
    ALWAYS,
    TWO_LENGTHS,
    Bounds,
    HttpRequest,
    LateAnswer,
    Origin,
    Traffic,
    Unusable,
    UnusableAnswer,
    ms_since,
    too_long,
    unconnected_words,
)
from bot.clock import performance_s
from bot.domain.errors import require
from bot.protocol.envelope import Answer, NoAnswer

# Its command line would bring rich and Pygments along where they happen to be installed: 4 MB and
# 0.1 s for what nobody here calls. None says that it isn't there; httpx does without it.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
import httpx  # noqa: E402

CONNECTIONS_MAX: Final = 20
_FIRST_BYTE: Final = "http11.send_request_headers.started"

Make = Callable[[], httpx.AsyncBaseTransport]


class _Held(Exception):
    """An objection came up while a connection was opened: the request is not sent."""


def tls_context() -> ssl.SSLContext:
    """Make the one TLS configuration: certificates are verified, TLS 1.2 at the least.

    By default Python would write all keys to the file named by SSLKEYLOGFILE.
    """
    context = httpx.create_ssl_context(verify=True, trust_env=False)
    context.keylog_filename = None  # type: ignore[assignment]  # which turns it off
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def over_sockets(tls: ssl.SSLContext | None) -> Make:
    """Return a factory of pools of real connections, with that TLS configuration if any."""
    return partial(
        httpx.AsyncHTTPTransport,
        verify=tls or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        trust_env=False,
        limits=httpx.Limits(
            max_connections=CONNECTIONS_MAX,
            max_keepalive_connections=0,
        ),
        retries=0,
    )


@dataclass(eq=False, slots=True)
class _Pool:
    """Connections and the number of their users; the last user of a retired pool closes it."""

    transport: httpx.AsyncBaseTransport
    users: int = 0
    is_retired: bool = False

    async def leave(self) -> None:
        """Remove one user."""
        self.users -= 1
        if self.is_retired and self.users == 0:
            await self.transport.aclose()


class HttpxLink:
    """Exchanges with one origin over a pool that is replaced whenever a deadline cut into it."""

    def __init__(self, origin: Origin, traffic: Traffic, make: Make) -> None:
        # httpx and httpcore look for sniffio up to four times a request. Where it isn't installed,
        # each look searches the whole path again, a third of the time of a request; None says that
        # it isn't there. It is said only here, by when strategies have imported what they need.
        if importlib.util.find_spec("sniffio") is None:
            sys.modules["sniffio"] = None  # type: ignore[assignment]
        self._links_to = origin
        self._origin = httpx.URL(f"{origin.scheme}://{origin.name}")
        self._traffic = traffic
        self._make = make
        self._pool = _Pool(make())
        self._is_closed = False

    async def exchange(self, request: HttpRequest, bounds: Bounds) -> Answer | NoAnswer:
        """Send once and read the whole answer. Continues to the end if the caller is cancelled."""
        if self._is_closed:
            return NoAnswer(AFTER_THE_END, is_sent=False)
        return await self._traffic.carry(self._exchange(request, bounds))

    async def _exchange(self, request: HttpRequest, bounds: Bounds) -> Answer | NoAnswer:
        started_s, is_sent, pool = performance_s(), False, self._pool

        async def trace(event: str, _: object) -> None:
            nonlocal is_sent
            if event == _FIRST_BYTE and (reason := request.objection()) is not None:
                raise _Held(reason)
            is_sent = is_sent or event == _FIRST_BYTE

        def silence(kind: type[NoAnswer], reason: str) -> NoAnswer:
            return kind(reason, is_sent=is_sent, latency_ms=ms_since(started_s))

        pool.users += 1
        try:
            async with asyncio.timeout(bounds.deadline_s):
                response = await pool.transport.handle_async_request(
                    self._outgoing(request, bounds, trace)
                )
                body = await _body(response, bounds.body_bytes_max)
            headers = dict(response.headers)
            if "content-length" in headers and "transfer-encoding" in headers:
                raise Unusable(TWO_LENGTHS)
            return Answer(response.status_code, headers, body, ms_since(started_s))
        except _Held as held:
            return silence(NoAnswer, str(held))
        except httpx.ConnectTimeout:
            return silence(NoAnswer, f"no connection within {bounds.connect_s:.1f} s")
        except (TimeoutError, httpx.TimeoutException):
            self._retire(pool)
            return silence(LateAnswer, f"no complete answer within {bounds.deadline_s:g} s")
        except Unusable as error:
            self._retire(pool)
            return silence(UnusableAnswer, str(error))
        except httpx.ConnectError as error:
            return silence(NoAnswer, unconnected_words(error, self._links_to))
        except (httpx.TransportError, OSError) as error:
            return silence(NoAnswer, f"{type(error).__name__}: {error}".rstrip(": "))
        except RuntimeError as error:  # no thread could be started to look the name up
            return silence(NoAnswer, f"no connection: {error}")
        finally:
            await pool.leave()

    def _outgoing(
        self, request: HttpRequest, bounds: Bounds, trace: Callable[[str, object], Awaitable[None]]
    ) -> httpx.Request:
        target = request.target.encode("ascii")
        url = self._origin.copy_with(raw_path=target)
        require(url.raw_path == target, "I18", "the target on the wire is not the one signed")
        timeout = httpx.Timeout(bounds.deadline_s, connect=bounds.connect_s).as_dict()
        return httpx.Request(
            request.method,
            url,
            headers={**ALWAYS, **request.headers},
            content=request.body,
            extensions={"timeout": timeout, "trace": trace},
        )

    def _retire(self, pool: _Pool) -> None:
        """Use new connections from now on: a request that was cut off may have leaked its pool
        slot.
        """
        pool.is_retired = True
        if pool is self._pool:
            self._pool = _Pool(self._make())

    async def close(self) -> None:
        """Wait for the exchanges under way, then close every connection."""
        self._is_closed = True
        await self._traffic.drain()
        self._pool.users += 1
        self._pool.is_retired = True
        await self._pool.leave()


async def _body(response: httpx.Response, bytes_max: int) -> bytes:
    """Read the body undecoded: compressed bytes stay compressed and are counted so."""
    body = bytearray()
    try:
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > bytes_max:
                raise too_long(bytes_max)
    finally:
        await response.aclose()
    return bytes(body)
