"""An application in this process gives the verdicts that a server on a wire would give."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from bot.broker.broker import connect
from bot.broker.link import (
    AsgiApp,
    Bounds,
    HttpRequest,
    LateAnswer,
    Link,
    Traffic,
    UnusableAnswer,
)
from bot.protocol.envelope import Answer, NoAnswer

BOUNDS = Bounds(deadline_s=60.0, body_bytes_max=100)
POST = HttpRequest("POST", "/orders/a%20b?x=%2C", {"X-FH-APIKEY": "key"}, b'{"quantity":100}')
START = {"type": "http.response.start", "status": 200, "headers": [(b"X-Name", b"Gi\xc3\xa1")]}

Send = Callable[[Mapping[str, object]], Awaitable[None]]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]


def link_to(app: AsgiApp, traffic: Traffic | None = None) -> Link:
    return connect("http://127.0.0.1:8790", traffic=traffic or Traffic(), app=app)


def saying(*messages: Mapping[str, object]) -> AsgiApp:
    async def app(_scope: object, _receive: object, send: Send) -> None:
        for message in messages:
            await send(message)

    return app


def body(text: bytes, *, more: bool = False) -> Mapping[str, object]:
    return {"type": "http.response.body", "body": text, "more_body": more}


async def test_an_application_sees_the_request_as_a_server_would_show_it():
    seen: list[Any] = []

    async def app(scope: Mapping[str, object], receive: Receive, send: Send) -> None:
        seen.extend([scope, await receive()])
        await saying(START, body(b"{}"))(scope, receive, send)

    answer = await link_to(app).exchange(POST, BOUNDS)

    scope, asked = seen
    assert (scope["method"], scope["path"]) == ("POST", "/orders/a b")
    assert (scope["raw_path"], scope["query_string"]) == (b"/orders/a%20b", b"x=%2C")
    assert dict(scope["headers"]) == {
        b"host": b"127.0.0.1:8790",
        b"accept": b"application/json",
        b"accept-encoding": b"identity",
        b"user-agent": b"vnbot",
        b"x-fh-apikey": b"key",
        b"content-length": b"16",
    }
    assert (asked["body"], asked["more_body"]) == (POST.body, False)
    assert isinstance(answer, Answer)
    assert (answer.http_status, answer.headers, answer.body) == (200, {"x-name": "Giá"}, b"{}")


async def test_pieces_of_a_body_are_one_body():
    link = link_to(saying(START, body(b"[", more=True), body(b"1", more=True), body(b"]")))

    answer = await link.exchange(POST, BOUNDS)

    assert isinstance(answer, Answer)
    assert answer.body == b"[1]"


@pytest.mark.parametrize(
    "messages",
    [(), (START,), (START, body(b'{"a"', more=True))],
    ids=["no answer", "a head alone", "half a body"],
)
async def test_an_application_that_stops_in_mid_answer_has_broken_the_connection(messages):
    answer = await link_to(saying(*messages)).exchange(POST, BOUNDS)

    assert type(answer) is NoAnswer
    assert answer.is_sent


async def test_a_connection_error_of_the_application_is_no_answer():
    async def app(*_: object) -> None:
        raise ConnectionResetError("cut")

    answer = await link_to(app).exchange(POST, BOUNDS)

    assert type(answer) is NoAnswer
    assert answer.is_sent


async def test_a_bug_of_the_application_is_told():
    async def app(*_: object) -> None:
        raise KeyError("bug")

    with pytest.raises(KeyError):
        await link_to(app).exchange(POST, BOUNDS)


async def test_the_deadline_ends_an_application_that_says_nothing():
    async def app(*_: object) -> None:
        await asyncio.Event().wait()

    answer = await link_to(app).exchange(POST, Bounds(deadline_s=0.02, body_bytes_max=100))

    assert isinstance(answer, LateAnswer)
    assert answer.is_sent


@pytest.mark.parametrize(
    "messages",
    [
        (START, body(b"x" * 60, more=True), body(b"x" * 60)),
        (
            START | {"headers": [(b"content-length", b"2"), (b"transfer-encoding", b"chunked")]},
            body(b"{}"),
        ),
    ],
    ids=["too long", "two lengths"],
)
async def test_what_can_not_be_used_is_no_answer(messages):
    answer = await link_to(saying(*messages)).exchange(POST, BOUNDS)

    assert isinstance(answer, UnusableAnswer)
    assert answer.is_sent


async def test_a_caller_that_goes_away_does_not_cut_off_the_application():
    go_on, story = asyncio.Event(), list[str]()
    traffic = Traffic()

    async def app(scope: object, receive: Receive, send: Send) -> None:
        await go_on.wait()
        story.append("placed")
        await saying(START, body(b"{}"))(scope, receive, send)

    caller = asyncio.create_task(link_to(app, traffic).exchange(POST, BOUNDS))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait([caller])
    was_in_flight = len(traffic._under_way)
    go_on.set()
    await traffic.drain()

    assert (was_in_flight, story) == (1, ["placed"])
