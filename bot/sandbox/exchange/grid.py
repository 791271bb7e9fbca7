"""The prices of one symbol on one day: every tick from the floor to the ceiling."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from bot.domain.instrument import Instrument
from bot.domain.rulebook import Rulebook
from bot.domain.venue import Band, TickTable


@dataclass(frozen=True, slots=True)
class PriceGrid:
    """Valid prices, ascending; both limits are inclusive. `ticks` know the prices beyond them."""

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
        """Return the valid price closest to `price`, of two the higher."""
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
