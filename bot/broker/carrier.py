"""Our own HTTP carrier for calls that trading waits for: kept-alive connections on asyncio.

An exchange needs no task: the caller waits for a future that a connection's callbacks resolve. If
the caller is cancelled, the exchange still runs to its end. A connection carries one exchange, or
none when idle. It is reused only if the answer ended where it said, nothing followed it and the
server keeps the connection open; it is dropped at once on a deadline, on unsolicited bytes and when
the other side closes. So late bytes are never taken for the answer to another request.

The first byte: `is_sent` turns true immediately before the whole request is handed to the
connection's transport, which may give it to the system there and then; any failure from this
instruction on counts as sent. Before it the exchange is only an object in a queue here: name
lookup, connecting, TLS, waiting for a connection and noticing that an idle one has been closed all
come before it.
"""

import asyncio
import ipaddress
import select
import socket
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, cast

from bot.broker.answer_reader import AnswerReader, Broken, Whole
from bot.broker.link import (
    AFTER_THE_END,
    ALWAYS,
    IDLE_S_MAX,
    Bounds,
    HttpRequest,
    LateAnswer,
    Objection,
    Origin,
    Traffic,
    Unusable,
    UnusableAnswer,
    ms_since,
    unconnected_words,
)
from bot.clock import boottime_s, performance_s
from bot.protocol.envelope import Answer, NoAnswer

LINE_MAX: Final = 1_000
"""Exchanges waiting for a connection; the request budget keeps them far below this."""
_ADDRESSES_MAX: Final = 8
"""Addresses of a host that are tried, one after another."""
_LENGTH_OF_NOTHING: Final = frozenset({"POST", "PUT"})
"""For these methods an empty body is sent with a Content-Length (RFC 9110, 8.6)."""


@dataclass(eq=False, slots=True)
class _Exchange:
    """One request and the future of its answer."""

    wire: bytes
    bounds: Bounds
    objection: Objection
    answered: asyncio.Future[Answer | NoAnswer]
    started_s: float = field(default_factory=performance_s)
    is_sent: bool = False
    connection: "_Connection | None" = None
    deadline: asyncio.TimerHandle = field(init=False)


