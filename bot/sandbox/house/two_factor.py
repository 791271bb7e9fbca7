"""Two-factor authentication: tickets, one-time codes, and the tokens that let orders through.

Everything here is wire time. A token ends at 23:59:59 +07:00 of the day of issue; several of one
key may be valid at once. Source: broker open API 0.2.0-preview.3, OTP exchange; where it is silent
(a ticket unknown, expired or used; a fourth wrong code) we chose OTP_INVALID and OTP_LOCKED.
"""

import hmac
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from hashlib import sha256
from typing import Final

import jwt

from bot.domain.instrument import EXCHANGE_TZ
from bot.protocol.secret import Secret
from bot.protocol.values.border import OtpTicket, TwoFactorToken
from bot.sandbox.errors import HttpRefusal
from bot.sandbox.scenario import Scenario

TICKET_LIFE: Final = timedelta(minutes=5)
REQUESTS_PER_DAY: Final = 5
TRIES_PER_TICKET: Final = 3
_ALGORITHM: Final = "HS256"
_TOKENS_READ_MAX: Final = 64
_MESSAGES: Final = {
    "OTP_SESSION_REQUIRED": "2FA session required",
    "OTP_SESSION_EXPIRED": "2FA session has expired",
    "OTP_SESSION_INVALID": "2FA session is invalid",
    "OTP_SESSION_REVOKED": "2FA session was revoked",
}


@dataclass(slots=True)
class _Ticket:
    issued_at: datetime
    wrong: int = 0
    is_used: bool = False


def end_of_day(at: datetime) -> datetime:
    """23:59:59 +07:00 of the day of `at`: the last instant of a token issued then."""
    return datetime.combine(at.astimezone(EXCHANGE_TZ).date(), time(23, 59, 59), EXCHANGE_TZ)


@dataclass(frozen=True, slots=True, repr=False)
class Given:
    """What the code issuer knows about the person; it is not stored in a checkpoint."""

    subject: str
    signing_key: bytes
    code: str
    email: str | None


def given_of(scenario: Scenario) -> Given:
    return Given(
        subject=sha256(scenario.key_text.encode()).hexdigest()[:16],
        signing_key=sha256(b"two-factor|" + scenario.secret_text.encode()).digest(),
        code=scenario.otp_code.get_secret_value(),
        email=scenario.email,
    )


