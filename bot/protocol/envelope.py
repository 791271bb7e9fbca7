"""The answers on the wire: their size limits, and the envelope around the payload, which the client
opens strictly and the sandbox seals exactly.

An answer larger than its limit is refused before it is read, so that no answer costs more time or
memory than the largest that a broker has a reason to send: a day order book of thousands of orders,
years of bars. Small answers are parsed at once, in a few milliseconds at most; larger ones go to a
thread. Measured by `bench/hostile.py`.

Source: broker open API 0.2.0-preview.3, envelope and payload key: `error_code` "0" is success, a
200 whose `error_code` is present and not "0" is a failure. The client accepts `result` or `data`
where one of them is expected; the server sends exactly the key of the table of endpoints.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.endpoints.endpoint import Endpoint, Shape
from bot.protocol.errors import BrokerRefusal, MalformedAnswer
from bot.protocol.strict_json import NotJson, compact, parse


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete HTTP answer. Header names are in lower case; the body is decompressed bytes.

    `is_of_old_token`: its request was signed before we got the 2FA token that we hold now.
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


KIB: Final = 1024
MIB: Final = 1024 * KIB


@dataclass(frozen=True, slots=True)
class Size:
    """`values` counts commas and opening brackets, an upper bound of the values in the JSON."""

    bytes_max: int
    values_max: int


FOR_A_MOMENT: Final = Size(16 * KIB, 1_000)
"""What may be parsed on the event loop, while everything else waits: a quote, a depth, a few
orders.
"""
SMALL: Final = Size(64 * KIB, 5_000)
"""One object: a quote has 17 values, the row of an order 45, ten depth levels a side 43."""
MEDIUM: Final = Size(MIB, 50_000)
"""A portfolio of 1,000 symbols."""
LARGE: Final = Size(4 * MIB, 150_000)
"""A day order book of 3,000 orders, 5-minute bars of a year and a half, a catalogue of 50,000."""

ROWS_MAX: Final = 3_000
"""Orders of a day order book."""
LEVELS_MAX: Final = 100
"""Prices on one side of a depth; the exchanges show three to ten."""

_SMALL: Final = frozenset(
    {"user", "market_phase", "summary", "available_trade", "order_detail", "assets_summary"}
    | {"pnl_today", "place_order", "amend_order", "cancel_order"}
    | {"request_otp", "verify_otp", "revoke_token"}
)


def is_for_a_moment(body: bytes) -> bool:
    """Return whether a body is small enough to be parsed at once, whatever its call."""
    if len(body) <= FOR_A_MOMENT.values_max:  # a value takes at least one byte
        return True
    is_short = len(body) <= FOR_A_MOMENT.bytes_max
    return is_short and _values_in(body) <= FOR_A_MOMENT.values_max


def check_size(endpoint: Endpoint, body: bytes) -> None:
    """Raise MalformedAnswer if an answer is larger than any legitimate one of its call."""
    size = SIZES[endpoint.name]
    if len(body) <= size.values_max:
        return
    if len(body) > size.bytes_max:
        wanted = f"wanted at most {size.bytes_max:,} bytes, found {len(body):,}"
        raise MalformedAnswer(endpoint.name, wanted)
    if (found := _values_in(body)) > size.values_max:
        wanted = f"wanted at most {size.values_max:,} values, found {found:,}"
        raise MalformedAnswer(endpoint.name, wanted)


def _values_in(body: bytes) -> int:
    return body.count(b",") + body.count(b"[") + body.count(b"{")


SIZES: Final[Mapping[str, Size]] = {
    **dict.fromkeys(ENDPOINTS, LARGE),
    **dict.fromkeys(("sub_accounts", "portfolio", "index_realtime"), MEDIUM),
    **dict.fromkeys((name for name in ENDPOINTS if name.endswith(("_quote", "_depth"))), SMALL),
    **dict.fromkeys(_SMALL, SMALL),
}
"""Size limit of the answer to each call."""


SUCCESS_CODE: Final = "0"
_NO_ERROR: Final = frozenset({None, "", SUCCESS_CODE, 0})
"""What means "no error" in `code` and `error_code`."""
_PAYLOAD_KEYS: Final = ("data", "result")
_SHAPES: Final[Mapping[Shape, tuple[type[Any], ...]]] = {
    Shape.OBJECT: (dict,),
    Shape.ARRAY: (list,),
    Shape.EITHER: (dict, list),
    Shape.PERHAPS: (dict, list),
}
_RESET_HEADER: Final = "x-ratelimit-reset"
_RESET_DIGITS_MAX: Final = 10
_ERROR_CODE_CHARACTERS_MAX: Final = 64
_MESSAGE_CHARACTERS_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class Payload:
    """The content of the envelope, not yet parsed. `error_code` None: the envelope had none."""

    call: str
    value: Any = field(repr=False)
    raw: bytes = field(default=b"", repr=False)
    error_code: str | None = None


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """The API's own error: a code that is not "0" and a message."""

    error_code: str
    message: str


