"""What our own carrier does with its connections over TLS."""

import asyncio
import ssl
from asyncio import StreamReader as Reader
from asyncio import StreamWriter as Writer
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which

import pytest

from bot.broker.carrier import Carrier
from bot.broker.link import Bounds, HttpRequest, Origin, Traffic
from bot.protocol.envelope import Answer
from tests.broker.loopback import reply

pytestmark = pytest.mark.wire
BOUNDS = Bounds(deadline_s=60.0, body_bytes_max=1000)
POST = HttpRequest("POST", "/orders", {}, b"{}")
PRICE = b'{"price":27000}'


@dataclass(frozen=True)
class Ends:
    """The two ends of TLS with one self-signed certificate."""

    server: ssl.SSLContext
    client: ssl.SSLContext


@pytest.fixture
async def ends(tmp_path: Path) -> Ends:
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    openssl = which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate")
    made = await asyncio.create_subprocess_exec(
        openssl, "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt",
        "ec_paramgen_curve:prime256v1", "-subj", "/CN=localhost", "-days", "1",
        "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    await made.wait()
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(certificate, key)
    return Ends(served, ssl.create_default_context(cafile=certificate))


@dataclass
class Served:
    """A carrier to a server over TLS, and what the server has seen."""

    carrier: Carrier
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)


@asynccontextmanager
async def served(ends: Ends, *, answers_each: int) -> AsyncIterator[Served]:
    """Serve this many answers over each connection, and close it after the last."""

    async def serve(reader: Reader, writer: Writer) -> None:
        found.connections += 1
        for _ in range(answers_each):
            try:
                found.requests.append(await reader.readuntil(b"{}"))
            except asyncio.IncompleteReadError:
                break
            writer.write(reply(PRICE))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=ends.server)
    port = server.sockets[0].getsockname()[1]
    origin = Origin("https", "localhost", port, f"localhost:{port}")
    found = Served(Carrier(origin, Traffic(), tls=ends.client, connections_max=1))
    async with server:
        try:
            yield found
        finally:
            await found.carrier.close()


async def test_over_tls_one_connection_carries_one_exchange_after_another(ends):
    async with served(ends, answers_each=3) as found:
        answers = [await found.carrier.exchange(POST, BOUNDS) for _ in range(3)]

    assert [each.body for each in answers if isinstance(each, Answer)] == [PRICE] * 3
    assert found.connections == 1
    assert found.requests[0].startswith(b"POST /orders HTTP/1.1\r\nHost: localhost:")


async def test_a_close_that_comes_with_an_answer_is_seen_before_the_next_of_the_line_is_sent(ends):
    async with served(ends, answers_each=1) as found:
        exchanges = (found.carrier.exchange(POST, BOUNDS) for _ in range(4))
        answers = await asyncio.gather(*exchanges)

    assert [each.body for each in answers if isinstance(each, Answer)] == [PRICE] * 4
    assert found.connections == 4
