"""One symbol on one day: its books, its prices, and what its board shows."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from bot.domain.instrument import Exchange, Instrument, InstrumentKind, Lot
from bot.domain.order import Side
from bot.domain.rulebook import Rulebook
from bot.domain.status import TradingMethod
from bot.domain.venue import WARRANT_FLOOR_MIN, Band
from bot.sandbox.exchange.auction import clearing_of
from bot.sandbox.exchange.book import Book, RestingOrder
from bot.sandbox.exchange.day import ExchangeDay, PriceGrid, price_grid
from bot.sandbox.exchange.message import CROWD, Listing, NewOrder, fact


@dataclass(slots=True)
class DayTotals:
    """Totals of the day's even-lot trades. Odd lots never count (HOSE rules on odd-lot trading).

    After-hours trades at the close count towards volume and value but change no price.
    """

    last: int | None = None
    open: int | None = None
    high: int | None = None
    low: int | None = None
    volume: int = 0
    value: int = 0
    close: int | None = None

    def record(self, price: int, quantity: int) -> None:
        if self.high is None or self.low is None:
            self.open = self.high = self.low = price
        elif price > self.high:
            self.high = price
        elif price < self.low:
            self.low = price
        self.last = price
        self.volume += quantity
        self.value += price * quantity


@fact
class Board:
    """What the market shows of a symbol. A missing price is None.

    `close` is set once no more limit order can trade today; `auction_price` and `auction_volume`
    are what the even-lot auction would give now, None and 0 outside one.
    """

    instrument: Instrument
    reference: int
    ceiling: int
    floor: int
    last: int | None
    open: int | None
    high: int | None
    low: int | None
    volume: int
    value: int
    close: int | None
    auction_price: int | None
    auction_volume: int
    is_halted: bool


@dataclass(slots=True, eq=False)
class SymbolMarket:
    """The state of one symbol that changes during a day.

    `late` is the book of after-hours orders (PLO), all at the day's close. `auction_orders` holds
    what each investor has entered into the running auction, by order id.
    """

    listing: Listing
    day: ExchangeDay
    band: Band
    grid: PriceGrid
    even: Book
    odd: Book
    late: Book
    totals: DayTotals = field(default_factory=DayTotals)
    auction_orders: dict[str, dict[str, Side]] = field(default_factory=dict)
    is_halted: bool = False

    @property
    def anchor(self) -> int:
        """The last even-lot price of the day, else the reference."""
        return self.totals.last or self.listing.reference

    @property
    def is_untouched(self) -> bool:
        """Whether nothing has traded today and the close is not fixed yet."""
        return self.totals.last is None and self.totals.close is None

    @property
    def bans_odd_lots(self) -> bool:
        """Whether odd lots are refused: on a first or resumption day until a round-lot price exists
        (HSC, 2025).
        """
        return self.listing.is_first_day and self.totals.last is None

    def holds_opposite(self, order: NewOrder) -> bool:
        """Return whether the owner already has an order on the other side of the
        running auction.
        """
        sides = self.auction_orders.get(order.owner)
        return sides is not None and next(iter(sides.values()), order.side) is not order.side

    def note_auction_order(self, order: RestingOrder) -> None:
        """Record on which side the owner is."""
        if order.owner != CROWD:
            self.auction_orders.setdefault(order.owner, {})[order.order_id] = order.side

    def forget_auction_order(self, order: RestingOrder) -> None:
        """Forget an order that its owner has cancelled, as a periodic auction allows."""
        self.auction_orders.get(order.owner, {}).pop(order.order_id, None)

    def set_close(self) -> None:
        """Fix the day's close: the last price, else the reference carries over."""
        if self.totals.close is None:
            self.totals.close = self.anchor

    def board(self) -> Board:
        totals, auction = self.totals, None
        if self.day.is_auction:
            auction = clearing_of(self.even, self.grid, self.anchor)
        return Board(
            instrument=self.listing.instrument,
            reference=self.listing.reference,
            ceiling=self.band.ceiling,
            floor=self.band.floor,
            last=totals.last,
            open=totals.open,
            high=totals.high,
            low=totals.low,
            volume=totals.volume,
            value=totals.value,
            close=totals.close,
            auction_price=auction.price if auction else None,
            auction_volume=auction.volume if auction else 0,
            is_halted=self.is_halted,
        )


