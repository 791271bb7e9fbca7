"""The calls that change something: place, amend and cancel, and the three 2FA calls.

The effect of an order call is an input line, carried out and written to the ledger together:
`carry_out` returns only when the line is on disk, and only then is the call answered. Of the 2FA
calls the ledger keeps the changes, never the code.
"""

from collections.abc import Callable
from dataclasses import fields
from typing import Final

from pydantic import JsonValue

from bot.protocol.orders import decode_amend, decode_cancel, decode_place, encode_order_results
from bot.protocol.two_factor import (
    OTP_CHANNEL,
    decode_otp_request,
    decode_otp_verification,
    decode_revocation,
    encode_otp_ticket,
    encode_two_factor_token,
)
from bot.protocol.values.border import AmendRequest, PlaceRequest
from bot.sandbox.api.call import Call, input_line
from bot.sandbox.api.gatekeeper import Gatekeeper
from bot.sandbox.api.reads import AccountReads
from bot.sandbox.errors import HttpRefusal
from bot.sandbox.exchange.message import Refusal
from bot.sandbox.faults.script import HideRow, Reject
from bot.sandbox.house.ledger import Line
from bot.sandbox.house.order_entry import Change
from bot.sandbox.house.order_record import FAILED, REJECTIONS
from bot.sandbox.house.two_factor import OtpIssuer
from bot.sandbox.scenario import AccountScript, Scenario

EnterOrder = Callable[[Call, AccountScript, PlaceRequest, Line], Change]
"""Places an order, with a fault's changes. It is hot, so it builds a line only if the ledger keeps
it; otherwise it is like `CarryOut`.
"""
CarryOut = Callable[[Line], Change | None]
"""Carries out an input line; the line and its outcomes are on disk when this returns."""

_SCRIPTED_REASON: Final = "Lệnh bị từ chối theo kịch bản"


class OrderWrites:
    def __init__(
        self,
        scenario: Scenario,
        *,
        reads: AccountReads,
        gate: Gatekeeper,
        place: EnterOrder,
        carry_out: CarryOut,
    ) -> None:
        self._refused_change = scenario.switches.refused_change
        self._may_omit_account = scenario.switches.place_names_account == "optional"
        self._reads = reads
        self._gate = gate
        self._place = place
        self._carry_out = carry_out

    def place_order(self, call: Call) -> object:
        """Place an order; the body names the path's account by its extended id."""
        account, request = self._reads.script(call), decode_place(call.body)
        if request.sub_account is not None or not self._may_omit_account:
            self._check_account(request.sub_account, account.extended_id)
        change = self._place(call, account, request, _scripted(call))
        return encode_order_results([change.result])

    def amend_order(self, call: Call) -> object:
        order, request = self._reads.order(call), decode_amend(call.body)
        line = input_line("amend", call, order=order.shown_id, body=_json(request))
        return self._answer(self._carry_out(line))

    def cancel_order(self, call: Call) -> object:
        order, named = self._reads.order(call), decode_cancel(call.body)
        self._check_account(named, order.account.extended_id)
        return self._answer(self._carry_out(input_line("cancel", call, order=order.shown_id)))

    def _check_account(self, named: str | None, wanted: str) -> None:
        if named != wanted:
            raise self._gate.bad_parameter()

    def _answer(self, change: Change | None) -> object:
        """Answer a refused change: a 200 with a code, or with a switch a 400."""
        assert change is not None, "an order input changes an order"
        if change.refusal is not None and self._refused_change == "http_400":
            raise HttpRefusal(400, change.refusal.code, change.refusal.reason)
        return encode_order_results([change.result])


def place_line(
    call: Call, account: AccountScript, request: PlaceRequest, scripted: Line
) -> dict[str, JsonValue]:
    """Return the input line of a new order."""
    return input_line("place", call, account=account.id, body=_json(request), **scripted)


def _json(request: PlaceRequest | AmendRequest) -> dict[str, JsonValue]:
    values = [(each.name, getattr(request, each.name)) for each in fields(request)]
    return {
        name: value if value is None or isinstance(value, int) else str(value)
        for name, value in values
    }


def _scripted(call: Call) -> dict[str, JsonValue]:
    """Return what a fault wants of a new order: refuse it, or hide its row."""
    match call.scripted:
        case Reject() as reject:
            code = FAILED if reject.status == FAILED else reject.code
            outside = REJECTIONS[Refusal.OUTSIDE_BAND]
            usual = [outside] if code == outside.code else REJECTIONS.values()
            reasons = (each.reason for each in usual if each.code == code)
            reason = reject.reason or next(reasons, _SCRIPTED_REASON)
            return {"reject": {"code": code, "reason": reason}}
        case HideRow() as hide:
            return {"hide_s": hide.seconds}
        case _:
            return {}


Note = Callable[[Line], None]


class TwoFactorCalls:
    """Answers from the OTP issuer; `note` writes to the ledger before the answer."""

    def __init__(self, issuer: OtpIssuer, *, gate: Gatekeeper, note: Note) -> None:
        self._issuer = issuer
        self._gate = gate
        self._note = note

    def request_otp(self, call: Call) -> object:
        """Mail a code; the only channel is e-mail."""
        if decode_otp_request(call.body) != OTP_CHANNEL:
            raise self._gate.bad_parameter()
        self._note(input_line("otp_request", call))
        return encode_otp_ticket(self._issuer.request(call.wire_at))

    def verify_otp(self, call: Call) -> object:
        wanted = decode_otp_verification(call.body)
        is_right = self._issuer.is_code(wanted.code.reveal())
        self._note(input_line("otp_verify", call, ticket=wanted.ticket_id, right=is_right))
        token = self._issuer.verify(wanted.ticket_id, call.wire_at, is_right=is_right)
        return encode_two_factor_token(token)

    def revoke_token(self, call: Call) -> object:
        """Revoke a token; an unknown one is not an error."""
        number = self._issuer.revoke(decode_revocation(call.body).reveal())
        if number is not None:
            self._note(input_line("otp_revoke", call, number=number))
        return {}