class Carrier:
    """Exchanges with one origin over at most `connections_max` connections.

    `tls` is the configuration of a secure origin, None for a plain one.
    """

    def __init__(
        self,
        origin: Origin,
        traffic: Traffic,
        *,
        tls: ssl.SSLContext | None,
        connections_max: int,
    ) -> None:
        assert origin.is_secure == (tls is not None), "TLS goes with https"
        self._origin = origin
        self._traffic = traffic
        self._tls = tls
        self._connections_max = connections_max
        self._always = [": ".join(each) for each in {"Host": origin.name, **ALWAYS}.items()]
        self._connections: set[_Connection] = set()
        self._idle: list[_Connection] = []
        self._line: deque[_Exchange] = deque()
        self._openings: set[asyncio.Task[None]] = set()
        self._reached_last = ""
        self._is_closed = False

    async def exchange(self, request: HttpRequest, bounds: Bounds) -> Answer | NoAnswer:
        """Send once and read the whole answer. Continues to the end if the caller is cancelled.
        Raises only what its objection raises.
        """
        if self._is_closed:
            return NoAnswer(AFTER_THE_END, is_sent=False)
        wire = self._wire(request)
        if wire is None:
            return NoAnswer("a header or the target can't be sent as it is", is_sent=False)
        if len(self._line) >= LINE_MAX:
            return NoAnswer(f"{LINE_MAX:,} requests wait for a connection", is_sent=False)
        loop = asyncio.get_running_loop()
        exchange = _Exchange(wire, bounds, request.objection, loop.create_future())
        exchange.deadline = loop.call_later(bounds.deadline_s, self._too_late, exchange)
        self._traffic.begin(exchange)
        self._line.append(exchange)
        self._serve_line()
        return await exchange.answered

    def _wire(self, request: HttpRequest) -> bytes | None:
        """Return the bytes of a request, or None if a text in it would change its meaning.

        A line break in a header would begin another header, or another request.
        """
        target, headers, body = request.target, request.headers, request.body
        texts = "".join([target, *headers, *headers.values()])
        if not (texts.isascii() and texts.isprintable()) or " " in target:
            return None
        lines = [f"{request.method} {target} HTTP/1.1", *self._always]
        lines += map(": ".join, headers.items())
        if body or request.method in _LENGTH_OF_NOTHING:
            lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join([*lines, "\r\n"]).encode("ascii") + body

    # ---------------------------------------------------------------------- connections

    def _serve_line(self) -> None:
        """Give idle connections to waiting exchanges, the most recently used first, and open
        missing ones.
        """
        while self._line and self._idle:
            connection = self._idle.pop()
            if connection.is_usable():
                connection.carry(self._line.popleft())
            else:
                connection.drop()
        if self._line:
            self._open_for_line()

    def _open_for_line(self) -> None:
        """Open a connection for each waiting exchange, up to the limit."""
        while (
            len(self._openings) < len(self._line)
            and len(self._openings) + len(self._connections) < self._connections_max
        ):
            waiting = self._line[len(self._openings)]
            task = asyncio.create_task(self._open(waiting.bounds))
            self._openings.add(task)
            task.add_done_callback(self._opened)

    async def _open(self, bounds: Bounds) -> None:
        """Connect, and serve the queue. If it fails, the exchange waiting longest
        gets the failure.
        """
        try:
            made = await self._connected(bounds.connect_s)
        except TimeoutError:
            self._no_connection(f"no connection within {bounds.connect_s:.1f} s")
        except OSError as error:
            self._no_connection(unconnected_words(error, self._origin))
        except RuntimeError as error:  # no thread could be started to look the name up
            self._no_connection(f"no connection: {error}")
        else:
            self._connections.add(made)
            if made.is_closing():
                self._no_connection("the server closed the new connection")
                made.drop()
            elif self._line:
                made.carry(self._line.popleft())
            else:
                self._idle.append(made)

    async def _connected(self, each_s: float) -> "_Connection":
        """Return a new connection: TCP and TLS each within its share of the time."""
        async with asyncio.timeout(each_s):
            made, transport = await self._reached(each_s)
        if self._tls is not None:
            async with asyncio.timeout(each_s):
                secure = await asyncio.get_running_loop().start_tls(
                    transport, made, self._tls, server_hostname=self._origin.host
                )
            assert secure is not None, "a handshake that did not fail has a transport"
            made.connection_made(secure)
        return made

    async def _reached(self, each_s: float) -> "tuple[_Connection, asyncio.Transport]":
        """Connect to the first of the host's addresses that answers, and to it first next time.

        Each has its share of the time: one that does not answer, as on a network that only seems to
        have IPv6, must not block those after it.
        """
        loop, port, silence = asyncio.get_running_loop(), self._origin.port, OSError("no address")
        addresses = [self._origin.host]
        if not _is_address(self._origin.host):
            found = await loop.getaddrinfo(self._origin.host, port, type=socket.SOCK_STREAM)
            addresses = list(dict.fromkeys(str(one[-1][0]) for one in found))[:_ADDRESSES_MAX]
            addresses.sort(key=lambda address: address != self._reached_last)
        for address in addresses:
            try:
                async with asyncio.timeout(each_s / len(addresses)):
                    transport, made = await loop.create_connection(
                        partial(_Connection, self), address, port
                    )
            except OSError as error:
                silence = error
            else:
                self._reached_last = address
                return made, transport
        raise silence

    def _opened(self, task: asyncio.Task[None]) -> None:
        self._openings.discard(task)
        self._open_for_line()

    def _no_connection(self, reason: str) -> None:
        if self._line:
            self.finish(self._line.popleft(), NoAnswer, reason)

    def is_free(self, connection: "_Connection") -> None:
        """A connection has brought its answer.

        The queue is served in the loop's next iteration: over TLS a close that arrived together
        with the answer is only reported right after it.
        """
        self._idle.append(connection)
        if self._line:
            asyncio.get_running_loop().call_soon(self._serve_line)

    def forget(self, connection: "_Connection") -> None:
        """A connection is gone; a waiting exchange may need another."""
        self._connections.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._open_for_line()

    # ------------------------------------------------------------------------ exchanges

    def finish(self, exchange: _Exchange, kind: type[NoAnswer], reason: str) -> None:
        """End an exchange without an answer."""
        silence = kind(reason, is_sent=exchange.is_sent, latency_ms=ms_since(exchange.started_s))
        self.answer(exchange, silence)

    def answer(self, exchange: _Exchange, answer: Answer | NoAnswer) -> None:
        """End an exchange with its answer; its caller may be gone."""
        self._over(exchange)
        if not exchange.answered.done():
            exchange.answered.set_result(answer)

    def hand_back(self, exchange: _Exchange, error: Exception) -> None:
        """End an exchange whose objection has failed: its caller gets what was raised."""
        self._over(exchange)
        if not exchange.answered.done():
            exchange.answered.set_exception(error)

    def _over(self, exchange: _Exchange) -> None:
        exchange.deadline.cancel()
        self._traffic.end(exchange)

    def _too_late(self, exchange: _Exchange) -> None:
        if exchange.connection is None:
            self._line.remove(exchange)
        else:
            exchange.connection.drop()
        reason = f"no complete answer within {exchange.bounds.deadline_s:g} s"
        self.finish(exchange, LateAnswer, reason)

    async def close(self) -> None:
        """Wait for the exchanges under way, then close every connection; what still waits for one
        is not sent any more, nor what comes later. An exchange still under way ends without answer.
        """
        self._is_closed = True
        await self._traffic.drain()
        while self._line:
            self._no_connection("the program ends, and no connection was free")
        for opening in tuple(self._openings):
            opening.cancel()
        if self._openings:
            await asyncio.wait(self._openings)
        for connection in tuple(self._connections):
            connection.fail(NoAnswer, "the program ended before the answer came")
        await asyncio.sleep(0)  # a transport closes its socket in the loop's next iteration


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class _Connection(asyncio.Protocol):
    """One connection and the exchange it carries."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._exchange: _Exchange | None = None
        self._reader: AnswerReader
        self._transport: asyncio.Transport
        self._readable: Callable[[int], object]
        self._free_since_s = boottime_s()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop, and again with the transport of TLS."""
        self._transport = cast("asyncio.Transport", transport)
        waiting = select.poll()
        waiting.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
        self._readable = waiting.poll

    def is_usable(self) -> bool:
        """Return whether another exchange may begin: not idle for long, and still open at the
        server.

        A close, or anything else, that has arrived but not been reported by the loop yet shows as
        readable data where none may come.
        """
        is_fresh = boottime_s() - self._free_since_s <= IDLE_S_MAX
        return is_fresh and not self._transport.is_closing() and not self._readable(0)

    def is_closing(self) -> bool:
        """Return whether either side has closed it, as far as the loop has reported."""
        return self._transport.is_closing()

    def carry(self, exchange: _Exchange) -> None:
        """Send a request, unless an objection has come up while it waited. From the write on it
        counts as sent.
        """
        try:
            reason = exchange.objection()
        except Exception as error:
            self._carrier.is_free(self)
            self._carrier.hand_back(exchange, error)
            return
        if reason is not None:
            self._carrier.is_free(self)
            self._carrier.finish(exchange, NoAnswer, reason)
            return
        self._exchange, exchange.connection = exchange, self
        self._reader = AnswerReader(exchange.bounds.body_bytes_max)
        exchange.is_sent = True
        self._transport.write(exchange.wire)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        if self._exchange is None:
            self.drop()  # unsolicited bytes
            return
        try:
            whole = self._reader.take(data) if data else self._reader.end()
        except Unusable as error:
            self.fail(UnusableAnswer, str(error))
        except Broken as error:
            self.fail(NoAnswer, str(error))
        else:
            if whole is not None:
                self._end(whole)

    def eof_received(self) -> None:
        """Called by the loop when the server sends no more. An idle connection is
        closed with it.
        """
        self.data_received(b"")

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        reason = f"{type(exc).__name__}: {exc}" if exc else "the connection was closed"
        self.fail(NoAnswer, reason)

    def _end(self, whole: Whole) -> None:
        exchange, self._exchange = self._exchange, None
        assert exchange is not None, "an answer has its exchange"
        answer = Answer(whole.status, whole.headers, whole.body, ms_since(exchange.started_s))
        self._carrier.answer(exchange, answer)
        if whole.is_last:
            self.drop()
        else:
            self._free_since_s = boottime_s()
            self._carrier.is_free(self)

    def fail(self, kind: type[NoAnswer], reason: str) -> None:
        """Close it at once, and end the exchange it carries, if any, without an answer."""
        exchange = self._exchange
        self.drop()
        if exchange is not None:
            self._carrier.finish(exchange, kind, reason)

    def drop(self) -> None:
        """Close it at once; the caller has to end the exchange it carried."""
        self._exchange = None
        self._transport.abort()
        self._carrier.forget(self)
