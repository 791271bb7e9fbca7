"""The kinds of value on the wire, as types for both directions: the client reads a field tolerantly
but without accepting nonsense, the sandbox writes it.

A payload's dataclass or model uses these types and so describes itself; `shaped.py` makes its
decoder and encoder. Where the wire's name differs from ours, `Field(alias=…)` has it. A number may
come as a JSON number or as a numeric text. How fractions are rounded is decided here, by kind:

- `Whole`: a price, quantity, id, or the cash that orders go by. Documented as whole VND or shares;
  a fraction is malformed.
- `Floored`: an average execution price, seldom whole. Rounded down; money comes from amounts.
- `Vnd`, `Shares`, `Count`: whole by their nature. A fraction (an average cost, interest, a fee) is
  rounded half up.
- `Number`: a Decimal, exactly as received. Written as an integer if whole, else as a fraction of
  the 15 digits of a double.

What orders and prices depend on is read strictly: `Instant` needs its offset (`ShownInstant` also a
local time: the market's are told in it), `OrderDay` is a day
and nothing after it, `WholeUnixSeconds` has no fraction. Elsewhere a `Stamp` without an offset is
Vietnam time and a day alone its midnight there, and a `Day` may be followed by a time. Enumeration
values are texts; an unknown one is kept unchanged.

An absent field and null are the same: the default. The `…OrNone` twin reads an empty text as null
too. Source: broker open API 0.2.0-preview.3, tolerance rule.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal, InvalidOperation
from types import MappingProxyType, NoneType
from typing import Annotated, Any, Final, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
)

from bot.domain.instrument import EXCHANGE_TZ
from bot.protocol.envelope import SUCCESS_CODE, Payload
from bot.protocol.errors import MalformedAnswer
from bot.protocol.strict_json import INTEGER_MAX

T = TypeVar("T")

FIDELITY: Final = "fidelity"
"""The one field of ours: how true to the market an order's result is, such as `paper queue · depth
3 levels · snapshot 1.2 s old`.

Only the simulated broker that runs on real market data sends it, in every order result and row; the
real broker never does. The journal keeps it raw and it is shown to people, so that no figure of
paper money can be mistaken for real money.
"""

_NUMERIC: Final = re.compile(r"-?[0-9]{1,19}(\.[0-9]{1,20})?", re.ASCII)
_ERRORS_SHOWN_MAX: Final = 3
ID_MAX: Final = 200
"""Longest id in characters. PostgreSQL indexes no text of more than 2,704 bytes: the journal could
not store such an order, and would try for ever.
"""
_UNIX_MS_MAX: Final = 4_102_444_800_000
"""The year 2100: larger "seconds" are milliseconds, or nonsense."""
YEARS: Final = range(2000, 2101)
"""Of an order: many a writer puts the year 1, 1970 or 9999 for a date that it does not have."""
_DAY_CHARACTERS: Final = 10
_TEXT_OR_NULL: Final = frozenset({str, NoneType})
_YES: Final = frozenset({True, "Y", "y", "1", "true", "True", "TRUE"})

# -------------------------------------------------------------------------------------- numbers


def decimal_of(value: object) -> Decimal:
    """Return a JSON number or a numeric text exactly; raises ValueError for anything else."""
    if isinstance(value, str) and _NUMERIC.fullmatch(value):
        return Decimal(value)
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return Decimal(value)
    raise ValueError("not a number")


def decimal_or_none(value: object) -> Decimal | None:
    """Like `decimal_of`, but None for anything that is not a number."""
    try:
        return decimal_of(value)
    except ValueError:
        return None


def _bounded(value: Decimal) -> int:
    if abs(value) > INTEGER_MAX:
        raise ValueError("beyond 64 bits")
    return int(value)


def _whole(value: object) -> int:
    number = decimal_of(value)
    if number != number.to_integral_value():
        raise ValueError("not a whole number")
    return _bounded(number)


def _rounded(value: object, *, rounding: str = ROUND_HALF_UP) -> int:
    return _bounded(decimal_of(value).to_integral_value(rounding=rounding))


def _or_none(read: Callable[[object], T]) -> Callable[[object], T | None]:
    return lambda value: None if value is None or value == "" else read(value)


def _plain_number(value: Decimal) -> int | float:
    return int(value) if value == value.to_integral_value() else float(value)


def _comma_percent(value: object) -> Decimal | None:
    """Read `4,4%`; anything else (a dash, a word) is None."""
    text = str(value).strip().removesuffix("%").replace(",", ".")
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


_NumberWriter: Final = PlainSerializer(_plain_number, when_used="unless-none")

Whole = Annotated[int, BeforeValidator(_whole)]
Positive = Annotated[int, Field(gt=0), BeforeValidator(_whole)]
NotNegative = Annotated[int, Field(ge=0), BeforeValidator(_whole)]
Floored = Annotated[int, BeforeValidator(lambda value: _rounded(value, rounding=ROUND_FLOOR))]
Vnd = Annotated[int, BeforeValidator(_rounded)]
VndOrNone = Annotated[int | None, BeforeValidator(_or_none(_rounded))]
Shares = Vnd
SharesOrNone = VndOrNone
Count = Vnd
CountOrNone = VndOrNone
PriceOrNone = Annotated[
    int | None,
    Field(ge=0),
    BeforeValidator(lambda value: None if value is None else _whole(value) or None),
]
"""Zero is how the broker says that there is no price."""
Number = Annotated[Decimal, BeforeValidator(decimal_of), _NumberWriter]
NumberOrNone = Annotated[Decimal | None, BeforeValidator(_or_none(decimal_of)), _NumberWriter]
Numbers = Annotated[
    Mapping[str, Number],
    AfterValidator(MappingProxyType),
    PlainSerializer(lambda numbers: {name: _plain_number(one) for name, one in numbers.items()}),
]
"""Numbers whose names no table can list."""
CommaPercent = Annotated[
    Decimal | None,
    BeforeValidator(_comma_percent),
    PlainSerializer(lambda one: f"{one:f}%".replace(".", ","), when_used="unless-none"),
]

# ---------------------------------------------------------------------------------------- texts


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("not a text")
    return value


def _named(value: object) -> str:
    if not _text(value).strip():
        raise ValueError("empty")
    return _text(value)


def _id(value: object) -> str:
    if len(_text(value)) > ID_MAX:
        raise ValueError(f"longer than {ID_MAX} characters")
    return _text(value)


def _texts(value: object) -> tuple[str, ...]:
    """Read a list of texts; other elements are dropped."""
    if not isinstance(value, list | tuple):
        raise ValueError("not a list")
    return tuple(one for one in value if isinstance(one, str))


def _flag(value: object) -> bool | None:
    """`Y`, `1` and `true` are True, an absent value is None, any other word is False."""
    if value is None or value == "":
        return None
    return str(value).strip().lower() in {"y", "1", "true"}


def _truth(value: object) -> bool:
    if not isinstance(value, str | int):
        raise ValueError("neither yes nor no")
    return value in _YES


Text = Annotated[str, BeforeValidator(_text)]
Named = Annotated[str, BeforeValidator(_named)]
Id = Annotated[str, BeforeValidator(_id)]
NamedId = Annotated[str, BeforeValidator(lambda value: _id(_named(value)))]
Code = Annotated[
    str, BeforeValidator(lambda value: str(value) if type(value) is int else _text(value))
]
"""A code is a text; older writers send a number."""
Word = Annotated[str, BeforeValidator(lambda value: _text(value).strip().upper())]
Symbol = Annotated[str, BeforeValidator(lambda value: _named(value).strip().upper())]
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]
Flag = Annotated[bool | None, BeforeValidator(_flag)]
Truth = Annotated[bool, BeforeValidator(_truth)]

# --------------------------------------------------------------------------------- days and times


def local_text(instant: datetime) -> str:
    """Return an instant as the broker writes it: ISO 8601 with the offset +07:00."""
    return instant.astimezone(EXCHANGE_TZ).isoformat()


def _utc(instant: datetime) -> datetime:
    zoned = instant if instant.tzinfo else instant.replace(tzinfo=EXCHANGE_TZ)
    try:
        return zoned.astimezone(UTC)
    except OverflowError:
        raise ValueError("an instant out of range") from None


def _stamp(value: object) -> datetime:
    return _utc(datetime.fromisoformat(_text(value)))


def _instant(value: object) -> datetime:
    instant = datetime.fromisoformat(_named(value))
    if instant.tzinfo is None:
        raise ValueError("an instant without an offset")
    return _utc(instant)


def _shown(instant: datetime) -> datetime:
    """Return an instant that has a local time, as everything is told in that."""
    try:
        instant.astimezone(EXCHANGE_TZ)
    except OverflowError:
        raise ValueError("an instant out of range") from None
    return instant


def _day(value: object) -> date:
    return date.fromisoformat(_text(value)[:_DAY_CHARACTERS])


def _slashed_day(value: object) -> date | None:
    """Read `1/8/2026`, day first; anything else is None, as the value is only for display."""
    try:
        day, month, year = str(value).split("/")
        return date(int(year), int(month), int(day))
    except ValueError:
        return None


def _unix_ms(ms: int) -> datetime:
    if not 0 <= ms <= _UNIX_MS_MAX:
        raise ValueError("not a Unix time")
    seconds, rest = divmod(ms, 1_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest * 1_000)


_StampWriter: Final = PlainSerializer(local_text, when_used="unless-none")

Instant = Annotated[datetime, BeforeValidator(_instant)]
ShownInstant = Annotated[datetime, BeforeValidator(lambda value: _shown(_instant(value)))]
Stamp = Annotated[datetime, BeforeValidator(_stamp), _StampWriter]
StampOrNone = Annotated[datetime | None, BeforeValidator(_or_none(_stamp)), _StampWriter]
OrderDay = Annotated[date, BeforeValidator(lambda value: date.fromisoformat(_named(value)))]
Day = Annotated[date, BeforeValidator(_day)]
DayOrNone = Annotated[date | None, BeforeValidator(_or_none(_day))]
SlashedDay = Annotated[
    date | None,
    BeforeValidator(_slashed_day),
    PlainSerializer(lambda day: f"{day.day}/{day.month}/{day.year}", when_used="unless-none"),
]
WholeUnixSeconds = Annotated[
    datetime, BeforeValidator(lambda value: _unix_ms(_whole(value) * 1_000))
]
UnixSeconds = Annotated[
    datetime,
    BeforeValidator(lambda value: _unix_ms(_rounded(value) * 1_000)),
    PlainSerializer(lambda instant: int(instant.timestamp())),
]
UnixMs = Annotated[
    datetime,
    BeforeValidator(lambda value: _unix_ms(_rounded(value))),
    PlainSerializer(
        lambda instant: int(instant.timestamp()) * 1_000 + instant.microsecond // 1_000
    ),
]


def local_instant(day: date | None, clock: str, stamp: str) -> datetime | None:
    """Return the instant of a row in UTC, from its date and time or from its stamp.

    Both are Vietnam time without an offset. None if unreadable, or of a year outside `YEARS`: a row
    is useful without its time.
    """
    try:
        if day is not None and clock:
            found = _shown(_utc(datetime.combine(day, time.fromisoformat(clock))))
        else:
            found = _shown(_utc(datetime.fromisoformat(stamp)))
    except ValueError:
        return None
    return found if found.year in YEARS else None


# --------------------------------------------------------------------------------------- objects


class Wire(BaseModel):
    """An object from the broker that is parsed but not kept; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)


def elements(payload: Payload) -> list[Payload]:
    """Return the elements of an array, each as a payload with its own raw body."""
    if not isinstance(payload.value, list):
        raise MalformedAnswer(payload.call, "not an array", payload.raw)
    return [Payload(payload.call, value, payload.raw) for value in payload.value]


def with_lists(payload: Payload, names: Iterable[str]) -> Payload:
    """Return the payload with an empty list under each of these names that a success gives as null:
    so some writers put a list without elements. What is left out stays so.
    """
    value = payload.value
    if payload.error_code != SUCCESS_CODE or not isinstance(value, dict):
        return payload
    empty = {name: list[Any]() for name in names if name in value and value[name] is None}
    return replace(payload, value={**value, **empty}) if empty else payload


def texts_or_none(value: dict[str, Any], names: Iterable[str]) -> list[str] | None:
    """Return the texts under these names, "" for null and absent; None if one is not a text."""
    found = list(map(value.get, names))
    return [one or "" for one in found] if _TEXT_OR_NULL.issuperset(map(type, found)) else None


def wholes_or_none(value: dict[str, Any], names: Iterable[str]) -> list[int | None] | None:
    """Return the integers under these names, null and absent as None; None if one is not an
    integer.
    """
    found = list(map(value.get, names))
    for one in found:
        if one is not None and not (type(one) is int and -INTEGER_MAX <= one <= INTEGER_MAX):
            return None
    return found


def said_of(error: ValidationError) -> str:
    """Return the first findings as `field: what`, without the offending values."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    said = [f"{'.'.join(map(str, one['loc'])) or 'payload'}: {one['msg']}" for one in found]
    return "; ".join(said[:_ERRORS_SHOWN_MAX])


def average_of(stated: int | None, amount: int, executed: int) -> int:
    """Return the average execution price; if missing, it is computed from the amount and rounded
    down.
    """
    if stated is not None:
        return stated
    return amount // executed if executed > 0 else 0
