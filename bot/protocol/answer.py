"""What came back over the wire, or that nothing did. Bodies and headers stay out of every repr."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole HTTP answer. Header names are in lower case; the body is decompressed bytes.

    `is_of_old_token`: what it answers was signed before the 2FA token came that we hold now.
    """

    http_status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    latency_ms: float = 0.0
    is_of_old_token: bool = False


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """There was no complete answer. `is_sent` is False only when no byte was written."""

    reason: str
    is_sent: bool
    latency_ms: float = 0.0
