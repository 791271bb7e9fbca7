"""What the market has shown, and what is known of each symbol to judge that by."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Final

from bot.domain.instrument import Exchange, Lot, Phase
from bot.domain.order import OrderType
from bot.domain.quote import Depth, LastClose, Quote
from bot.domain.rulebook import Rulebook
from bot.domain.timetable import PhaseBoundary
from bot.domain.venue import Band, TickTable
from bot.engine.settings import FOREVER, LONG_AGO, EngineSettings

GAPS_KEPT: Final = 64
VOLUME_MAX: Final = 10_000_000_000
"""Shares. No listed company has so many."""
PHASE_LATE: Final = timedelta(seconds=30)
"""So long after a boundary of the timetable the phase before may still be announced: the broker's
clock or a cache is behind, or ours ahead (at 20 s no order leaves).
"""
_CLOSING: Final = frozenset(
    {Phase.BREAK, Phase.PRE_CLOSED, Phase.PUT_THROUGH, Phase.POST_SESSION, Phase.CLOSED}
)
"""Phases that end continuous trading or the day: from then on nothing can be cancelled, so what
leaves as they begin can't be taken back.
"""

Figures = Mapping[str, int | str | None]


@dataclass(frozen=True, slots=True)
class QuoteSeen:
    """The last trusted quote, and when it was requested."""

    at: datetime
    quote: Quote


@dataclass(frozen=True, slots=True)
class DepthSeen:
    """The last trusted depth, and when it was requested."""

    at: datetime
    depth: Depth


@dataclass(frozen=True, slots=True)
class PhaseSeen:
    """The last known phase of an exchange. `available` None: the broker has not said.

    `since` is when it began, by the timetable where that agrees; prices have last moved by
    `moved_until`, as far as the announced phases tell. From `until` on it is not known
    any more: by the timetable another one has begun, and no read has shown any since.
    `closing` counts instead of it from its own `since` until its own `until`.
    """

    phase: Phase
    available: frozenset[OrderType] | None
    since: datetime = LONG_AGO
    until: datetime = FOREVER
    moved_until: datetime = LONG_AGO
    closing: "PhaseSeen | None" = None

    def taken(self, rulebook: Rulebook, exchange: Exchange, lot: Lot) -> frozenset[OrderType]:
        """Return the types that the exchange takes in this phase and the broker lists, in canonical
        names. A phase that the broker's list lacks means LIMIT only.
        """
        accepted = rulebook.accepted_types(exchange, self.phase, lot)
        if self.available is None:
            return accepted
        listed = self.available or (OrderType.LO,)
        return accepted & {rulebook.canonical(exchange, each) for each in listed}

    def whose_book(self, counts: "PhaseSeen") -> "PhaseSeen":
        """Return the phase whose book the broker shows, having announced this one: the closing
        auction's until it says that it is over, whatever counts by the timetable.
        """
        is_auctions = self.closing is counts and self.phase is Phase.PRE_CLOSED
        return self if is_auctions else counts


def closing_after(
    rulebook: Rulebook, exchange: Exchange, said: Phase, at: datetime
) -> PhaseSeen | None:
    """Return the phase that ends an announced one by the timetable alone, before the broker
    says so.

    The timetable is trusted at once where it closes something, the broker where something opens:
    until it says so, only what both phases take is taken. None as well if the announced phase is
    not the timetable's, which then says nothing of what follows.
    """
    known = rulebook.phase_at(exchange, at)
    if said is known:
        boundary = rulebook.next_phase_change(exchange, at)
    else:
        since = rulebook.phase_since(exchange, known, at)
        if since is None or rulebook.phase_at(exchange, since - timedelta.resolution) is not said:
            return None
        boundary = PhaseBoundary(since, known)
    if boundary.phase not in _CLOSING:
        return None
    both = rulebook.accepted_types(exchange, said, Lot.EVEN)
    return PhaseSeen(boundary.phase, both, boundary.at, boundary.at + PHASE_LATE)


@dataclass(frozen=True, slots=True)
class Finding:
    """Why an answer is not trusted: a kind, the sentence, and its numbers."""

    kind: str
    text: str
    numbers: Figures


@dataclass(slots=True)
class Held:
    """What is wrong with a source and since when, how many answers were held, and how many good
    ones have come since the last bad one. `level` is the price level that it claims.
    """

    finding: Finding
    since: datetime
    level: int | None
    count: int = 1
    good: int = 0


@dataclass(slots=True)
class Source:
    """The quotes or the depths of a symbol. `stamp` is the own time of the last trusted one, `gaps`
    are the seconds between today's own times, as far as they were observed. The last answer came at
    `heard_at`; its own time may be later by `ahead_max`. `told_at`: when a kind was last told.
    """

    name: str
    asked_at: datetime = LONG_AGO
    heard_at: datetime = LONG_AGO
    ahead_max: timedelta = timedelta(0)
    watched_since: datetime = LONG_AGO
    stamp: datetime = LONG_AGO
    gaps: deque[float] = field(default_factory=lambda: deque(maxlen=GAPS_KEPT))
    held: Held | None = None
    told_at: dict[str, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Frame:
    """Which prices are possible: the band as we compute it, and the grid. `known` prices have
    passed. `basis`: what the band follows from, in words. `of_close`: the frame of our own close,
    where that is the reference by the rules and another one was quoted, or none.
    """

    reference: int
    band: Band
    grid: TickTable
    known: set[int] = field(default_factory=set)
    basis: str = "by the rules"
    of_close: "Frame | None" = None

    def holds(self, price: int) -> bool:
        """Return whether a price lies in every band."""
        return self.band.holds(price) and (self.of_close is None or self.of_close.holds(price))


@dataclass(slots=True)
class Belief:
    """What is known about a symbol apart from the answer being judged.

    `price` is the last trusted one, initially the close. `is_close_read`: journal or history gave
    the close, not our last quote or a person, and no file gives another reference. `is_asked`: the
    shell has looked for a close; without one nothing confirms a price then. `has_traded`: enough
    trusted quotes in a row have shown a volume of today, and `reference`: with this one; of the
    last in a row `volumes_shown` is the number, `references_shown` the references;
    `shown_reference` is that of the newest trusted quote with one. `first_last` is the last price
    of the day's first trusted quote; `is_priced`: that is past. `excused` are
    kinds of findings that a person has accepted for today, `resumes` how often.
    `has_supposed_kind`: no table says whether it is a share or an ETF. `noted`: the last close that
    was journalled.
    """

    symbol: str
    close: int | None = None
    close_day: date = date.min
    is_close_read: bool = False
    is_asked: bool = False
    price: int | None = None
    has_traded: bool = False
    reference: int | None = None
    volumes_shown: int = 0
    references_shown: tuple[int, ...] = ()
    shown_reference: int | None = None
    first_last: int | None = None
    is_priced: bool = False
    ex_dates: frozenset[date] = frozenset()
    are_ex_dates_unread: bool = False
    frame: Frame | None = None
    volume_max: int = VOLUME_MAX
    quotes: Source = field(default_factory=lambda: Source("quote"))
    depths: Source = field(default_factory=lambda: Source("depth"))
    excused: set[str] = field(default_factory=set)
    resumes: int = 0
    has_supposed_kind: bool = False
    noted: LastClose | None = None

    @property
    def sources(self) -> tuple[Source, Source]:
        return self.quotes, self.depths


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules for every check."""

    rulebook: Rulebook
    settings: EngineSettings
