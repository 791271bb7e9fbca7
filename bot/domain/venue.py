"""The rules of one exchange, ready for lookup: tick sizes, daily bands, lots, phases.

Prices are computed in whole VND. The ceiling is rounded down and the floor up, each to the tick of
the zone of the unrounded limit, and both are at least one tick away from the reference. Source:
HOSE Decision 352/QĐ-SGDHCM, art. 9, and Vietnam Exchange Decision 17/QĐ-HĐTV, art. 31; checked
against daily prices of June to August 2025.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from math import floor as floored
from typing import Final

from bot.domain.errors import NoRule, RuleDataError
from bot.domain.instrument import Exchange, InstrumentKind, Lot, Phase
from bot.domain.order import OrderType
from bot.domain.rule_data import Member, RuleData
from bot.domain.timetable import DayPlan, Timetable, restricted_plan

WARRANT_FLOOR_MIN: Final = 10
"""VND. A covered warrant's floor is at least this. Source: PHS rules for covered warrants."""


@dataclass(frozen=True, slots=True)
class TickTable:
    """Price zones, ascending: `(below, tick)`, the last `below` None; a zone limit is on both
    grids.
    """

    zones: tuple[tuple[int | None, int], ...]

    @classmethod
    def from_data(cls, data: RuleData) -> "TickTable":
        """Read a list of `{below, tick}`. Raises RuleDataError unless it is an ascending grid."""
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
        """Return the tick of the zone of `price`; a limit belongs to the zone above it."""
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
        """Return the next grid price below `price`, 0 at the bottom; p - tick(p - 1) on
        the grid.
        """
        tick = self.tick_at(price - 1)
        return (price - 1) // tick * tick

    def average(self, value: int, volume: int) -> int:
        """Return the grid price nearest to the average price, the higher of two."""
        below = self.down(value // volume + 1)
        above = self.up(below)
        return above if 2 * value >= (below + above) * volume else below


@dataclass(frozen=True, slots=True)
class Band:
    """The highest and lowest price of the day, both allowed."""

    ceiling: int
    floor: int

    def holds(self, price: int) -> bool:
        return self.floor <= price <= self.ceiling


@dataclass(frozen=True, slots=True)
class BandWidth:
    """Percent of the reference; `special` applies on the days that `special_band` of the rules
    names.
    """

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
    """Round each side by the tick at its own unrounded value. A side that rounding has moved onto
    the reference is moved out by one tick, and a floor of zero becomes `lowest`.
    """
    tick_high, tick_low = ticks.tick_at(floored(high)), ticks.tick_at(floored(low))
    ceiling, floor = high // tick_high * tick_high, -(-low // tick_low) * tick_low
    ceiling = ceiling if ceiling > reference else ticks.up(reference)
    floor = floor if floor < reference else ticks.down(reference)
    return Band(ceiling, floor if floor > 0 else lowest)


_EVEN: Final = Lot.EVEN
_ODD: Final = Lot.ODD
"""Looked up for every order: on Python 3.11 access through the enum class costs ten times
as much.
"""


@dataclass(frozen=True, slots=True)
class LotSizes:
    """Quantities an exchange takes: multiples of `board_lot`, and `odd_lots` (may be empty)."""

    board_lot: int
    odd_lots: range
    max_quantity: int | None

    def lot_of(self, quantity: int) -> Lot | None:
        """Return the lot of a quantity; None if the exchange takes no such order."""
        most = self.max_quantity
        if quantity % self.board_lot == 0 and quantity > 0 and (most is None or quantity <= most):
            return _EVEN
        return _ODD if quantity in self.odd_lots else None


@dataclass(frozen=True, slots=True)
class Venue:
    """One exchange. `band` is None where prices move freely (listed bonds).

    `restricted` is the plan of symbols under restricted trading, None if its rules are not known.
    """

    exchange: Exchange
    ticks: Mapping[InstrumentKind, TickTable]
    band: BandWidth | None
    lots: LotSizes
    plan: DayPlan
    restricted: DayPlan | None
    listed: Mapping[Phase, tuple[OrderType, ...]]
    canonical: Mapping[OrderType, OrderType]
    routed: Mapping[OrderType, OrderType]
    may_amend: frozenset[Phase]
    may_cancel: frozenset[Phase]
    moved_by: date | None
    """The day by which all its shares are to move to HOSE; None: no move is announced."""

    @classmethod
    def from_data(
        cls, exchange: Exchange, data: RuleData, restricted: RuleData | None, on: date | None
    ) -> "Venue":
        """Read the rules of `exchange` that are in effect on a day (None: the newest)."""
        changes, lots = data["changes"].version(on), data["lots"].version(on)
        band = None if data["band"].value is None else data["band"].version(on)
        same, routed = data["same_types"].version(on), data["routed_types"].version(on)
        listed, moves = data["broker_listed_types"].version(on), data.get("moves_to_hose")
        taken = data["accepted_types"].version(on)["types"]
        accepted = {
            (_key(phase, types, Phase), _key(lot, phases, Lot)): frozenset(types.members(OrderType))
            for lot, phases in taken.items()
            for phase, types in phases.items()
        }
        plan = DayPlan(Timetable.from_data(data["phases"].version(on)["spans"]), accepted)
        return cls(
            exchange=exchange,
            ticks={
                _key(kind, zones, InstrumentKind): TickTable.from_data(zones)
                for kind, zones in data["ticks"].version(on)["kinds"].items()
            },
            band=BandWidth(band["percent"].integer(), band["special_percent"].integer())
            if band
            else None,
            lots=LotSizes(
                board_lot=lots["board_lot"].integer(),
                odd_lots=range(lots["odd_min"].integer(), lots["odd_max"].integer() + 1),
                max_quantity=data["max_quantity"].version(on)["shares"].integer_or_none(),
            ),
            plan=plan,
            restricted=restricted_plan(restricted, plan, on) if restricted else None,
            listed={_key(k, v, Phase): v.members(OrderType) for k, v in listed["types"].items()},
            canonical=_renamed(same["types"]),
            routed=_renamed(routed["types"]),
            may_amend=frozenset(changes["amend"].members(Phase)),
            may_cancel=frozenset(changes["cancel"].members(Phase)),
            # announced, so it lies ahead whatever day the rules are read for
            moved_by=moves.version(None)["all_moved_by"].day() if moves else None,
        )

    def ticks_of(self, kind: InstrumentKind) -> TickTable:
        """Return the price grid of a kind of instrument. Raises NoRule if the exchange does not
        trade it.
        """
        if kind not in self.ticks:
            raise NoRule(f"tick size of {kind} on {self.exchange}")
        return self.ticks[kind]

    def band_width(self, kind: InstrumentKind) -> BandWidth:
        """Return the band of a kind. Raises NoRule for bonds, which have none, and for warrants,
        whose band comes from the underlying share.
        """
        if self.band is None or kind in {InstrumentKind.CW, InstrumentKind.BOND}:
            raise NoRule(f"band of {kind} on {self.exchange}")
        return self.band


def _renamed(data: RuleData) -> dict[OrderType, OrderType]:
    return {_key(k, v, OrderType): v.member(OrderType) for k, v in data.items()}


def _key(text: str, entry: RuleData, enum: type[Member]) -> Member:
    return RuleData(text, entry.place).member(enum)
