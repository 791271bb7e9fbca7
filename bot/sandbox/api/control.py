"""The control path of a sandbox that runs as a server: what time it is, and faults added by hand.

GET answers `{market, wire, speed}`, POST adds the fault of its JSON body, DELETE ends all faults.
It takes requests from loopback only, and changes only with the API key. It is no part of the
broker's API.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Final, cast

from pydantic import JsonValue, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from bot.protocol.signing import HEADER_API_KEY
from bot.sandbox.faults.rule import FaultScript

CONTROL_PATH: Final = "/_sandbox/control"


@dataclass(frozen=True, slots=True)
class Controls:
    """What the path can do, and the key that a caller must show to change something."""

    api_key: str = field(repr=False)
    clocks: Callable[[], dict[str, JsonValue]]
    add_fault: Callable[[FaultScript], None]
    end_faults: Callable[[], None]


def control_application(sandbox: Controls) -> ASGIApp:

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        response = await _answer(sandbox, Request(scope, receive))
        await response(scope, receive, send)

    # Behind a proxy of this machine, the client is whom that one names.
    return cast("ASGIApp", ProxyHeadersMiddleware(cast("Any", application)))


async def _answer(sandbox: Controls, request: Request) -> Response:
    if request.client is None or not ip_address(request.client.host).is_loopback:
        return Response(status_code=403)
    if request.method == "GET":
        return JSONResponse(sandbox.clocks())
    if request.headers.get(HEADER_API_KEY) != sandbox.api_key:
        return Response(status_code=401)
    if request.method == "POST":
        try:
            script = FaultScript.model_validate_json(await request.body())
        except ValidationError as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        sandbox.add_fault(script)
    elif request.method == "DELETE":
        sandbox.end_faults()
    else:
        return Response(status_code=405)
    return JSONResponse(sandbox.clocks())
