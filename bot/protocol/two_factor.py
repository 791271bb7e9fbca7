"""The three calls that exchange a one-time code for a 2FA token, for client and server.

Codes and tokens are Secrets here; only on the wire are they texts. Source: broker open API
0.2.0-preview.3, OTP exchange (fields at top level, no wrapper).
"""

from typing import Any, Final

from bot.domain.instrument import EXCHANGE_TZ
from bot.protocol.envelope import Payload
from bot.protocol.errors import MalformedAnswer
from bot.protocol.fields import Instant, Named, WholeUnixSeconds, Wire
from bot.protocol.orders import read_body
from bot.protocol.secret import Secret
from bot.protocol.shaped import decoded, encoded
from bot.protocol.strict_json import compact
from bot.protocol.values.border import OtpTicket, OtpVerification, TwoFactorToken

OTP_CHANNEL: Final = "EMAIL"
"""SMS existed until 2026-05-15."""
ABOUT_CODES: Final = "OTP_"
"""How the broker's codes of 2FA begin: key and signature were good, and no quota is used up."""


class _Token(Wire):
    session_token: Named
    expires_at: Instant | None = None
    expires_at_epoch: WholeUnixSeconds | None = None


class _Request(Wire):
    channel: Named


class _Verification(Wire):
    ticket_id: Named
    otp_code: Named


class _Revocation(Wire):
    session_token: Named


def decode_otp_ticket(payload: Payload) -> OtpTicket:
    return decoded(OtpTicket, payload)


def encode_otp_ticket(ticket: OtpTicket) -> dict[str, object]:
    written: dict[str, object] = encoded(OtpTicket, ticket)
    return written


def decode_two_factor_token(payload: Payload) -> TwoFactorToken:
    """Return the token and its expiry; if the answer gives two, the earlier one counts."""
    # An answer that may hold a token is not kept, not even redacted.
    found = decoded(_Token, Payload(payload.call, payload.value))
    ends = [end for end in (found.expires_at, found.expires_at_epoch) if end is not None]
    if not ends:
        raise MalformedAnswer(payload.call, "neither expires_at nor expires_at_epoch")
    return TwoFactorToken(Secret(found.session_token), min(ends))


def encode_two_factor_token(token: TwoFactorToken) -> dict[str, Any]:
    """Return the answer to a correct code. It contains the token, so it is for the wire only."""
    return {
        "session_token": token.token.reveal(),
        "expires_at": token.expires_at.astimezone(EXCHANGE_TZ).isoformat(timespec="milliseconds"),
        "expires_at_epoch": int(token.expires_at.timestamp()),
    }


def encode_otp_request() -> bytes:
    """Return the body that asks for a code by e-mail."""
    return compact({"channel": OTP_CHANNEL}).encode()


def decode_otp_request(body: bytes) -> str:
    """Return the channel that a client asks for. Raises MalformedRequest."""
    return read_body(_Request, body).channel


def encode_otp_verification(ticket_id: str, code: Secret) -> bytes:
    return compact({"ticket_id": ticket_id, "otp_code": code.reveal()}).encode()


def decode_otp_verification(body: bytes) -> OtpVerification:
    """Return a client's ticket and code. Raises MalformedRequest."""
    found = read_body(_Verification, body)
    return OtpVerification(found.ticket_id, Secret(found.otp_code))


def encode_revocation(token: Secret) -> bytes:
    return compact({"session_token": token.reveal()}).encode()


def decode_revocation(body: bytes) -> Secret:
    """Return the token that a client revokes. Raises MalformedRequest."""
    return Secret(read_body(_Revocation, body).session_token)
