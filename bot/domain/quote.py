"""What the market shows: quote, depth and bar, and what the engine hears and says of earlier bars.

Prices are VND per share, volumes are shares. Bars lie on one grid, the same live, in warm-up and in
a backtest. It starts again with each part of a day, at 09:00 and 13:00 of the exchange's time, and
nothing lasts beyond 15:00: so no bar holds prices of two days, or of morning and afternoon. Within
a part bars follow one another by their width; the last one may be shorter. A bar of a day begins at
local midnight and ends when the exchanges close.

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
    """The last price of a symbol and its frame for the day.

    `reference`, `ceiling` and `floor` are None when the market has not published them yet; a check
    that needs them must then refuse. `updated_at` is the broker's own stamp (market time).
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
    volume: int
    updated_at: datetime | None


@dataclass(frozen=True, slots=True)
class DepthLevel:
    """One price of the depth and the shares that wait there."""

    price: int
    volume: int


@dataclass(frozen=True, slots=True)
class Depth:
    """The market's levels, best first on both sides, without those of no price (ATO, ATC)."""

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
    """The last close before today; `price` None where none could be had. `day` is its own.

    `average_volume`: shares on an average day of the history. `ex_dates`: the known ones;
    `are_ex_dates_unread`: the broker could not be asked, there may be more.
    """

    symbol: str
    price: int | None
    day: date
    average_volume: int | None = None
    ex_dates: frozenset[date] = frozenset()
    are_ex_dates_unread: bool = False


@dataclass(frozen=True, slots=True)
class ClosesRead:
    """An event: earlier closes were looked for; what none of them confirms is not believed."""

    at: datetime
    closes: tuple[LastClose, ...]


@dataclass(frozen=True, slots=True)
class Bar:
    """Open, high, low, close and volume over `seconds` from `start` (inclusive)."""

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
"""Of Vietnam, which has no summer time: a grid is asked for too often for a time zone."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PARTS: Final = tuple(timedelta(hours=hour) for hour in (0, 9, 13, 15, 24))
CLOSE: Final = timedelta(hours=15)


def span_of(at: datetime, width: timedelta) -> tuple[datetime, datetime]:
    """Return start and end (the first instant after it) of the bar that holds an instant."""
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
    """Yield bars of a width made of narrower ones of one symbol, oldest first; a span without any
    has none. The last one holds what there is of it, whether or not its span is over.

    A bar opens with its first trade: flat bars before that stand at the price of before.
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
    """Earlier bars were looked for: closed ones, oldest first, and what is there of the `forming`.

    `wanted` is how many were asked for. `origin` says in words where they come from, `lacks` what
    is missing and why; empty: nothing. `is_asked_again`: a source could not be read. `ex_ratios`:
    by what closes before past ex-dates count in indicators, oldest first; 1: they are adjusted.
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
    """Look for `count` earlier bars of a symbol: a strategy reads further back than was known."""

    symbol: str
    width: timedelta
    count: int


@dataclass(frozen=True, slots=True)
class WentEx:
    """What an exchange made of a close on an ex-date; VND."""

    symbol: str
    day: date
    close: int
    reference: int


@dataclass(frozen=True, slots=True)
class KeepExDate:
    """Keep what a close became on an ex-date, for the next start."""

    went_ex: WentEx


@dataclass(frozen=True, slots=True)
class KeepBar:
    """Keep a bar that quotes have built, for the next start."""

    bar: Bar
