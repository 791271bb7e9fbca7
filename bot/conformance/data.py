"""The contents of the API's document as rows, read from the YAML files beside this module."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from pydantic import BaseModel, ConfigDict
from ruamel.yaml import YAML

from bot.conformance.finding import Verdict

HERE: Final = Path(str(files("bot.conformance")))


class _Row(BaseModel):
    """One row of its `files`. `is_shown` False: the document only suggests it, so a failure is
    drift.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    files: ClassVar[tuple[str, ...]] = ()

    id: str
    is_shown: bool = True

    @property
    def otherwise(self) -> Verdict:
        """The verdict if the row is not met."""
        return Verdict.FAIL if self.is_shown else Verdict.DRIFT

    @classmethod
    def rows(cls) -> tuple[Self, ...]:
        """Return every row, in the order of the document."""
        return tuple(cls(**row) for name in cls.files for row in _parsed(name))


class Read(_Row):
    """One read: where, under which key, in which shape. `shape` None: undocumented.

    `is_free`: expect more fields than these. `seldom`: endings of names that may be missing in good
    answers. `is_nullable`: the whole payload may be null. `is_optional`: the path is not
    documented, so neither a 404 nor an error code in `absent` is a failure.
    """

    files = ("reads_account", "reads_quotes", "reads_stocks", "reads_news", "reads_earlier")

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
    """A read that is refused: with any of `status`, and any of `codes` if there are some."""

    files = ("refusals",)

    what: str
    path: str
    status: tuple[int, ...]
    codes: tuple[str, ...] = ()
    query: Mapping[str, str] = {}


class ContentCase(_Row):
    """One read and a condition on its content: the name of a rule, and its argument."""

    files = ("content",)

    what: str
    path: str
    rule: str
    of: str = ""
    query: Mapping[str, str] = {}


class AccessCase(_Row):
    """One request about access, and the statuses allowed in its answer.

    `post` is a body, None for a GET; `codes` are the document's error codes; any other is drift.
    """

    files = ("access",)

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
    """An order write that lacks a required part, and its refusal: any of `codes`."""

    files = ("incomplete",)

    what: str
    headers: Mapping[str, str | None]
    status: int
    codes: tuple[str, ...]


class BadBody(_Row):
    """An order write that must be refused: the good body with changes, or a literal text.

    `trades_if_taken`: it does not wait at the floor if the broker takes it after all.
    """

    what: str
    set: Mapping[str, Any] = {}
    drop: tuple[str, ...] = ()
    text: str | None = None
    body: Mapping[str, Any] = {}
    codes: tuple[str, ...] = ()
    trades_if_taken: bool = False


class OrderData(BaseModel):
    """Data for the order writes; `refused` with 400, `rejected` inside a 200."""

    result: Any
    refused: tuple[BadBody, ...]
    rejected: tuple[BadBody, ...]
    amendments: tuple[BadBody, ...]


@cache
def order_data() -> OrderData:
    return OrderData(**_parsed("orders"))


@cache
def words() -> Mapping[str, tuple[str, ...]]:
    """Return the word lists by name."""
    return {name: tuple(listed) for name, listed in _parsed("words").items()}


@cache
def _parsed(name: str) -> Any:
    return YAML(typ="safe").load((HERE / f"{name}.yaml").read_text("utf-8"))
