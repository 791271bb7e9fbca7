"""How single values are written in our YAML files: read, checked, and described for editors.

Each reader is used as `Annotated[type, Reader(...)]`. It raises `PydanticCustomError` whose type is
an error code, and whose text says what was wanted and found; whose key it was is said by
`model_check.py`. Durations are `30s`, `5m`, `1h`; times of day `14:20`; shares and money whole
numbers, with `_` between thousands if liked.
"""

import math
import re
from dataclasses import dataclass
from datetime import time, timedelta
from decimal import Decimal
from typing import Final

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from bot.config.masking import masked_url

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}
_DURATION: Final = re.compile(r"(0|[1-9][0-9]{0,5})([smh])")
_TIME: Final = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?")
_WHOLE: Final = re.compile(r"[-+]?(0|[1-9][0-9]*(_[0-9]+)*)")
_LEADING_ZERO: Final = re.compile(r"0[0-9_]+")
_PERCENT: Final = re.compile(r"[0-9]{1,3}(\.[0-9]{1,4})? ?%")
_FLAGS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_SHOWN_LENGTH_MAX: Final = 60


def wrong(code: str, wanted: str, found: object) -> PydanticCustomError:
    """Return the error of one value, to be raised by a reader."""
    return PydanticCustomError(code, "wanted {wanted}; found {found}", _facts(wanted, found))


def _facts(wanted: str, found: object) -> dict[str, object]:
    return {"wanted": wanted, "found": shown(found)}


def shown(value: object) -> str:
    """Return a value as a message shows it: in YAML's words, quoted when text, cut when long."""
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


class Reader:
    """A way of writing one kind of value."""

    __slots__ = ()

    def read(self, value: object) -> object:
        """Return what the text means. Raises PydanticCustomError."""
        raise NotImplementedError

    def schema(self) -> JsonSchemaValue:
        """Describe to an editor what may be written."""
        raise NotImplementedError

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return self.schema()


