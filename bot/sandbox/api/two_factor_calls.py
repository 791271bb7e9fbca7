"""The three calls of the one-time code. The ledger keeps what they change, never a code."""

from collections.abc import Callable

from bot.protocol.two_factor import (
    OTP_CHANNEL,
    decode_otp_request,
    decode_otp_verification,
    decode_revocation,
    encode_otp_ticket,
    encode_two_factor_token,
)
from bot.sandbox.api.call import Call, input_line
from bot.sandbox.api.gatekeeper import Gatekeeper
from bot.sandbox.house.ledger import Line
from bot.sandbox.house.two_factor import OtpIssuer

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
        """End a token; one that is not ours is no error."""
        number = self._issuer.revoke(decode_revocation(call.body).reveal())
        if number is not None:
            self._note(input_line("otp_revoke", call, number=number))
        return {}
