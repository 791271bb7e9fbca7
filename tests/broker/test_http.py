"""T1 to T13 of the transport: what a broken network makes of one exchange."""

import asyncio
import gzip
import os
import socket
import ssl
from asyncio import StreamReader as Reader
from asyncio import StreamWriter as Writer
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from shutil import which

import pytest

from bot.broker.broker import connect, connect_lanes
from bot.broker.errors import ForbiddenAddress
from bot.broker.link import (
    HEAD_BYTES_MAX,
    Bounds,
    HttpRequest,
    LateAnswer,
    Link,
    Traffic,
    UnusableAnswer,
)
from bot.protocol.endpoints.endpoint import Lane
from bot.protocol.envelope import Answer, NoAnswer
from tests.broker.loopback import RawServer, Script, raw_server, reply, reset

BOUNDS = Bounds(deadline_s=60.0, body_bytes_max=1000)
SHORT = Bounds(deadline_s=3.0, body_bytes_max=1000)
"""A third of it is for the connection, which takes half a second on a loaded machine."""
GET = HttpRequest("GET", "/users/v1/users/me", {"X-FH-APIKEY": "key"})
POST = HttpRequest("POST", "/orders", {"Content-Type": "application/json"}, b'{"quantity":100}')


Send = Callable[[object], Awaitable[None]]
LinkTo = Callable[..., AbstractAsyncContextManager[Link]]
Exchanged = Callable[..., Awaitable[Answer | NoAnswer]]


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    kept = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)


def answering(answer: bytes) -> Script:
    async def script(reader: Reader, writer: Writer, server: RawServer) -> None:
        while True:
            await server.read(reader)
            writer.write(answer)
            await writer.drain()

    return script


@pytest.fixture(params=["httpx", "ours"])
def link_to(request: pytest.FixtureRequest) -> LinkTo:
    """Both carriers keep every claim made here."""

    @asynccontextmanager
    async def opened(base_url: str, traffic: Traffic | None = None) -> AsyncIterator[Link]:
        traffic = traffic or Traffic()
        if request.param == "httpx":
            links = {Lane.PLACE: connect(base_url, traffic=traffic)}
        else:
            links = {**connect_lanes(base_url, traffic=traffic)}
        try:
            yield links[Lane.PLACE]
        finally:
            for link in set(links.values()):
                await link.close()

    return opened


@pytest.fixture
def exchanged(link_to: LinkTo) -> Exchanged:
    async def exchange(
        script: Script, request: HttpRequest = POST, bounds: Bounds = BOUNDS
    ) -> Answer | NoAnswer:
        async with raw_server(script) as server, link_to(server.base_url) as link:
            return await link.exchange(request, bounds)

    return exchange


@pytest.mark.wire
async def test_an_answer_comes_whole_with_lower_case_header_names(exchanged: Exchanged):
    answer = await exchanged(answering(reply(b'{"a":1}', headers="X-RateLimit-Reset: 7\r\n")))

    assert isinstance(answer, Answer)
    assert (answer.http_status, answer.body) == (200, b'{"a":1}')
    assert answer.headers["x-ratelimit-reset"] == "7"


@pytest.mark.wire
async def test_what_comes_up_while_a_connection_is_opened_keeps_the_request_from_leaving(
    link_to: LinkTo,
):
    stopped = list[str]()
    held = replace(POST, objection=lambda: stopped[0] if stopped else None)
    async with raw_server(answering(reply())) as server, link_to(server.base_url) as link:
        asking = asyncio.create_task(link.exchange(held, BOUNDS))
        await asyncio.sleep(0)
        stopped.append("HALTED: wrong prices")

        answer = await asking
        after = await link.exchange(POST, BOUNDS)

    assert isinstance(answer, NoAnswer)
    assert (answer.reason, answer.is_sent) == ("HALTED: wrong prices", False)
    assert isinstance(after, Answer)
    assert len(server.requests) == 1


@pytest.mark.wire
async def test_a_delete_carries_its_body_and_length_on_the_wire(link_to: LinkTo):
    body = b'{"sub_account":"120C000008.1"}'
    request = HttpRequest("DELETE", "/orders/ORD1", {"Content-Type": "application/json"}, body)

    async with raw_server(answering(reply())) as server, link_to(server.base_url) as link:
        await link.exchange(request, BOUNDS)

    [seen] = server.requests
    assert seen.line == "DELETE /orders/ORD1 HTTP/1.1"
    assert (seen.headers["content-length"], seen.body) == ("30", body)


