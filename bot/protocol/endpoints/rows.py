"""What the rows of the table share: common parameters, and a maker for each kind of row."""

from dataclasses import replace
from typing import Final

from bot.protocol import words
from bot.protocol.endpoints.endpoint import Endpoint, Lane, Shape, Tier
from bot.protocol.query import DayRange, EitherOr, Kind, Parameter, Rule, Together

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
    """Make a tier 1 read. `answers` empty: no source shows the shape."""
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
