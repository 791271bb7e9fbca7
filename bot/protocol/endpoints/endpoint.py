"""Describes a call of the broker's API: path, tier, parameters and the exact text of its target.
Also what the table's rows share: common parameters, and a constructor for each kind of row.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, IntEnum, StrEnum
from itertools import chain
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

from bot.protocol import words
from bot.protocol.errors import UnusableTarget
from bot.protocol.query import (
    AtMostOne,
    DayRange,
    EitherOr,
    Kind,
    Parameter,
    QueryFault,
    Rule,
    Together,
    faults_of,
)


class Tier(IntEnum):
    """What a call must carry: ONE the API key, TWO also the signing headers."""

    ONE = 1
    TWO = 2


class Lane(StrEnum):
    """Priority when the request budget is short, highest first.

    ORDER_POLL covers what orders are checked against: their rows and the account.
    """

    CANCEL = "CANCEL"
    BOOK = "BOOK"
    PLACE = "PLACE"
    ORDER_POLL = "ORDER_POLL"
    QUOTE = "QUOTE"
    OTHER = "OTHER"


class Shape(Enum):
    """What is under the payload key. EITHER: one of two shapes, or an undocumented one."""

    OBJECT = "object"
    ARRAY = "array"
    EITHER = "object or array"
    PERHAPS = "object, array or null"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One call. `path` has `{snake_case}` holes; `payload_key` None puts the fields at top level.

    `is_write` marks the order writes: they need a device id and a 2FA token, and are never retried.
    `takes` are the parameters of its query and `rules` the combinations that are not allowed.
    `answers` names the type of `values/` that the payload becomes, with `*` for a list; it is empty
    where the codec is hand-written or the shape undocumented.
    """

    name: str
    method: str
    path: str
    tier: Tier
    payload_key: str | None
    lane: Lane
    is_write: bool = False
    shape: Shape = Shape.OBJECT
    takes: tuple[Parameter, ...] = ()
    rules: tuple[Rule, ...] = ()
    answers: str = ""


_OPEN_PATHS: Final = (
    "/market/",
    "/trading/market/",
    "/trading/securities/",
    "/fund-trading/public/",
)
_HOLE: Final = re.compile(r"\{(\w+)\}")
_DOT_SEGMENTS: Final = frozenset({"", ".", ".."})


def tier_of(method: str, path: str) -> Tier:
    """Return the tier of any method and path, even if there is no such call (section 2.1)."""
    return Tier.ONE if method == "GET" and path.startswith(_OPEN_PATHS) else Tier.TWO


def path_parameters(endpoint: Endpoint) -> tuple[str, ...]:
    """Return the names of the holes in a path, in their order."""
    return tuple(_HOLE.findall(endpoint.path))


def build_target(
    endpoint: Endpoint,
    path_values: Mapping[str, str] | None = None,
    query: Sequence[tuple[str, str]] = (),
) -> str:
    """Return path and query, percent-encoded, exactly as they must be signed and sent.

    Without a query there is no `?`; a comma or a space of a value is encoded. A path value that is
    empty or a dot segment raises UnusableTarget; a hole without a value is our bug (KeyError).
    """
    path = endpoint.path
    for hole in _HOLE.findall(path):
        value = (path_values or {})[hole]
        if value in _DOT_SEGMENTS:
            raise UnusableTarget(endpoint.name, hole)
        # so no bracket of a value stays in it
        path = path.replace(f"{{{hole}}}", quote(value, safe=""))
    if not query:
        return path
    pairs = [f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in query]
    return f"{path}?{'&'.join(pairs)}"


def query_faults(endpoint: Endpoint, query: Mapping[str, str]) -> tuple[QueryFault, ...]:
    """Yield every reason for which the API would refuse a query with 400, except unknown names."""
    missing = [
        QueryFault(one.name, "required")
        for one in endpoint.takes
        if one.is_required and one.name not in query
    ]
    alone = chain.from_iterable(
        faults_of(one, query[one.name]) for one in endpoint.takes if one.name in query
    )
    found = (*missing, *alone)
    return found or tuple(chain.from_iterable(rule.faults(query) for rule in endpoint.rules))


