"""What our own carrier does with its connections; test_http has what it shares with httpx."""

import asyncio
import socket
import ssl
from asyncio import StreamReader as Reader
from asyncio import StreamWriter as Writer
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any
from unittest.mock import ANY

import pytest

from bot.broker.answer_reader import INFORMATIONAL_MAX
from bot.broker.broker import (
    CANCELS_MAX,
    PLACES_MAX,
    READS_MAX,
    AllBounds,
    Broker,
    connect_lanes,
    open_broker,
)
from bot.broker.budget import RequestBudget
from bot.broker.carrier import Carrier, _Connection
from bot.broker.link import (
    DRAIN_S,
    IDLE_S_MAX,
    Bounds,
    HttpRequest,
    LateAnswer,
    Origin,
    Traffic,
    UnusableAnswer,
)
from bot.broker.signer import Credentials
from bot.clock import SimulatedClock
from bot.protocol.endpoints.endpoint import Lane
from bot.protocol.envelope import Answer, NoAnswer
from bot.protocol.secret import Secret
from tests.broker.loopback import START, JumpingWaiter, RawServer, Script, raw_server, reply
from tests.broker.played_broker import ACCOUNT

BOUNDS = Bounds(deadline_s=60.0, body_bytes_max=1000)
GET = HttpRequest("GET", "/market/quotes/stocks/HPG/order-book", {"X-FH-APIKEY": "key"})
CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
POST = HttpRequest("POST", "/orders", {}, b"{}")


@asynccontextmanager
async def carrier_to(
    port: int, most: int = 4, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Carrier]:
    origin = Origin("https" if tls else "http", host, port, f"{host}:{port}")
    carrier = Carrier(origin, Traffic(), tls=tls, connections_max=most)
    try:
        yield carrier
    finally:
        await carrier.close()


def answering(answer: bytes, then: bytes = b"") -> Script:
    async def script(reader: Reader, writer: Writer, server: RawServer) -> None:
        while True:
            await server.read(reader)
            writer.write(answer)
            await writer.drain()
            if then:
                await asyncio.sleep(0.01)
                writer.write(then)

    return script


async def _hang(reader: Reader, writer: Writer, server: RawServer) -> None:
    await server.read(reader)
    await asyncio.Event().wait()


async def _hang_depths(reader: Reader, writer: Writer, server: RawServer) -> None:
    request = await server.read(reader)
    if "order-book" in request.line:
        await asyncio.Event().wait()
    writer.write(reply())
    await writer.drain()


def _asked(server: RawServer, lane: Lane) -> int:
    return sum(request.line.startswith(f"POST /{lane} ") for request in server.requests)


