"""What an operator may ask of a running bot, one handler for each word of the control socket."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Final

from bot.broker.client import BrokerClient
from bot.broker.errors import BrokerError, Refused
from bot.clock import Clock
from bot.config.problems import OperatorMistake
from bot.domain.entry import RunState
from bot.domain.message import Action, AmendAsked, CancelAsked, OperatorActed
from bot.protocol.secret import Secret
from bot.runtime import api
from bot.runtime.activity import Post, Tasks
from bot.runtime.control.shapes import (
    depth_fields,
    instant,
    phase_fields,
    quote_fields,
    whole_or_none,
)
from bot.runtime.control.socket import Handler, Reply, Request
from bot.runtime.control.status import Facts, order_fields, status_of
from bot.runtime.second_factor import NONE_MAILED, USED_UP, SecondFactor

_NO_TEXT: Reply = {"ok": False, "code": "E-CTL-002", "message": "the request lacks its text"}
_BY_HAND: Final = "by hand"
_GET_ONE: Final = "Have one mailed: bot otp request"


@dataclass(frozen=True, slots=True)
class Operations:
    """The handlers, over the parts that they reach."""

    facts: Facts
    client: BrokerClient
    tasks: Tasks
    second_factor: SecondFactor
    clock: Clock
    post: Post

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handler of each word."""
        return {
            "status": self._status,
            "pause": self._acting(Action.PAUSE),
            "resume": self._acting(Action.RESUME),
            "halt": self._acting(Action.HALT),
            "stop": self._acting(Action.STOP),
            "modify": self._modify,
            "cancel": self._cancel,
            "otp_state": self._otp_state,
            "otp_request": self._otp_request,
            "otp_submit": self._otp_submit,
            "otp_token": self._otp_token,
            "otp_forget": self._otp_forget,
            "quote": self._quote,
            "api": self._api,
            "phases": self._phases,
        }

    async def _status(self, _: Request) -> Reply:
        return {"ok": True, "status": status_of(self.facts)}

    def _acting(self, action: Action) -> Handler:
        async def act(request: Request) -> Reply:
            strategy = request.get("strategy")
            self.post(
                OperatorActed(
                    at=self.clock.now(),
                    action=action,
                    reason=str(request.get("reason") or ""),
                    by=str(request.get("by") or "operator"),
                    strategy=str(strategy) if strategy else None,
                    cancel_open=bool(request.get("cancel_open")),
                )
            )
            return {"ok": True}

        return act

    async def _modify(self, request: Request) -> Reply:
        """Ask to change one field of an order; the status tells under `amends` what comes of it."""
        return self._ask(
            AmendAsked(
                at=self.clock.now(),
                order_id=str(request.get("order_id") or ""),
                limit_price=whole_or_none(request.get("limit")),
                quantity=whole_or_none(request.get("quantity")),
                by=str(request.get("by") or "operator"),
                reason=str(request.get("reason") or _BY_HAND),
            )
        )

    async def _cancel(self, request: Request) -> Reply:
        """Ask to cancel an order, or with `all` every open one; the journal tells what comes."""
        order_id = str(request.get("order_id") or "")
        return self._ask(
            CancelAsked(
                at=self.clock.now(),
                order_id=None if request.get("all") is True else order_id,
                by=str(request.get("by") or "operator"),
                reason=str(request.get("reason") or _BY_HAND),
            )
        )

    def _ask(self, ask: AmendAsked | CancelAsked) -> Reply:
        """Hand the ask over, refused or not: the engine journals both. Say what it will say."""
        refused = self.facts.engine.objection(ask)
        self.post(ask)
        if refused is None:
            return {"ok": True, "asked_at": instant(ask.at)}
        lacks_token = refused.numbers.get("state") == RunState.NEEDS_2FA
        return {
            "ok": False,
            "code": "E-2FA-004" if lacks_token else "E-ASK-001",
            "message": f"{refused.text} ({refused.code}); nothing was sent",
            "check": refused.code,
            "numbers": dict(refused.numbers),
        }

    async def _otp_state(self, _: Request) -> Reply:
        return self.second_factor.state()

    async def _otp_request(self, _: Request) -> Reply:
        async with self.tasks.part():
            return await self.second_factor.request()

    async def _otp_submit(self, request: Request) -> Reply:
        code = request.get("code")
        if not isinstance(code, str):
            return _NO_TEXT
        async with self.tasks.part():
            reply = await self.second_factor.submit(Secret(code))
        if reply.get("code") in {NONE_MAILED, USED_UP}:
            return {**reply, "message": f"{reply['message']}. {_GET_ONE}"}
        return reply

    async def _otp_token(self, request: Request) -> Reply:
        token = request.get("token")
        return (
            self.second_factor.submit_token(Secret(token)) if isinstance(token, str) else _NO_TEXT
        )

    async def _otp_forget(self, _: Request) -> Reply:
        return self.second_factor.lose()

    async def _quote(self, request: Request) -> Reply:
        """Tell the market of a symbol.

        What strategies had polled within `max_age_s` of market time costs no request again.
        """
        symbol = str(request.get("symbol") or "").upper()
        known = self.facts.engine.symbol_status(symbol)
        oldest = self.clock.now() - timedelta(seconds=whole_or_none(request.get("max_age_s")) or 0)
        try:
            quote = known.quote.quote if known.quote and known.quote.at > oldest else None
            depth = known.depth.depth if known.depth and known.depth.at > oldest else None
            async with self.tasks.part():
                quote = quote or await self.client.quote(symbol)
                depth = depth or await self.client.depth(symbol)
        except BrokerError as error:
            return _no_quote(symbol, error)
        return {
            "ok": True,
            "at": instant(self.clock.now()),
            "phase": self.facts.engine.status().phases.get(quote.exchange),
            "quote": quote_fields(quote),
            "depth": depth_fields(depth),
            "open_orders": [order_fields(each) for each in known.open_orders],
        }

    async def _api(self, request: Request) -> Reply:
        """Make any read of the broker's API, one page of it."""
        try:
            asked = api.asked_by(request)
            async with self.tasks.part():
                return await api.answer(self.client, asked, self.facts.account_id)
        except OperatorMistake as mistake:
            return {"ok": False, "code": mistake.problems[0].code, "message": str(mistake)}

    async def _phases(self, _: Request) -> Reply:
        exchanges = sorted(self.facts.engine.status().phases)
        try:
            async with self.tasks.part():
                found = [await self.client.market_phase(each) for each in exchanges]
        except BrokerError as error:
            return {"ok": False, "code": "E-NET-002", "message": str(error)}
        now = self.clock.now().isoformat()
        return {"ok": True, "at": now, "phases": [phase_fields(each) for each in found]}


def _no_quote(symbol: str, error: BrokerError) -> Reply:
    if isinstance(error, Refused) and error.http_status == HTTPStatus.NOT_FOUND:
        return {"ok": False, "code": "E-SYM-001", "message": f"the broker knows no '{symbol}'"}
    return {"ok": False, "code": "E-NET-002", "message": str(error)}
