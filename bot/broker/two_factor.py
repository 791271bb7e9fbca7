"""The 2FA token that order writes need: in memory only, and never sent past the end of its day.

A token is opaque, but it ends at 23:59:59 +07:00 of the day of its issue at the latest (broker open
API, OTP exchange). So it ends at the earliest of: the broker's stated expiry, its `exp` if it is a
JWT, and the end of the day on which it was issued (`iat`) or else received.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta
from typing import Final

import jwt

from bot.clock import Clock
from bot.domain.instrument import EXCHANGE_TZ
from bot.protocol.secret import Secret

LAST_SECOND: Final = time(23, 59, 59)
_TAIL: Final = 4
_TAIL_OF_MIN: Final = 40
"""A shorter token is not shown at all: a tail would reveal too much of it."""


class TwoFactor:
    """Holds at most one token. `clock` gives the broker's time, by which a token ends."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._token: Secret | None = None
        self._until: datetime | None = None

    @property
    def is_ready(self) -> bool:
        """True when there is a token that has not ended."""
        return self.token() is not None

    @property
    def until(self) -> datetime | None:
        """The last instant of the token that we hold, in UTC; None without one."""
        return self._until

    @property
    def left(self) -> timedelta:
        """How long the token that we hold is still good; nothing without one."""
        return timedelta() if self._until is None else self._until - self._clock.now()

    @property
    def masked(self) -> str:
        """The last characters of the token that we hold, so that two can be told apart; empty
        without one.
        """
        held = self._token.reveal() if self._token is not None else ""
        return f"…{held[-_TAIL:]}" if len(held) >= _TAIL_OF_MIN else "…" if held else ""

    def token(self) -> Secret | None:
        """The token; None without one or if it has ended."""
        if self._until is None or self._clock.now() > self._until:
            return None
        return self._token

    @property
    def lack(self) -> str:
        """The broker's word for what is missing; empty with a token that has not ended."""
        if self.is_ready:
            return ""
        return "OTP_SESSION_REQUIRED" if self._token is None else "OTP_SESSION_EXPIRED"

    def set_token(self, token: Secret, expires_at: datetime | None = None) -> None:
        """Hold this token from now on; one that has already ended is held but never ready."""
        self._token = token
        self._until = self._end_of(token, expires_at)

    def has_ended(self, token: Secret, expires_at: datetime | None = None) -> bool:
        """Return whether a token has already ended, without holding it."""
        return self._clock.now() > self._end_of(token, expires_at)

    def _end_of(self, token: Secret, expires_at: datetime | None) -> datetime:
        claims, now = _claims(token), self._clock.now()
        issued_on = min(claims.get("iat", now), now).astimezone(EXCHANGE_TZ).date()
        end_of_day = datetime.combine(issued_on, LAST_SECOND, EXCHANGE_TZ).astimezone(UTC)
        ends = (expires_at, claims.get("exp"), end_of_day)
        return min(end for end in ends if end is not None)

    def drop(self) -> None:
        """Forget the token."""
        self._token = None
        self._until = None


def _claims(token: Secret) -> Mapping[str, datetime]:
    """Return the instants in a JWT's `exp` and `iat`, unverified; nothing if it is not a JWT."""
    try:
        claims = jwt.decode(token.reveal(), options={"verify_signature": False})
    except jwt.PyJWTError:
        return {}
    found = {}
    for name in ("exp", "iat"):
        seconds = claims.get(name)
        with suppress(ValueError, OverflowError, OSError):
            if isinstance(seconds, int | float):
                found[name] = datetime.fromtimestamp(seconds, UTC)
    return found
