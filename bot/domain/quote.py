"""What the market shows: quote, depth, bar. Prices are VND per share, volumes are shares."""

from dataclasses import dataclass
from datetime import date, datetime

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