@dataclass(frozen=True, slots=True)
class Whole(Reader):
    """A whole number, both bounds inclusive."""

    minimum: int
    maximum: int
    what: str = "a whole number"

    def read(self, value: object) -> int:
        """Return the number."""
        number = self._number(value)
        if not self.minimum <= number <= self.maximum:
            raise wrong("E-CFG-015", self._wanted(), value)
        return number

    def _number(self, value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and _WHOLE.fullmatch(value):
            return int(value)
        if isinstance(value, str) and _PERCENT.fullmatch(value):
            raise wrong("E-CFG-013", f"{value.rstrip('% ')}, without %", value)
        if isinstance(value, str) and _LEADING_ZERO.fullmatch(value):
            raise wrong("E-CFG-013", f"{self.what} without a leading zero", value)
        raise wrong("E-CFG-013", self._wanted(), value)

    def _wanted(self) -> str:
        return f"{self.what} from {self.minimum:_} to {self.maximum:_}"

    def schema(self) -> JsonSchemaValue:
        """An integer; `1_000` is text to editors that know no underscores in numbers."""
        integer = {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}
        return {"anyOf": [integer, {"type": "string", "pattern": "^[0-9]+(_[0-9]+)*$"}]}


@dataclass(frozen=True, slots=True)
class Decimals(Reader):
    """A number with or without a fraction."""

    minimum: float
    maximum: float
    what: str = "a number"

    def read(self, value: object) -> float:
        """Return the number."""
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise wrong("E-CFG-013", self.what, value)
        try:
            number = float(value)
        except ValueError as error:
            raise wrong("E-CFG-013", self.what, value) from error
        if not self.minimum <= number <= self.maximum:
            raise wrong("E-CFG-015", f"a number from {self.minimum:g} to {self.maximum:g}", value)
        return number

    def schema(self) -> JsonSchemaValue:
        """A number."""
        return {"type": "number", "minimum": self.minimum, "maximum": self.maximum}


FULL_SPEED: Final = "max"
_PACE: Final = Decimals(0.001, 100_000, what=f"a number, or {FULL_SPEED}")


@dataclass(frozen=True, slots=True)
class Speed(Reader):
    """How fast market time goes: a number, or `max` (infinite) for as fast as the machine does."""

    def read(self, value: object) -> float:
        """Return market seconds in a second of the wall."""
        return math.inf if value in {FULL_SPEED, math.inf} else _PACE.read(value)

    def schema(self) -> JsonSchemaValue:
        """A number or the word."""
        return {"anyOf": [_PACE.schema(), {"const": FULL_SPEED}]}


def speed_text(speed: float) -> str:
    """Return a speed as it is written and shown: `60x`, or `max`."""
    return FULL_SPEED if math.isinf(speed) else f"{speed:g}x"


@dataclass(frozen=True, slots=True)
class Flag(Reader):
    """Yes or no."""

    def read(self, value: object) -> bool:
        """Return the flag; `on`, `yes`, `off`, `no` are taken too."""
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in _FLAGS:
            return _FLAGS[value.lower()]
        raise wrong("E-CFG-013", "true or false", value)

    def schema(self) -> JsonSchemaValue:
        """A boolean."""
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Text(Reader):
    """Text of a pattern; a plain number such as an account's id is text too."""

    pattern: str = r".{1,200}"
    wanted: str = "text"
    code: str = "E-CFG-013"

    def read(self, value: object) -> str:
        """Return the text."""
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if not isinstance(text, str) or not re.fullmatch(self.pattern, text):
            raise wrong(self.code, self.wanted, value)
        return text

    def schema(self) -> JsonSchemaValue:
        """A string."""
        return {"type": "string", "pattern": f"^{self.pattern}$"}


@dataclass(frozen=True, slots=True)
class Interval(Reader):
    """A length of time, from `minimum` to a day."""

    minimum: timedelta = timedelta(seconds=1)

    def read(self, value: object) -> timedelta:
        """Return the length; a bare number is refused, for it has no unit."""
        found = _DURATION.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            raise wrong("E-CFG-017", "a length of time with its unit, like 30s, 5m or 1h", value)
        length = timedelta(seconds=int(found[1]) * _SECONDS[found[2]])
        if not length:
            raise wrong("E-CFG-017", "a length of time of more than 0", value)
        if not self.minimum <= length <= timedelta(days=1):
            least = f"{self.minimum.total_seconds():.0f}s"
            raise wrong("E-CFG-017", f"a length of time from {least} to 24h", value)
        return length

    def schema(self) -> JsonSchemaValue:
        """Text like 30s."""
        return {"type": "string", "pattern": "^[1-9][0-9]{0,5}[smh]$"}


@dataclass(frozen=True, slots=True)
class LocalTime(Reader):
    """A time of day in Asia/Ho_Chi_Minh."""

    def read(self, value: object) -> time:
        """Return the time."""
        found = _TIME.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            raise wrong("E-CFG-016", "a time of day, like 09:20", value)
        return time(int(found[1]), int(found[2]), int(found[3] or 0))

    def schema(self) -> JsonSchemaValue:
        """Text like 09:20."""
        return {"type": "string", "pattern": f"^{_TIME.pattern}$"}


@dataclass(frozen=True, slots=True)
class PartsPerMillion(Reader):
    """A percentage, kept in parts per million; at most 100 %."""

    def read(self, value: object) -> int:
        """Return parts per million; exact, for four decimals are the most that is taken."""
        if not isinstance(value, str) or not _PERCENT.fullmatch(value):
            raise wrong("E-CFG-018", "a percentage with its sign, like 3% or 0.5%", value)
        parts = int(Decimal(value.rstrip("% ")) * 10_000)
        if not 0 < parts <= 1_000_000:
            raise wrong("E-CFG-018", "a percentage above 0% and up to 100%", value)
        return parts

    def schema(self) -> JsonSchemaValue:
        """Text like 3%."""
        return {"type": "string", "pattern": f"^{_PERCENT.pattern}$"}


@dataclass(frozen=True, slots=True)
class Texts(Reader):
    """A list of texts, or one text for a list of one; commas part them in the environment."""

    def read(self, value: object) -> tuple[str, ...]:
        """Return the texts."""
        items = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
        if not isinstance(items, list | tuple) or not all(isinstance(i, str) and i for i in items):
            raise wrong("E-CFG-013", "a text or a list of texts", value)
        return tuple(items)

    def schema(self) -> JsonSchemaValue:
        """A string or a list of strings."""
        text = {"type": "string", "minLength": 1}
        return {"anyOf": [text, {"type": "array", "items": text}]}
