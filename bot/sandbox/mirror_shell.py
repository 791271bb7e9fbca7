"""The paper broker as an ASGI application: account and orders are played, the market is relayed.

An answer of the real broker goes back unchanged: status, body, rate limit. Everything other than a
read of market data stays here, with the sandbox; no order can go further.
"""

import hmac
import json
from contextlib import suppress
from email.utils import formatdate
from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bot.clock import Clock
from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.endpoints.trading import AMEND_ORDER, PLACE_ORDER
from bot.protocol.envelope import Answer, NoAnswer, seal_error
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
_KEY_HEADER: Final = HEADER_API_KEY.lower().encode()


class MirrorShell:
    """Answers what the sandbox answers, and hands the rest of the reads to the watch."""

    def __init__(self, sandbox: Sandbox, watch: Watch, wire: Clock) -> None:
        self._sandbox = sandbox
        self._app: ASGIApp = sandbox.app
        self._watch = watch
        self._wire = wire
        self._directory = Directory(ENDPOINTS.values())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint, values = self._directory.find(scope["method"], scope["path"])
        if endpoint is not None and endpoint.name in RELAYED:
            key = next((value for name, value in scope["headers"] if name == _KEY_HEADER), b"")
            # The sandbox itself refuses a wrong key.
            if hmac.compare_digest(key, self._sandbox.scenario.key_text.encode()):
                answer = await self._watch.ask(endpoint, exact_target(scope))
                await self._response(answer)(scope, receive, send)
                return
        if endpoint in (PLACE_ORDER, AMEND_ORDER):
            receive = await self._prepared(values.get("order_id"), receive)
        await self._app(scope, receive, send)

    def _response(self, answer: Answer | NoAnswer) -> Response:
        date = {"date": formatdate(int(self._wire.now().timestamp()), usegmt=True)}
        if isinstance(answer, NoAnswer):
            body = seal_error(str(_UNREACHABLE), f"the broker did not answer: {answer.reason}")
            return Response(body, _UNREACHABLE, date, JSON)
        kept = {name: answer.headers[name] for name in _PASSED_ON if name in answer.headers}
        return Response(answer.body, answer.http_status, kept | date)

    async def _prepared(self, order_id: str | None, receive: Receive) -> Receive:
        """Look at the order's market first, and hand its body on unchanged."""
        body = await read_body(receive)
        symbol: object = None
        if order_id is not None:
            symbol = self._sandbox.symbol_of(order_id)
        else:
            # What is wrong with a body is for the sandbox to say.
            with suppress(ValueError, KeyError, TypeError):
                symbol = json.loads(body)["symbol"]
        if isinstance(symbol, str):
            await self._watch.prepare(symbol)

        async def same_body() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        return same_body
