"""The checks before a request is carried out, in a fixed order.

Key, quota, tier, timestamp, signature, nonce, device id, 2FA token; the body comes after. The nonce
is checked only after the signature, or a stranger could use up nonces; a request with a valid
signature uses up its nonce even if it is refused afterwards. Source: broker open API
0.2.0-preview.3, signing and tiers, request quota by class (the numbers are those of the public
command-line client of March 2026), nonce TTL 300 s; the order of the checks is not documented and
is our choice. Usage of a key is counted in wire time.
"""

import hmac
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

from bot.clock import wire_ms
from bot.protocol import signing
from bot.protocol.endpoints.endpoint import Endpoint, Tier, tier_of
from bot.sandbox.api.call import Call
from bot.sandbox.errors import HttpRefusal
from bot.sandbox.house.two_factor import OtpIssuer
from bot.sandbox.scenario import Scenario

NONCE_TTL: Final = timedelta(seconds=300)
QUOTA_WINDOW: Final = timedelta(seconds=60)
QUOTA_CLASSES: Final[Mapping[str, int]] = {
    "FREE": 600,
    "BASIC": 1_200,
    "PRO": 3_000,
    "ENTERPRISE": 10_000,
}
DEVICE_ID_LENGTH_MAX: Final = 64
_TIMESTAMP_DIGITS_MAX: Final = 16

ERROR_CODES: Final = {
    "seed": {"parameter": "400", "signature": "401", "quota": "RATE_LIMIT_EXCEEDED"},
    "named": {
        "parameter": "INVALID_PARAMETER",
        "signature": "AUTH_SIGNATURE_INVALID",
        "quota": "RATE_LIMIT_EXCEEDED",
    },
    "numeric": {"parameter": "400", "signature": "401", "quota": "429"},
}
"""`error_code` by the scenario's switch: sources show both forms."""


NoteNonce = Callable[[str, datetime], None]


class Gatekeeper:
    """The checks of one API key; every used nonce goes to `on_nonce`."""

    def __init__(self, scenario: Scenario, issuer: OtpIssuer, *, on_nonce: NoteNonce) -> None:
        self._key = scenario.key_text
        self._user_id = str(scenario.user_id)
        self._secret = signing.SigningKey(scenario.secret_text)
        self._issuer = issuer
        self._quota = QuotaWindow(QUOTA_CLASSES[scenario.quota])
        self._refused_count = scenario.switches.refused_requests_count
        self._codes = ERROR_CODES[scenario.switches.error_codes]
        self._verifies_body = scenario.switches.verify_body_hash
        self._checks_tier_one = scenario.switches.check_tier_one_signature
        self._other_user_status = scenario.switches.other_user_status
        self.nonces = NonceMemory()
        self._on_nonce = on_nonce

    def admit(self, call: Call) -> Endpoint:
        """Admit a request and return its endpoint; raises HttpRefusal."""
        at, endpoint = call.wire_at, call.endpoint
        if not _is_same(call.header(signing.HEADER_API_KEY), self._key):
            raise self.unauthorised("Invalid API key")
        if not self._quota.take(at):
            reset_s = self._quota.reset_s(at)
            if self._refused_count:
                self._quota.count_refused(at)
            raise self.too_many(reset_s)
        tier = tier_of(call.method, call.path) if endpoint is None else endpoint.tier
        claims_signature = bool(call.header(signing.HEADER_SIGNATURE))
        if tier is Tier.TWO or (self._checks_tier_one and claims_signature):
            self._check_signature(call)
        if endpoint is None:
            raise not_found()
        if endpoint.is_write:
            if not 1 <= len(call.header(signing.HEADER_DEVICE_ID)) <= DEVICE_ID_LENGTH_MAX:
                raise self.bad_parameter()
            self._issuer.admit(call.header(signing.HEADER_TWO_FACTOR), at)
        return endpoint

    def _check_signature(self, call: Call) -> None:
        at, stated_hash = call.wire_at, call.header(signing.HEADER_BODY_HASH)
        timestamp, nonce = call.header(signing.HEADER_TIMESTAMP), call.header(signing.HEADER_NONCE)
        is_number = timestamp.isascii() and timestamp.isdigit()
        is_number = is_number and len(timestamp) <= _TIMESTAMP_DIGITS_MAX
        if not is_number or abs(int(timestamp) - wire_ms(at)) > signing.TIMESTAMP_TOLERANCE_MS:
            raise self.unauthorised("Invalid timestamp")
        is_signed = self._secret.has_signed(
            call.header(signing.HEADER_SIGNATURE),
            timestamp_ms=timestamp,
            method=call.method,
            target=call.target,
            body_sha256=stated_hash,
        )
        # A body needs a hash; whether it matches is checked only with a switch.
        has_hash = bool(stated_hash) or not call.body
        if self._verifies_body:
            has_hash = has_hash and _is_same(stated_hash, signing.body_sha256(call.body))
        if not is_signed or not has_hash:
            raise self.unauthorised("Invalid signature")
        if not nonce:
            raise self.unauthorised("Missing nonce")
        if self.nonces.is_used(nonce, at):
            raise HttpRefusal(401, "AUTH_NONCE_REUSED", "Nonce was used before")
        self.nonces.use(nonce, at)
        self._on_nonce(nonce, at)

    def check_user(self, user_id: str) -> None:
        """Refuse access to another user; raises HttpRefusal."""
        if user_id == self._user_id:
            return
        if self._other_user_status == 401:
            raise self.unauthorised("Not your user id")
        raise HttpRefusal(self._other_user_status, str(self._other_user_status), "Not your user id")

    def bad_parameter(self, message: str = "Invalid parameter") -> HttpRefusal:
        return HttpRefusal(400, self._codes["parameter"], message)

    def unauthorised(self, message: str) -> HttpRefusal:
        return HttpRefusal(401, self._codes["signature"], message)

    def too_many(self, reset_s: int) -> HttpRefusal:
        """Return a 429 that ends in Unix second `reset_s`."""
        headers = {signing.HEADER_RATE_LIMIT_RESET: str(reset_s)}
        return HttpRefusal(429, self._codes["quota"], "Too many requests", headers=headers)


