"""What the bot is measured against: tick to trade with only the indispensable steps.

`Bare` is the limit: one socket, prepared bytes, `json`, a signature, and one row that is on disk
before the order is sent (sqlite3, WAL, synchronous=FULL). `Plain` is the same as most people would
write it: httpx, `json`, SQLAlchemy Core.
"""

import asyncio
import hashlib
import hmac
import json
import sqlite3
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import sqlalchemy as sa

DEPTH = "/market/quotes/stocks/{symbol}/order-book"
ORDERS = "/trading/oa/sub-accounts/0001000001/orders"
KEY, SECRET, TOKEN = "k" * 32, b"s" * 64, "t" * 400
_MAC = hmac.new(SECRET, digestmod=hashlib.sha256)
PRAGMAS = ("journal_mode=WAL", "synchronous=FULL")


def decide(depth: bytes) -> bytes:
    """Read a depth and return the body of an order at its best price."""
    data = json.loads(depth)["data"]
    bid, ask = data["bids"][0], data["asks"][0]
    is_buy = bid["volume"] >= ask["volume"]
    order = {
        "sub_account": "0001000001.1",
        "side": "BUY" if is_buy else "SELL",
        "symbol": data["symbol"],
        "quantity": 100,
        "type": "LIMIT",
        "limit_price": (ask if is_buy else bid)["price"],
        "market_price": None,
    }
    return json.dumps(order).encode()


def signed(body: bytes) -> dict[str, str]:
    """Return the headers of an order, including nonce and signature."""
    digest, stamp = hashlib.sha256(body).hexdigest(), str(time.time_ns() // 1_000_000)
    mac = _MAC.copy()
    mac.update(f"{stamp}\nPOST\n{ORDERS}\n{digest}".encode())
    return {
        "X-FH-APIKEY": KEY,
        "X-FH-2FA-TOKEN": TOKEN,
        "device-id": "bench",
        "Content-Type": "application/json",
        "X-FH-TIMESTAMP": stamp,
        "X-FH-NONCE": str(uuid.uuid4()),
        "X-FH-SIGNATURE": mac.hexdigest(),
        "X-FH-BODYHASH": digest,
    }


def laid_out(method: str, target: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    """Return a request as it goes over the wire."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"{method} {target} HTTP/1.1\r\nhost: localhost\r\n{lines}content-length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body


def require_sent(answer: bytes) -> None:
    """Check the order's result at least as a careful client would."""
    result = json.loads(answer)["result"][0]
    assert result["code"] is None, result
    assert result["order_status"] == "SENT", result


class Socket(asyncio.Protocol):
    """One connection with one request at a time; answers have a Content-Length."""

    def __init__(self) -> None:
        self._buffer = b""
        self._answer: asyncio.Future[bytes] | None = None

    @classmethod
    async def connect(cls, base_url: str) -> "Socket":
        """Open it."""
        host, _, port = urlsplit(base_url).netloc.partition(":")
        loop = asyncio.get_running_loop()
        _, socket = await loop.create_connection(cls, host, int(port))
        return socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the transport for requests."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Complete the answer once all of it has arrived."""
        self._buffer += data
        head_end = self._buffer.find(b"\r\n\r\n") + 4
        at = self._buffer.find(b"content-length:")
        if head_end < 4 or at < 0:
            return
        length = int(self._buffer[at + 15 : self._buffer.find(b"\r\n", at)])
        if len(self._buffer) >= head_end + length and self._answer is not None:
            self._answer.set_result(self._buffer[head_end : head_end + length])
            self._buffer = b""

    def ask(self, request: bytes) -> "asyncio.Future[bytes]":
        """Send a request and return the answer's body."""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def close(self) -> None:
        """Let go."""
        self._transport.close()


Cycle = Callable[[], Awaitable[int]]
"""Does one tick to trade; returns its nanoseconds, from the depth's bytes to the answer read."""


async def bare(base_url: str, folder: Path) -> Cycle:
    """Return the limit's cycle."""
    socket = await Socket.connect(base_url)
    store = sqlite3.connect(folder / "bare.db", isolation_level=None)
    for pragma in PRAGMAS:
        store.execute(f"PRAGMA {pragma}")
    store.execute("CREATE TABLE j (id INTEGER PRIMARY KEY, nonce TEXT, ts TEXT, body BLOB)")
    get = laid_out("GET", DEPTH.format(symbol="FPT"), {"X-FH-APIKEY": KEY})

    async def cycle() -> int:
        depth = await socket.ask(get)
        begun = time.perf_counter_ns()
        body = decide(depth)
        headers = signed(body)
        row = (headers["X-FH-NONCE"], headers["X-FH-TIMESTAMP"], body)
        store.execute("INSERT INTO j (nonce, ts, body) VALUES (?, ?, ?)", row)
        require_sent(await socket.ask(laid_out("POST", ORDERS, headers, body)))
        return time.perf_counter_ns() - begun

    return cycle


async def plain(base_url: str, folder: Path) -> Cycle:
    """Return the cycle of the plain stack."""
    client = httpx.AsyncClient(base_url=base_url, timeout=5)
    connection = sa.create_engine(f"sqlite:///{folder / 'plain.db'}").connect()
    for pragma in PRAGMAS:
        connection.exec_driver_sql(f"PRAGMA {pragma}")
    table = sa.Table(
        "j",
        sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("nonce", sa.String),
        sa.Column("ts", sa.String),
        sa.Column("body", sa.LargeBinary),
    )
    table.create(connection)
    connection.commit()

    async def cycle() -> int:
        found = await client.get(DEPTH.format(symbol="FPT"), headers={"X-FH-APIKEY": KEY})
        begun = time.perf_counter_ns()
        body = decide(found.content)
        headers = signed(body)
        row = {"nonce": headers["X-FH-NONCE"], "ts": headers["X-FH-TIMESTAMP"], "body": body}
        connection.execute(table.insert(), row)
        connection.commit()
        answer = await client.post(ORDERS, content=body, headers=headers)
        require_sent(answer.content)
        return time.perf_counter_ns() - begun

    return cycle


def bare_cpu_ns(depth: bytes) -> int:
    """Return the CPU time from a depth's bytes to an order's bytes with nothing else."""
    begun = time.thread_time_ns()
    body = decide(depth)
    laid_out("POST", ORDERS, signed(body), body)
    return time.thread_time_ns() - begun
