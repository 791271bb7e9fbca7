"""Encodes and decodes values: one plain form, equal on both databases, which is also hashed.

Anything the broker sent can be stored: characters that a database's text cannot hold (NUL, a lone
surrogate) are replaced, a number that JSON lacks (NaN) becomes its name, and one of more than 64
bits in a column of its own the largest that fits.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, date, datetime, timedelta
from enum import Enum, StrEnum
from functools import cache, lru_cache
from hashlib import sha256
from json.encoder import c_make_encoder, encode_basestring  # type: ignore[attr-defined]
from operator import attrgetter, itemgetter
from types import NoneType
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

from bot.domain.account import AccountSnapshot, Holding
from bot.domain.entry import CheckResult
from bot.domain.instrument import EXCHANGE_TZ

Plain = int | str | None
"""A column's value."""
Json = int | float | str | bool | None | list["Json"] | dict[str, "Json"]

T = TypeVar("T")

WHOLE_MAX: Final = 2**63 - 1
"""The largest number that a column holds."""
INSTANTS_MAX: Final = 64
"""How many instants are remembered as they are written."""
_MICROSECOND: Final = timedelta(microseconds=1)


# ------------------------------------------------------------------------------------ writing


@lru_cache(INSTANTS_MAX)  # what is written together is mostly of one instant
def instant_text(at: datetime) -> str:
    """Write an aware instant as 32 characters of ISO 8601 in UTC; text order is time order."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def local_text(stored: str) -> str:
    """Return a stored instant in exchange time, to the millisecond, +07:00, as in the views."""
    return instant_of(stored).astimezone(EXCHANGE_TZ).isoformat(timespec="milliseconds")


def _storable(text: str) -> str:
    """Replace what a text column of PostgreSQL refuses."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def plain(value: object) -> Plain:
    """Turn a domain value into a column's value; collections become JSON."""
    return _PLAIN.get(type(value), _plain_of_another)(value)


def _plain_text(text: str) -> str:
    return text if text.isascii() and "\x00" not in text else _storable(text)


def _plain_whole(number: int) -> int:
    if -WHOLE_MAX - 1 <= number <= WHOLE_MAX:
        return number
    return WHOLE_MAX if number > 0 else -WHOLE_MAX