def not_found() -> HttpRefusal:
    return HttpRefusal(404, "404", "Not found")


def no_depth() -> HttpRefusal:
    """Return the 404 for a known symbol without a depth."""
    return HttpRefusal(404, "ORDER_BOOK_NOT_SUPPORTED", "Order book is not supported")


def _is_same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), wanted.encode())


class QuotaWindow:
    """The requests of one key in the last 60 seconds; a refused one does not count."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken: deque[datetime] = deque()

    def take(self, at: datetime) -> bool:
        """Count a request at `at` and return True, or return False if the window is full."""
        self._slide(at)
        if len(self._taken) >= self._limit:
            return False
        self._taken.append(at)
        return True

    def count_refused(self, at: datetime) -> None:
        """Count a refused request too (a switch of the scenario): a client that waits too little
        never recovers.
        """
        self._slide(at)
        self._taken.append(at)

    def reset_s(self, at: datetime) -> int:
        """Unix second in which the oldest counted request leaves the window, rounded up."""
        self._slide(at)
        return ceil_s((self._taken[0] if self._taken else at) + QUOTA_WINDOW)

    def _slide(self, at: datetime) -> None:
        while self._taken and self._taken[0] + QUOTA_WINDOW <= at:
            self._taken.popleft()


class NonceMemory:
    """The nonces of the last 300 seconds, in the order in which they were used."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._order: deque[tuple[str, datetime]] = deque()

    def is_used(self, nonce: str, at: datetime) -> bool:
        """Tell whether `nonce` was used less than 300 seconds before `at`."""
        while self._order and self._order[0][1] + NONCE_TTL <= at:
            self._known.discard(self._order.popleft()[0])
        return nonce in self._known

    def every(self) -> tuple[tuple[str, datetime], ...]:
        """Return the remembered nonces, oldest first."""
        return tuple(self._order)

    def use(self, nonce: str, at: datetime) -> None:
        self._known.add(nonce)
        self._order.append((nonce, at))


def ceil_s(instant: datetime) -> int:
    """Return the Unix seconds of an instant, rounded up."""
    return int(instant.timestamp()) + (instant.microsecond > 0)
