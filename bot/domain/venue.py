"""The rules of one exchange, ready to be looked up."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final

from bot.domain.errors import NoRule
from bot.domain.instrument import Exchange, InstrumentKind, Lot, Phase
from bot.domain.order import OrderType
from bot.domain.prices import BandWidth, TickTable
from bot.domain.rule_data import Member, RuleData
from bot.domain.timetable import DayPlan, Timetable, restricted_plan

_EVEN: Final = Lot.EVEN
_ODD: Final = Lot.ODD
"""Asked with every order: on Python 3.11 a member costs ten times as much through its class."""


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

    `restricted` is the plan of symbols under restricted trading, None without known rules.
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
    """The day by which all its shares are to be on HOSE; None: nothing is announced."""

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
            # announced, so it lies ahead of whatever day the rules are read for
            moved_by=moves.version(None)["all_moved_by"].day() if moves else None,
        )

    def ticks_of(self, kind: InstrumentKind) -> TickTable:
        """Return the price grid of a kind of instrument. Raises NoRule when it is not traded."""
        if kind not in self.ticks:
            raise NoRule(f"tick size of {kind} on {self.exchange}")
        return self.ticks[kind]

    def band_width(self, kind: InstrumentKind) -> BandWidth:
        """Return the band of a kind. Raises NoRule for bonds, which have none, and for warrants:
        theirs comes from the underlying share.
        """
        if self.band is None or kind in {InstrumentKind.CW, InstrumentKind.BOND}:
            raise NoRule(f"band of {kind} on {self.exchange}")
        return self.band


def _renamed(data: RuleData) -> dict[OrderType, OrderType]:
    return {_key(k, v, OrderType): v.member(OrderType) for k, v in data.items()}


def _key(text: str, entry: RuleData, enum: type[Member]) -> Member:
    return RuleData(text, entry.place).member(enum)
