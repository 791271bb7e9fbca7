"""The wrapper around every payload, opened strictly by the client, sealed exactly by the sandbox.

Source: broker open API 0.2.0-preview.3, envelope and payload key: `error_code` "0" is success, a
200 whose `error_code` is present and not "0" is a failure. The client accepts `result` or `data`
where one of them is expected; the server sends exactly the key of the table of endpoints.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

from bot.protocol.endpoints.endpoint import Endpoint, Shape
from bot.protocol.envelope import Answer, check_size, is_for_a_moment
from bot.protocol.errors import BrokerRefusal, MalformedAnswer
from bot.protocol.strict_json import NotJson, compact, parse

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
    """What stood inside the envelope, not yet read. `error_code` None: the envelope had none."""

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
    """Return the payload of a good answer.

    Raises BrokerRefusal for an HTTP status other than 200 (2xx for the 2FA calls) and for a 200
    with an error code; MalformedAnswer when the body is larger than any of this call, or no usable
    envelope of it.
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


def is_no_error(code: object) -> bool:
    """Tell whether a code says that all is well: null, empty or "0"."""
    return isinstance(code, str | int | None) and code in _NO_ERROR and code is not False


def read_error_body(body: bytes) -> ErrorBody | None:
    """Return the API's error, None when the body is anything else (HTML, garbage, very long)."""
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
    """Make the error of an answer that is no success; the body may be anything."""
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
        # Fields of a `data` or `result` object count too; what is at the top wins.
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
    raise MalformedAnswer(endpoint.name, f"there is no {endpoint.payload_key}", raw)
