"""The hours of a trading day in which orders are taken, from the first auction to the last phase.

A day without trading has none, so what is due before an opening is due on trading days only.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final

from bot.domain.instrument import EXCHANGE_TZ, Exchange, Lot, Phase
from bot.domain.rulebook import Rulebook

_BOUNDARIES_MAX: Final = 60
"""How many phase boundaries are searched: more than four days have; no holiday has any."""
_INSTANT: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Hours:
    """From the first phase of a day that takes orders to the end of the last one, in UTC."""

    opens: datetime
    closes: datetime

    @property
    def day(self) -> date:
        """The local date."""
        return self.opens.astimezone(EXCHANGE_TZ).date()


def hours_at(rulebook: Rulebook, exchanges: Iterable[Exchange], at: datetime) -> Hours | None:
    """Return the hours under way at `at`, else the next ones; None if no calendar has any."""
    each = [hours for one in exchanges if (hours := _hours_of(rulebook, one, at)) is not None]
    if not each:
        return None
    first = min(each, key=lambda hours: hours.opens)
    same_day = [hours for hours in each if hours.day == first.day]
    return Hours(first.opens, max(hours.closes for hours in same_day))


def _hours_of(rulebook: Rulebook, exchange: Exchange, at: datetime) -> Hours | None:
    midnight = at.astimezone(EXCHANGE_TZ).replace(hour=0, minute=0, second=0, microsecond=0)
    looked: datetime = midnight - _INSTANT
    opens: datetime | None = None
    closes: datetime | None = None
    for _ in range(_BOUNDARIES_MAX):
        boundary = rulebook.next_phase_change(exchange, looked)
        looked = boundary.at
        if rulebook.accepted_types(exchange, boundary.phase, Lot.EVEN):
            opens, closes = opens or looked, None
        elif closes is None:
            closes = looked
        if boundary.phase is Phase.CLOSED:
            if opens is not None and closes is not None and closes > at:
                return Hours(opens, closes)
            opens = closes = None
    return None
