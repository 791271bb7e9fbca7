"""Applies faults to requests.

`strike` does what can be done immediately (wait, answer instead, drop the 2FA token) and returns
what concerns the rest of the request. Faults on the outgoing response are only collected;
`connection` carries them out.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from starlette.responses import Response

from bot.clock import Clock
from bot.protocol.envelope import seal_error
from bot.protocol.signing import HEADER_NONCE
from bot.sandbox.api.call import JSON, Call, Head
from bot.sandbox.api.connection import (
    FaultyResponse,
    NoResponse,
    Sleep,
    SlowResponse,
    gzip_bomb,
    huge,
)
from bot.sandbox.api.gatekeeper import ceil_s
from bot.sandbox.errors import HttpRefusal
from bot.sandbox.faults import false_answers, script
from bot.sandbox.faults.false_answers import EarlierAnswers
from bot.sandbox.faults.garbage import spoil
from bot.sandbox.faults.rules import FaultRules, Rule, reset_at
from bot.sandbox.faults.script import Action, FaultPoint

Reach = Callable[[], datetime]
"""Brings the market up to its clock and returns its time."""
_ON_THE_WAY_OUT: Final = (FaultPoint.HEADERS_SENT, FaultPoint.MID_BODY, FaultPoint.AFTER_BODY)


class ScriptedAnswer(Exception):
    """A fault has made the answer."""

    def __init__(self, response: Response) -> None:
        super().__init__("scripted answer")
        self.response = response


class FaultInjector:
    """Makes faults strike requests and answers.

    `on_strike` is called whenever counts may have changed, `on_struck` with the nonce of every
    struck request.
    """

    def __init__(
        self,
        faults: FaultRules,
        *,
        reach: Reach,
        wire: Clock,
        speed: float,
        sleep: Sleep,
        too_many: Callable[[int], HttpRefusal],
        on_strike: Callable[[], None],
        on_struck: Callable[[str], None],
        drop_two_factor: Callable[[str], None],
    ) -> None:
        self._faults = faults
        self._reach = reach
        self._wire = wire
        self._speed = speed
        self._sleep = sleep
        self._too_many = too_many
        self._on_strike = on_strike
        self._on_struck = on_struck
        self._drop_two_factor = drop_two_factor
        self._earlier = EarlierAnswers()
        self._held: list[tuple[Rule, asyncio.Event]] = []
        self.has_rules_at = faults.has_rules_at

    def _hit(self, point: FaultPoint, request: Head) -> Rule | None:
        hit = self._find(point, request)
        if hit is not None:
            self._count(hit, request)
        return hit

    def _find(self, point: FaultPoint, request: Head) -> Rule | None:
        if not self._faults.has_rules_at(point):
            return None
        verb, path = request.method, request.path
        hit = self._faults.find(point, verb=verb, path=path, at=self._reach())
        if hit is None:
            self._on_strike()
        return hit

    def _count(self, hit: Rule, request: Head) -> None:
        self._faults.count(hit, self._reach())
        self._on_strike()
        self._on_struck(request.header(HEADER_NONCE))

    async def strike(self, point: FaultPoint, head: Head) -> Action | None:
        """Let a fault strike before the answer is made, and return what concerns the rest of the
        request.

        Raises ScriptedAnswer or HttpRefusal where the fault makes the answer.
        """
        hit = self._hit(point, head)
        return None if hit is None else await self._interfere(hit)

    async def _interfere(self, hit: Rule) -> Action | None:
        """Make the answer, wait, or drop the token; return an action of any other kind."""
        match hit.script.action:
            case script.TooMany() as action:
                # Clients wait by the wire clock.
                left = reset_at(hit, action) - self._reach()
                over_at = self._wire.now() + left / self._speed
                raise self._too_many(ceil_s(over_at))
            case script.DropTwoFactor() as action:
                self._drop_two_factor(action.code)
                return None
            case script.Wait() as action:
                await self._sleep(action.seconds)
                if action.do == "hang":
                    raise ScriptedAnswer(NoResponse("fin"))
                return None
            case script.Status() as action:
                code = action.code or str(action.status)
                body = seal_error(code, action.message) if action.body is None else action.body
                raise ScriptedAnswer(Response(body, action.status, action.headers, JSON))
            case script.Cut() as action:
                raise ScriptedAnswer(NoResponse(action.do))
            case script.Redirect() as action:
                headers = {"location": action.to}
                raise ScriptedAnswer(Response(status_code=action.status, headers=headers))
            case script.Garbage() as action:
                raise ScriptedAnswer(Response(spoil(action.kind), media_type=JSON))
            case script.Huge() as action:
                raise ScriptedAnswer(huge(action.length))
            case script.GzipBomb():
                raise ScriptedAnswer(gzip_bomb())
            case action:
                return action

    async def answered(self, call: Call, response: Response) -> Response:
        """Return what a fault turns a successful answer into before it is sent. Raises
        ScriptedAnswer.
        """
        if call.method == "GET" and self._faults.has_stale_reads:
            self._earlier.keep(call.target, call.market_at, bytes(response.body))
        hit = self._find(FaultPoint.AFTER_APPLY, call)
        if hit is None:
            return response
        body = bytes(response.body)
        spoilt = self._spoilt(hit, call, body)
        if spoilt == body:  # it has struck nothing
            self._on_strike()
            return response
        self._count(hit, call)
        match hit.script.action:
            case script.Reorder(of="answers") as action:
                await self._hold(hit, action)
            case script.Trickle() as action:
                raise ScriptedAnswer(SlowResponse(response, action, self._sleep))
            case _ if spoilt is None:
                await self._interfere(hit)
        return Response(body if spoilt is None else spoilt, media_type=JSON)

    def _spoilt(self, hit: Rule, call: Call, body: bytes) -> bytes | None:
        """Return what a fault makes of an answer; None where it is not about its text."""
        match hit.script.action:
            case script.Garbage() as action:
                return spoil(action.kind, body)
            case script.SwapRow() as action:
                return false_answers.swap(action, body)
            case script.StatusOverride() as action:
                return false_answers.override_status(action, body)
            case script.SetFields() as action:
                return false_answers.set_fields(action, body)
            case script.StaleRead() as action:
                age = timedelta(seconds=action.seconds)
                return self._earlier.find(call.target, age, call.market_at) or body
            case script.Reorder(of="rows"):
                return false_answers.shuffle(hit.chance, body)
        return None

    def sent_by(self, head: Head, response: Response) -> Response:
        if self._faults.is_empty:
            return response
        hits = {point: self._hit(point, head) for point in _ON_THE_WAY_OUT}
        plan = {point: hit.script.action for point, hit in hits.items() if hit is not None}
        return FaultyResponse(response, plan, self._sleep) if plan else response

    async def _hold(self, hit: Rule, action: script.Reorder) -> None:
        """Wait until another answer to a matching request has been sent, or for the
        maximum time.
        """
        overtaken = asyncio.Event()
        self._held.append((hit, overtaken))
        waits = {
            asyncio.ensure_future(overtaken.wait()),
            asyncio.ensure_future(self._sleep(action.seconds)),
        }
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._held.remove((hit, overtaken))
            for wait in waits:
                wait.cancel()

    def has_gone_out(self, head: Head) -> None:
        """Release the answers that this one has overtaken."""
        for hit, overtaken in self._held:
            if hit.script.is_about(head.method, head.path):
                overtaken.set()
