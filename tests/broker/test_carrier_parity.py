"""Our carrier and httpx get the same mutated answers and come to the same verdicts."""

import asyncio
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

import httpcore
import httpx
import pytest

from bot.broker.carrier import Carrier, _Connection
from bot.broker.http import HttpxLink
from bot.broker.link import Bounds, HttpRequest, Link, Origin, Traffic
from bot.protocol.envelope import Answer, NoAnswer

CASES = 4_000
BOUNDS = Bounds(deadline_s=30.0, body_bytes_max=60)
ORIGIN = Origin("http", "127.0.0.1", 8790, "127.0.0.1:8790")
GET = HttpRequest("GET", "/market/quotes/stocks/HPG", {"X-FH-APIKEY": "key"})
POST = HttpRequest("POST", "/orders", {"Content-Type": "application/json"}, b'{"quantity":100}')

PLAIN = (
    b"HTTP/1.1 200 OK\r\nDate: Thu, 19 Nov 2026 02:20:00 GMT\r\nContent-Type: application/json\r\n"
    b'Content-Length: 23\r\nX-RateLimit-Reset: 1763518800\r\n\r\n{"data":{"price":25000}}'
)
SHORT = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CHUNKS = b"2\r\n{}\r\n0\r\n\r\n"
ANSWERS = (
    PLAIN.replace(b": 23", b": 24"),
    PLAIN,
    b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\nConnection: keep-alive\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-Sum: 1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS,
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nuntil the end",
    b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" + SHORT,
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\n",
    b"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: a\r\n folded\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nX-Name: Gi\xc3\xa1\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nX-Name: Gi\xe1\r\nContent-Length:2\r\n\r\n{}",
    b"HTTP/1.1 503\r\nContent-Length: 2, 2\r\nX-Empty:\r\nX-Tab:\ta\t \r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + b"x" * 100,
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain \r\nContent-Length: 2\r\n\r\n{}",
)
PIECES = (
    b"\r\n", b"\n", b"\r", b" ", b"\t", b"\0", b":", b",", b"\xe1", b"0", b"1", b"99999999999",
    b"\r\n\r\n", b"Content-Length: 3\r\n", b"content-length: 2\r\n", b"Transfer-Encoding: gzip\r\n",
    b"Connection: close\r\n", b"Connection: Keep-Alive\r\n", b"Connection: upgrade\r\n",
    b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 \r\n\r\n", b"X: y\r\n", b": v\r\n", b"\r\n more",
)  # fmt: skip


def mutated(random: Random) -> bytes:
    """An answer as a broken or hostile server might send it; one in five is left as it is."""
    raw = bytearray(random.choice(ANSWERS))
    for _ in range(random.choice((0, 1, 1, 1, 2))):
        at = random.randrange(len(raw) + 1)
        match random.randrange(6):
            case 0:
                raw[at : at + random.randrange(1, 8)] = b""
            case 1:
                raw[at:at] = random.choice(PIECES)
            case 2:
                raw[at : at + 1] = random.randbytes(1)
            case 3:
                del raw[at:]
            case 4:
                raw += random.choice((b"{}", b"HTTP/1.1 200 OK\r\n\r\n", random.choice(ANSWERS)))
            case _:
                line = raw.find(b"\r\n", at) + 2
                raw[line:line] = random.choice(PIECES[13:])
    return bytes(raw)


def pieces_of(random: Random, raw: bytes) -> list[bytes]:
    inner = (random.randrange(len(raw) + 1) for _ in range(random.choice((0, 0, 1, 2, 5))))
    cuts = sorted({0, len(raw), *inner})
    return [raw[start:end] for start, end in pairwise(cuts)]


@dataclass
class Played:
    """What the server will say, over and over: the pieces, and then a close or a reset."""

    pieces: Sequence[bytes] = ()
    is_reset: bool = False


class PlayedStream(httpcore.AsyncNetworkStream):
    def __init__(self, played: Played) -> None:
        self._played = played
        self._left = list(played.pieces)

    async def read(self, *_: object, **__: object) -> bytes:
        if self._left:
            return self._left.pop(0)
        if self._played.is_reset:
            raise httpcore.ReadError("reset")
        return b""

    async def write(self, *_: object, **__: object) -> None:
        pass

    async def aclose(self) -> None:
        pass

    def get_extra_info(self, *_: object) -> Any:
        return None


class PlayedNetwork(httpcore.AsyncNetworkBackend):
    def __init__(self, played: Played) -> None:
        self._played = played

    async def connect_tcp(self, *_: object, **__: object) -> httpcore.AsyncNetworkStream:
        return PlayedStream(self._played)


def httpx_over(played: Played) -> Link:
    transport = httpx.AsyncHTTPTransport(trust_env=False)
    # No connection is kept: each answer is read from its first byte on.
    transport._pool = httpcore.AsyncConnectionPool(
        max_keepalive_connections=0, network_backend=PlayedNetwork(played)
    )
    return HttpxLink(ORIGIN, Traffic(), lambda: transport)


class PlayedTransport(asyncio.Transport):
    def __init__(self, protocol: asyncio.Protocol, played: Played, quiet: socket.socket) -> None:
        super().__init__({"socket": quiet})
        self._protocol = protocol
        self._played = played
        self._is_closed = False

    def write(self, *_: object) -> None:
        asyncio.get_running_loop().call_soon(self._say, iter(self._played.pieces))

    def _say(self, pieces: Iterator[bytes]) -> None:
        for piece in pieces:
            if self._is_closed:
                return
            self._protocol.data_received(piece)
        if self._is_closed:
            return
        if not self._played.is_reset:
            self._protocol.eof_received()
        self._protocol.connection_lost(ConnectionResetError() if self._played.is_reset else None)

    def is_closing(self) -> bool:
        return self._is_closed

    def abort(self) -> None:
        self._is_closed = True


class PlayedCarrier(Carrier):
    """Our carrier, which connects to the prepared answers."""

    def __init__(self, played: Played, quiet: socket.socket) -> None:
        super().__init__(ORIGIN, Traffic(), tls=None, connections_max=1)
        self._played = played
        self._quiet = quiet

    async def _connected(self, *_: object) -> _Connection:
        made = _Connection(self)
        made.connection_made(PlayedTransport(made, self._played, self._quiet))
        return made


def verdict_of(answer: Answer | NoAnswer) -> object:
    if isinstance(answer, Answer):
        return answer.http_status, answer.headers, answer.body
    return type(answer), answer.is_sent


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", [7, 11])
async def test_mutated_answers_get_the_verdict_of_httpx(seed: int) -> None:
    random, played = Random(seed), Played()
    one, other = socket.socketpair()
    theirs, ours = httpx_over(played), PlayedCarrier(played, one)
    kinds: Counter[str] = Counter()

    for number in range(CASES // 2):
        raw = mutated(random)
        played.pieces, played.is_reset = pieces_of(random, raw), random.random() < 0.3
        request = random.choice((GET, POST))
        wanted = await theirs.exchange(request, BOUNDS)
        found = await ours.exchange(request, BOUNDS)
        kinds[type(wanted).__name__] += 1

        assert verdict_of(found) == verdict_of(wanted), (seed, number, played)

    assert min(kinds[each] for each in ("Answer", "NoAnswer", "UnusableAnswer")) > CASES // 100
    await theirs.close()
    await ours.close()
    one.close()
    other.close()
