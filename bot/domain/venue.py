"""The rules of one exchange, ready to be looked up."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final

from bot.domain.bands import BandWidth
from bot.domain.day_plan import Accepted, DayPlan, restricted_plan
from bot.domain.errors import NoRule
from bot.domain.instrument import Exchange, InstrumentKind, Lot, Phase
from bot.domain.order import OrderType
from bot.domain.rule_data import Member, RuleData
from bot.domain.ticks import TickTable
from bot.domain.timetable import Timetable

_EVEN: Final = Lot.EVEN
_ODD: Final = Lot.ODD
"""Asked with every order: on Python 3.11 a member costs ten times as much through its class."""

Listed = Mapping[Phase, tuple[OrderType, ...]]
Renamed = Mapping[OrderType, OrderType]


@dataclass(frozen=True, slots=True)
class LotSizes:
    """Quantities an exchange takes: multiples of `board_lot`, and `odd_lots` (perhaps empty)."""

    board_lot: int
    odd_lots: range
    max_quantity: int | None

    def lot_of(self, quantity: int) -> Lot | None:
        """Return the lot of a quantity; None when the exchange takes no such order."""
        most = self.max_quantity
        if quantity % self.board_lot == 0 and quantity > 0 and (most is None or quantity <= most):
            return _EVEN
        return _ODD if quantity in self.odd_lots else None


@dataclass(frozen=True, slots=True)
class Venue:
    """One exchange. `band` is None where prices move freely (listed bonds).

    `restricted` is the plan of symbols under restricted trading, None where nothing is known of it.
    """

    exchange: Exchange
    ticks: Mapping[InstrumentKind, TickTable]
    band: BandWidth | None
    lots: LotSizes
    plan: DayPlan
    restricted: DayPlan | None
    listed: Listed
    canonical: Renamed
    routed: Renamed
    may_amend: frozenset[Phase]
    may_cancel: frozenset[Phase]
    moved_by: date | None
    """The day by which all its shares are to be on HOSE; None: nothing is announced."""

    @classmethod
    def from_data(
        cls, exchange: Exchange, data: RuleData, restricted: RuleData | None, on: date | None
    ) -> "Venue":
        """Read the rules of `exchange` that are in effect on a day (None: the newest)."""
        changes = data["changes"].version(on)
        plan = _plan(data, on)
        return cls(
            exchange=exchange,
            ticks=_ticks(data["ticks"].version(on)["kinds"]),
            band=_band(data["band"], on),
            lots=_lots(data, on),
            plan=plan,
            restricted=restricted_plan(restricted, plan, on) if restricted else None,
            listed=_listed(data["broker_listed_types"].version(on)["types"]),
            canonical=_renamed(data["same_types"].version(on)["types"]),
            routed=_renamed(data["routed_types"].version(on)["types"]),
            may_amend=frozenset(changes["amend"].members(Phase)),
            may_cancel=frozenset(changes["cancel"].members(Phase)),
            moved_by=_moved_by(data),
        )

    def ticks_of(self, kind: InstrumentKind) -> TickTable:
        """Return the price grid of a kind of instrument. Raises NoRule when it is not traded."""
        if kind not in self.ticks:
            raise NoRule(f"tick size of {kind} on {self.exchange}")
        return self.ticks[kind]

    def plan_of(self, *, is_restricted: bool) -> DayPlan:
        """Return the plan of a day. Raises NoRule where restricted trading has none."""
        if not is_restricted:
            return self.plan
        if self.restricted is None:
            raise NoRule(f"restricted trading on {self.exchange}")
        return self.restricted

    def band_width(self, kind: InstrumentKind) -> BandWidth:
        """Return the band of a kind of instrument. Raises NoRule for bonds, and for warrants,
        whose band comes from the underlying share."""
        if self.band is None or kind in {InstrumentKind.CW, InstrumentKind.BOND}:
            raise NoRule(f"band of {kind} on {self.exchange}")
        return self.band


def _ticks(data: RuleData) -> dict[InstrumentKind, TickTable]:
    return {_key(k, v, InstrumentKind): TickTable.from_data(v) for k, v in data.items()}


def _band(data: RuleData, on: date | None) -> BandWidth | None:
    return None if data.value is None else BandWidth.from_data(data.version(on))


def _lots(data: RuleData, on: date | None) -> LotSizes:
    lots, most = data["lots"].version(on), data["max_quantity"].version(on)
    return LotSizes(
        board_lot=lots["board_lot"].integer(),
        odd_lots=range(lots["odd_min"].integer(), lots["odd_max"].integer() + 1),
        max_quantity=most["shares"].integer_or_none(),
    )


def _plan(data: RuleData, on: date | None) -> DayPlan:
    return DayPlan(
        Timetable.from_data(data["phases"].version(on)["spans"]),
        _accepted(data["accepted_types"].version(on)["types"]),
    )


def _accepted(data: RuleData) -> Accepted:
    return {
        (_key(phase, types, Phase), _key(lot, by_phase, Lot)): frozenset(types.members(OrderType))
        for lot, by_phase in data.items()
        for phase, types in by_phase.items()
    }


def _listed(data: RuleData) -> Listed:
    return {_key(k, v, Phase): v.members(OrderType) for k, v in data.items()}


def _renamed(data: RuleData) -> Renamed:
    return {_key(k, v, OrderType): v.member(OrderType) for k, v in data.items()}


def _moved_by(data: RuleData) -> date | None:
    """Return an announced day whatever day the rules are read for: it lies ahead of them all."""
    moves = data.get("moves_to_hose")
    return moves.version(None)["all_moved_by"].day() if moves else None


def _key(text: str, entry: RuleData, enum: type[Member]) -> Member:
    return RuleData(text, entry.place).member(enum)