def _plain_of_another(value: object) -> Plain:
    """Handle types without an entry of their own: enum members, subclasses, collections."""
    if isinstance(value, str):
        return _plain_text(str(value))
    if isinstance(value, int):
        return _plain_whole(int(value))
    if isinstance(value, datetime):
        return instant_text(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return _plain_whole(value // _MICROSECOND)
    return json_text(value)


def _plain_mapping(value: dict[Any, Any]) -> str:
    if not value:
        return "{}"
    return (_straight(value) if _is_figures(value) else None) or json_text(value)


def _plain_tuple(items: tuple[Any, ...]) -> str:
    """Take a fast path for a decision's checks and the ids known before a send, by far the most
    frequent values; all others take the general path.
    """
    if not items:
        return "[]"
    found = None
    if type(items[0]) is str:
        found = _straight_texts(items)
    elif set(map(type, items)) == {CheckResult}:
        checks = []
        for one in items:
            if not _is_figures(one.numbers):
                break
            facts = {"numbers": one.numbers, "passed": one.passed, "text": one.text}
            checks.append({"code": one.code, **facts})
        else:
            found = _straight(checks)
    return found or json_text(items)


def _is_figures(value: Mapping[Any, Any]) -> bool:
    """Return whether the standard JSON encoder writes a mapping as we would."""
    if type(value) is not dict:
        return False
    for key, item in value.items():
        kind: type = type(item)
        if type(key) is not str or not _is_figure(kind):
            return False
    return True


@cache
def _is_figure(kind: type) -> bool:
    return kind in _FIGURES or issubclass(kind, StrEnum)


def _straight_texts(items: tuple[Any, ...]) -> str | None:
    """Texts as a list of JSON, unless one is no text or has something in it that is escaped."""
    if set(map(type, items)) != {str}:
        return None
    text = '", "'.join(items)
    is_bare = text.isascii() and text.isprintable() and "\\" not in text
    return f'["{text}"]' if is_bare and text.count('"') == 2 * len(items) - 2 else None


def _straight(value: object) -> str | None:
    """Return a value as JSON, unless JSON lacks one of its numbers or a text needs a
    closer look.
    """
    try:
        text = _sorted_json(value)
    except ValueError:
        return None
    return text if text.isascii() and "\\u0000" not in text else None


_FIGURES: Final = frozenset({int, float, str, bool, NoneType})
_PLAIN: Final[Mapping[type, Callable[[Any], Plain]]] = {
    NoneType: lambda _: None,
    str: _plain_text,
    int: _plain_whole,
    datetime: instant_text,
    date: date.isoformat,
    timedelta: lambda span: _plain_whole(span // _MICROSECOND),
    dict: _plain_mapping,
    tuple: _plain_tuple,
}
"""How a value is written, by its exact type."""


def json_text(value: object) -> str:
    """Write a value as JSON with sorted keys and readable text."""
    return _sorted_json(_jsonable(value))


_SORTED: Final = json.JSONEncoder(sort_keys=True, ensure_ascii=False, allow_nan=False)
# An encoder makes its inner one, in C, anew for each value: that costs more than a short value.
_ENCODE: Final = c_make_encoder(
    *(None, _SORTED.default, encode_basestring, None, ": ", ", "),
    *(_SORTED.sort_keys, _SORTED.skipkeys, _SORTED.allow_nan),
)


def _sorted_json(value: object) -> str:
    """What `_SORTED` writes. Raises ValueError for a number that JSON lacks."""
    return "".join(_ENCODE(value, 0))


def _jsonable(value: object) -> Json:
    """Turn a domain value into JSON values. Raises TypeError for anything else."""
    return _JSONABLE.get(type(value), _jsonable_of_another)(value)


def _jsonable_mapping(value: Mapping[Any, Any]) -> Json:
    return {_plain_text(str(key)): _jsonable(item) for key, item in value.items()}


def _jsonable_of_another(value: object) -> Json:
    """Handle types without an entry of their own."""
    if isinstance(value, Enum | str):
        return _plain_text(str(value))
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return _finite(value)
    if isinstance(value, Mapping):
        return _jsonable_mapping(value)
    if is_dataclass(value) and not isinstance(value, type):
        names, read = fields_of(type(value))
        return dict(zip(names, map(_jsonable, read(value)), strict=True))
    if isinstance(value, Iterable):
        return [_jsonable(item) for item in value]
    raise TypeError(f"{type(value).__name__} can't be stored in a journal")


def _finite(value: float) -> Json:
    return value if math.isfinite(value) else str(value)


_JSONABLE: Final[Mapping[type, Callable[[Any], Json]]] = {
    NoneType: lambda _: None,
    bool: lambda claim: claim,
    int: lambda number: number,
    float: _finite,
    str: _plain_text,
    dict: _jsonable_mapping,
    tuple: lambda items: [_jsonable(item) for item in items],
}
"""The same for JSON."""


@cache
def fields_of(kind: type) -> tuple[tuple[str, ...], Callable[[Any], tuple[object, ...]]]:
    """The names of a dataclass's fields, and a getter for all of them at once."""
    names = tuple(field.name for field in fields(kind))
    if len(names) == 1:
        return names, lambda value: (getattr(value, names[0]),)
    return names, attrgetter(*names)


# ------------------------------------------------------------------------------------ reading


def instant_of(text: str) -> datetime:
    """Read what `instant_text` wrote."""
    return datetime.fromisoformat(text)


_READ: Final[Mapping[Any, Callable[[Any], object]]] = {
    bool: bool,
    date: date.fromisoformat,
    datetime: instant_of,
    timedelta: lambda stored: timedelta(microseconds=stored),
    Mapping: json.loads,
    tuple[str, ...]: lambda stored: tuple(json.loads(stored)),
    tuple[CheckResult, ...]: lambda stored: tuple(
        CheckResult(**check) for check in json.loads(stored)
    ),
}
"""How a column is read, by the type of its field; text and whole numbers are read as stored."""


def made(kind: type[T], stored: Mapping[Any, Any]) -> T:
    """Make a frozen value of `kind` from columns with the same names."""
    return kind(
        **{
            name: stored[name] if read is None or stored[name] is None else read(stored[name])
            for name, read in _readers(kind)  # type: ignore[arg-type]
        }
    )


def snapshot_of(stored: Mapping[Any, Any]) -> AccountSnapshot:
    """Make the broker's figures for an account from a row."""
    read = made(AccountSnapshot, {**stored, "at": stored["taken_at"], "secured": None})
    held = json.loads(stored["holdings"])
    return replace(read, holdings={symbol: Holding(**one) for symbol, one in held.items()})


@cache
def _readers(kind: type) -> list[tuple[str, Callable[[Any], object] | None]]:
    found: list[tuple[str, Callable[[Any], object] | None]] = []
    for name, hint in get_type_hints(kind).items():
        options = [each for each in get_args(hint) if each is not NoneType]
        only = options[0] if len(options) == 1 and NoneType in get_args(hint) else hint
        is_word = isinstance(only, type) and issubclass(only, StrEnum)
        found.append((name, only if is_word else _READ.get(get_origin(only), _READ.get(only))))
    return found


# ------------------------------------------------------------------------------------ hashing


def link(before: str, content: Mapping[str, Plain]) -> str:
    """Hash a row's content together with the hash before it: 64 hexadecimal digits.

    The hashed bytes are `<before>|<content as JSON, keys sorted, no spaces>` in UTF-8.
    """
    text = json.dumps(dict(content), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return link_text(before, text)


def link_text(before: str, content: str) -> str:
    """Hash a row that is already text, like `link`."""
    return sha256(f"{before}|{content}".encode()).hexdigest()


def canonical(names: Iterable[str]) -> Callable[[Mapping[str, Plain]], str]:
    """Compile how the columns `names` of a row are written for hashing, equal to `link`."""
    ordered = sorted(names)
    form = ",".join(f'"{name}":%s' for name in ordered)
    read = itemgetter(*ordered)

    def write(row: Mapping[str, Plain]) -> str:
        return "{" + form % tuple([_LITERAL[type(value)](value) for value in read(row)]) + "}"

    return write


_LITERAL: Final[Mapping[type, Callable[[Any], str]]] = {
    NoneType: lambda _: "null",
    int: int.__repr__,
    str: encode_basestring,
}
"""How a column is written in JSON."""


def summed(total: str, *, less: str | None = None, plus: str | None = None) -> str:
    """Replace one hash in a sum of hashes by another; 64 hexadecimal digits again."""
    number = _number_of(total) - _number_of(less or "0") + _number_of(plus or "0")
    return f"{number % 2**256:064x}"


def _number_of(hashed: str) -> int:
    """Return a hash as a number; even a damaged one gives a number, as a write must not fail
    because of it.
    """
    try:
        return int(hashed, 16)
    except ValueError:
        return int.from_bytes(sha256(hashed.encode()).digest())
