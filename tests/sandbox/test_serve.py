"""The sandbox on a real socket."""

import asyncio
import json
import signal
from datetime import UTC, datetime

import httpx
import pytest

from bot.clock import ScaledClock, SimulatedClock, SystemClock
from bot.sandbox.errors import PortInUse
from bot.sandbox.faults.script import FaultScript
from bot.sandbox.sandbox import Sandbox
from bot.sandbox.serve import Http, credentials_line, market_start, run_free, serve
from tests.sandbox.client import RULEBOOK, bench, scenario

QUOTE = "/market/quotes/stocks/HPG"
_HANG = {"do": "hang", "seconds": 3_600}


def keyed(sandbox: Sandbox) -> dict[str, str]:
    return {"X-FH-APIKEY": sandbox.credentials.api_key}


@pytest.mark.wire
async def test_it_answers_on_a_free_port_and_leaves_signals_alone() -> None:
    sandbox = bench().sandbox
    before = signal.getsignal(signal.SIGTERM)

    async with serve(sandbox) as base_url, httpx.AsyncClient(base_url=base_url) as client:
        answer = await client.get(QUOTE, headers=keyed(sandbox))
        during = signal.getsignal(signal.SIGTERM)

    assert answer.json()["data"]["price"] == 27_000
    assert answer.headers.get_list("date") == ["Thu, 19 Nov 2026 02:15:00 GMT"]
    assert during is before


@pytest.mark.wire
@pytest.mark.parametrize("http", ["h11", "httptools"])
async def test_it_ends_at_once_and_in_silence_while_a_fault_keeps_answers_back(
    http: Http, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip(http)
    hang = FaultScript.model_validate({"match": {"verb": "GET"}, "action": _HANG})
    clock, wire = SimulatedClock(scenario().starts_at), SystemClock()
    sandbox = Sandbox(scenario(faults=[hang]), RULEBOOK, clock=clock, wire=wire)

    async with httpx.AsyncClient() as client:
        async with serve(sandbox, http=http) as base_url:
            asked = asyncio.create_task(client.get(base_url + QUOTE, headers=keyed(sandbox)))
            await asyncio.sleep(0.1)
        with pytest.raises(httpx.TransportError):
            await asked

    assert [record.message for record in caplog.records if record.name == "uvicorn.error"] == []


@pytest.mark.wire
async def test_a_port_in_use_is_named() -> None:
    first, second = bench().sandbox, bench().sandbox

    async with serve(first) as base_url:
        port = int(base_url.rpartition(":")[2])
        with pytest.raises(PortInUse, match=str(port)):
            async with serve(second, port=port):
                pass


@pytest.mark.wire
@pytest.mark.parametrize(
    ("action", "error"),
    [
        ({"do": "rst"}, httpx.ReadError),
        ({"do": "fin"}, httpx.RemoteProtocolError),
        ({"do": "truncate", "length": 10}, httpx.RemoteProtocolError),
    ],
)
@pytest.mark.parametrize("http", ["httptools", "h11"])
async def test_a_fault_cuts_a_real_connection(
    action: dict[str, object], error: type[Exception], http: Http
) -> None:
    sandbox = bench().sandbox
    sandbox.add_fault(FaultScript.model_validate({"action": action}))

    async with (
        serve(sandbox, http=http) as base_url,
        httpx.AsyncClient(base_url=base_url) as client,
    ):
        with pytest.raises(error):
            await client.get(QUOTE, headers=keyed(sandbox))
        answer = await client.get(QUOTE, headers=keyed(sandbox))

    assert answer.status_code == 200


HEAD = b" HTTP/1.1\r\nHost: localhost\r\nX-FH-APIKEY: KEY\r\n"
OTP = b"POST /auth/v1/openapi/2fa/request"
WELL_FORMED = {
    "read": b"GET /market/quotes/stocks/HPG" + HEAD + b"\r\n",
    "query": b"GET /market/quotes/stocks/HPG?a=1&b=%20x" + HEAD + b"\r\n",
    "escaped": b"GET /market/quotes/stocks/H%50G" + HEAD + b"\r\n",
    "nowhere": b"GET //market/quotes/stocks/HPG" + HEAD + b"\r\n",
    "no method of ours": b"PATCH /market/quotes/stocks/HPG" + HEAD + b"\r\n",
    "head alone": b"HEAD /market/quotes/stocks/HPG" + HEAD + b"\r\n",
    "body": OTP + HEAD + b"Content-Length: 2\r\n\r\n{}",
    "body in parts": OTP + HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "body on demand": OTP + HEAD + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
    "two at once": (b"GET /market/quotes/stocks/HPG" + HEAD + b"\r\n") * 2,
    "the last": b"GET /market/quotes/stocks/HPG" + HEAD + b"Connection: close\r\n\r\n",
}


async def conversation(http: Http, request: bytes) -> bytes:
    """Send a request, then one that ends the connection, and return all that came."""
    sandbox = bench().sandbox
    key, last = sandbox.credentials.api_key.encode(), WELL_FORMED["the last"]
    async with serve(sandbox, http=http) as base_url:
        port = int(base_url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write((request if request == last else request + last).replace(b"KEY", key))
        received = await asyncio.wait_for(reader.read(-1), 60)
        writer.close()
    # The two write the name of this one header differently.
    return received.replace(b"Connection: close", b"connection: close")


@pytest.mark.wire
@pytest.mark.parametrize("request_bytes", WELL_FORMED.values(), ids=WELL_FORMED.keys())
async def test_what_reads_the_requests_makes_no_difference(request_bytes: bytes) -> None:
    quick = await conversation("httptools", request_bytes)
    plain = await conversation("h11", request_bytes)

    assert quick == plain
    assert quick.startswith(b"HTTP/1.1 ")


@pytest.mark.wire
@pytest.mark.parametrize("http", ["httptools", "h11"])
async def test_a_second_host_opens_no_way_in(http: Http) -> None:
    twice = WELL_FORMED["read"].replace(
        b"Host: localhost", b"Host: localhost\r\nHost: evil.example"
    )

    answer = await conversation(http, twice)

    assert answer.startswith((b"HTTP/1.1 421 ", b"HTTP/1.1 400 "))


@pytest.mark.wire
async def test_the_control_path_answers_on_loopback() -> None:
    sandbox = bench().sandbox

    async with serve(sandbox) as base_url, httpx.AsyncClient(base_url=base_url) as client:
        clocks = (await client.get("/_sandbox/control")).json()

    assert clocks == {
        "market": "2026-11-19T02:16:00+00:00",
        "wire": "2026-11-19T02:15:00+00:00",
        "speed": 1.0,
    }


@pytest.mark.wire
@pytest.mark.parametrize(("forwarded", "status"), [("10.0.0.7", 403), ("127.0.0.1", 200)])
async def test_a_proxy_of_this_machine_lets_nobody_else_to_the_control_path(
    forwarded: str, status: int
) -> None:
    sandbox = bench().sandbox

    async with serve(sandbox) as base_url, httpx.AsyncClient(base_url=base_url) as client:
        answer = await client.get("/_sandbox/control", headers={"X-Forwarded-For": forwarded})

    assert answer.status_code == status


@pytest.mark.wire
@pytest.mark.parametrize("path", ["/_sandbox/control", QUOTE])
@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example:8790", 421), ("evil.example", 421), ("127.0.0.1.evil.example", 421),
        ("localhost.", 421), ("10.0.0.7:8790", 421), ("[::2]", 421), ("[", 421),
        ("@127.0.0.1", 421),
        ("localhost:9000", 200), ("127.0.0.1", 200), ("[::1]:8790", 200), ("LOCALHOST", 200),
    ],
)  # fmt: skip
async def test_a_web_page_whose_name_points_here_gets_no_answer(
    path: str, host: str, status: int
) -> None:
    sandbox = bench().sandbox
    headers = {**keyed(sandbox), "Host": host}

    async with serve(sandbox) as base_url, httpx.AsyncClient(base_url=base_url) as client:
        answer = await client.get(path, headers=headers)

    assert answer.status_code == status


