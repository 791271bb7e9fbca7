"""What can be wrong with what the broker, or a client of the sandbox, says.

    ProtocolError
    ├── MalformedAnswer    the client's end: an answer that cannot be used
    ├── BrokerRefusal      the client's end: the broker says no, by HTTP status or by `error_code`
    ├── MalformedRequest   the sandbox's end: a body that the API answers with 400
    └── UnusableTarget     a path value that no path can carry

What was received appears in them redacted or not at all.
"""

from datetime import datetime
from typing import Final

from bot.protocol.secret import LOOKED_AT_MAX, redact

_BYTES_READ_MAX: Final = 4 * LOOKED_AT_MAX + 4
"""So many bytes are more characters than are looked at, in any encoding."""
_BYTE_ORDER_MARKS_16: Final = (b"\xff\xfe", b"\xfe\xff")


class ProtocolError(Exception):
    """Any failure to understand what was said over the wire."""


class MalformedAnswer(ProtocolError):
    """An answer that is not what the call promises. `raw` is redacted and at most 16 kB."""

    def __init__(self, call: str, reason: str, raw: bytes | str = b"") -> None:
        self.reason = redact(reason)  # which may name a field that the other end has named
        super().__init__(f"{call}: the answer cannot be used: {self.reason}")
        self.call = call
        # As text in which what must not be kept can be seen, also where it is 16-bit text.
        if isinstance(raw, bytes):
            encoding = "utf-16" if raw[:2] in _BYTE_ORDER_MARKS_16 else "utf-8"
            raw = raw[:_BYTES_READ_MAX].decode(encoding, errors="backslashreplace")
        self.raw = redact(raw)

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        return type(self), (self.call, self.reason, self.raw)


class BrokerRefusal(ProtocolError):
    """The broker answered with an error.

    `error_code` is empty when the body was no error body (an HTML page of a proxy, say); `retry_at`
    is the instant of `X-RateLimit-Reset` (wire time, UTC), None when there is none to be read.
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
        super().__init__(f"{call}: HTTP {http_status} {said}")
        self.call = call
        self.http_status = http_status
        self.message = redact(message)
        self.retry_at = retry_at

    @property
    def has_error_body(self) -> bool:
        """True when the refusal is the API's own word, not that of something on the way."""
        return bool(self.error_code)


class MalformedRequest(ProtocolError):
    """A request body that the API refuses with 400. `field` is empty for the whole body."""

    def __init__(self, reason: str, field: str = "") -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.reason = reason
        self.field = field


class UnusableTarget(ProtocolError):
    """A path value is empty, or would name another path."""

    def __init__(self, endpoint: str, name: str) -> None:
        super().__init__(f"{endpoint}: the path value {name} is empty or a dot segment")
        self.endpoint = endpoint
        self.name = name