@pytest.mark.wire
@pytest.mark.parametrize(
    "target",
    [
        "/trading/v5/account/1/user-rights?catType=CASH_DIVIDEND%2CSTOCK_DIVIDEND",
        "/o/1?a=b+c&d=%20e",
        "/o/%E1%BB%87%2Fx?q=%C4%91",
        "/plain",
    ],
)
async def test_the_target_goes_out_exactly_as_it_was_signed(link_to: LinkTo, target):
    async with raw_server(answering(reply())) as server, link_to(server.base_url) as link:
        await link.exchange(HttpRequest("GET", target, {}), BOUNDS)

    assert server.requests[0].line == f"GET {target} HTTP/1.1"


@pytest.mark.wire
async def test_a_get_sends_only_what_is_needed(link_to: LinkTo):
    async with raw_server(answering(reply())) as server, link_to(server.base_url) as link:
        await link.exchange(GET, BOUNDS)

    assert server.requests[0].headers == {
        "host": f"127.0.0.1:{server.port}",
        "accept": "application/json",
        "accept-encoding": "identity",
        "user-agent": "vnbot",
        "x-fh-apikey": "key",
    }


@pytest.mark.wire
async def test_a_closed_port_means_that_no_byte_left(link_to: LinkTo):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        base_url = f"http://127.0.0.1:{probe.getsockname()[1]}"

    async with link_to(base_url) as link:
        answer = await link.exchange(POST, BOUNDS)

    assert isinstance(answer, NoAnswer)
    assert not answer.is_sent
    address = base_url.removeprefix("http://")
    assert answer.reason == f"nothing listens at {address}: the connection was refused"


@pytest.mark.wire
async def test_what_comes_after_the_end_is_not_sent(link_to: LinkTo) -> None:
    async with raw_server(answering(reply())) as server:
        async with link_to(f"http://127.0.0.1:{server.port}") as link:
            pass
        answer = await link.exchange(POST, BOUNDS)

    assert answer == NoAnswer("the program ends, and nothing more is sent", is_sent=False)
    assert (server.requests, server.connections) == ([], 0)


@pytest.mark.wire
async def test_a_name_that_no_resolver_knows_means_that_no_byte_left(link_to: LinkTo):
    too_long = ".".join(["a" * 60] * 5)  # refused by the resolver of this machine, without a query

    async with link_to(f"https://{too_long}") as link:
        answer = await link.exchange(POST, BOUNDS)

    assert isinstance(answer, NoAnswer)
    assert not answer.is_sent