class OtpIssuer:
    """Codes and tokens of one API key. Replaying the calls rebuilds the state."""

    def __init__(self, given: Given) -> None:
        self._given = given
        self._requests: dict[date, int] = {}
        self._tickets: dict[str, _Ticket] = {}
        self._issued = 0
        self._revoked: set[str] = set()
        self._read: dict[str, dict[str, str | int]] = {}
        self._dropped: tuple[int, str] = (0, "")

    def __getstate__(self) -> dict[str, object]:
        """Leave out the parsed tokens: they are secrets, and can be parsed again."""
        return {**self.__dict__, "_read": {}}

    def request(self, at: datetime) -> OtpTicket:
        """Mail a code; raises HttpRefusal without an address or after five mails today."""
        if self._given.email is None:
            raise HttpRefusal(400, "OTP_CONTACT_UNAVAILABLE", "No email on the account")
        day = at.astimezone(EXCHANGE_TZ).date()
        if self._requests.get(day, 0) >= REQUESTS_PER_DAY:
            raise HttpRefusal(429, "OTP_RATE_LIMIT_EXCEEDED", "Too many OTP requests today")
        self._requests[day] = self._requests.get(day, 0) + 1
        ticket_id = f"T-{len(self._tickets) + 1}"
        self._tickets[ticket_id] = _Ticket(at)
        return OtpTicket(ticket_id, masked_email(self._given.email))

    def is_code(self, text: str) -> bool:
        """Compare a typed code with the mailed one, in constant time."""
        return hmac.compare_digest(text.encode(), self._given.code.encode())

    def verify(self, ticket_id: str, at: datetime, *, is_right: bool) -> TwoFactorToken:
        """Exchange a ticket whose code `is_right` for a token; raises HttpRefusal otherwise."""
        ticket = self._tickets.get(ticket_id)
        if ticket is None or ticket.is_used or at - ticket.issued_at > TICKET_LIFE:
            raise HttpRefusal(400, "OTP_INVALID", "The ticket is unknown, used or too old")
        if ticket.wrong >= TRIES_PER_TICKET:
            raise HttpRefusal(403, "OTP_LOCKED", "The ticket is locked, request a new code")
        if not is_right:
            ticket.wrong += 1
            left = TRIES_PER_TICKET - ticket.wrong
            raise HttpRefusal(400, "OTP_INVALID", f"Wrong code, tries left: {left}")
        ticket.is_used = True
        return self.issue(at)

    def issue(self, at: datetime) -> TwoFactorToken:
        """Make a token that is valid until the end of the day of `at`."""
        self._issued += 1
        expires_at = end_of_day(at)
        claims = {
            "sub": self._given.subject,
            "jti": str(self._issued),
            "iat": int(at.timestamp()),
            "exp": int(expires_at.timestamp()),
        }
        token = jwt.encode(claims, self._given.signing_key, algorithm=_ALGORITHM)
        return TwoFactorToken(Secret(token), expires_at)

    def revoke(self, token: str) -> str | None:
        """End a token early. Returns its number, None for a token we did not issue."""
        claims = self._claims(token)
        if claims is None:
            return None
        self.revoke_number(str(claims["jti"]))
        return str(claims["jti"])

    def revoke_number(self, number: str) -> None:
        self._revoked.add(number)

    def drop(self, code: str) -> None:
        """Make every token issued so far answer `code` from now on (a fault)."""
        self._dropped = (self._issued, code)

    def is_code_out(self, at: datetime) -> bool:
        """Return whether the code mailed last can still be used."""
        last = next(reversed(self._tickets.values()), None)
        if last is None or last.is_used or last.wrong >= TRIES_PER_TICKET:
            return False
        return at - last.issued_at <= TICKET_LIFE

    @property
    def is_dropped(self) -> bool:
        """True while no token was issued since the last drop."""
        last_dropped, code = self._dropped
        return bool(code) and self._issued <= last_dropped

    def admit(self, token: str | None, at: datetime) -> None:
        """Let a write through, or raise HttpRefusal 403 with one of the four OTP_SESSION codes."""
        code: str | None = None
        claims = self._claims(token) if token else None
        if not token:
            code = "OTP_SESSION_REQUIRED"
        elif claims is None:
            code = "OTP_SESSION_INVALID"
        elif str(claims["jti"]) in self._revoked:
            code = "OTP_SESSION_REVOKED"
        elif at.timestamp() > int(claims["exp"]):
            code = "OTP_SESSION_EXPIRED"
        elif int(claims["jti"]) <= self._dropped[0]:
            code = self._dropped[1]
        if code is not None:
            raise HttpRefusal(403, code, _MESSAGES.get(code, "2FA session refused"))

    def _claims(self, token: str) -> dict[str, str | int] | None:
        """Parse a token of ours; the result is cached, as its text never changes."""
        if token in self._read:
            return self._read[token]
        try:
            claims: dict[str, str | int] = jwt.decode(
                token,
                self._given.signing_key,
                algorithms=[_ALGORITHM],
                options={"verify_exp": False, "verify_iat": False, "require": ["jti", "exp"]},
            )
        except jwt.InvalidTokenError:
            return None
        if claims.get("sub") != self._given.subject:
            return None
        if len(self._read) >= _TOKENS_READ_MAX:
            self._read.clear()
        self._read[token] = claims
        return claims


def masked_email(email: str) -> str:
    """`operator@example.com` as `o***@example.com`."""
    name, _, host = email.partition("@")
    return f"{name[:1]}***@{host}"