def open_envelope(endpoint: Endpoint, answer: Answer) -> Payload:
    """Return the payload of a successful answer.

    Raises BrokerRefusal for an HTTP status other than 200 (2xx for the 2FA calls) and for a 200
    with an error code; MalformedAnswer if the body is too large for this call or not a usable
    envelope.
    """
    is_free = endpoint.payload_key is None  # the 2FA calls
    if not (200 <= answer.http_status < 300 if is_free else answer.http_status == HTTPStatus.OK):
        raise refusal_of(endpoint, answer)
    check_size(endpoint, answer.body)
    try:
        body = {} if is_free and not answer.body else parse(answer.body)
    except NotJson as error:
        raise MalformedAnswer(endpoint.name, str(error), answer.body) from error
    if not isinstance(body, dict):
        raise MalformedAnswer(endpoint.name, "the body is not an object", answer.body)
    code = body.get("error_code")
    if code != SUCCESS_CODE and not is_no_error(code):
        raise refusal_of(endpoint, answer)
    value = None if endpoint.payload_key is None else body.get(endpoint.payload_key)
    if not isinstance(value, _SHAPES[endpoint.shape]):
        value = _payload_of(endpoint, body, answer.body)
    return Payload(endpoint.name, value, answer.body, None if code is None else str(code))


def is_from_cache(headers: Mapping[str, str]) -> bool:
    """Return whether an answer with these headers (lower-case names) says by its `age` that it was
    given to an earlier request: it shows nothing of ours.
    """
    return bool(headers.get("age", "").strip().lstrip("0"))


def is_no_error(code: object) -> bool:
    """Return whether a code means success: null, empty or "0"."""
    return isinstance(code, str | int | None) and code in _NO_ERROR and code is not False


def read_error_body(body: bytes) -> ErrorBody | None:
    """Return the API's error, None if the body is anything else (HTML, garbage, very long)."""
    if not is_for_a_moment(body):
        return None
    try:
        value = parse(body)
    except NotJson:
        return None
    if not isinstance(value, dict):
        return None
    code, message = value.get("error_code"), value.get("message")
    if is_no_error(code) or type(code) not in {str, int}:
        return None
    text = message if isinstance(message, str) else ""
    return ErrorBody(str(code)[:_ERROR_CODE_CHARACTERS_MAX], text[:_MESSAGE_CHARACTERS_MAX])


def refusal_of(endpoint: Endpoint, answer: Answer) -> BrokerRefusal:
    """Make the error for an unsuccessful answer, whatever its body."""
    error = read_error_body(answer.body) or ErrorBody("", "")
    return BrokerRefusal(
        endpoint.name,
        http_status=answer.http_status,
        error_code=error.error_code,
        message=error.message,
        retry_at=rate_limit_reset(answer),
    )


def rate_limit_reset(answer: Answer) -> datetime | None:
    """Return the instant of `X-RateLimit-Reset` (Unix seconds, wire time), None for nonsense."""
    text = answer.headers.get(_RESET_HEADER, "").strip()
    if not (text.isascii() and text.isdigit() and len(text) <= _RESET_DIGITS_MAX):
        return None
    return datetime.fromtimestamp(int(text), UTC)


def seal(endpoint: Endpoint, payload: object) -> bytes:
    """Return the body of a success as the server sends it."""
    if endpoint.payload_key is None:
        return compact(payload).encode()
    body = {"error_code": SUCCESS_CODE, "message": "success", endpoint.payload_key: payload}
    return compact(body).encode()


def seal_error(error_code: str, message: str) -> bytes:
    """Return the body of an error as the server sends it."""
    return compact({"error_code": error_code, "message": message}).encode()


def _payload_of(endpoint: Endpoint, body: dict[str, Any], raw: bytes) -> Any:
    if endpoint.payload_key is None:
        # Fields inside a `data` or `result` object count too; top-level ones take precedence.
        inner = [body[key] for key in _PAYLOAD_KEYS if isinstance(body.get(key), dict)]
        return {name: value for fields in (*inner, body) for name, value in fields.items()}
    for name in (endpoint.payload_key, *_PAYLOAD_KEYS):
        value = body.get(name)
        if isinstance(value, _SHAPES[endpoint.shape]):
            return value
        if value is not None:
            wanted = f"{endpoint.payload_key} is not an {endpoint.shape.value}"
            raise MalformedAnswer(endpoint.name, wanted, raw)
    if endpoint.shape is Shape.PERHAPS and not body.keys().isdisjoint(_PAYLOAD_KEYS):
        return None
    reason = f"there is no {endpoint.payload_key}"
    if endpoint.shape is Shape.ARRAY and endpoint.payload_key in body:
        reason += ": null does not say that the list is empty"
    raise MalformedAnswer(endpoint.name, reason, raw)
