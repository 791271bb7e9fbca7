"""The broker as an ASGI application: a request in, the checks, the faults, the answer out.

Requests are carried out strictly one after another. Only a fault that waits lets others overtake,
as a slow network would.

Besides the API there is one control path: the time, and faults added by hand. GET answers `{market,
wire, speed}`, POST adds the fault of its JSON body, DELETE ends all faults. It takes requests from
loopback only, and changes only with the API key.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, Final, cast

from pydantic import JsonValue, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from bot.clock import Clock
from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.envelope import seal, seal_error
from bot.protocol.errors import MalformedRequest
from bot.protocol.signing import HEADER_API_KEY
from bot.sandbox.api.call import JSON, Call, Directory, Handler, Head, read_body, read_head
from bot.sandbox.api.connection import Sleep
from bot.sandbox.api.fault_injection import FaultInjector, Reach, ScriptedAnswer
from bot.sandbox.api.gatekeeper import Gatekeeper
from bot.sandbox.errors import HttpRefusal
from bot.sandbox.faults.script import DateHeader, DupRequest, FaultPoint, FaultScript

_ALSO: Final = {"stock_technicals": "/market/stocks/{symbol}/technicals/history"}
"""A second path: a range of technicals is a history, and clients use this path for it."""
_CONTENT_TYPE: Final = (b"content-type", JSON.encode())


class Shell:
    """Turns requests into calls of `handlers`, by endpoint name, and payloads into answers."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        *,
        gate: Gatekeeper,
        injector: FaultInjector,
        reach: Reach,
        wire: Clock,
        sleep: Sleep,
        controls: "Controls",
    ) -> None:
        self._handlers = handlers
        also = [replace(ENDPOINTS[name], path=path) for name, path in _ALSO.items()]
        self._directory = Directory([*(ENDPOINTS[name] for name in handlers), *also])
        self._gate = gate
        self._injector = injector
        self._reach = reach
        self._wire = wire
        self._sleep = sleep
        self._control = _control_application(controls)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == CONTROL_PATH:
            await self._control(scope, receive, send)
            return
        head, fault = read_head(scope, self._directory), None
        try:
            if self._injector.has_rules_at(FaultPoint.ACCEPT):
                fault = await self._injector.strike(FaultPoint.ACCEPT, head)
            body = await read_body(receive)
        except ClientDisconnect:
            return
        except HttpRefusal as refusal:
            await self._dated(_error(refusal))(scope, receive, send)
            return
        except ScriptedAnswer as scripted:
            await self._dated(scripted.response)(scope, receive, send)
            return
        response = await self._answer(head, body)
        if isinstance(fault, DupRequest) and fault.answer != "first":
            await self._sleep(fault.delay)
            response = await self._answer(head, body)
        offset_s = fault.offset if isinstance(fault, DateHeader) else 0
        await self._dated(response, offset_s)(scope, receive, send)
        self._injector.has_gone_out(head)
        if isinstance(fault, DupRequest) and fault.answer == "first":
            await self._sleep(fault.delay)
            await self._answer(head, body)

    def _dated(self, response: Response, offset_s: float | None = 0) -> Response:
        """Add the wire clock's date to a response, `offset_s` off; None leaves it out."""
        if offset_s is not None:
            stamp = int(self._wire.now().timestamp() + offset_s)
            response.raw_headers.append((b"date", _http_date(stamp)))
        return response

    async def _answer(self, head: Head, body: bytes) -> Response:
        injector = self._injector
        try:
            if injector.has_rules_at(FaultPoint.BEFORE_AUTH):
                await injector.strike(FaultPoint.BEFORE_AUTH, head)
            call = self._call(head, body)
            endpoint = self._gate.admit(call)
            if injector.has_rules_at(FaultPoint.AFTER_AUTH):
                scripted = await injector.strike(FaultPoint.AFTER_AUTH, head)
                call = replace(self._call(head, body), scripted=scripted)
            payload = self._handlers[endpoint.name](call)
            response: Response = _JsonResponse(seal(endpoint, payload))
            if injector.has_rules_at(FaultPoint.AFTER_APPLY):
                response = await injector.answered(call, response)
        except (HttpRefusal, MalformedRequest) as refusal:
            bad = self._gate.bad_parameter() if isinstance(refusal, MalformedRequest) else refusal
            response = _error(bad)
        except ScriptedAnswer as made:
            return made.response
        return injector.sent_by(head, response)

    def _call(self, head: Head, body: bytes) -> Call:
        return Call(
            head.endpoint,
            head.method,
            head.target,
            head.path_values,
            head.query,
            head.headers,
            body,
            wire_at=self._wire.now(),
            market_at=self._reach(),
        )


class _JsonResponse(Response):
    """A successful response without Starlette's generality, because it is hot."""

    def __init__(self, body: bytes) -> None:
        self.status_code = 200
        self.background = None
        self.body = body
        self.raw_headers = [(b"content-length", b"%d" % len(body)), _CONTENT_TYPE]


@lru_cache(maxsize=4)
def _http_date(unix_s: int) -> bytes:
    return formatdate(unix_s, usegmt=True).encode()


def _error(refusal: HttpRefusal) -> Response:
    body = seal_error(refusal.code, refusal.message)
    return Response(body, refusal.status, refusal.headers, JSON)


CONTROL_PATH: Final = "/_sandbox/control"


@dataclass(frozen=True, slots=True)
class Controls:
    """What the control path can do, and the key that a caller must present to change something."""

    api_key: str = field(repr=False)
    clocks: Callable[[], dict[str, JsonValue]]
    add_fault: Callable[[FaultScript], None]
    end_faults: Callable[[], None]


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a proxy may name anything
        return False


def _control_application(controls: Controls) -> ASGIApp:

    async def answer(request: Request) -> Response:
        if request.client is None or not _is_loopback(request.client.host):
            return Response(status_code=403)
        if request.method == "GET":
            return JSONResponse(controls.clocks())
        if request.headers.get(HEADER_API_KEY) != controls.api_key:
            return Response(status_code=401)
        if request.method == "POST":
            try:
                script = FaultScript.model_validate_json(await request.body())
            except ValidationError as error:
                return JSONResponse({"error": str(error)}, status_code=400)
            controls.add_fault(script)
        elif request.method == "DELETE":
            controls.end_faults()
        else:
            return Response(status_code=405)
        return JSONResponse(controls.clocks())

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await (await answer(Request(scope, receive)))(scope, receive, send)

    # Behind a proxy on this machine, take the client address that the proxy names.
    return cast("ASGIApp", ProxyHeadersMiddleware(cast("Any", application)))
