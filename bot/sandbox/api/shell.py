"""The broker as an ASGI application: a request in, the checks, the faults, the answer out.

What a request does, it does without giving way to another: requests are carried out strictly one
after another. Only a fault that waits lets others go first, as a slow network would.
"""

from collections.abc import Mapping
from dataclasses import replace
from email.utils import formatdate
from functools import lru_cache
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from bot.clock import Clock
from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.envelope import seal, seal_error
from bot.protocol.errors import MalformedRequest
from bot.sandbox.api.call import JSON, Call, Handler, Head, read_body, read_head
from bot.sandbox.api.connection import Sleep
from bot.sandbox.api.directory import Directory
from bot.sandbox.api.gatekeeper import Gatekeeper
from bot.sandbox.api.striking import Reach, Scripted, Striker
from bot.sandbox.errors import HttpRefusal
from bot.sandbox.faults.rule import DateHeader, DupRequest, FaultPoint

_ALSO: Final = {"stock_technicals": "/market/stocks/{symbol}/technicals/history"}
"""Paths that answer as well: a range of technicals is a history, and clients ask for it as one."""
_CONTENT_TYPE: Final = (b"content-type", JSON.encode())


class Shell:
    """Turns requests into calls of `handlers` (by endpoint name) and what they say into answers.

    `others` are applications by path that are no part of the API.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        *,
        gate: Gatekeeper,
        striker: Striker,
        reach: Reach,
        wire: Clock,
        sleep: Sleep,
        others: Mapping[str, ASGIApp],
    ) -> None:
        self._handlers = handlers
        also = [replace(ENDPOINTS[name], path=path) for name, path in _ALSO.items()]
        self._directory = Directory([*(ENDPOINTS[name] for name in handlers), *also])
        self._gate = gate
        self._striker = striker
        self._reach = reach
        self._wire = wire
        self._sleep = sleep
        self._others = others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, whatever it is."""
        other = self._others.get(scope["path"])
        if other is not None:
            await other(scope, receive, send)
            return
        try:
            await self._respond(scope, receive, send)
        except ClientDisconnect:
            return

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = read_head(scope, self._directory)
        try:
            fault = await self._striker.strike(FaultPoint.ACCEPT, head)
        except (HttpRefusal, Scripted) as ended:
            await self._send(_answer_in(ended), scope, receive, send)
            return
        body = await read_body(receive)
        response = await self._answer(head, body)
        if isinstance(fault, DupRequest) and fault.answer != "first":
            await self._sleep(fault.delay)
            response = await self._answer(head, body)
        offset = fault.offset if isinstance(fault, DateHeader) else 0
        await self._send(response, scope, receive, send, date_offset_s=offset)
        self._striker.has_gone_out(head)
        if isinstance(fault, DupRequest) and fault.answer == "first":
            await self._sleep(fault.delay)
            await self._answer(head, body)

    async def _send(
        self,
        response: Response,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        date_offset_s: float | None = 0,
    ) -> None:
        if date_offset_s is not None:
            stamp = int(self._wire.now().timestamp() + date_offset_s)
            response.raw_headers.append((b"date", _http_date(stamp)))
        await response(scope, receive, send)

    async def _answer(self, head: Head, body: bytes) -> Response:
        try:
            response = await self._carried_out(head, body)
        except (HttpRefusal, MalformedRequest) as refusal:
            bad = self._gate.bad_parameter() if isinstance(refusal, MalformedRequest) else refusal
            response = _error(bad)
        except Scripted as scripted:
            return scripted.response
        return self._striker.sent_by(head, response)

    async def _carried_out(self, head: Head, body: bytes) -> Response:
        if self._striker.has_rules_at(FaultPoint.BEFORE_AUTH):
            await self._striker.strike(FaultPoint.BEFORE_AUTH, head)
        call = Call(head, body, wire_at=self._wire.now(), market_at=self._reach())
        endpoint = self._gate.admit(call)
        if self._striker.has_rules_at(FaultPoint.AFTER_AUTH):
            scripted = await self._striker.strike(FaultPoint.AFTER_AUTH, head)
            call = replace(
                call, wire_at=self._wire.now(), market_at=self._reach(), scripted=scripted
            )
        payload = self._handlers[endpoint.name](call)
        response = _Sealed(seal(endpoint, payload))
        return await self._striker.answered(call, response)


class _Sealed(Response):
    """A good answer; its headers are known without looking at what else a response may be."""

    def __init__(self, body: bytes) -> None:
        self.status_code = 200
        self.background = None
        self.body = body
        self.raw_headers = [(b"content-length", b"%d" % len(body)), _CONTENT_TYPE]


@lru_cache(maxsize=4)
def _http_date(unix_s: int) -> bytes:
    return formatdate(unix_s, usegmt=True).encode()


def _answer_in(ended: HttpRefusal | Scripted) -> Response:
    return ended.response if isinstance(ended, Scripted) else _error(ended)


def _error(refusal: HttpRefusal) -> Response:
    body = seal_error(refusal.code, refusal.message)
    return Response(body, refusal.status, refusal.headers, JSON)