async def _gone(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.wire
async def test_one_connection_carries_one_exchange_after_another():
    async with raw_server(answering(reply())) as server, carrier_to(server.port) as carrier:
        answers = [await carrier.exchange(POST, BOUNDS) for _ in range(5)]

    assert all(isinstance(answer, Answer) for answer in answers)
    assert server.connections == 1


@pytest.mark.wire
async def test_there_are_no_more_connections_than_allowed_and_the_line_is_served_in_order():
    async with raw_server(answering(reply())) as server, carrier_to(server.port, 2) as carrier:
        requests = [HttpRequest("GET", f"/{number}", {}) for number in range(20)]
        answers = await asyncio.gather(*(carrier.exchange(each, BOUNDS) for each in requests))

    assert all(isinstance(answer, Answer) for answer in answers)
    assert server.connections == 2
    seen = [int(request.line.split("/")[1].split()[0]) for request in server.requests]
    assert all(abs(number - at) <= 1 for at, number in enumerate(seen))


@pytest.mark.wire
async def test_no_write_waits_for_the_connection_of_a_read():
    async with raw_server(_hang_depths) as server:
        links = connect_lanes(server.base_url, traffic=Traffic())
        reads = [
            asyncio.create_task(links[Lane.QUOTE].exchange(GET, BOUNDS))
            for _ in range(READS_MAX + 5)
        ]
        await asyncio.sleep(0)
        answers = [await links[lane].exchange(POST, BOUNDS) for lane in (Lane.PLACE, Lane.CANCEL)]
        asked = len(server.requests) - len(answers)
        is_over = [read.done() for read in reads]
        await _gone(*reads)
        for link in set(links.values()):
            await link.close()

    assert all(isinstance(answer, Answer) for answer in answers)
    assert asked <= READS_MAX
    assert not any(is_over)


@pytest.mark.wire
async def test_no_cancel_waits_for_the_connection_of_a_place():
    async with raw_server(_hang) as server:
        links = connect_lanes(server.base_url, traffic=Traffic())
        lanes = [Lane.PLACE] * (PLACES_MAX + 1) + [Lane.CANCEL] * CANCELS_MAX
        writes = [
            asyncio.create_task(links[lane].exchange(HttpRequest("POST", f"/{lane}", {}), BOUNDS))
            for lane in lanes
        ]
        async with asyncio.timeout(BOUNDS.deadline_s / 2):
            while _asked(server, Lane.CANCEL) < CANCELS_MAX:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        places = _asked(server, Lane.PLACE)
        await _gone(*writes)
        for link in set(links.values()):
            await link.close()

    assert places <= PLACES_MAX


@pytest.mark.wire
async def test_what_waits_for_a_connection_until_its_deadline_was_not_sent():
    async def script(reader: Reader, writer: Writer, server: RawServer) -> None:
        await server.read(reader)
        writer.write(reply())
        await writer.drain()
        await _hang(reader, writer, server)

    async with raw_server(script) as server, carrier_to(server.port, 1) as carrier:
        await carrier.exchange(POST, BOUNDS)
        bounds = [Bounds(deadline_s=each, body_bytes_max=1000) for each in (1.0, 0.2)]
        first, second = await asyncio.gather(*(carrier.exchange(POST, each) for each in bounds))

    assert isinstance(first, LateAnswer)
    assert isinstance(second, LateAnswer)
    assert (first.is_sent, second.is_sent) == (True, False)
    assert len(server.requests) == 2


@pytest.mark.wire
async def test_what_waits_for_a_connection_at_the_end_is_not_sent_any_more():
    async with raw_server(_hang) as server:
        async with carrier_to(server.port, 1) as carrier:
            writes = [asyncio.create_task(carrier.exchange(POST, BOUNDS)) for _ in range(2)]
            await asyncio.sleep(0)
        second = await writes[1]
        await asyncio.sleep(0.05)
        await _gone(*writes)

    assert (second, len(server.requests)) == (
        NoAnswer("the program ends, and no connection was free", is_sent=False, latency_ms=ANY),
        1,
    )


@pytest.mark.wire
async def test_an_objection_that_fails_reaches_its_own_caller_and_costs_no_connection():
    def fail() -> str:
        raise LookupError("a gate with a bug")

    bad = HttpRequest("POST", "/orders", {}, b"{}", objection=fail)
    async with raw_server(answering(reply())) as server, carrier_to(server.port, 1) as carrier:
        for requests in ((bad, GET), (GET, bad, GET), (bad,)):
            exchanges = [carrier.exchange(each, BOUNDS) for each in requests]
            ended = await asyncio.wait_for(asyncio.gather(*exchanges, return_exceptions=True), 5)
            assert [type(each) for each in ended] == [
                LookupError if each is bad else Answer for each in requests
            ]

    assert (len(server.requests), server.connections) == (3, 1)


@pytest.mark.wire
async def test_what_is_under_way_at_the_end_ends_with_its_connection_as_sent():
    async with raw_server(_hang) as server:
        async with carrier_to(server.port) as carrier:
            write = asyncio.create_task(carrier.exchange(POST, BOUNDS))
            await asyncio.sleep(0)
        answer = await asyncio.wait_for(write, 5)

    assert answer == NoAnswer(
        "the program ended before the answer came", is_sent=True, latency_ms=ANY
    )


@pytest.mark.wire
async def test_a_server_that_has_closed_meanwhile_is_noticed_before_the_first_byte():
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)

        async def serve() -> socket.socket:
            wire, _ = await loop.sock_accept(listener)
            await loop.sock_recv(wire, 4096)
            await loop.sock_sendall(wire, reply())
            return wire

        async with carrier_to(listener.getsockname()[1]) as carrier:
            first, wire = await asyncio.gather(carrier.exchange(POST, BOUNDS), serve())
            wire.close()  # the loop has no turn before the next exchange begins
            second, again = await asyncio.gather(carrier.exchange(POST, BOUNDS), serve())
            again.close()

    assert isinstance(first, Answer)
    assert isinstance(second, Answer)


