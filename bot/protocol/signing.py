"""The signature of a request, made by the client and checked by the sandbox.

Source: broker open API 0.2.0-preview.3, signing. The payload is `timestamp LF METHOD LF target LF
bodyhash` with nothing after the hash, so that it ends in a line feed when there is no body. The
secret's *text* is the key, although it looks like hexadecimal.
"""

import hmac
from hashlib import sha256
from typing import Final

TIMESTAMP_TOLERANCE_MS: Final = 30_000
"""A timestamp is accepted up to and including this far from the server's time."""

HEADER_API_KEY: Final = "X-FH-APIKEY"
HEADER_TIMESTAMP: Final = "X-FH-TIMESTAMP"
HEADER_NONCE: Final = "X-FH-NONCE"
HEADER_SIGNATURE: Final = "X-FH-SIGNATURE"
HEADER_BODY_HASH: Final = "X-FH-BODYHASH"
HEADER_TWO_FACTOR: Final = "X-FH-2FA-TOKEN"
HEADER_DEVICE_ID: Final = "device-id"
HEADER_RATE_LIMIT_RESET: Final = "X-RateLimit-Reset"


def body_sha256(body: bytes) -> str:
    """Return the lower-case hex SHA-256 of the exact body bytes, or an empty text for an empty
    body.
    """
    return sha256(body).hexdigest() if body else ""


def signing_payload(
    *, timestamp_ms: int | str, method: str, target: str, body_sha256: str
) -> bytes:
    """Return the bytes that are signed. `target` is the request line's: encoded path and query.

    The server passes `timestamp_ms` as the text that it received.
    """
    return f"{timestamp_ms}\n{method}\n{target}\n{body_sha256}".encode("utf-8", "surrogateescape")


def sign(
    secret: str, *, timestamp_ms: int | str, method: str, target: str, body_sha256: str
) -> str:
    """Return the lower-case hex HMAC-SHA256 of the payload under the secret's text."""
    payload = signing_payload(
        timestamp_ms=timestamp_ms, method=method, target=target, body_sha256=body_sha256
    )
    return hmac.digest(secret.encode(), payload, "sha256").hex()


class SigningKey:
    """A secret for many signatures: its HMAC is set up once and copied for each."""

    __slots__ = ("_begun",)

    def __init__(self, secret: str) -> None:
        self._begun = hmac.new(secret.encode(), digestmod="sha256")

    def sign(self, *, timestamp_ms: int | str, method: str, target: str, body_sha256: str) -> str:
        """Like the function `sign`, with this secret."""
        begun = self._begun.copy()
        begun.update(
            signing_payload(
                timestamp_ms=timestamp_ms, method=method, target=target, body_sha256=body_sha256
            )
        )
        return begun.hexdigest()

    def has_signed(
        self, signature: str, *, timestamp_ms: int | str, method: str, target: str, body_sha256: str
    ) -> bool:
        """Return, in constant time, whether `signature` is the one for these values."""
        expected = self.sign(
            timestamp_ms=timestamp_ms, method=method, target=target, body_sha256=body_sha256
        )
        given = signature.encode("utf-8", "surrogateescape")
        return hmac.compare_digest(expected.encode(), given)
