"""The timetable of a trading day on an exchange: phases by local time, order types in each.

A phase ends where the next one starts: 09:15:00.000 belongs to the later one. Every exchange has
one plan for its normal symbols and one for those under restricted trading. On HOSE the latter are
matched in call auctions only (CA), whose last minutes are locked: new orders are taken, none is
changed or cancelled. Source: HSC Securities, HSX rules for restricted shares.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from typing import Final

from bot.domain.errors import RuleDataError
from bot.domain.instrument import Lot, Phase
from bot.domain.order import OrderType
from bot.domain.rule_data import RuleData

Accepted = Mapping[tuple[Phase, Lot], frozenset[OrderType]]

WEEKDAYS: Final = ("MON", "TUE", "WED", "THU", "FRI")


@dataclass(frozen=True, slots=True)
class PhaseBoundary:
    """An instant (UTC) and the phase that begins there."""

    at: datetime
    phase: Phase


@dataclass(frozen=True, slots=True)
class PhaseSpan:
    """A part of the day, up to the start of the next. `step` distinguishes parts of one phase.

    `ends_in_uncross`: the collected orders are matched at one price at its end. `is_locked`: no
    order may be changed or cancelled, whatever the phase allows. `put_through`: negotiated deals
    take place alongside.
    """

    start: time
    phase: Phase
    step: str = ""
    ends_in_uncross: bool = False
    put_through: bool = False
    is_locked: bool = False


@dataclass(frozen=True, slots=True)
class Timetable:
    """The spans of one trading day from midnight, ascending; the first and the last are CLOSED."""

    spans: tuple[PhaseSpan, ...]
    _starts: tuple[time, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_starts", tuple(span.start for span in self.spans))

    @classmethod
    def from_data(cls, data: RuleData) -> "Timetable":
        """Read a list of spans. Raises RuleDataError unless they cover a whole day."""
        spans = []
        for row in data.rows():
            row.allow("start", "phase", "step", "ends_in_uncross", "put_through")
            start, phase = row["start"].time_of_day(), row["phase"].member(Phase)
            flags = (row.get("ends_in_uncross"), row.get("put_through"))
            step, is_set = row.get("step"), [flag.flag() if flag else False for flag in flags]
            spans.append(PhaseSpan(start, phase, step.text() if step else "", *is_set))
        closed = [at for at, span in enumerate(spans) if span.phase is Phase.CLOSED]
        starts = [span.start for span in spans]
        is_whole = len(spans) > 2 and closed == [0, len(spans) - 1] and starts[0] == time(0)
        if not is_whole or starts != sorted(set(starts)):
            raise RuleDataError(data.place, "ascending spans from 00:00, CLOSED at both ends", "")
        return cls(tuple(spans))

    def span_at(self, local: time) -> PhaseSpan:
        """Return the span that contains a local time of a trading day."""
        return self.spans[bisect_right(self._starts, local) - 1]

    def next_change(self, local: time) -> PhaseSpan | None:
        """Return the first span after `local` that begins another phase; None if the day has no
        more.
        """
        index = bisect_right(self._starts, local)
        phase = self.spans[index - 1].phase
        return next((span for span in self.spans[index:] if span.phase is not phase), None)

    def next_span(self, local: time) -> PhaseSpan | None:
        """Return the first span after `local`; None if the day has no more."""
        index = bisect_right(self._starts, local)
        return self.spans[index] if index < len(self.spans) else None

    def until(self, local: time) -> "Timetable":
        """Return the same day closed from `local` on; what came after that is dropped."""
        kept = tuple(span for span in self.spans if span.start < local)
        if kept[-1].phase is Phase.CLOSED:
            return self
        return Timetable((*kept, PhaseSpan(local, Phase.CLOSED)))

    @property
    def opening(self) -> PhaseSpan:
        """The first span that is not CLOSED."""
        return self.spans[1]

    @property
    def last_price(self) -> time:
        """The local time from which the last price is the day's close: the end of the closing
        auction, without one that of the day. What trades after the auction does so at its price.
        """
        pairs = zip(self.spans, self.spans[1:], strict=False)
        ends = (after.start for span, after in pairs if span.phase is Phase.PRE_CLOSED)
        return next(ends, self.spans[-1].start)

    @property
    def uncrosses(self) -> tuple[time, ...]:
        """Local times at which collected orders are matched at one price."""
        pairs = zip(self.spans, self.spans[1:], strict=False)
        return tuple(after.start for span, after in pairs if span.ends_in_uncross)


@dataclass(frozen=True, slots=True)
class DayPlan:
    """The plan trades on trading days whose `date.weekday` is in `weekdays`."""

    timetable: Timetable
    accepted: Accepted
    weekdays: frozenset[int] = frozenset(range(len(WEEKDAYS)))

    def trades_on(self, day: date) -> bool:
        return day.weekday() in self.weekdays


def restricted_plan(data: RuleData, normal: DayPlan, on: date | None) -> DayPlan:
    """Read how symbols under restricted trading trade; anything not given is as on a normal day."""
    version = data.version(on)
    weekdays = version.get("weekdays")
    if weekdays is not None:
        days = set()
        for row in weekdays.rows():
            if row.text() not in WEEKDAYS:
                raise RuleDataError(row.place, f"one of {', '.join(WEEKDAYS)}", row.text())
            days.add(WEEKDAYS.index(row.text()))
        return DayPlan(normal.timetable, normal.accepted, frozenset(days))
    spans, ends, accepted = [], [], {}
    for name in ("opening_auction", "periodic", "closing_auction"):
        auction = version[name]
        phase = auction["phase"].member(Phase)
        accepted[phase, Lot.EVEN] = frozenset(auction["types"].members(OrderType))
        if name == "periodic":
            spans += _periodic_auctions(auction, phase)
            ends += [window.rows()[1].time_of_day() for window in auction["windows"].rows()]
        else:
            start = auction["start"].time_of_day()
            spans.append(PhaseSpan(start, phase, ends_in_uncross=True, put_through=True))
            ends.append(auction["end"].time_of_day())
    # The normal day fills the time around and between the auctions: before, over lunch, after the
    # close.
    first, last = min(span.start for span in spans), max(ends)
    spans += [span for span in normal.timetable.spans if span.start < first or span.start >= last]
    taken = {span.start for span in spans}
    spans += [normal.timetable.span_at(end) for end in ends if end not in taken]
    return DayPlan(Timetable(tuple(sorted(spans, key=lambda span: span.start))), accepted)


def _periodic_auctions(periodic: RuleData, phase: Phase) -> list[PhaseSpan]:
    """Return the spans of consecutive call auctions: orders are collected, then locked."""
    length = timedelta(minutes=periodic["minutes"].integer())
    lock = timedelta(minutes=periodic["locked_last_minutes"].integer())
    if not timedelta(0) < lock < length:
        raise RuleDataError(periodic.place, "auctions longer than their lock", str(length))
    spans = []
    for window in periodic["windows"].rows():
        start, end = (datetime.combine(date.min, at.time_of_day()) for at in window.rows())
        if start >= end or (end - start) % length:
            raise RuleDataError(window.place, f"a whole number of auctions of {length}", "")
        while start < end:
            spans.append(PhaseSpan(start.time(), phase, "COLLECT", put_through=True))
            start += length
            locked = PhaseSpan((start - lock).time(), phase, "LOCKED", is_locked=True)
            spans.append(replace(locked, ends_in_uncross=True, put_through=True))
    return spans


# ------------------------------------------------------------------------------- instants and times
