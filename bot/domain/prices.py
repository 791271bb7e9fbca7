"""The prices that an order may carry: the tick sizes, and the daily band around the reference.

Exact whole-number arithmetic, in VND. Ceiling rounded down, floor rounded up, each to the tick of
the zone that the unrounded limit falls in, and at least one tick away from the reference. Source:
HOSE Decision 352/QĐ-SGDHCM, art. 9, and Vietnam Exchange Decision 17/QĐ-HĐTV, art. 31; checked
against daily prices of June to August 2025.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import floor as floored
from typing import Final

from bot.domain.errors import RuleDataError
from bot.domain.rule_data import RuleData

WARRANT_FLOOR_MIN: Final = 10
"""VND. A covered warrant's floor is at least this. Source: PHS rules for covered warrants."""


@dataclass(frozen=True, slots=True)
class TickTable:
    """Price zones, ascending: `(below, tick)`, the last `below` None; limits are on both grids."""

    zones: tuple[tuple[int | None, int], ...]

    @classmethod
    def from_data(cls, data: RuleData) -> "TickTable":
        """Read a list of `{below, tick}`. Raises RuleDataError when it is no ascending grid."""
        zones = tuple((r["below"].integer_or_none(), r["tick"].integer()) for r in data.rows())
        if not zones:
            raise RuleDataError(data.place, "at least one zone", zones)
        limits, ticks = [below for below, _ in zones[:-1]], [tick for _, tick in zones]
        inner = [limit for limit in limits if limit is not None]
        is_ascending = zones[-1][0] is None and inner == limits == sorted(set(inner))
        pairs = zip(inner, ticks, ticks[1:], strict=False)
        if min(ticks) < 1 or not is_ascending or any(b % t or b % u for b, t, u in pairs):
            raise RuleDataError(data.place, "ascending zones on a common grid", zones)
        return cls(zones)

    def tick_at(self, price: int) -> int:
        """Return the tick of the zone that holds `price`; a limit belongs to the zone above it."""
        for below, tick in self.zones:
            if below is None or price < below:
                return tick
        raise AssertionError("the last zone has no end")

    def is_on_grid(self, price: int) -> bool:
        return price > 0 and price % self.tick_at(price) == 0

    def up(self, price: int) -> int:
        """Return the next grid price above `price`; p + tick(p) when p is on the grid."""
        tick = self.tick_at(price)
        return (price // tick + 1) * tick

    def down(self, price: int) -> int:
        """Return the next grid price below `price`, 0 at its end; p - tick(p - 1) on the grid."""
        tick = self.tick_at(price - 1)
        return (price - 1) // tick * tick


@dataclass(frozen=True, slots=True)
class Band:
    """The highest and lowest price of the day, both allowed."""

    ceiling: int
    floor: int

    def holds(self, price: int) -> bool:
        return self.floor <= price <= self.ceiling


@dataclass(frozen=True, slots=True)
class BandWidth:
    """Percent of the reference; `special` on the days that `special_band` of the rules names."""

    normal: int
    special: int


def band_around(reference: int, percent: int, ticks: TickTable) -> Band:
    """Return the band of a share, fund certificate or ETF."""
    move = Fraction(reference * percent, 100)
    return _rounded(reference, reference + move, reference - move, ticks, lowest=reference)


def warrant_band(
    reference: int,
    *,
    underlying_reference: int,
    underlying: Band,
    ratio: Fraction,
    ticks: TickTable,
) -> Band:
    """Return the band of a covered warrant: the share's own move, divided by the exercise ratio."""
    high = reference + (underlying.ceiling - underlying_reference) / ratio
    low = reference - (underlying_reference - underlying.floor) / ratio
    band = _rounded(reference, high, low, ticks, lowest=WARRANT_FLOOR_MIN)
    return Band(band.ceiling, max(band.floor, WARRANT_FLOOR_MIN))


def _rounded(
    reference: int, high: Fraction, low: Fraction, ticks: TickTable, *, lowest: int
) -> Band:
    """Round each side by the tick at its own unrounded value; a side that this has closed opens by
    one tick, and a floor of nothing becomes `lowest`.
    """
    tick_high, tick_low = ticks.tick_at(floored(high)), ticks.tick_at(floored(low))
    ceiling, floor = high // tick_high * tick_high, -(-low // tick_low) * tick_low
    ceiling = ceiling if ceiling > reference else ticks.up(reference)
    floor = floor if floor < reference else ticks.down(reference)
    return Band(ceiling, floor if floor > 0 else lowest)
