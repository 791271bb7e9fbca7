"""Errors in messages from the broker, or from a client of the sandbox.

    ProtocolError
    ├── MalformedAnswer    client side: an unusable answer
    ├── BrokerRefusal      client side: the broker refused, by HTTP status or `error_code`
    ├── MalformedRequest   sandbox side: a body that the API answers with 400
    └── UnusableTarget     a value that cannot be put into a path

They quote what was received redacted or not at all.
"""

from datetime import datetime
from typing import Final

from bot.protocol.secret import LOOKED_AT_MAX, redact

_BYTES_READ_MAX: Final = 4 * LOOKED_AT_MAX + 4
"""Enough bytes for all the characters that are looked at, in any encoding."""
_BYTE_ORDER_MARKS_16: Final = (b"\xff\xfe", b"\xfe\xff")


class ProtocolError(Exception):
    """Any failure to understand a message on the wire."""


class MalformedAnswer(ProtocolError):
    """An answer that does not fit its call. `raw` is redacted and at most 16 kB."""

    def __init__(self, call: str, reason: str, raw: bytes | str = b"") -> None:
        self.reason = redact(reason)  # it may quote a field name chosen by the other end
        super().__init__(f"{call}: the answer cannot be used: {self.reason}")
        self.call = call
        # Decode to text, including 16-bit text, so that redaction finds what must not be kept.
        if isinstance(raw, bytes):
            encoding = "utf-16" if raw[:2] in _BYTE_ORDER_MARKS_16 else "utf-8"
            raw = raw[:_BYTES_READ_MAX].decode(encoding, errors="backslashreplace")
        self.raw = redact(raw)

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        return type(self), (self.call, self.reason, self.raw)


class BrokerRefusal(ProtocolError):
    """The broker answered with an error.

    `error_code` is empty if the body was not an error body (a proxy's HTML page, say); `retry_at`
    is the instant of `X-RateLimit-Reset` (wire time, UTC), None without a readable one.
    """

    def __init__(
        self,
        call: str,
        *,
        http_status: int,
        error_code: str,
        message: str,
        retry_at: datetime | None = None,
    ) -> None:
        self.error_code = redact(error_code)
        said = self.error_code or "without an error body"
        text = f"{call}: HTTP {http_status}"
        super().__init__(text if said == str(http_status) else f"{text} {said}")
        self.call = call
        self.http_status = http_status
        self.message = redact(message)
        self.retry_at = retry_at

    @property
    def has_error_body(self) -> bool:
        """True if the refusal comes from the API itself, not from something in between."""
        return bool(self.error_code)


class MalformedRequest(ProtocolError):
    """A request body that the API refuses with 400. `field` is empty for the whole body."""

    def __init__(self, reason: str, field: str = "") -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.reason = reason
        self.field = field


class UnusableTarget(ProtocolError):
    """A path value is empty, or would lead to another path."""

    def __init__(self, endpoint: str, name: str) -> None:
        super().__init__(f"{endpoint}: the path value {name} is empty or a dot segment")
        self.endpoint = endpoint
        self.name = name
