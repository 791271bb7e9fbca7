"""How values are written: one plain form, equal on both databases, that hashes are taken over.

Whatever the broker sent can be stored: what a database's text can't hold (NUL, a lone surrogate) is
replaced, and a number that JSON lacks (NaN) becomes its name.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from hashlib import sha256
from typing import Final

from bot.domain.instrument import EXCHANGE_TZ

Plain = int | str | None
"""What a column holds."""
Json = int | float | str | bool | None | list["Json"] | dict[str, "Json"]

_MICROSECOND: Final = timedelta(microseconds=1)


def instant_text(at: datetime) -> str:
    """Write an aware instant as 32 characters of ISO 8601 in UTC; text order is time order."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def instant_of(text: str) -> datetime:
    """Read what `instant_text` wrote."""
    return datetime.fromisoformat(text)


def microseconds(span: timedelta) -> int:
    """Whole microseconds of a span, exact."""
    return span // _MICROSECOND


def storable(text: str) -> str:
    """Replace what a text column of PostgreSQL refuses."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def plain(value: object) -> Plain:
    """Turn a value of the domain into what a column holds; collections become JSON."""
    if value is None:
        return None
    if isinstance(value, str):
        return storable(str(value))
    if isinstance(value, int):
        return int(value)
    if isinstance(value, datetime):
        return instant_text(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return microseconds(value)
    return json_text(value)


def json_text(value: object) -> str:
    """Write a value as JSON with sorted keys and readable text."""
    return json.dumps(jsonable(value), sort_keys=True, ensure_ascii=False, allow_nan=False)


def jsonable(value: object) -> Json:
    """Turn a value of the domain into what JSON knows. Raises TypeError for anything else."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum | str):
        return storable(str(value))
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {storable(str(key)): jsonable(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: jsonable(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Iterable):
        return [jsonable(item) for item in value]
    raise TypeError(f"{type(value).__name__} has no place in a journal")


def link(before: str, content: Mapping[str, Plain]) -> str:
    """Hash a row's content together with the hash before it: 64 hexadecimal digits.

    The hashed bytes are `<before>|<content as JSON, keys sorted, no spaces>` in UTF-8.
    """
    text = json.dumps(dict(content), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return sha256(f"{before}|{text}".encode()).hexdigest()


def summed(total: str, *, less: str | None = None, plus: str | None = None) -> str:
    """Take a hash out of a sum of hashes, and another one in; 64 hexadecimal digits again."""
    number = _number_of(total) - _number_of(less or "0") + _number_of(plus or "0")
    return f"{number % 2**256:064x}"


def _number_of(hashed: str) -> int:
    """A hash as a number; a damaged one is a number too, for a write must not fail of it."""
    try:
        return int(hashed, 16)
    except ValueError:
        return int.from_bytes(sha256(hashed.encode()).digest())


def local_text(stored: str) -> str:
    """An instant as people of the exchange read it: to the millisecond, +07:00. As in the views."""
    return instant_of(stored).astimezone(EXCHANGE_TZ).isoformat(timespec="milliseconds")
