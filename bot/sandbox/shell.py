"""The broker as an ASGI application: a request in, the checks, the faults, the answer out.

What a request does, it does without giving way to another: requests are carried out strictly one
after another. Only a fault that waits lets others go first, as a slow network would.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import partial
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from bot.clock import Clock
from bot.protocol.endpoints import ENDPOINTS, Endpoint
from bot.protocol.envelope import seal, seal_error
from bot.protocol.errors import MalformedRequest
from bot.sandbox.call import Call, Handler, read_call
from bot.sandbox.connection import Nothing, Truncated
from bot.sandbox.errors import HttpRefusal
from bot.sandbox.fault_rule import (
    Cut,
    DropTwoFactor,
    FaultPoint,
    HideRow,
    Reject,
    Status,
    TooMany,
    Truncate,
    Wait,
)
from bot.sandbox.faults import FaultBook, Rule, reset_at
from bot.sandbox.gatekeeper import Gatekeeper
from bot.sandbox.quota import ceil_s

JSON: Final = "application/json"
Sleep = Callable[[float], Awaitable[None]]
Reach = Callable[[], datetime]
"""Brings the market up to its clock and returns its time."""


class Scripted(Exception):
    """A fault has made the answer."""

    def __init__(self, response: Response) -> None:
        super().__init__("scripted answer")
        self.response = response


class Shell:
    """Turns requests into calls of `handlers` (by endpoint name) and what they say into answers."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        *,
        gate: Gatekeeper,
        faults: FaultBook,
        reach: Reach,
        wire: Clock,
        sleep: Sleep,
        on_strike: Callable[[], None],
        drop_two_factor: Callable[[str], None],
    ) -> None:
        self._handlers = handlers
        self._gate = gate
        self._faults = faults
        self._reach = reach
        self._wire = wire
        self._sleep = sleep
        self._on_strike = on_strike
        self._drop_two_factor = drop_two_factor

    def application(self, *extra: BaseRoute) -> Starlette:
        """Return the application: a route for each endpoint that has a handler, and `extra`."""
        routes = [self._route(ENDPOINTS[name]) for name in self._handlers]
        errors = {404: self._unmatched, 405: self._unmatched}
        app = Starlette(routes=[*extra, *routes], exception_handlers=errors)
        app.router.redirect_slashes = False
        return app

    def _route(self, endpoint: Endpoint) -> Route:
        respond = partial(self.respond, endpoint=endpoint)
        return Route(endpoint.path, respond, methods=[endpoint.method], name=endpoint.name)

    async def _unmatched(self, request: Request, _: HTTPException | Exception) -> Response:
        return await self.respond(request, endpoint=None)

    async def respond(self, request: Request, *, endpoint: Endpoint | None) -> Response:
        """Answer a request, whatever it is."""
        wire_at, market_at = self._wire.now(), self._reach()
        call = await read_call(request, endpoint, wire_at=wire_at, market_at=market_at)
        response = await self._answer(call)
        stamp = format_datetime(self._wire.now().astimezone(UTC), usegmt=True)
        response.headers["date"] = stamp
        return response

    async def _answer(self, call: Call) -> Response:
        try:
            return await self._carried_out(call)
        except HttpRefusal as refusal:
            return _error(refusal)
        except MalformedRequest:
            return _error(self._gate.bad_parameter())
        except Scripted as scripted:
            return scripted.response

    async def _carried_out(self, call: Call) -> Response:
        await self._strike(FaultPoint.ACCEPT, call)
        await self._strike(FaultPoint.BEFORE_AUTH, call)
        call = self._stamped(call)
        endpoint = self._gate.admit(call)
        rule = await self._strike(FaultPoint.AFTER_AUTH, call)
        call = replace(self._stamped(call), scripted=rule.script.action if rule else None)
        payload = self._handlers[endpoint.name](call)
        response = Response(seal(endpoint, payload), media_type=JSON)
        await self._strike(FaultPoint.AFTER_APPLY, call)
        return await self._sent(response, call)

    async def _sent(self, response: Response, call: Call) -> Response:
        rule = await self._strike(FaultPoint.MID_BODY, call)
        if rule is not None and isinstance(rule.script.action, Truncate):
            return Truncated(response, rule.script.action.length)
        return response

    def _stamped(self, call: Call) -> Call:
        return replace(call, market_at=self._reach(), wire_at=self._wire.now())

    # ---------------------------------------------------------------------------- faults

    async def _strike(self, point: FaultPoint, call: Call) -> Rule | None:
        """Let a fault strike here, if one does; returned is one that changes what happens next."""
        at = self._reach()
        rule = self._faults.strike(point, verb=call.method, path=call.path, at=at)
        self._on_strike()
        if rule is None:
            return None
        return await self._struck(rule)

    async def _struck(self, rule: Rule) -> Rule | None:
        match rule.script.action:
            case Reject() | HideRow() | Truncate():
                return rule
            case TooMany() as action:
                raise self._gate.too_many(ceil_s(reset_at(rule, action)))
            case Status() as action:
                raise Scripted(_scripted(action))
            case DropTwoFactor() as action:
                self._drop_two_factor(action.code)
            case Cut() as action:
                raise Scripted(Nothing(action.do))
            case Wait() as action:
                await self._sleep(action.seconds)
                if action.do == "hang":
                    raise Scripted(Nothing("fin"))
        return None


def _error(refusal: HttpRefusal) -> Response:
    body = seal_error(refusal.code, refusal.message)
    return Response(body, refusal.status, refusal.headers, JSON)


def _scripted(action: Status) -> Response:
    code = action.code or str(action.status)
    body = seal_error(code, action.message) if action.body is None else action.body
    return Response(body, action.status, action.headers, JSON)
