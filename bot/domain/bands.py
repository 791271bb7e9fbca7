"""The daily price band: how far a price may move from the reference. Exact whole-number arithmetic.

Ceiling rounded down, floor rounded up, each to the tick of the zone that the unrounded limit falls
in, and at least one tick away from the reference. Source: HOSE Decision 352/QĐ-SGDHCM, art. 9, and
Vietnam Exchange Decision 17/QĐ-HĐTV, art. 31; checked against daily prices of June to August 2025.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import floor as floored
from typing import Final

from bot.domain.rule_data import RuleData
from bot.domain.ticks import TickTable

WARRANT_FLOOR_MIN: Final = 10
"""VND. A covered warrant's floor is at least this. Source: PHS rules for covered warrants."""


@dataclass(frozen=True, slots=True)
class Band:
    """The highest and lowest price of the day, both allowed."""

    ceiling: int
    floor: int

    def holds(self, price: int) -> bool:
        """Return whether `price` lies in the band."""
        return self.floor <= price <= self.ceiling


@dataclass(frozen=True, slots=True)
class BandWidth:
    """Percent of the reference; `special` on the days that `special_band` of the rules names."""

    normal: int
    special: int

    @classmethod
    def from_data(cls, data: RuleData) -> "BandWidth":
        """Read `percent` and `special_percent`."""
        return cls(data["percent"].integer(), data["special_percent"].integer())


def band_around(reference: int, percent: int, ticks: TickTable) -> Band:
    """Return the band of a share, fund certificate or ETF."""
    move = Fraction(reference * percent, 100)
    band = _rounded(reference + move, reference - move, ticks)
    return _one_tick_apart(band, reference, ticks, lowest=reference)


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
    band = _one_tick_apart(_rounded(high, low, ticks), reference, ticks, lowest=WARRANT_FLOOR_MIN)
    return Band(band.ceiling, max(band.floor, WARRANT_FLOOR_MIN))


def _rounded(high: Fraction, low: Fraction, ticks: TickTable) -> Band:
    """Round the ceiling down and the floor up, each by the tick at its own unrounded value."""
    tick_high, tick_low = ticks.tick_at(floored(high)), ticks.tick_at(floored(low))
    return Band(high // tick_high * tick_high, -(-low // tick_low) * tick_low)


def _one_tick_apart(band: Band, reference: int, ticks: TickTable, *, lowest: int) -> Band:
    """Open a side that rounding has closed by one tick; a floor of nothing becomes `lowest`."""
    ceiling = band.ceiling if band.ceiling > reference else ticks.up(reference)
    floor = band.floor if band.floor < reference else ticks.down(reference)
    return Band(ceiling, floor if floor > 0 else lowest)
