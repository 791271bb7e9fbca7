"""The paper broker as an ASGI application: account and orders are played, the market is relayed.

An answer of the real broker goes back as it came: status, body, rate limit. Everything that is no
read of market data stays here, with the sandbox; no order can go further.
"""

import hmac
import json
from collections.abc import Mapping
from email.utils import formatdate
from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bot.clock import Clock
from bot.protocol.answer import Answer, NoAnswer
from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.endpoints.trading import AMEND_ORDER, PLACE_ORDER
from bot.protocol.envelope import seal_error
from bot.protocol.signing import HEADER_API_KEY
from bot.sandbox.api.call import JSON, exact_target, read_body
from bot.sandbox.api.directory import Directory
from bot.sandbox.mirror_watch import RELAYED, Watch
from bot.sandbox.sandbox import Sandbox

_PASSED_ON: Final = (
    "content-type",
    "retry-after",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
)
"""Headers of the real broker that go back with its answer."""
_UNREACHABLE: Final = 502


class MirrorShell:
    """Answers what the sandbox answers, and hands the rest of the reads to the watch."""

    def __init__(self, sandbox: Sandbox, watch: Watch, wire: Clock) -> None:
        self._sandbox = sandbox
        self._app: ASGIApp = sandbox.app
        self._watch = watch
        self._wire = wire
        self._directory = Directory(ENDPOINTS.values())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, whatever it is."""
        endpoint, values = self._directory.find(scope["method"], scope["path"])
        if endpoint is not None and endpoint.name in RELAYED and self._has_key(scope):
            answer = await self._watch.ask(endpoint, exact_target(scope))
            await self._response(answer)(scope, receive, send)
            return
        if endpoint in (PLACE_ORDER, AMEND_ORDER):
            receive = await self._prepared(values, receive)
        await self._app(scope, receive, send)

    def _has_key(self, scope: Scope) -> bool:
        """The sandbox itself refuses a wrong key."""
        name = HEADER_API_KEY.lower().encode()
        given = next((value for header, value in scope["headers"] if header == name), b"")
        return hmac.compare_digest(given, self._sandbox.scenario.key_text.encode())

    def _response(self, answer: Answer | NoAnswer) -> Response:
        date = {"date": formatdate(int(self._wire.now().timestamp()), usegmt=True)}
        if isinstance(answer, NoAnswer):
            body = seal_error(str(_UNREACHABLE), f"the broker did not answer: {answer.reason}")
            return Response(body, _UNREACHABLE, date, JSON)
        kept = {name: answer.headers[name] for name in _PASSED_ON if name in answer.headers}
        return Response(answer.body, answer.http_status, kept | date)

    async def _prepared(self, values: Mapping[str, str], receive: Receive) -> Receive:
        """Have the order's market looked at, and hand its body on unchanged."""
        body = await read_body(receive)
        order_id = values.get("order_id")
        symbol = _symbol_in(body) if order_id is None else self._sandbox.symbol_of(order_id)
        if symbol is not None:
            await self._watch.prepare(symbol)

        async def again() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        return again


def _symbol_in(body: bytes) -> str | None:
    """Return the symbol that a body names; what is wrong with a body is the sandbox's to say."""
    try:
        symbol = json.loads(body)["symbol"]
    except (ValueError, KeyError, TypeError):
        return None
    return symbol if isinstance(symbol, str) else None
