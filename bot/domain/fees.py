"""What a trade costs, and when what was traded is there."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Final

from bot.domain.calendar import TradingCalendar
from bot.domain.errors import NoRule, RuleDataError
from bot.domain.instrument import InstrumentKind
from bot.domain.rule_data import RuleData
from bot.domain.timetable import instant_of

_PPM: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Fees:
    """Rates in parts per million. The exchange's own fee is part of the broker's."""

    broker_ppm: int
    broker_cap_ppm: int
    sale_tax_ppm: int
    dividend_tax_ppm: int

    def __post_init__(self) -> None:
        if self.broker_ppm > self.broker_cap_ppm:
            wanted = f"at most the legal cap of {self.broker_cap_ppm} ppm"
            raise RuleDataError("broker_fee_ppm", wanted, self.broker_ppm)

    @classmethod
    def from_data(cls, data: RuleData, on: date | None) -> "Fees":
        """Read the rates in effect on a day (None: the newest)."""
        broker = data["broker"].version(on)
        taxes = (data[name].version(on)["ppm"].integer() for name in ("sale_tax", "dividend_tax"))
        return cls(broker["ppm"].integer(), broker["cap_ppm"].integer(), *taxes)


@dataclass(frozen=True, slots=True)
class Settlement:
    """Trading days until delivery, by kind, and its local time, for shares and cash alike."""

    days: Mapping[InstrumentKind, int]
    delivered_at: time

    @classmethod
    def from_data(cls, data: RuleData, on: date | None) -> "Settlement":
        """Read the cycle in effect on a day (None: the newest)."""
        version = data.version(on)
        kinds = {k: version["days"][k].integer() for k in InstrumentKind}
        return cls(kinds, version["delivered_at"].time_of_day())

    def settles_at(
        self, kind: InstrumentKind, trade_date: date, calendar: TradingCalendar
    ) -> datetime:
        """Return the instant (UTC) of delivery. Raises CalendarEnds."""
        if kind not in self.days:
            raise NoRule(f"settlement of {kind}")
        return instant_of(calendar.add_trading_days(trade_date, self.days[kind]), self.delivered_at)


def share_of(amount: int, ppm: int) -> int:
    """Return `ppm` parts per million of `amount` VND, rounded half up to whole VND."""
    return (amount * ppm + _PPM // 2) // _PPM
