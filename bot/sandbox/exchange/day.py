"""One trading day: the current step of an exchange, and the valid prices of a symbol."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bot.domain.instrument import Exchange, Instrument, Lot, Phase
from bot.domain.rulebook import Rulebook
from bot.domain.status import SymbolStatus
from bot.domain.venue import Band, TickTable

CALL_AUCTIONS: Final = frozenset({Phase.OPEN, Phase.PRE_CLOSED})
AUCTIONS: Final = CALL_AUCTIONS | {Phase.CA}
"""The periodic auctions of restricted trading too."""
TRADING: Final = CALL_AUCTIONS | {Phase.PROGRESS}
LIMIT_ORDERS_END: Final = frozenset({Phase.PUT_THROUGH, Phase.POST_SESSION, Phase.CLOSED})
"""On entering one of these phases every limit order lapses and the close is fixed."""


class ExchangeDay:
    """The current step of the day for symbols of one kind, with what it allows looked up once.

    Symbols under restricted trading have their own day. `is_collecting`: orders wait for an
    uncross, in an auction and in the first part of the after-hours phase, which ends in a batch at
    the close (HSC and FPTS rule pages for HNX).
    """

    def __init__(
        self, rulebook: Rulebook, exchange: Exchange, at: datetime, status: SymbolStatus
    ) -> None:
        self.exchange = exchange
        self.is_restricted = rulebook.statuses.is_restricted(status)
        self.lots = rulebook.venues[exchange].lots
        self._rulebook = rulebook
        self._status = status
        self.enter(at)

    def enter(self, at: datetime) -> None:
        """Move to the timetable's step at `at`."""
        rulebook, exchange, status = self._rulebook, self.exchange, self._status
        span = rulebook.span_at(exchange, at, status)
        self.phase = phase = span.phase if span else Phase.CLOSED
        self.is_auction = phase in AUCTIONS
        self.accepted = {lot: rulebook.accepted_types(exchange, phase, lot, status) for lot in Lot}
        self.is_taking = bool(self.accepted[Lot.EVEN])
        self.may_amend = rulebook.may_amend(exchange, phase, at, status)
        self.may_cancel = rulebook.may_cancel(exchange, phase, at, status)
        self.ends_in_uncross = span is not None and span.ends_in_uncross
        uncross = rulebook.next_uncross(exchange, at, status)
        boundary = rulebook.next_phase_change(exchange, at, status)
        self.is_collecting = uncross is not None and uncross <= boundary.at
        self.due = self.due_after(at)

    def due_after(self, at: datetime) -> datetime:
        """Return the next instant, strictly after `at`, at which something changes by itself."""
        return self._rulebook.next_step(self.exchange, at, self._status)


@dataclass(frozen=True, slots=True)
class PriceGrid:
    """Valid prices, ascending; both limits are inclusive. `ticks` covers prices beyond them."""

    ticks: TickTable
    prices: tuple[int, ...]
    members: frozenset[int]
    ceiling: int
    floor: int

    def up(self, price: int) -> int:
        """Return the next price above, the ceiling at most."""
        return self.prices[min(bisect_right(self.prices, price), len(self.prices) - 1)]

    def down(self, price: int) -> int:
        """Return the next price below, the floor at least."""
        return self.prices[max(bisect_left(self.prices, price) - 1, 0)]

    def nearest(self, price: int) -> int:
        """Return the valid price closest to `price`, the higher of two."""
        if price in self.members:
            return price
        return min((self.up(price), self.down(price)), key=lambda near: abs(near - price))


def price_grid(rulebook: Rulebook, instrument: Instrument, band: Band) -> PriceGrid:
    """List the ticks of the band. A limit that is itself off the tick is left out."""
    ticks = rulebook.ticks_of(instrument)
    prices: list[int] = []
    price = band.floor if ticks.is_on_grid(band.floor) else ticks.up(band.floor)
    for below, tick in ticks.zones:
        zone_end = band.ceiling + 1 if below is None else min(below, band.ceiling + 1)
        zone = range(price, zone_end, tick)
        prices += zone
        price += len(zone) * tick
    return PriceGrid(ticks, tuple(prices), frozenset(prices), prices[-1], prices[0])
