"""Field types that know both ways: how the client reads a field, how the sandbox writes it.

A payload's dataclass names these types, and is thereby its own table: `shaped.py` makes decoder and
encoder from it. Where the wire's name is not ours, `Field(alias=…)` carries it. What is read:

- `Number`: a Decimal, exactly as said. Written as an integer when whole, else as a fraction, to the
  15 digits of a double.
- `Vnd`, `Shares`, `Count`: whole by their nature. A fraction (interest, an average) is rounded half
  up; written as an integer.
- `Day`, `Stamp`: a day or an instant (UTC). A stamp without an offset is Vietnam time, a day alone
  its midnight there. Written as `YYYY-MM-DD`, and as ISO 8601 with +07:00.
- Words of an enumeration are texts: one that we do not know is kept as it is.

Numbers may come as numeric texts. The `…OrNone` twin reads an empty text as null; null and absent
are the same everywhere (`shaped.py`). Source: broker open API 0.2.0-preview.3, tolerance rule.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from types import MappingProxyType
from typing import Annotated, Final, TypeVar

from pydantic import AfterValidator, BeforeValidator, PlainSerializer

from bot.domain.instrument import EXCHANGE_TZ
from bot.protocol.fields import decimal_of, local_text, rounded_by

T = TypeVar("T")

_DAY_CHARACTERS: Final = 10
_UNIX_MS_MAX: Final = 4_102_444_800_000
"""The year 2100 in milliseconds."""
_YES: Final = frozenset({True, "Y", "y", "1", "true", "True", "TRUE"})

_rounded: Final = rounded_by(ROUND_HALF_UP)


def _or_none(read: Callable[[object], T]) -> Callable[[object], T | None]:
    def read_or_none(value: object) -> T | None:
        return None if value is None or value == "" else read(value)

    return read_or_none


def plain_number(value: Decimal | None) -> int | float | None:
    """Return a JSON number: an integer when it is whole."""
    if value is None:
        return None
    return int(value) if value == value.to_integral_value() else float(value)


def _day(value: object) -> date:
    if not isinstance(value, str):
        raise ValueError("not a day")
    return date.fromisoformat(value[:_DAY_CHARACTERS])


def _stamp(value: object) -> datetime:
    if not isinstance(value, str):
        raise ValueError("not an instant")
    instant = datetime.fromisoformat(value)
    zoned = instant if instant.tzinfo else instant.replace(tzinfo=EXCHANGE_TZ)
    try:
        return zoned.astimezone(UTC)
    except OverflowError:
        raise ValueError("an instant out of range") from None


def _stamp_text(instant: datetime | None) -> str | None:
    return None if instant is None else local_text(instant)


def _day_text(day: date | None) -> str | None:
    return None if day is None else day.isoformat()


def _unix_ms(value: object) -> datetime:
    ms = _rounded(value)
    if not 0 <= ms <= _UNIX_MS_MAX:
        raise ValueError("not Unix milliseconds")
    seconds, rest = divmod(ms, 1_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest * 1_000)


def _ms_of(instant: datetime) -> int:
    return int(instant.timestamp()) * 1_000 + instant.microsecond // 1_000


def _truth(value: object) -> bool:
    if not isinstance(value, str | int):
        raise ValueError("neither yes nor no")
    return value in _YES


def _slashed_day(value: object) -> date | None:
    """Read `1/8/2026`, the day first; what is no day is None: it only decorates a table."""
    try:
        day, month, year = str(value).split("/")
        return date(int(year), int(month), int(day))
    except ValueError:
        return None


def _slashed_text(day: date | None) -> str | None:
    return None if day is None else f"{day.day}/{day.month}/{day.year}"


def _comma_percent(value: object) -> Decimal | None:
    """Read `4,4%`; what is no percentage (a dash, a word) is None."""
    text = str(value).strip().removesuffix("%").replace(",", ".")
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _comma_text(percent: Decimal | None) -> str | None:
    return None if percent is None else f"{percent:f}%".replace(".", ",")


def _texts(value: object) -> tuple[str, ...]:
    """Read a list of texts; what is none of them is left out."""
    if not isinstance(value, list | tuple):
        raise ValueError("not a list")
    return tuple(one for one in value if isinstance(one, str))


Number = Annotated[Decimal, BeforeValidator(decimal_of), PlainSerializer(plain_number)]
NumberOrNone = Annotated[
    Decimal | None, BeforeValidator(_or_none(decimal_of)), PlainSerializer(plain_number)
]
Vnd = Annotated[int, BeforeValidator(_rounded)]
VndOrNone = Annotated[int | None, BeforeValidator(_or_none(_rounded))]
Shares = Vnd
SharesOrNone = VndOrNone
Count = Vnd
CountOrNone = VndOrNone
Truth = Annotated[bool, BeforeValidator(_truth)]
Day = Annotated[date, BeforeValidator(_day), PlainSerializer(_day_text)]
DayOrNone = Annotated[date | None, BeforeValidator(_or_none(_day)), PlainSerializer(_day_text)]
Stamp = Annotated[datetime, BeforeValidator(_stamp), PlainSerializer(_stamp_text)]
StampOrNone = Annotated[
    datetime | None, BeforeValidator(_or_none(_stamp)), PlainSerializer(_stamp_text)
]
UnixSeconds = Annotated[
    datetime,
    BeforeValidator(lambda value: _unix_ms(_rounded(value) * 1_000)),
    PlainSerializer(lambda instant: int(instant.timestamp())),
]
UnixMs = Annotated[datetime, BeforeValidator(_unix_ms), PlainSerializer(_ms_of)]
SlashedDay = Annotated[date | None, BeforeValidator(_slashed_day), PlainSerializer(_slashed_text)]
CommaPercent = Annotated[
    Decimal | None, BeforeValidator(_comma_percent), PlainSerializer(_comma_text)
]
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]
Numbers = Annotated[
    Mapping[str, Number],
    AfterValidator(MappingProxyType),
    PlainSerializer(lambda numbers: {name: plain_number(one) for name, one in numbers.items()}),
]
"""Numbers by names that no table can list."""
