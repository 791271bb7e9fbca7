"""The data of the conformance run: what the document says, in YAML, line by line."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

HERE: Final = Path(str(files("bot.conformance")))
READS: Final = (
    "reads_account",
    "reads_quotes",
    "reads_stocks",
    "reads_news",
    "reads_earlier",
)
_BAD_BODIES: Final = ("refused", "rejected", "amendments")


@dataclass(frozen=True, slots=True)
class Read:
    """One read: where, under which key, in which shape. `shape` None: no source shows one.

    `is_free`: more fields than these are to be expected. `seldom`: endings of names that may be
    missing in good answers. `is_nullable`: the whole payload may be null. `is_optional`: no source
    promises the path, so that a 404 is no failure; nor is one with an error code of `absent`.
    """

    id: str
    call: str
    path: str
    key: str
    query: Mapping[str, str] = field(default_factory=dict)
    shape: object = None
    is_free: bool = False
    is_nullable: bool = False
    is_optional: bool = False
    seldom: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """One refusal: any of `status`, and any of `codes` unless there are none."""

    id: str
    what: str
    path: str
    status: tuple[int, ...]
    codes: tuple[str, ...] = ()
    query: Mapping[str, str] = field(default_factory=dict)
    is_shown: bool = True


@dataclass(frozen=True, slots=True)
class Sense:
    """One read and what it must mean, by the name of a judge and its argument.

    `is_shown` False: the document only suggests it.
    """

    id: str
    what: str
    path: str
    judge: str
    of: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    is_shown: bool = True


@dataclass(frozen=True, slots=True)
class Access:
    """One request about who may ask, and the statuses it may be answered with.

    `post` is a body, None for a GET; `codes` are the names of the document, another is drift.
    """

    id: str
    what: str
    status: tuple[int, ...]
    path: str = "/users/v1/users/me"
    query: Mapping[str, str] = field(default_factory=dict)
    post: str | None = None
    headers: Mapping[str, str | None] = field(default_factory=dict)
    slip: str = "none"
    stamp: str = "now"
    codes: tuple[str, ...] = ()
    is_unsigned: bool = False
    has_hex_nonce: bool = False


@dataclass(frozen=True, slots=True)
class BadBody:
    """An order write that must be refused: the good body with changes, or a text as it is."""

    id: str
    what: str
    set: Mapping[str, Any] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    text: str | None = None
    body: Mapping[str, Any] = field(default_factory=dict)
    codes: tuple[str, ...] = ()
    is_shown: bool = True


@dataclass(frozen=True, slots=True)
class OrderData:
    """What is known of order writes; `refused` with 400, `rejected` inside a 200."""

    result: object
    refused: tuple[BadBody, ...]
    rejected: tuple[BadBody, ...]
    amendments: tuple[BadBody, ...]


@cache
def order_data() -> OrderData:
    """Return the data of the order writes."""
    found = _parsed("orders")
    bad = {name: tuple(map(_bad_body, found[name])) for name in _BAD_BODIES}
    return OrderData(result=found["result"], **bad)


@cache
def access_cases() -> tuple[Access, ...]:
    """Return every request about who may ask."""
    return tuple(_access(row) for row in _rows("access"))


@cache
def reads() -> tuple[Read, ...]:
    """Return every read, in the order of the document."""
    return tuple(_read(row) for name in READS for row in _rows(name))


@cache
def refusals() -> tuple[Refusal, ...]:
    """Return every refusal of a read."""
    return tuple(_refusal(row) for row in _rows("refusals"))


@cache
def sense_rows() -> tuple[Sense, ...]:
    """Return what answers must mean."""
    return tuple(_sense(row) for row in _rows("sense"))


@cache
def words() -> Mapping[str, tuple[str, ...]]:
    """Return the word lists by name."""
    return {name: tuple(listed) for name, listed in _parsed("words").items()}


def _rows(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _parsed(name)
    return found


def _parsed(name: str) -> Any:
    return YAML(typ="safe").load((HERE / f"{name}.yaml").read_text("utf-8"))


def _read(row: Mapping[str, Any]) -> Read:
    return Read(
        id=row["id"],
        call=row["call"],
        path=row["path"],
        key=row["key"],
        query=row.get("query", {}),
        shape=row.get("shape"),
        is_free=bool(row.get("free")),
        is_nullable=bool(row.get("nullable")),
        is_optional=bool(row.get("optional")),
        seldom=tuple(row.get("seldom", ())),
        absent=tuple(row.get("absent", ())),
    )


def _refusal(row: Mapping[str, Any]) -> Refusal:
    return Refusal(
        id=row["id"],
        what=row["what"],
        path=row["path"],
        status=tuple(row["status"]),
        codes=tuple(row.get("codes", ())),
        query=row.get("query", {}),
        is_shown=row.get("level") != "should",
    )


def _access(row: Mapping[str, Any]) -> Access:
    plain = ("id", "what", "path", "query", "post", "headers", "slip", "stamp")
    return Access(
        status=tuple(row["status"]),
        codes=tuple(row.get("codes", ())),
        is_unsigned=bool(row.get("unsigned")),
        has_hex_nonce=row.get("nonce") == "hex",
        **{name: row[name] for name in plain if name in row},
    )


def _bad_body(row: Mapping[str, Any]) -> BadBody:
    return BadBody(
        drop=tuple(row.get("drop", ())),
        codes=tuple(row.get("codes", ())),
        is_shown=row.get("level") != "should",
        **{name: row[name] for name in ("id", "what", "set", "text", "body") if name in row},
    )


def _sense(row: Mapping[str, Any]) -> Sense:
    fields = {name: value for name, value in row.items() if name != "level"}
    return Sense(is_shown=row.get("level") != "should", **fields)
