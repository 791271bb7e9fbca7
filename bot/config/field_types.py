"""How single values are written in our YAML files: read, checked, and described for editors.

A reader is used as `Annotated[type, reader]`. It raises a `PydanticCustomError` whose type is an
error code and whose text says what was wanted and found; `model_check.py` adds the key. Durations
are `30s`, `5m`, `1h`; times of day `14:20`; shares and money whole numbers, optionally with `_`
between thousands.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import time, timedelta
from decimal import Decimal
from typing import Final, Generic, TypeVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from bot.config.masking import masked_url

Value = TypeVar("Value")

INTEGER: Final = re.compile(r"[-+]?(0|[1-9][0-9]*|[1-9][0-9]{0,2}(_[0-9]{3})+)")
"""A whole number; `_` stands between thousands alone, or 20_0000_000 would be ten times 20_000_000.
"""
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION: Final = re.compile(r"(0|[1-9][0-9]{0,5})([smhd])")
_TIME: Final = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?")
_MISGROUPED: Final = re.compile(r"[-+]?[0-9]+(_+[0-9]*)+")
_LEADING_ZERO: Final = re.compile(r"0[0-9_]+")
_PERCENT: Final = re.compile(r"[0-9]{1,3}(\.[0-9]{1,4})? ?%")
_FLAGS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_SHOWN_LENGTH_MAX: Final = 60
FULL_SPEED: Final = "max"
PACE_MIN: Final = 0.001
PACE_MAX: Final = 100_000
_NUMBER_SCHEMA: Final = {"type": "number", "minimum": PACE_MIN, "maximum": PACE_MAX}
_TEXT_SCHEMA: Final = {"type": "string", "minLength": 1}


@dataclass(frozen=True, slots=True, eq=False)
class Reader(Generic[Value]):
    """A notation for one kind of value: how it is read, and its JSON schema for editors."""

    read: Callable[[object], Value]
    schema: JsonSchemaValue

    def __get_pydantic_core_schema__(self, _: object, __: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(
        self, _: CoreSchema, __: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return self.schema


def reader(schema: JsonSchemaValue) -> Callable[[Callable[[object], Value]], Reader[Value]]:
    """Make a reader from the decorated function."""
    return lambda read: Reader(read, schema)


def wrong(code: str, wanted: str, found: object) -> PydanticCustomError:
    """Return the error for one value, to be raised by a reader."""
    facts: dict[str, object] = {"wanted": wanted, "found": shown(found)}
    return PydanticCustomError(code, "wanted {wanted}; found {found}", facts)


def shown(value: object) -> str:
    """Return a value as messages show it: in YAML's words, text in quotes, long values cut."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(masked_url(value)) if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN_LENGTH_MAX else text[: _SHOWN_LENGTH_MAX - 1] + "…"


def whole(minimum: int, maximum: int, what: str = "a whole number") -> Reader[int]:
    """A whole number, both bounds inclusive; editors treat `1_000` as text."""
    wanted = f"{what} from {minimum:_} to {maximum:_}"

    def read(value: object) -> int:
        written = str(value) if isinstance(value, int | str) else ""
        if _PERCENT.fullmatch(written):
            raise wrong("E-CFG-013", f"{wanted}, without %", value)
        if _LEADING_ZERO.fullmatch(written):
            raise wrong("E-CFG-013", f"{what} without a leading zero", value)
        if _MISGROUPED.fullmatch(written) and not INTEGER.fullmatch(written):
            raise wrong("E-CFG-013", f"{wanted}, with _ between thousands alone", value)
        if not INTEGER.fullmatch(written):  # True and False are int in Python, not here
            raise wrong("E-CFG-013", wanted, value)
        number = int(written)
        if not minimum <= number <= maximum:
            raise wrong("E-CFG-015", wanted, value)
        return number

    integer = {"type": "integer", "minimum": minimum, "maximum": maximum}
    grouped = {"type": "string", "pattern": f"^{INTEGER.pattern}$"}
    return Reader(read, {"anyOf": [integer, grouped]})