@pytest.mark.wire
async def test_a_connection_idle_for_too_long_is_not_used_again():
    async with raw_server(answering(reply())) as server, carrier_to(server.port) as carrier:
        await carrier.exchange(POST, BOUNDS)
        [idle] = carrier._idle
        idle._free_since_s -= IDLE_S_MAX
        answer = await carrier.exchange(POST, BOUNDS)

    assert isinstance(answer, Answer)
    assert server.connections == 2


@pytest.mark.wire
@pytest.mark.parametrize(
    "raw",
    [
        reply() + b"HTTP/1.1 200 OK\r\n",
        reply() + reply(b"[1]"),
        CHUNKS + reply(b"[1]"),
        reply(headers="Connection: close\r\n"),
        CHUNKS.replace(b"\r\n", b"\r\nConnection: close\r\n", 1),
        reply().replace(b"1.1", b"1.0"),
    ],
    ids=["half", "another", "another behind chunks", "plain close", "chunked close", "HTTP/1.0"],
)
async def test_a_connection_that_says_more_or_ends_is_not_used_again(raw: bytes) -> None:
    async with raw_server(answering(raw)) as server, carrier_to(server.port) as carrier:
        answers = [await carrier.exchange(POST, BOUNDS) for _ in range(2)]

    assert [each.body for each in answers if isinstance(each, Answer)] == [b"{}", b"{}"]
    assert server.connections == 2


@pytest.mark.wire
async def test_an_answer_that_nobody_asked_for_ends_its_connection():
    script = answering(reply(), then=reply(b"[1]"))
    async with raw_server(script) as server, carrier_to(server.port) as carrier:
        first = await carrier.exchange(POST, BOUNDS)
        for _ in range(400):
            await asyncio.sleep(0.005 if carrier._idle else 0)
        second = await carrier.exchange(POST, BOUNDS)

    assert [each.body for each in (first, second) if isinstance(each, Answer)] == [b"{}", b"{}"]
    assert server.connections == 2


@pytest.mark.wire
async def test_a_server_that_closes_every_new_connection_is_not_hammered():
    async def script(reader: Reader, writer: Writer, server: RawServer) -> None:
        writer.close()

    async with raw_server(script) as server, carrier_to(server.port) as carrier:
        answers = await asyncio.gather(*(carrier.exchange(POST, BOUNDS) for _ in range(3)))

    assert all(isinstance(answer, NoAnswer) for answer in answers)
    assert server.connections <= 3


class CutOff(Carrier):
    """Its connections are closed before anyone can use them."""

    attempts = 0

    async def _connected(self, each_s: float) -> _Connection:
        self.attempts += 1
        made = await super()._connected(each_s)
        made._transport.abort()
        return made


@pytest.mark.wire
async def test_a_new_connection_that_is_closed_already_carries_no_byte():
    async with raw_server(answering(reply())) as server:
        origin = Origin("http", "127.0.0.1", server.port, "127.0.0.1")
        carrier = CutOff(origin, Traffic(), tls=None, connections_max=1)
        answer = await carrier.exchange(POST, BOUNDS)
        await carrier.close()

    assert isinstance(answer, NoAnswer)
    assert not answer.is_sent
    assert (carrier.attempts, server.requests) == (1, [])


