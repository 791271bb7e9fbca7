"""How a trading day goes for a symbol: the phases, and the order types taken in each.

Every exchange has one plan for its normal symbols and one for those under restricted trading. On
HOSE the latter are matched in call auctions only (CA), of which the last minutes are locked: orders
come in, none is changed or cancelled. Source: HSC Securities, HSX rules for restricted shares.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Final

from bot.domain.errors import RuleDataError
from bot.domain.instrument import Lot, Phase
from bot.domain.order import OrderType
from bot.domain.rule_data import RuleData
from bot.domain.timetable import PhaseSpan, Timetable

Accepted = Mapping[tuple[Phase, Lot], frozenset[OrderType]]

WEEKDAYS: Final = ("MON", "TUE", "WED", "THU", "FRI")
_ANY_DAY: Final = date(2000, 1, 1)


@dataclass(frozen=True, slots=True)
class DayPlan:
    """`weekdays` are the trading days on which the plan trades, as `date.weekday` counts them."""

    timetable: Timetable
    accepted: Accepted
    weekdays: frozenset[int] = frozenset(range(len(WEEKDAYS)))

    def trades_on(self, day: date) -> bool:
        """Return whether a trading day of the exchange is one of the plan, too."""
        return day.weekday() in self.weekdays


def restricted_plan(data: RuleData, normal: DayPlan, on: date | None) -> DayPlan:
    """Read how symbols under restricted trading trade; what is not said is as on a normal day."""
    version = data.version(on)
    weekdays = version.get("weekdays")
    if weekdays is not None:
        return DayPlan(normal.timetable, normal.accepted, frozenset(map(_weekday, weekdays.rows())))
    spans = sorted(_auction_spans(version), key=lambda span: span.start)
    types = {
        (version[name]["phase"].member(Phase), Lot.EVEN): version[name]["types"].members(OrderType)
        for name in ("opening_auction", "periodic", "closing_auction")
    }
    accepted = {where: frozenset(taken) for where, taken in types.items()}
    return DayPlan(_with_gaps_of(normal.timetable, spans, _ends(version)), accepted)


def _weekday(row: RuleData) -> int:
    if row.text() not in WEEKDAYS:
        raise RuleDataError(row.place, f"one of {', '.join(WEEKDAYS)}", row.text())
    return WEEKDAYS.index(row.text())


def _auction_spans(version: RuleData) -> Iterator[PhaseSpan]:
    for name in ("opening_auction", "closing_auction"):
        auction = version[name]
        start, phase = auction["start"].time_of_day(), auction["phase"].member(Phase)
        yield PhaseSpan(start, phase, ends_in_uncross=True, put_through=True)
    periodic = version["periodic"]
    phase = periodic["phase"].member(Phase)
    for start, locked in _periods(periodic):
        yield PhaseSpan(start, phase, "COLLECT", put_through=True)
        yield PhaseSpan(
            locked, phase, "LOCKED", ends_in_uncross=True, put_through=True, is_locked=True
        )


def _periods(periodic: RuleData) -> Iterator[tuple[time, time]]:
    """Yield start and locking time of each call auction."""
    length = timedelta(minutes=periodic["minutes"].integer())
    lock = timedelta(minutes=periodic["locked_last_minutes"].integer())
    if not timedelta(0) < lock < length:
        raise RuleDataError(periodic.place, "auctions longer than their lock", str(length))
    for window in periodic["windows"].rows():
        start, end = (_on_any_day(edge) for edge in window.rows())
        if start >= end or (end - start) % length:
            raise RuleDataError(window.place, f"a whole number of auctions of {length}", "")
        while start < end:
            yield start.time(), (start + length - lock).time()
            start += length


def _ends(version: RuleData) -> list[time]:
    """Return where an auction ends and perhaps none follows."""
    windows = version["periodic"]["windows"].rows()
    ends = [window.rows()[1].time_of_day() for window in windows]
    ends += [version[name]["end"].time_of_day() for name in ("opening_auction", "closing_auction")]
    return ends


def _with_gaps_of(normal: Timetable, spans: list[PhaseSpan], ends: list[time]) -> Timetable:
    """Put the normal day around and between the auctions: before, over lunch, after the close."""
    first, last = spans[0].start, max(ends)
    around = [span for span in normal.spans if span.start < first or span.start >= last]
    taken = {span.start for span in (*spans, *around)}
    gaps = [normal.span_at(end) for end in ends if end not in taken]
    return Timetable(tuple(sorted((*around, *spans, *gaps), key=lambda span: span.start)))


def _on_any_day(edge: RuleData) -> datetime:
    return datetime.combine(_ANY_DAY, edge.time_of_day())