@reader({"anyOf": [_NUMBER_SCHEMA, {"const": FULL_SPEED}]})
def pace(value: object) -> float:
    """Market seconds per wall-clock second; `max` (infinite): as fast as the machine goes."""
    if value in {FULL_SPEED, math.inf}:
        return math.inf
    wanted = f"a number, or {FULL_SPEED}"
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise wrong("E-CFG-013", wanted, value)
    try:
        number = float(value)
    except ValueError as error:
        raise wrong("E-CFG-013", wanted, value) from error
    if not PACE_MIN <= number <= PACE_MAX:
        raise wrong("E-CFG-015", f"a number from {PACE_MIN:g} to {PACE_MAX:g}", value)
    return number


def speed_text(speed: float) -> str:
    """Return a speed as it is written and shown: `60x`, or `max`."""
    return FULL_SPEED if math.isinf(speed) else f"{speed:g}x"


@reader({"type": "boolean"})
def flag(value: object) -> bool:
    """Yes or no; `on`, `yes`, `off` and `no` are accepted too."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _FLAGS:
        return _FLAGS[value.lower()]
    raise wrong("E-CFG-013", "true or false", value)


def text(pattern: str = r".{1,200}", wanted: str = "text", code: str = "E-CFG-013") -> Reader[str]:
    """Text that matches a pattern; a plain number such as an account's id counts as text."""

    def read(value: object) -> str:
        found = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if not isinstance(found, str) or not re.fullmatch(pattern, found):
            raise wrong(code, wanted, value)
        return found

    return Reader(read, {"type": "string", "pattern": f"^{pattern}$"})


def interval(minimum: timedelta = timedelta(seconds=1)) -> Reader[timedelta]:
    """A length of time, from `minimum` to a day; a bare number is refused, as it has no unit."""

    def read(value: object) -> timedelta:
        found = _DURATION.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            raise wrong("E-CFG-017", "a length of time with its unit, like 30s, 5m or 1h", value)
        length = timedelta(seconds=int(found[1]) * _SECONDS[found[2]])
        if not length:
            raise wrong("E-CFG-017", "a length of time above 0", value)
        if not minimum <= length <= timedelta(days=1):
            least = f"{minimum.total_seconds():.0f}s"
            raise wrong("E-CFG-017", f"a length of time from {least} to 1d", value)
        return length

    return Reader(read, {"type": "string", "pattern": "^[1-9][0-9]{0,5}[smhd]$"})


@reader({"type": "string", "pattern": f"^{_TIME.pattern}$"})
def local_time(value: object) -> time:
    """A time of day in Asia/Ho_Chi_Minh."""
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise wrong("E-CFG-016", "a time of day, like 09:20", value)
    return time(int(found[1]), int(found[2]), int(found[3] or 0))


@reader({"type": "string", "pattern": f"^{_PERCENT.pattern}$"})
def parts_per_million(value: object) -> int:
    """A percentage up to 100 %, in parts per million: exact, as it has at most four decimals."""
    if not isinstance(value, str) or not _PERCENT.fullmatch(value):
        raise wrong("E-CFG-018", "a percentage with its sign, like 3% or 0.5%", value)
    parts = int(Decimal(value.rstrip("% ")) * 10_000)
    if not 0 < parts <= 1_000_000:
        raise wrong("E-CFG-018", "a percentage above 0% and up to 100%", value)
    return parts


@reader({"anyOf": [_TEXT_SCHEMA, {"type": "array", "items": _TEXT_SCHEMA}]})
def texts(value: object) -> tuple[str, ...]:
    """A list of texts, or one text for a list of one; in the environment, commas separate them."""
    items = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(isinstance(i, str) and i for i in items):
        raise wrong("E-CFG-013", "text or a list of texts", value)
    return tuple(items)
