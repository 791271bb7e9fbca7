"""What a fault does when it strikes a request that the broker is working on.

`strike` does what can be done on the spot (wait, answer instead, drop the second factor) and hands
back what concerns the rest of the request. A fault in the way that the answer goes out is only
collected: `connection` does it.
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
from bot.sandbox.api.connection import Dripped, Nothing, Sleep, Staged, gzip_bomb, huge
from bot.sandbox.api.quota import ceil_s
from bot.sandbox.errors import HttpRefusal
from bot.sandbox.faults import row_faults
from bot.sandbox.faults.earlier_answers import EarlierAnswers
from bot.sandbox.faults.garbage import spoil
from bot.sandbox.faults.rule import (
    Action,
    Cut,
    DropTwoFactor,
    FaultPoint,
    Garbage,
    GzipBomb,
    Huge,
    Redirect,
    Reorder,
    SetFields,
    StaleRead,
    Status,
    StatusOverride,
    SwapRow,
    TooMany,
    Trickle,
    Wait,
)
from bot.sandbox.faults.rules import FaultRules, Rule, reset_at

Reach = Callable[[], datetime]
"""Brings the market up to its clock and returns its time."""
_NONCE: Final = HEADER_NONCE.lower().encode("latin-1")
_ON_THE_WAY_OUT: Final = (FaultPoint.HEADERS_SENT, FaultPoint.MID_BODY, FaultPoint.AFTER_BODY)


class Scripted(Exception):
    """A fault has made the answer."""

    def __init__(self, response: Response) -> None:
        super().__init__("scripted answer")
        self.response = response


class Striker:
    """Lets the faults of a book strike.

    `on_strike` hears of every look that changed a count, `on_struck` the nonce of every request
    that was struck.
    """

    def __init__(
        self,
        faults: FaultRules,
        *,
        reach: Reach,
        wire: Clock,
        sleep: Sleep,
        too_many: Callable[[int], HttpRefusal],
        on_strike: Callable[[], None],
        on_struck: Callable[[str], None],
        drop_two_factor: Callable[[str], None],
    ) -> None:
        self._faults = faults
        self._reach = reach
        self._wire = wire
        self._sleep = sleep
        self._too_many = too_many
        self._on_strike = on_strike
        self._on_struck = on_struck
        self._drop_two_factor = drop_two_factor
        self._earlier = EarlierAnswers()
        self._held: list[tuple[Rule, asyncio.Event]] = []

    def has_rules_at(self, point: FaultPoint) -> bool:
        """Tell whether any fault may strike there."""
        return self._faults.has_rules_at(point)

    def _hit(self, point: FaultPoint, request: Head | Call) -> Rule | None:
        if not self._faults.has_rules_at(point):
            return None
        verb, path = request.method, request.path
        rule = self._faults.strike(point, verb=verb, path=path, at=self._reach())
        self._on_strike()
        if rule is not None:
            head = request.head if isinstance(request, Call) else request
            self._on_struck(head.headers.get(_NONCE, b"").decode("latin-1"))
        return rule

    async def strike(self, point: FaultPoint, head: Head) -> Action | None:
        """Let a fault strike before the answer is made; returned is what concerns the rest.

        Raises Scripted or HttpRefusal where the fault makes the answer.
        """
        rule = self._hit(point, head)
        if rule is None:
            return None
        match rule.script.action:
            case TooMany() as action:
                raise self._too_many(self._reset_s(rule, action))
            case DropTwoFactor() as action:
                self._drop_two_factor(action.code)
            case Wait() as action:
                await self._wait(action)
            case action:
                if (made := _made(action)) is not None:
                    raise Scripted(made)
                return action
        return None

    def _reset_s(self, rule: Rule, action: TooMany) -> int:
        """Return when a limit is over, in seconds of the wire clock, which a client waits by."""
        return ceil_s(reset_at(rule, action) + (self._wire.now() - self._reach()))

    async def _wait(self, action: Wait) -> None:
        await self._sleep(action.seconds)
        if action.do == "hang":
            raise Scripted(Nothing("fin"))

    # ------------------------------------------------------------------------ the answer

    async def answered(self, call: Call, response: Response) -> Response:
        """Return what becomes of a good answer before it goes out. Raises Scripted."""
        self._remember(call, response)
        rule = self._hit(FaultPoint.AFTER_APPLY, call)
        if rule is None:
            return response
        body = bytes(response.body)
        match rule.script.action:
            case Garbage() as action:
                body = spoil(action.kind, body)
            case SwapRow() as action:
                body = row_faults.swap(action, body)
            case StatusOverride() as action:
                body = row_faults.override_status(action, body)
            case SetFields() as action:
                body = row_faults.set_fields(action, body)
            case StaleRead() as action:
                body = self._stale(action, call) or body
            case Reorder(of="rows"):
                body = row_faults.shuffle(rule.chance, body)
            case Reorder() as action:
                await self._hold(rule, action)
            case Trickle() as action:
                raise Scripted(Dripped(response, action, self._sleep))
            case action:
                await self._otherwise(rule, action)
        return Response(body, media_type=JSON)

    async def _otherwise(self, rule: Rule, action: Action) -> None:
        """What a fault does here as it does before: make the answer, wait, drop the token."""
        if isinstance(action, TooMany):
            raise self._too_many(self._reset_s(rule, action))
        if isinstance(action, DropTwoFactor):
            self._drop_two_factor(action.code)
        elif isinstance(action, Wait):
            await self._wait(action)
        elif (made := _made(action)) is not None:
            raise Scripted(made)

    def sent_by(self, head: Head, response: Response) -> Response:
        """Return the response as the faults let it go out."""
        if not any(map(self._faults.has_rules_at, _ON_THE_WAY_OUT)):
            return response
        hits = {point: self._hit(point, head) for point in _ON_THE_WAY_OUT}
        plan = {point: rule.script.action for point, rule in hits.items() if rule is not None}
        return Staged(response, plan, self._sleep) if plan else response

    # ----------------------------------------------------------------- stale and overtaken

    def _remember(self, call: Call, response: Response) -> None:
        if call.method == "GET" and self._faults.has_stale_reads:
            self._earlier.keep(call.target, call.market_at, bytes(response.body))

    def _stale(self, action: StaleRead, call: Call) -> bytes | None:
        return self._earlier.find(call.target, timedelta(seconds=action.seconds), call.market_at)

    async def _hold(self, rule: Rule, action: Reorder) -> None:
        """Wait until another answer to such a request has gone out, or for long enough."""
        overtaken = asyncio.Event()
        self._held.append((rule, overtaken))
        waits = {
            asyncio.ensure_future(overtaken.wait()),
            asyncio.ensure_future(self._sleep(action.seconds)),
        }
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._held.remove((rule, overtaken))
            for wait in waits:
                wait.cancel()

    def has_gone_out(self, head: Head) -> None:
        """Let go of the answers that this one has overtaken."""
        for rule, overtaken in self._held:
            if rule.is_about(head.method, head.path):
                overtaken.set()


def _made(action: Action) -> Response | None:
    """Return the answer that a fault makes by itself, None for a fault of another kind."""
    match action:
        case Status():
            return _scripted(action)
        case Cut():
            return Nothing(action.do)
        case Redirect():
            return Response(status_code=action.status, headers={"location": action.to})
        case Garbage():
            return Response(spoil(action.kind), media_type=JSON)
        case Huge():
            return huge(action.length)
        case GzipBomb():
            return gzip_bomb()
    return None


def _scripted(action: Status) -> Response:
    code = action.code or str(action.status)
    body = seal_error(code, action.message) if action.body is None else action.body
    return Response(body, action.status, action.headers, JSON)
