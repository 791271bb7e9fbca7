"""Calls a broker application in this process: no wire, no bytes to parse, the same verdicts.

Without a wire nobody can tell which bytes have left, so every request counts as sent from its
start.

httpx has an `ASGITransport`, but it knows no deadline, asserts that an answer is whole where we
need the verdict that it is not, and takes nine times as long: a story or a simulation sends all of
its requests through here.
"""

import asyncio
from collections.abc import MutableMapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from bot.broker.answer_reader import texts_of
from bot.broker.link import (
    ALWAYS,
    TWO_LENGTHS,
    AsgiApp,
    Bounds,
    HttpRequest,
    LateAnswer,
    Origin,
    Traffic,
    UnusableAnswer,
    ms_since,
    too_long,
)
from bot.clock import performance_s
from bot.protocol.envelope import Answer, NoAnswer

Message = MutableMapping[str, Any]


class AsgiLink:
    """Exchanges with an ASGI application."""

    def __init__(self, origin: Origin, traffic: Traffic, app: AsgiApp) -> None:
        self._traffic = traffic
        self._app = app
        always = {"Host": origin.name, **ALWAYS}
        self._always = [(name.lower().encode(), text.encode()) for name, text in always.items()]
        self._scope: Message = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": origin.scheme,
            "server": (origin.host, origin.port),
            "client": ("127.0.0.1", 123),
            "root_path": "",
        }

    async def exchange(self, request: HttpRequest, bounds: Bounds) -> Answer | NoAnswer:
        """Call the application once. Continues to the end if the caller is cancelled."""
        return await self._traffic.carry(self._exchange(request, bounds))

    async def _exchange(self, request: HttpRequest, bounds: Bounds) -> Answer | NoAnswer:
        started_s, said = performance_s(), _Said(request.body)
        if (reason := request.objection()) is not None:
            return NoAnswer(reason, is_sent=False, latency_ms=ms_since(started_s))
        try:
            async with asyncio.timeout(bounds.deadline_s):
                await self._app(self._scope_of(request), said.receive, said.send)
        except TimeoutError:
            reason = f"no complete answer within {bounds.deadline_s:g} s"
            return LateAnswer(reason, is_sent=True, latency_ms=ms_since(started_s))
        except OSError as error:
            reason = f"{type(error).__name__}: {error}"
            return NoAnswer(reason, is_sent=True, latency_ms=ms_since(started_s))
        latency_ms, headers = ms_since(started_s), texts_of(said.headers)
        if not said.is_whole.is_set():  # a server would break the connection
            reason = "the application ended before its answer did"
            return NoAnswer(reason, is_sent=True, latency_ms=latency_ms)
        if len(said.body) > bounds.body_bytes_max:
            reason = str(too_long(bounds.body_bytes_max))
            return UnusableAnswer(reason, is_sent=True, latency_ms=latency_ms)
        if "content-length" in headers and "transfer-encoding" in headers:
            return UnusableAnswer(TWO_LENGTHS, is_sent=True, latency_ms=latency_ms)
        return Answer(said.status, headers, said.body, latency_ms)

    def _scope_of(self, request: HttpRequest) -> Message:
        fields = [(name.lower().encode(), text.encode()) for name, text in request.headers.items()]
        if request.body:
            fields.append((b"content-length", b"%d" % len(request.body)))
        path, raw_path, query = _parts_of(request.target)
        return {
            **self._scope,
            "method": request.method,
            "headers": [*self._always, *fields],
            "path": path,
            "raw_path": raw_path,
            "query_string": query,
        }

    async def close(self) -> None:
        """Wait for the calls under way."""
        await self._traffic.drain()


@lru_cache(maxsize=256)
def _parts_of(target: str) -> tuple[str, bytes, bytes]:
    """Return the decoded path, the raw path and the query."""
    path, _, query = target.partition("?")
    return unquote(path), path.encode("ascii"), query.encode("ascii")


class _Said:
    """The messages of both ends in one exchange."""

    def __init__(self, asked: bytes) -> None:
        self._asked: bytes | None = asked
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.is_whole = asyncio.Event()

    async def receive(self) -> Message:
        """Return the request and, once the client has its answer, that the client has gone."""
        if self._asked is None:
            await self.is_whole.wait()
            return {"type": "http.disconnect"}
        body, self._asked = self._asked, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Message) -> None:
        """The head of the answer, then its body."""
        if message["type"] == "http.response.start":
            assert not self.status, "an answer begins once"
            self.status, self.headers = message["status"], list(message.get("headers", ()))
        elif message["type"] == "http.response.body":
            assert not self.is_whole.is_set(), "an answer ends once"
            self.body += message.get("body", b"")
            if not message.get("more_body", False):
                self.is_whole.set()
