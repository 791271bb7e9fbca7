"""The kinds of value that the broker sends, as types that read tolerantly and refuse nonsense.

A number may come as a JSON number or as a numeric text. How a fraction becomes whole is decided by
kind, once and here:

- `Whole`: a price, quantity or id. Documented as whole VND or shares; a fraction is malformed.
- `Floored`: an average execution price, seldom whole. Rounded down; money comes from amounts.
- `Rounded`: an average cost, an amount, a fee or a tax. Rounded half up.

An absent field and null are the same: the default. Source: broker open API 0.2.0-preview.3.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from bot.domain.instrument import EXCHANGE_TZ
from bot.protocol.envelope import Payload
from bot.protocol.errors import MalformedAnswer
from bot.protocol.strict_json import INTEGER_MAX

_NUMERIC: Final = re.compile(r"-?[0-9]{1,19}(\.[0-9]{1,20})?", re.ASCII)
_ERRORS_SHOWN_MAX: Final = 3
_UNIX_S_MAX: Final = 4_102_444_800
"""The year 2100: a larger "seconds" is milliseconds, or nonsense."""


def decimal_of(value: object) -> Decimal:
    """Return a JSON number or a numeric text exactly; raises ValueError for anything else."""
    if isinstance(value, str) and _NUMERIC.fullmatch(value):
        return Decimal(value)
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return Decimal(value)
    raise ValueError("not a number")


def _bounded(value: Decimal) -> int:
    if abs(value) > INTEGER_MAX:
        raise ValueError("beyond 64 bits")
    return int(value)


def _whole(value: object) -> int:
    number = decimal_of(value)
    if number != number.to_integral_value():
        raise ValueError("not a whole number")
    return _bounded(number)


def rounded_by(rounding: str) -> Callable[[object], int]:
    """Return a reader of whole numbers that rounds a fraction in the given way."""

    def read(value: object) -> int:
        return _bounded(decimal_of(value).to_integral_value(rounding=rounding))

    return read


def _positive(value: object) -> int:
    number = _whole(value)
    if number <= 0:
        raise ValueError("not above zero")
    return number


def _not_negative(value: object) -> int:
    number = _whole(value)
    if number < 0:
        raise ValueError("below zero")
    return number


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("not a text")
    return value


def _named(value: object) -> str:
    text = _text(value)
    if not text.strip():
        raise ValueError("empty")
    return text


def _instant(value: object) -> datetime:
    try:
        instant = datetime.fromisoformat(_named(value))
        if instant.tzinfo is None:
            raise ValueError("an instant without an offset")
        return instant.astimezone(UTC)
    except OverflowError:
        raise ValueError("an instant out of range") from None


def _unix_seconds(value: object) -> datetime:
    seconds = _not_negative(value)
    if seconds > _UNIX_S_MAX:
        raise ValueError("not Unix seconds")
    return datetime.fromtimestamp(seconds, UTC)


def _flag(value: object) -> bool | None:
    """`Y`, `1` and `true` are yes; nothing is None; any other word is no."""
    if value is None or value == "":
        return None
    return str(value).strip().lower() in {"y", "1", "true"}


Whole = Annotated[int, BeforeValidator(_whole)]
Positive = Annotated[int, BeforeValidator(_positive)]
NotNegative = Annotated[int, BeforeValidator(_not_negative)]
Floored = Annotated[int, BeforeValidator(rounded_by(ROUND_FLOOR))]
Rounded = Annotated[int, BeforeValidator(rounded_by(ROUND_HALF_UP))]
PriceOrNone = Annotated[
    int | None,
    BeforeValidator(lambda value: None if value is None else _not_negative(value) or None),
]
"""Zero is the broker's way to say that there is no price."""
Text = Annotated[str, BeforeValidator(_text)]
Named = Annotated[str, BeforeValidator(_named)]
Code = Annotated[
    str, BeforeValidator(lambda value: str(value) if type(value) is int else _text(value))
]
"""A code is a text; older writers send a number."""
Word = Annotated[str, BeforeValidator(lambda value: _text(value).strip().upper())]
Symbol = Annotated[str, BeforeValidator(lambda value: _named(value).strip().upper())]
Instant = Annotated[datetime, BeforeValidator(_instant)]
UnixSeconds = Annotated[datetime, BeforeValidator(_unix_seconds)]
Day = Annotated[date, BeforeValidator(lambda value: date.fromisoformat(_named(value)))]
Flag = Annotated[bool | None, BeforeValidator(_flag)]


class Wire(BaseModel):
    """An object of the broker's. Unknown fields are ignored, null is as good as absent."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: inner for name, inner in value.items() if inner is not None}
        return value


W = TypeVar("W", bound=Wire)


def read(model: type[W], payload: Payload) -> W:
    """Return the payload as `model`. Raises MalformedAnswer naming the call, the field and why."""
    try:
        return model.model_validate(payload.value)
    except ValidationError as error:
        raise MalformedAnswer(payload.call, said_of(error), payload.raw) from None


def read_list(model: type[W], payload: Payload) -> tuple[W, ...]:
    """Return every element as `model`; one bad element spoils the whole answer."""
    return tuple(read(model, element) for element in elements(payload))


def elements(payload: Payload) -> list[Payload]:
    """Return the elements of an array, each as a payload of its own call and raw body."""
    if not isinstance(payload.value, list):
        raise MalformedAnswer(payload.call, "not an array", payload.raw)
    return [Payload(payload.call, value, payload.raw) for value in payload.value]


def said_of(error: ValidationError) -> str:
    """Return the first findings as `field: what`, without the values that were found."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    said = [f"{'.'.join(map(str, one['loc'])) or 'payload'}: {one['msg']}" for one in found]
    return "; ".join(said[:_ERRORS_SHOWN_MAX])


def average_of(stated: int | None, amount: int, executed: int) -> int:
    """Return an average execution price; where it is left out, the amount's, rounded down."""
    if stated is not None:
        return stated
    return amount // executed if executed > 0 else 0


def local_instant(day: date | None, clock: str, stamp: str) -> datetime | None:
    """Return the instant of a row in UTC, from its date and time or from its stamp.

    Both are Vietnam time without an offset. What cannot be read is None: a row is worth having
    without its time.
    """
    try:
        if day is not None and clock:
            naive = datetime.combine(day, time.fromisoformat(clock))
        else:
            naive = datetime.fromisoformat(stamp)
        zoned = naive if naive.tzinfo else naive.replace(tzinfo=EXCHANGE_TZ)
        return zoned.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def local_text(instant: datetime) -> str:
    """Return an instant as the broker writes one: ISO 8601 with the offset +07:00."""
    return instant.astimezone(EXCHANGE_TZ).isoformat()
