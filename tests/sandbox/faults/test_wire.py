"""Faults as bytes on a real socket: what was sent, how fast, and how the connection ended."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from bot.clock import SimulatedClock
from bot.sandbox.faults.script import FaultScript
from bot.sandbox.sandbox import Sandbox
from bot.sandbox.serve import serve
from tests.sandbox.client import RULEBOOK, WIRE_START, scenario

pytestmark = pytest.mark.wire
QUOTE = "/market/quotes/stocks/HPG"
DEPTH = f"{QUOTE}/order-book"
A_MOMENT_S = 0.05


@dataclass
class Wire:
    """A served sandbox, and raw requests to it."""

    sandbox: Sandbox
    port: int

    def fault(self, **rule: Any) -> None:
        self.sandbox.add_fault(FaultScript.model_validate(rule))

    async def open(self, target: str = QUOTE) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Send a GET and leave the answer unread."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**20)
        key = self.sandbox.credentials.api_key
        writer.write(
            f"GET {target} HTTP/1.1\r\nHost: localhost\r\nX-FH-APIKEY: {key}\r\n\r\n".encode()
        )
        return reader, writer

    async def end(
        self,
        target: str = QUOTE,
        *,
        patience_s: float = 10,
        after_s: float = A_MOMENT_S,
        is_all: Callable[[bytes], bool] = lambda _: False,
    ) -> tuple[bytes, str]:
        """Return what came, and how it ended: rst, fin, or open still.

        `after_s` is how long an end, or more, may follow upon a whole answer, or what `is_all` that
        is to come.
        """
        reader, writer = await self.open(target)
        received = bytearray()
        ending = await _ending(reader, received, patience_s, after_s, is_all)
        writer.close()
        return bytes(received), ending


async def _ending(
    reader: asyncio.StreamReader,
    received: bytearray,
    patience_s: float,
    after_s: float,
    is_all: Callable[[bytes], bool],
) -> str:
    """Read on until the end."""
    while True:
        is_over = is_whole(received) or is_all(bytes(received))
        wait_s = after_s if is_over else patience_s
        try:
            part = await asyncio.wait_for(reader.read(65_536), wait_s)
        except TimeoutError:
            return "open"
        except ConnectionResetError:
            return "rst"
        if not part:
            return "fin"
        received += part


def is_whole(answer: bytes | bytearray) -> bool:
    return b"\r\n\r\n" in answer and len(parts(bytes(answer))[1]) >= stated_length(bytes(answer))


@asynccontextmanager
async def served() -> AsyncIterator[Wire]:
    played = scenario()
    clock, wire = SimulatedClock(played.starts_at), SimulatedClock(WIRE_START)
    sandbox = Sandbox(played, RULEBOOK, clock=clock, wire=wire)
    async with serve(sandbox) as base_url:
        yield Wire(sandbox, int(base_url.rpartition(":")[2]))
    sandbox.close()


def parts(answer: bytes) -> tuple[bytes, bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    return head, body


def stated_length(answer: bytes) -> int:
    head = parts(answer)[0].lower()
    return int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])


@pytest.mark.parametrize("do", ["rst", "fin"])
@pytest.mark.parametrize("point", ["accept", "before_auth", "after_auth", "after_apply"])
async def test_a_cut_before_the_answer_sends_no_byte(point: str, do: str) -> None:
    async with served() as wire:
        wire.fault(point=point, action={"do": do})

        assert await wire.end() == (b"", do)
        assert (await wire.end())[0].startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("do", ["rst", "fin"])
@pytest.mark.parametrize(
    ("point", "share"), [("headers_sent", 0.0), ("mid_body", 0.5), ("after_body", 1.0)]
)
async def test_a_cut_in_the_answer_sends_what_came_before(
    point: str, share: float, do: str
) -> None:
    async with served() as wire:
        wire.fault(point=point, action={"do": do})

        answer, ending = await wire.end(after_s=10)

    assert answer.startswith(b"HTTP/1.1 200")
    assert len(parts(answer)[1]) == int(stated_length(answer) * share)
    assert ending == do


@pytest.mark.parametrize("length", [0, 1, 50])
async def test_a_truncated_body_is_shorter_than_it_says(length: int) -> None:
    async with served() as wire:
        wire.fault(action={"do": "truncate", "length": length})

        answer, ending = await wire.end()

    assert (len(parts(answer)[1]), ending) == (length, "fin")
    assert stated_length(answer) > length


async def test_a_hang_says_nothing_while_others_are_answered() -> None:
    async with served() as wire:
        wire.fault(match={"path": QUOTE}, action={"do": "hang", "seconds": 600})

        hanging, other = await asyncio.gather(wire.end(patience_s=0.3), wire.end(DEPTH))

    assert hanging == (b"", "open")
    assert other[0].startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("point", ["headers_sent", "mid_body"])
async def test_a_delay_in_the_answer_comes_to_its_end(point: str) -> None:
    async with served() as wire:
        wire.fault(point=point, action={"do": "delay", "seconds": 0.05})

        answer, ending = await wire.end()

    assert len(parts(answer)[1]) == stated_length(answer)
    assert ending == "open"


async def test_a_trickle_sends_a_byte_and_waits() -> None:
    comes: dict[str, Callable[[bytes], bool]] = {
        "after_apply": bool,
        "headers_sent": lambda it: bool(parts(it)[1]),
        "mid_body": lambda it: bool(parts(it)[1]) and len(parts(it)[1]) > stated_length(it) // 2,
    }
    got = {}
    async with served() as wire:
        for point, is_all in comes.items():
            wire.fault(point=point, action={"do": "trickle"})
            got[point] = await wire.end(after_s=0.25, is_all=is_all)

    assert got["after_apply"] == (b"H", "open")
    assert len(parts(got["headers_sent"][0])[1]) == 1
    answer = got["mid_body"][0]
    assert len(parts(answer)[1]) == stated_length(answer) // 2 + 1


async def test_a_trickled_answer_is_whole_in_the_end() -> None:
    async with served() as wire:
        wire.fault(point="after_apply", action={"do": "trickle", "bytes_per_s": 100_000})

        answer, ending = await wire.end(after_s=10)

    assert answer.startswith(b"HTTP/1.1 200")
    assert (len(parts(answer)[1]), ending) == (stated_length(answer), "fin")


async def test_a_huge_answer_goes_on_until_the_client_has_enough() -> None:
    async with served() as wire:
        wire.fault(action={"do": "huge"})

        reader, writer = await wire.open()
        answer = await reader.readexactly(3 * 2**20)
        writer.close()
        other = await wire.end()

    assert stated_length(answer) == 10**9
    assert other[0].startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("length", [1, 100, 200_000])
async def test_an_answer_of_any_length_has_that_length(length: int) -> None:
    async with served() as wire:
        wire.fault(action={"do": "huge", "length": length})

        answer, _ = await wire.end()

    assert len(parts(answer)[1]) == stated_length(answer) == length


async def test_a_gzip_bomb_is_small_and_says_that_it_is_gzip() -> None:
    async with served() as wire:
        wire.fault(action={"do": "gzip_bomb"})

        answer, _ = await wire.end()

    head, body = parts(answer)
    assert b"content-encoding: gzip" in head.lower()
    assert len(body) == stated_length(answer) < 2 * 2**20
    assert len(gzip.decompress(body[: len(body) // 64])) == 16 * 2**20


async def test_one_answer_overtakes_another() -> None:
    async with served() as wire:
        wire.fault(match={"path": "/market/*"}, action={"do": "reorder", "seconds": 30})

        held = asyncio.create_task(wire.end())
        while not wire.sandbox.app._injector._held:  # noqa: ASYNC110
            await asyncio.sleep(0)
        overtaking = await wire.end(DEPTH)
        first = await held

    assert overtaking[0].startswith(b"HTTP/1.1 200")
    assert first[0].startswith(b"HTTP/1.1 200")


async def test_an_answer_that_nothing_overtakes_goes_out_after_a_while() -> None:
    async with served() as wire:
        wire.fault(action={"do": "reorder", "seconds": 0.05})

        assert (await wire.end())[0].startswith(b"HTTP/1.1 200")


async def test_the_copy_of_a_request_comes_after_the_answer_to_the_first() -> None:
    async with served() as wire:
        wire.fault(match={"nth": 1}, action={"do": "dup_request", "delay": 0.05})
        wire.fault(match={"nth": 2}, point="before_auth", action={"do": "status", "status": 500})

        answers = [(await wire.end())[0] for _ in range(2)]

    assert [answer[9:12] for answer in answers] == [b"200", b"200"]


async def test_the_control_path_takes_faults_over_the_wire() -> None:
    async with served() as wire:
        body = b'{"action": {"do": "status", "status": 418}}'
        reader, writer = await asyncio.open_connection("127.0.0.1", wire.port)
        key = wire.sandbox.credentials.api_key
        headers = f"Host: localhost\r\nX-FH-APIKEY: {key}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(f"POST /_sandbox/control HTTP/1.1\r\n{headers}".encode() + body)
        taken = await reader.readuntil(b"\r\n")
        writer.close()

        struck = (await wire.end())[0]

    assert taken.startswith(b"HTTP/1.1 200")
    assert struck.startswith(b"HTTP/1.1 418")
