"""Market data: quote, depth and bar, and the engine's events and commands about earlier bars.

Prices are VND per share, volumes are shares. Bars lie on one grid, the same live, in warm-up and in
a backtest. The grid starts afresh with each part of a day, at 09:00 and 13:00 exchange time, and
ends at 15:00, so no bar mixes two days, or morning and afternoon. Within a part, bars follow one
another by their width; the last one may be shorter. A bar of a day begins at local midnight and
ends when the exchanges close.

The parts are those of all three exchanges since 2025-05-05 (`rules/market.yaml`); the auctions of
HOSE and HNX are matched on this grid, at 09:15 and 14:45.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Final

from bot.domain.instrument import Exchange


@dataclass(frozen=True, slots=True)
class Quote:
    """The last price of a symbol, and its price limits for the day.

    `reference`, `ceiling` and `floor` are None when the market has not published them yet; a check
    that needs them must refuse then. `volume` is the day's so far, None if the broker did not say
    it. `updated_at` is the broker's own stamp (market time).
    """

    symbol: str
    exchange: Exchange
    last: int
    reference: int | None
    ceiling: int | None
    floor: int | None
    open: int | None
    high: int | None
    low: int | None
    volume: int | None
    updated_at: datetime | None


@dataclass(frozen=True, slots=True)
class DepthLevel:
    """One price of the depth and the shares waiting there."""

    price: int
    volume: int


@dataclass(frozen=True, slots=True)
class Depth:
    """The market's levels, best first on both sides, excluding levels without a price
    (ATO, ATC).
    """

    symbol: str
    bids: tuple[DepthLevel, ...]
    asks: tuple[DepthLevel, ...]
    updated_at: datetime | None

    @property
    def bid(self) -> int | None:
        return self.bids[0].price if self.bids else None

    @property
    def ask(self) -> int | None:
        return self.asks[0].price if self.asks else None


@dataclass(frozen=True, slots=True)
class LastClose:
    """The last close before today; `price` None if none was found. `day` is the day of that close.

    `average_volume`: shares on an average day of the history. `ex_dates`: those known;
    `are_ex_dates_unread`: the broker could not be asked, so there may be more. `is_reference`:
    where closes are references it is today's, ex-dates aside; False if the source has another.
    """

    symbol: str
    price: int | None
    day: date
    average_volume: int | None = None
    ex_dates: frozenset[date] = frozenset()
    are_ex_dates_unread: bool = False
    is_reference: bool = True


@dataclass(frozen=True, slots=True)
class ClosesRead:
    """An event: earlier closes were looked up; data that no close confirms is not trusted."""

    at: datetime
    closes: tuple[LastClose, ...]


@dataclass(frozen=True, slots=True)
class Bar:
    """Open, high, low, close and volume over `seconds` from `start`, inclusive."""

    symbol: str
    start: datetime
    seconds: int
    open: int
    high: int
    low: int
    close: int
    volume: int


DAY: Final = timedelta(days=1)
_OFFSET: Final = timedelta(hours=7)
"""Vietnam's, which has no summer time; grids are computed too often for a time zone lookup."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PARTS: Final = tuple(timedelta(hours=hour) for hour in (0, 9, 13, 15, 24))
CLOSE: Final = timedelta(hours=15)


def span_of(at: datetime, width: timedelta) -> tuple[datetime, datetime]:
    """Return the start and end (the first instant after it) of the bar that contains an instant."""
    local = at - _EPOCH + _OFFSET
    since = local % DAY
    midnight = at - since
    if width >= DAY:
        return midnight, midnight + (CLOSE if since < CLOSE else DAY)
    for first, last in pairwise(_PARTS):
        if since < last:
            start = since - (since - first) % width
            return midnight + start, midnight + min(start + width, last)
    raise AssertionError("a day has 24 hours")


def width_name(width: timedelta) -> str:
    """Return a width as a strategy file has it: `1m`, `15m`, `1h`, `1d`."""
    seconds = round(width.total_seconds())
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds % length == 0:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def widened(bars: Iterable[Bar], width: timedelta) -> Iterator[Bar]:
    """Yield wider bars made of narrower ones of one symbol, oldest first; a span without bars
    yields none. The last bar holds what is there, even if its span is not over.

    A bar opens with its first trade: flat bars before that only repeat the earlier price.
    """
    made: Bar | None = None
    end = _EPOCH
    for bar in bars:
        if made is not None and bar.start < end:
            if made.volume == 0 and made.high == made.low:
                made = replace(bar, start=made.start, seconds=made.seconds)
                continue
            made = replace(
                made,
                high=max(made.high, bar.high),
                low=min(made.low, bar.low),
                close=bar.close,
                volume=made.volume + bar.volume,
            )
            continue
        if made is not None:
            yield made
        start, end = span_of(bar.start, width)
        made = replace(bar, start=start, seconds=round(width.total_seconds()))
    if made is not None:
        yield made


@dataclass(frozen=True, slots=True)
class BarsRead:
    """Earlier bars were looked up: closed ones, oldest first, and what is there of the `forming`
    one.

    `wanted` is how many were asked for. `origin` says in words where they come from, `lacks` what
    is missing and why (empty: nothing). `is_asked_again`: a source could not be read and will be
    asked again. `ex_ratios`: the factors for closes before past ex-dates in indicators, oldest
    first; 1: already adjusted.
    """

    at: datetime
    symbol: str
    width: timedelta
    bars: tuple[Bar, ...]
    wanted: int
    origin: str = ""
    lacks: str = ""
    forming: Bar | None = None
    is_asked_again: bool = False
    ex_ratios: tuple[tuple[date, float], ...] = ()


@dataclass(frozen=True, slots=True)
class ReadBars:
    """Look up `count` earlier bars of a symbol: a strategy reads further back than what
    is known.
    """

    symbol: str
    width: timedelta
    count: int


@dataclass(frozen=True, slots=True)
class WentEx:
    """How an exchange adjusted a close on an ex-date; VND."""

    symbol: str
    day: date
    close: int
    reference: int


@dataclass(frozen=True, slots=True)
class KeepExDate:
    """Store an adjusted close, for the next start."""

    went_ex: WentEx


@dataclass(frozen=True, slots=True)
class KeepBar:
    """Store a bar built from quotes, for the next start."""

    bar: Bar