def open_market(rulebook: Rulebook, listing: Listing, day: ExchangeDay) -> SymbolMarket:
    """Start a day with empty books, according to the listing and its status."""
    instrument, statuses = listing.instrument, rulebook.statuses
    symbol, status = instrument.symbol, instrument.status
    special = _is_special(rulebook, listing)
    is_first_day = listing.is_first_day or statuses.is_first_day(status)
    band = _band_of(rulebook, listing)
    return SymbolMarket(
        replace(listing, is_special=special, is_first_day=is_first_day),
        day,
        band,
        price_grid(rulebook, instrument, band),
        even=Book(symbol, Lot.EVEN),
        odd=Book(symbol, Lot.ODD),
        late=Book(symbol, Lot.EVEN),
        is_halted=not statuses.is_tradable(status),
    )


def _is_special(rulebook: Rulebook, listing: Listing) -> bool:
    return listing.is_special or rulebook.statuses.has_special_band(listing.instrument.status)


def _band_of(rulebook: Rulebook, listing: Listing) -> Band:
    special = _is_special(rulebook, listing)
    return listing.band or rulebook.band(listing.instrument, listing.reference, special=special)


def with_warrant_bands(rulebook: Rulebook, listings: Iterable[Listing]) -> list[Listing]:
    """Give each covered warrant the band derived from its underlying share's band of that day.

    ceiling = reference + (share's ceiling - its reference) / ratio, the floor likewise (PHS rules
    for covered warrants). A warrant whose share is not listed keeps its band.
    """
    every, found = list(listings), []
    shares = {listing.instrument.symbol: listing for listing in every}
    for listing in every:
        share = shares.get(listing.underlying or "")
        if share is None or listing.ratio is None:
            found.append(listing)
            continue
        band = rulebook.warrant_band(
            listing.reference,
            underlying_reference=share.reference,
            underlying=_band_of(rulebook, share),
            ratio=listing.ratio,
        )
        found.append(replace(listing, band=band))
    return found


def next_reference(rulebook: Rulebook, market: SymbolMarket) -> int:
    """Return tomorrow's reference.

    HOSE and HNX: the close. UPCOM: the average of the day's even-lot trades, to the nearest tick,
    the higher of two. Without trades the reference carries over. Source: HSC rule pages of May
    2025.
    """
    totals, instrument = market.totals, market.listing.instrument
    if not totals.volume:
        return market.listing.reference
    if instrument.exchange is not Exchange.UPCOM:
        return market.anchor if totals.close is None else totals.close
    return rulebook.ticks_of(instrument).average(totals.value, totals.volume)


def next_listing(rulebook: Rulebook, market: SymbolMarket) -> Listing:
    """Return tomorrow's listing. UPCOM keeps the wide band until a round-lot price exists.

    A short halt and a method like "new listing" last one day. A warrant's band is as wide as
    today's, around the new reference; it applies if the underlying share is not listed here (else
    `with_warrant_bands` replaces it), until somebody overrides the listing.
    """
    old, is_untraded = market.listing, market.totals.last is None
    keeps_wide = old.instrument.exchange is Exchange.UPCOM and is_untraded
    status = replace(old.instrument.status, method=TradingMethod.NRM, is_halted=False)
    reference = next_reference(rulebook, market)
    band, move = None, reference - old.reference
    if old.instrument.kind is InstrumentKind.CW:
        floor = max(market.band.floor + move, WARRANT_FLOOR_MIN)
        band = Band(market.band.ceiling + move, floor)
    return replace(
        old,
        instrument=replace(old.instrument, status=status),
        reference=reference,
        is_special=old.is_special and keeps_wide,
        is_first_day=old.is_first_day and is_untraded,
        band=band,
    )
