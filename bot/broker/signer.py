"""Turns a call into the bytes that go out: headers, nonce, timestamp and signature of one attempt.

The body that is hashed and the target that is signed are the ones that are sent (broker open API
0.2.0-preview.3, signing). Every attempt has a nonce and a timestamp of its own; the timestamp is
the broker's time as well as we know it.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from bot.broker.link import HttpRequest
from bot.clock import Clock, wire_ms
from bot.protocol.endpoints.endpoint import Endpoint, Tier
from bot.protocol.secret import Secret
from bot.protocol.signing import (
    HEADER_API_KEY,
    HEADER_BODY_HASH,
    HEADER_DEVICE_ID,
    HEADER_NONCE,
    HEADER_SIGNATURE,
    HEADER_TIMESTAMP,
    HEADER_TWO_FACTOR,
    SigningKey,
    body_sha256,
)

DEVICE_ID_LENGTH_MAX: Final = 64

MakeNonce = Callable[[], str]


def random_nonce() -> str:
    """Make a nonce that can't be guessed: a UUID of version 4, without creating a UUID object."""
    octets = bytearray(os.urandom(16))
    octets[6] = octets[6] & 0x0F | 0x40
    octets[8] = octets[8] & 0x3F | 0x80
    text = octets.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What identifies us to the broker. Order writes need `device_id`, which is not signed."""

    api_key: Secret
    api_secret: Secret
    device_id: str

    def __post_init__(self) -> None:
        if not 1 <= len(self.device_id) <= DEVICE_ID_LENGTH_MAX:
            raise ValueError(f"device_id has 1 to {DEVICE_ID_LENGTH_MAX} characters")


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedRequest(HttpRequest):
    """A signed request, ready to send; an order write's hash in the journal is of exactly these
    bytes.
    """

    endpoint: Endpoint
    nonce: str
    timestamp_ms: int
    body_sha256: str


class Signer:
    """Signs for one API key; `clock` gives the broker's time."""

    def __init__(
        self, credentials: Credentials, clock: Clock, make_nonce: MakeNonce = random_nonce
    ) -> None:
        self._credentials = credentials
        self._key = SigningKey(credentials.api_secret.reveal())
        self._clock = clock
        self._make_nonce = make_nonce

    def sign_read(
        self, endpoint: Endpoint, target: str, *, body: bytes = b"", nonce: str | None = None
    ) -> HttpRequest:
        """Sign a call that changes no order; only fencing passes a `nonce`."""
        if endpoint.tier is Tier.ONE:
            key = self._credentials.api_key.reveal()
            return HttpRequest(endpoint.method, target, {HEADER_API_KEY: key}, body)
        return self._signed(endpoint, target, body, nonce or self._make_nonce(), {})

    def sign_write(
        self, endpoint: Endpoint, target: str, body: bytes, token: Secret | None
    ) -> SignedRequest:
        """Sign an order write; the broker refuses one without a token."""
        headers = {HEADER_DEVICE_ID: self._credentials.device_id}
        if token is not None:
            headers[HEADER_TWO_FACTOR] = token.reveal()
        return self._signed(endpoint, target, body, self._make_nonce(), headers)

    def _signed(
        self, endpoint: Endpoint, target: str, body: bytes, nonce: str, extra: Mapping[str, str]
    ) -> SignedRequest:
        timestamp_ms = wire_ms(self._clock.now())
        digest = body_sha256(body)
        signature = self._key.sign(
            timestamp_ms=timestamp_ms,
            method=endpoint.method,
            target=target,
            body_sha256=digest,
        )
        headers = {
            HEADER_API_KEY: self._credentials.api_key.reveal(),
            HEADER_TIMESTAMP: str(timestamp_ms),
            HEADER_NONCE: nonce,
            HEADER_SIGNATURE: signature,
            **extra,
        }
        if body:
            headers |= {HEADER_BODY_HASH: digest, "Content-Type": "application/json"}
        return SignedRequest(
            endpoint.method,
            target,
            headers,
            body,
            endpoint=endpoint,
            nonce=nonce,
            timestamp_ms=timestamp_ms,
            body_sha256=digest,
        )