async def test_a_pacer_keeps_the_market_up_with_its_clock() -> None:
    played = scenario()
    wire = SystemClock()
    clock = ScaledClock(wire, start=played.starts_at, speed=10_000)
    sandbox = Sandbox(played, RULEBOOK, clock=clock, wire=wire)

    pacing = asyncio.create_task(run_free(sandbox, clock))
    await asyncio.sleep(0)
    pacing.cancel()

    assert sandbox.now >= played.starts_at
    with pytest.raises(asyncio.CancelledError):
        await pacing


def test_the_first_line_says_all_that_a_client_needs() -> None:
    sandbox = bench().sandbox

    line = json.loads(credentials_line(sandbox, "http://127.0.0.1:1"))

    assert set(line) == {"base_url", "api_key", "api_secret", "otp", "user_id", "accounts"}
    assert line["otp"] == "424242"
    assert line["accounts"][0]["sub_account_ext"] == "120C900001.1"


@pytest.mark.parametrize(
    ("now", "start"),
    [
        ((2026, 11, 19, 3, 0), (2026, 11, 19, 3, 0, 0)),
        ((2026, 11, 19, 5, 0), (2026, 11, 19, 5, 0, 0)),
        ((2026, 11, 19, 1, 0), (2026, 11, 18, 2, 14, 55)),
        ((2026, 11, 19, 10, 0), (2026, 11, 19, 2, 14, 55)),
        ((2026, 11, 22, 3, 0), (2026, 11, 20, 2, 14, 55)),
    ],
)
def test_without_a_stated_time_a_market_starts_now_or_on_the_last_trading_day(
    now: tuple[int, ...], start: tuple[int, ...]
) -> None:
    clock = SimulatedClock(datetime(*now, tzinfo=UTC))  # type: ignore[misc,arg-type]

    assert market_start(clock.now(), RULEBOOK) == datetime(*start, tzinfo=UTC)  # type: ignore[misc,arg-type]
