"""What the API's document says, row by row, read from the YAML files beside this module."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict
from ruamel.yaml import YAML

HERE: Final = Path(str(files("bot.conformance")))
READS: Final = ("reads_account", "reads_quotes", "reads_stocks", "reads_news", "reads_earlier")


class _Row(BaseModel):
    """One row of a file. `is_shown` False: the document only suggests it; else is drift."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    is_shown: bool = True


class Read(_Row):
    """One read: where, under which key, in which shape. `shape` None: no source shows one.

    `is_free`: more fields than these are to be expected. `seldom`: endings of names that may be
    missing in good answers. `is_nullable`: the whole payload may be null. `is_optional`: no source
    promises the path, so that a 404 is no failure; nor is one with an error code of `absent`.
    """

    call: str
    path: str
    key: str
    query: Mapping[str, str] = {}
    shape: Any = None
    is_free: bool = False
    is_nullable: bool = False
    is_optional: bool = False
    seldom: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


class Refusal(_Row):
    """A read that is refused: with any of `status`, and any of `codes` unless there are none."""

    what: str
    path: str
    status: tuple[int, ...]
    codes: tuple[str, ...] = ()
    query: Mapping[str, str] = {}


class ContentCase(_Row):
    """One read and what its content must satisfy: the name of a rule, and its argument."""

    what: str
    path: str
    rule: str
    of: str = ""
    query: Mapping[str, str] = {}


class AccessCase(_Row):
    """One request about who may ask, and the statuses it may be answered with.

    `post` is a body, None for a GET; `codes` are the names of the document, another is drift.
    """

    what: str
    status: tuple[int, ...]
    path: str = "/users/v1/users/me"
    query: Mapping[str, str] = {}
    post: str | None = None
    headers: Mapping[str, str | None] = {}
    signing: str = "as documented"
    stamp: str = "now"
    codes: tuple[str, ...] = ()
    is_unsigned: bool = False
    has_hex_nonce: bool = False


class IncompleteWrite(_Row):
    """An order write without what every write needs, and its refusal: any of `codes`."""

    what: str
    headers: Mapping[str, str | None]
    status: int
    codes: tuple[str, ...]


class BadBody(_Row):
    """An order write that must be refused: the good body with changes, or a text as it is."""

    what: str
    set: Mapping[str, Any] = {}
    drop: tuple[str, ...] = ()
    text: str | None = None
    body: Mapping[str, Any] = {}
    codes: tuple[str, ...] = ()


class OrderData(BaseModel):
    """What is known of order writes; `refused` with 400, `rejected` inside a 200."""

    result: Any
    refused: tuple[BadBody, ...]
    rejected: tuple[BadBody, ...]
    amendments: tuple[BadBody, ...]


@cache
def order_data() -> OrderData:
    """Return the data of the order writes."""
    return OrderData(**_parsed("orders"))


@cache
def access_cases() -> tuple[AccessCase, ...]:
    """Return every request about who may ask."""
    return tuple(AccessCase(**row) for row in _parsed("access"))


@cache
def incomplete_writes() -> tuple[IncompleteWrite, ...]:
    """Return the order writes that lack a token or a device-id."""
    return tuple(IncompleteWrite(**row) for row in _parsed("incomplete"))


@cache
def reads() -> tuple[Read, ...]:
    """Return every read, in the order of the document."""
    return tuple(Read(**row) for name in READS for row in _parsed(name))


@cache
def refusals() -> tuple[Refusal, ...]:
    """Return every refusal of a read."""
    return tuple(Refusal(**row) for row in _parsed("refusals"))


@cache
def content_cases() -> tuple[ContentCase, ...]:
    """Return what the content of answers must satisfy."""
    return tuple(ContentCase(**row) for row in _parsed("content"))


@cache
def words() -> Mapping[str, tuple[str, ...]]:
    """Return the word lists by name."""
    return {name: tuple(listed) for name, listed in _parsed("words").items()}


def _parsed(name: str) -> Any:
    return YAML(typ="safe").load((HERE / f"{name}.yaml").read_text("utf-8"))