@pytest.mark.wire
async def test_a_deadline_frees_its_place_at_once():
    async def script(reader: Reader, writer: Writer, server: RawServer) -> None:
        await server.read(reader)
        writer.write(reply(b"[%d]" % server.connections))
        await writer.drain()
        if server.connections == 1:
            await _hang(reader, writer, server)

    async with raw_server(script) as server, carrier_to(server.port, 1) as carrier:
        await carrier.exchange(GET, BOUNDS)
        late = await carrier.exchange(GET, Bounds(deadline_s=0.6, body_bytes_max=1000))
        answer = await carrier.exchange(GET, BOUNDS)

    assert isinstance(late, LateAnswer)
    assert isinstance(answer, Answer)
    assert answer.body == b"[2]"


@pytest.mark.wire
async def test_the_answer_to_a_caller_that_has_gone_leaves_its_connection_in_order():
    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: failures.append(what))
    async with raw_server(answering(reply())) as server, carrier_to(server.port, 1) as carrier:
        await carrier.exchange(POST, BOUNDS)
        caller = asyncio.create_task(carrier.exchange(POST, BOUNDS))
        await asyncio.sleep(0)
        caller.cancel()
        answer = await carrier.exchange(POST, BOUNDS)

    assert isinstance(answer, Answer)
    assert (len(server.requests), server.connections, failures) == (3, 1, [])


def broker_at(base_url: str) -> Broker:
    clock = SimulatedClock(START)
    waiter = JumpingWaiter(clock)
    return open_broker(
        base_url,
        Credentials(Secret("key"), Secret("secret"), "test-device"),
        wire=clock,
        waiter=waiter,
        budget=RequestBudget(per_minute=6_000, waiter=waiter, jitter=Random(7)),
        bounds=AllBounds(BOUNDS, BOUNDS, BOUNDS),
    )