@pytest.mark.wire
async def test_a_look_up_for_which_there_is_no_thread_means_that_no_byte_left(
    link_to: LinkTo, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_thread(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", no_thread)
    async with link_to("https://broker.example") as link:
        answer = await link.exchange(GET, BOUNDS)

    assert isinstance(answer, NoAnswer)
    assert (answer.reason, answer.is_sent) == ("no connection: can't start new thread", False)


@pytest.mark.wire
async def test_a_failed_tls_handshake_means_that_no_byte_left(link_to: LinkTo):
    async with (
        raw_server(answering(reply())) as server,
        link_to(f"https://127.0.0.1:{server.port}") as link,
    ):
        answer = await link.exchange(POST, SHORT)

    assert isinstance(answer, NoAnswer)
    assert not answer.is_sent
    assert server.requests == []


@pytest.mark.wire
async def test_the_environment_gets_no_key_of_a_connection(link_to: LinkTo, tmp_path: Path) -> None:
    files = {name: str(tmp_path / name) for name in ("key.pem", "certificate.pem", "keys.log")}
    openssl = which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate")
    made = await asyncio.create_subprocess_exec(
        openssl, "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt",
        "ec_paramgen_curve:prime256v1", "-subj", "/CN=127.0.0.1", "-days", "1",
        "-keyout", files["key.pem"], "-out", files["certificate.pem"],
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    await made.wait()
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(files["certificate.pem"], files["key.pem"])
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=served)
    port = server.sockets[0].getsockname()[1]

    with environment(SSLKEYLOGFILE=files["keys.log"]):
        async with server, link_to(f"https://127.0.0.1:{port}") as link:
            answer = await link.exchange(POST, BOUNDS)

    assert isinstance(answer, NoAnswer)
    assert "CERTIFICATE" in answer.reason.upper()
    kept = tmp_path / "keys.log"
    assert "SECRET" not in (kept.read_text() if kept.exists() else "")


@pytest.mark.parametrize(
    "base_url", ["https://host:abc", "https://[::1", "https://host:99999", "http://127.0.0.1:x"]
)
def test_an_address_that_is_none_is_refused_and_no_bug(base_url: str) -> None:
    with pytest.raises(ForbiddenAddress):
        connect(base_url, traffic=Traffic())


BOTH = "Transfer-Encoding: chunked\r\n"


@pytest.mark.wire
@pytest.mark.parametrize("asked", [GET, POST], ids=["read", "write"])
async def test_an_answer_of_two_lengths_is_not_believed(
    exchanged: Exchanged, link_to: LinkTo, asked: HttpRequest
) -> None:
    smuggled = reply(b"2\r\n{}\r\n0\r\n\r\n", headers=BOTH)

    async with raw_server(answering(smuggled)) as server, link_to(server.base_url) as link:
        answers = [await link.exchange(asked, BOUNDS) for _ in range(2)]

    for answer in answers:
        assert isinstance(answer, UnusableAnswer)
        assert answer.is_sent
        assert answer.reason == "the answer has both Content-Length and Transfer-Encoding"
    assert server.connections == 2, "such a connection is not used again"


@pytest.mark.wire
@pytest.mark.parametrize("close", [reset, Writer.close], ids=["rst", "fin"])
async def test_a_connection_dropped_after_the_request_leaves_it_open_whether_it_arrived(
    exchanged: Exchanged, close
):
    async def script(reader: Reader, writer: Writer, server: RawServer) -> None:
        await server.read(reader)
        close(writer)

    answer = await exchanged(script)

    assert isinstance(answer, NoAnswer)
    assert answer.is_sent


@pytest.mark.wire
@pytest.mark.parametrize("kept", [0, 1, 5])
async def test_a_truncated_body_is_no_answer(exchanged: Exchanged, kept):
    async def script(reader: Reader, writer: Writer, server: RawServer) -> None:
        await server.read(reader)
        writer.write(reply(b'{"a":1}'[:kept], length=7))
        await writer.drain()

    answer = await exchanged(script)

    assert isinstance(answer, NoAnswer)
    assert answer.is_sent


@pytest.mark.wire
async def test_a_cut_chunk_is_no_answer(exchanged: Exchanged):
    async def script(reader: Reader, writer: Writer, server: RawServer) -> None:
        await server.read(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab")
        await writer.drain()

    assert isinstance(await exchanged(script), NoAnswer)


@pytest.mark.wire
@pytest.mark.parametrize(
    "raw",
    [
        b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-Sum: 1\r\n\r\n",
        b"Connection: close\r\n\r\n{}",
        b"Content-Length: 2\r\nX: a\r\n b\r\n\r\n{}",
    ],
    ids=["chunks and trailers", "until the close", "a folded header"],
)
async def test_an_answer_may_end_in_every_lawful_way(exchanged: Exchanged, raw: bytes) -> None:
    async def script(reader: Reader, writer: Writer, server: RawServer) -> None:
        await server.read(reader)
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n" + raw)
        await writer.drain()

    answer = await exchanged(script)

    assert isinstance(answer, Answer)
    assert (answer.http_status, answer.body) == (200, b"{}")


@pytest.mark.wire
async def test_a_head_without_an_end_is_no_answer(exchanged: Exchanged):
    endless = b"HTTP/1.1 200 OK\r\nX: " + b"y" * 4 * HEAD_BYTES_MAX + b"\r\n"

    answer = await exchanged(answering(endless + b"Content-Length: 2\r\n\r\n{}"))

    assert type(answer) is NoAnswer
    assert answer.is_sent


@pytest.mark.wire
@pytest.mark.parametrize("garbage", [b"\x00\x01\x02\r\n\r\n", b"HTTP/1.1 abc OK\r\n\r\n"])
async def test_an_answer_that_is_no_http_is_no_answer(exchanged: Exchanged, garbage):
    answer = await exchanged(answering(garbage))

    assert isinstance(answer, NoAnswer)
    assert answer.is_sent


async def _hang(reader: Reader, writer: Writer, server: RawServer) -> None:
    await server.read(reader)
    await asyncio.sleep(60)


async def _drip_headers(reader: Reader, writer: Writer, server: RawServer) -> None:
    await server.read(reader)
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"X: y\r\n")
        await writer.drain()
        await asyncio.sleep(0.02)


async def _drip_body(reader: Reader, writer: Writer, server: RawServer) -> None:
    await server.read(reader)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


@pytest.mark.wire
@pytest.mark.parametrize("script", [_hang, _drip_headers, _drip_body])
async def test_the_deadline_is_for_the_whole_exchange(link_to: LinkTo, script: Script) -> None:
    async with raw_server(script) as server, link_to(server.base_url) as link:
        started = asyncio.get_running_loop().time()
        answer = await link.exchange(POST, SHORT)

    assert isinstance(answer, LateAnswer)
    assert answer.is_sent
    assert asyncio.get_running_loop().time() - started < 30


@pytest.mark.wire
async def test_a_body_beyond_the_cap_is_left_unread(exchanged: Exchanged):
    sent = 0

    async def script(reader: Reader, writer: Writer, server: RawServer) -> None:
        nonlocal sent
        await server.read(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536

    answer = await exchanged(script, bounds=Bounds(deadline_s=60, body_bytes_max=100_000))

    assert isinstance(answer, NoAnswer)
    assert answer.reason == "wanted at most 100,000 bytes, found more"
    assert sent < 20_000_000


@pytest.mark.wire
async def test_a_gzip_bomb_stays_as_small_as_it_came(exchanged: Exchanged):
    bomb = gzip.compress(b"0" * 500_000)
    bounds = Bounds(deadline_s=60, body_bytes_max=2000)

    answer = await exchanged(
        answering(reply(bomb, headers="Content-Encoding: gzip\r\n")), bounds=bounds
    )

    assert isinstance(answer, Answer)
    assert answer.body == bomb


@pytest.mark.wire
@pytest.mark.parametrize("status", ["301 Moved Permanently", "307 Temporary Redirect"])
async def test_a_redirect_is_an_answer_and_is_not_followed(exchanged: Exchanged, status):
    async with raw_server(answering(reply())) as other:
        location = f"Location: {other.base_url}/orders\r\n"
        answer = await exchanged(answering(reply(status=status, headers=location)))

    assert isinstance(answer, Answer)
    assert answer.http_status == int(status[:3])
    assert other.connections == 0


@pytest.mark.wire
async def test_proxy_variables_are_not_obeyed(exchanged: Exchanged):
    async with raw_server(answering(reply())) as proxy:
        with environment(HTTP_PROXY=proxy.base_url, ALL_PROXY=proxy.base_url):
            answer = await exchanged(answering(reply(b'{"direct":true}')))

    assert isinstance(answer, Answer)
    assert answer.body == b'{"direct":true}'
    assert proxy.connections == 0


@pytest.mark.wire
async def test_cookies_are_not_kept(link_to: LinkTo):
    async with (
        raw_server(answering(reply(headers="Set-Cookie: a=b\r\n"))) as server,
        link_to(server.base_url) as link,
    ):
        await link.exchange(GET, BOUNDS)
        await link.exchange(GET, BOUNDS)

    assert "cookie" not in server.requests[1].headers


@pytest.mark.wire
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_a_stale_connection_never_sends_an_order_twice(link_to: LinkTo, method):
    async def script(reader: Reader, writer: Writer, server: RawServer) -> None:
        await server.read(reader)
        if len(server.requests) == 1:
            writer.write(reply())
            await writer.drain()
            await server.read(reader)

    request = HttpRequest(method, "/orders", {}, b"{}")
    async with raw_server(script) as server, link_to(server.base_url) as link:
        await link.exchange(request, BOUNDS)
        answer = await link.exchange(request, BOUNDS)

    assert isinstance(answer, NoAnswer)
    assert answer.is_sent
    assert len(server.requests) == 2


@pytest.mark.wire
@pytest.mark.parametrize("more", [None, 40, 0], ids=["twice", "begun", "once"])
async def test_what_follows_an_answer_is_not_the_next_requests(
    link_to: LinkTo, more: int | None
) -> None:
    async def script(reader: Reader, writer: Writer, server: RawServer) -> None:
        while True:
            await server.read(reader)
            whole = reply(f'{{"request":{len(server.requests)}}}'.encode())
            writer.write(whole + whole[:more])
            await writer.drain()

    async with raw_server(script) as server, link_to(server.base_url) as link:
        answers = [await link.exchange(GET, BOUNDS) for _ in range(3)]

    bodies = [answer.body for answer in answers if isinstance(answer, Answer)]
    assert bodies == [b'{"request":1}', b'{"request":2}', b'{"request":3}']


@pytest.mark.wire
async def test_a_caller_that_goes_away_does_not_cut_off_the_request(link_to: LinkTo):
    arrived, go_on = asyncio.Event(), asyncio.Event()
    traffic = Traffic()

    async def script(reader: Reader, writer: Writer, server: RawServer) -> None:
        await server.read(reader)
        arrived.set()
        await go_on.wait()
        writer.write(reply())
        await writer.drain()

    async with raw_server(script) as server, link_to(server.base_url, traffic) as link:
        caller = asyncio.create_task(link.exchange(POST, BOUNDS))
        await arrived.wait()
        caller.cancel()
        await asyncio.wait([caller])
        was_in_flight = len(traffic._under_way)
        go_on.set()
        await traffic.drain()

    assert (was_in_flight, len(traffic._under_way)) == (1, 0)


@pytest.mark.wire
async def test_cancelled_callers_leave_no_connection_stuck(link_to: LinkTo):
    async def script(reader: Reader, writer: Writer, server: RawServer) -> None:
        while True:
            await server.read(reader)
            await asyncio.sleep(0.005)
            writer.write(reply())
            await writer.drain()

    bounds = Bounds(deadline_s=60, body_bytes_max=1000)
    async with raw_server(script) as server, link_to(server.base_url) as link:
        for number in range(60):
            caller = asyncio.create_task(link.exchange(GET, bounds))
            await asyncio.sleep(0.0003 * (number % 20))
            caller.cancel()
        answers = await asyncio.gather(*(link.exchange(GET, bounds) for _ in range(30)))

    assert all(isinstance(answer, Answer) for answer in answers)


@pytest.mark.wire
async def test_after_a_missed_deadline_the_next_request_has_a_fresh_connection(link_to: LinkTo):
    async def script(reader: Reader, writer: Writer, server: RawServer) -> None:
        await server.read(reader)
        if server.connections == 1:
            await asyncio.Event().wait()
        writer.write(reply(f'{{"connection":{server.connections}}}'.encode()))
        await writer.drain()

    async with raw_server(script) as server, link_to(server.base_url) as link:
        late = await link.exchange(GET, SHORT)
        answer = await link.exchange(GET, BOUNDS)

    assert isinstance(late, LateAnswer)
    assert isinstance(answer, Answer)
    assert answer.body == b'{"connection":2}'


@pytest.mark.parametrize(
    "base_url",
    [
        "http://broker.example",
        "http://192.168.1.4:8790",
        "http://localhost.example:80",
        "ftp://127.0.0.1",
        "127.0.0.1:8790",
        "https://",
        "https://user:word@broker.example",
        "https://broker.example/v1",
        "https://broker.example?x=1",
    ],
)
def test_a_base_url_that_is_not_safe_is_refused(base_url):
    with pytest.raises(ForbiddenAddress):
        connect(base_url, traffic=Traffic())


@pytest.mark.parametrize(
    "base_url",
    [
        "https://broker.example",
        "http://127.0.0.1:8790/",
        "http://localhost:8790",
        "http://[::1]:8790",
    ],
)
async def test_https_and_loopback_are_allowed(base_url):
    await connect(base_url, traffic=Traffic()).close()


async def test_with_max_concurrent_one_requests_go_in_the_order_of_the_calls():
    story: list[str] = []

    async def app(scope: MutableMapping[str, object], receive: object, send: Send) -> None:
        path = str(scope["path"])
        story.append(f"start {path}")
        for _ in range(5 if path == "/0" else 1):
            await asyncio.sleep(0)
        story.append(f"end {path}")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    link = connect("http://127.0.0.1", traffic=Traffic(max_concurrent=1), app=app)
    requests = [HttpRequest("GET", f"/{number}", {}) for number in range(3)]
    await asyncio.gather(*(link.exchange(request, BOUNDS) for request in requests))

    assert story == ["start /0", "end /0", "start /1", "end /1", "start /2", "end /2"]


async def test_a_request_counts_as_in_flight_from_the_call_to_the_answer():
    traffic = Traffic()
    seen: list[int] = []

    async def app(scope: object, receive: object, send: Send) -> None:
        seen.append(len(traffic._under_way))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    link = connect("http://127.0.0.1", traffic=traffic, app=app)
    await link.exchange(GET, BOUNDS)

    assert seen == [1]
    assert len(traffic._under_way) == 0


async def test_headers_and_bodies_stay_out_of_a_requests_repr():
    request = HttpRequest("POST", "/orders", {"X-FH-2FA-TOKEN": "canary"}, b"canary")

    assert "canary" not in repr(request)