def unknown_parameters(endpoint: Endpoint, query: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names that the call does not take: a client refuses them as typos."""
    known = {one.name for one in endpoint.takes}
    return tuple(one for one in query if one not in known)


def with_defaults(endpoint: Endpoint, query: Mapping[str, str]) -> Mapping[str, str]:
    """Return the query as the server reads it, with the defaults of omitted parameters.

    A default is dropped if a given parameter excludes it (the screener's window to a date).
    """
    assumed = {one.name: one.default for one in endpoint.takes if one.default is not None}
    for rule in endpoint.rules:
        if isinstance(rule, AtMostOne) and not query.keys().isdisjoint(rule.names):
            assumed = {one: text for one, text in assumed.items() if one not in rule.names}
    return MappingProxyType({**assumed, **query})


UNCACHED: Final = Parameter("cache-control", values=words.CACHE_CONTROLS, default="NOCACHE")
CACHED: Final = replace(UNCACHED, default="CACHE")
FROM_DAY: Final = Parameter("from", Kind.DAY)
DAYS: Final = (FROM_DAY, Parameter("to", Kind.DAY))
SECONDS: Final = (
    Parameter("from", Kind.UNIX_SECONDS, is_required=True, minimum=0),
    Parameter("to", Kind.UNIX_SECONDS, is_required=True, minimum=0),
)
DATE: Final = Parameter("date", Kind.DAY)
RESOLUTION: Final = Parameter("resolution", values=words.RESOLUTIONS, default="1D")
DAILY: Final = Parameter("resolution", values=words.DAILY, default="1D")
WINDOW: Final = Parameter("window", values=words.WINDOWS, default="1D")
PAGE: Final = Parameter("page", Kind.WHOLE, default="1", minimum=1)
PAGES: Final = (PAGE, Parameter("page_size", Kind.WHOLE, default="20", minimum=1, maximum=50))
SYMBOL: Final = Parameter("symbol", is_required=True)
REPORT_PERIOD: Final = Parameter("period", values=words.REPORT_PERIODS, default="annual")
FUND_TYPE: Final = Parameter("fund-type", values=words.FUND_TYPES, is_required=True)
FUND_NAMES: Final = Parameter("fund-names", is_list=True, is_required=True)
FUND_PERIOD: Final = Parameter("period", values=words.FUND_PERIODS)
FUND_MONTHS: Final = (
    FUND_NAMES,
    FUND_PERIOD,
    Parameter("from-month", Kind.MONTH),
    Parameter("to-month", Kind.MONTH),
)
PERIOD_OR_MONTHS: Final = (EitherOr("period", ("from-month", "to-month")),)
DAYS_AGO: Final = Parameter("days", Kind.WHOLE, default="30", minimum=1)

# ------------------------------------------------------------------------------- kinds of rows


def read(
    name: str,
    path: str,
    answers: str,
    *takes: Parameter,
    lane: Lane = Lane.OTHER,
    key: str = "data",
    shape: Shape | None = None,
    rules: tuple[Rule, ...] = (),
) -> Endpoint:
    """Make a tier 1 read. Empty `answers`: the shape is undocumented."""
    if shape is None:
        is_array = answers.startswith("*")
        shape = (Shape.ARRAY if is_array else Shape.OBJECT) if answers else Shape.EITHER
    if FROM_DAY in takes:
        rules = (Together(("from", "to")), DayRange("from", "to"), *rules)
    return Endpoint(
        name,
        "GET",
        path,
        Tier.ONE,
        key,
        lane,
        shape=shape,
        takes=takes,
        rules=rules,
        answers=answers,
    )


def signed(
    name: str,
    path: str,
    *takes: Parameter,
    key: str = "result",
    answers: str = "",
    shape: Shape = Shape.OBJECT,
    lane: Lane = Lane.OTHER,
) -> Endpoint:
    return Endpoint(
        name, "GET", path, Tier.TWO, key, lane, shape=shape, takes=takes, answers=answers
    )


def write(name: str, method: str, path: str, lane: Lane = Lane.PLACE) -> Endpoint:
    return Endpoint(name, method, path, Tier.TWO, "result", lane, is_write=True, shape=Shape.ARRAY)


def two_factor(name: str, step: str) -> Endpoint:
    path = f"/auth/v1/openapi/2fa/{step}"
    return Endpoint(name, "POST", path, Tier.TWO, None, Lane.PLACE)