async def _waits_in_turns(times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(DRAIN_S)


@pytest.mark.wire
async def test_all_connections_wait_together_for_a_read_that_hangs_at_the_end():
    has_come = asyncio.Event()

    async def hang(reader: Reader, writer: Writer, server: RawServer) -> None:
        await server.read(reader)
        has_come.set()
        await reader.read()

    async with raw_server(hang) as server:
        broker = broker_at(server.base_url)
        read = asyncio.create_task(broker.client.depth("HPG"))
        await has_come.wait()
        in_turns = asyncio.create_task(_waits_in_turns(3))  # one after another they take four
        await broker.close()
        is_in_time = not in_turns.done()
        await _gone(read, in_turns)

    assert is_in_time


@pytest.mark.wire
async def test_a_burn_waits_for_no_connection_of_a_read():
    async with raw_server(_hang_depths) as server:
        broker = broker_at(server.base_url)
        reads = [asyncio.create_task(broker.client.depth("HPG")) for _ in range(READS_MAX + 1)]
        await asyncio.sleep(0)
        answer = await broker.writer.burn("nonce")
        await _gone(*reads)
        await broker.close()

    assert isinstance(answer, Answer)


async def _hang_but_for_cancels(reader: Reader, writer: Writer, server: RawServer) -> None:
    request = await server.read(reader)
    if not request.line.startswith("DELETE"):
        await asyncio.Event().wait()
    writer.write(reply())


@pytest.mark.wire
async def test_no_cancel_waits_for_a_burn_that_hangs():
    async with raw_server(_hang_but_for_cancels) as server:
        broker = broker_at(server.base_url)
        broker.two_factor.set_token(Secret("token"))
        burns = [
            asyncio.create_task(broker.writer.burn(f"nonce {n}")) for n in range(PLACES_MAX + 1)
        ]
        while not server.requests:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        answer = await broker.writer.send(broker.writer.prepare_cancel(ACCOUNT, "ORD1"))
        is_before_the_burns = not any(burn.done() for burn in burns)
        await _gone(*burns)
        await broker.close()

    assert isinstance(answer, Answer)
    assert is_before_the_burns


@pytest.mark.wire
async def test_a_flood_of_informational_answers_is_cut_off():
    flood = b"HTTP/1.1 103 Hints\r\n\r\n" * (INFORMATIONAL_MAX + 1) + reply()

    async with raw_server(answering(flood)) as server, carrier_to(server.port) as carrier:
        answer = await carrier.exchange(POST, BOUNDS)

    assert isinstance(answer, UnusableAnswer)
    assert answer.is_sent


@pytest.mark.wire
@pytest.mark.parametrize(
    "request_",
    [
        HttpRequest("GET", "/a", {"X-FH-2FA-TOKEN": "a\r\nX-Other: b"}),
        HttpRequest("GET", "/a", {"X-FH-2FA-TOKEN": "a\n"}),
        HttpRequest("GET", "/a", {"device-id": "má"}),
        HttpRequest("GET", "/a HTTP/1.1\r\nX: b", {}),
        HttpRequest("GET", "/a b", {}),
    ],
)
async def test_a_text_that_would_say_something_else_is_not_sent(request_: HttpRequest) -> None:
    async with raw_server(answering(reply())) as server, carrier_to(server.port) as carrier:
        answer = await carrier.exchange(request_, BOUNDS)

    assert isinstance(answer, NoAnswer)
    assert not answer.is_sent
    assert server.connections == 0


async def test_a_look_up_for_which_there_is_no_thread_is_tried_once(monkeypatch):
    looked_up: list[object] = []

    async def no_thread(host: object, *_: object, **__: object) -> None:
        looked_up.append(host)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", no_thread)
    async with carrier_to(1, host="broker.example") as carrier:
        answer = await carrier.exchange(POST, BOUNDS)

    assert isinstance(answer, NoAnswer)
    assert not answer.is_sent
    assert answer.reason == "no connection: can't start new thread"
    assert len(looked_up) == 1


SILENT = "192.0.2.1"
WITH_SILENCE = Bounds(deadline_s=6.0, body_bytes_max=1000)


class TwoAddresses(asyncio.SelectorEventLoop):
    """Its only host has two addresses: a silent one, and after it a server's."""

    def __init__(self) -> None:
        super().__init__()
        self.tried: list[str] = []

    async def getaddrinfo(self, *_: Any, **__: Any) -> list[Any]:
        kind = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
        return [(*kind, (address, 0)) for address in (SILENT, SILENT, "127.0.0.1")]

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        self.tried.append(address[0])
        if address[0] == SILENT:
            await asyncio.Event().wait()
        await super().sock_connect(sock, address)


@pytest.mark.wire
def test_a_silent_address_does_not_hide_the_next_one_of_its_host():
    async def asked(times: int) -> list[Answer | NoAnswer]:
        closing = answering(reply(headers="Connection: close\r\n"))
        async with (
            raw_server(closing) as server,
            carrier_to(server.port, host="broker.example") as carrier,
        ):
            return [await carrier.exchange(POST, WITH_SILENCE) for _ in range(times)]

    with asyncio.Runner(loop_factory=TwoAddresses) as runner:
        answers = runner.run(asked(2))
        loop = runner.get_loop()

    assert all(isinstance(answer, Answer) for answer in answers)
    assert isinstance(loop, TwoAddresses)
    assert loop.tried == [SILENT, "127.0.0.1", "127.0.0.1"]


@pytest.mark.wire
def test_a_host_that_nobody_answers_for_was_sent_nothing():
    async def asked() -> Answer | NoAnswer:
        async with carrier_to(1, host="broker.example") as carrier:
            return await carrier.exchange(POST, WITH_SILENCE)

    with asyncio.Runner(loop_factory=TwoAddresses) as runner:
        answer = runner.run(asked())

    assert isinstance(answer, NoAnswer)
    assert not answer.is_sent
    assert answer.reason == "nothing listens at broker.example:1: the connection was refused"
