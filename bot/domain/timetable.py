"""The phases of a trading day of an exchange, by local time; 09:15:00.000 starts the next one."""

from bisect import bisect_right
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time

from bot.domain.errors import RuleDataError
from bot.domain.instrument import EXCHANGE_TZ, Phase
from bot.domain.rule_data import RuleData

_MIDNIGHT = time(0)


@dataclass(frozen=True, slots=True)
class PhaseBoundary:
    """An instant (UTC) and the phase that begins there."""

    at: datetime
    phase: Phase


@dataclass(frozen=True, slots=True)
class PhaseSpan:
    """A part of the day, up to the start of the next. `step` tells parts of one phase apart.

    `ends_in_uncross`: the orders collected are matched at one price at its end. `is_locked`: no
    order is changed or cancelled, whatever the phase allows. `put_through`: negotiated deals run
    alongside.
    """

    start: time
    phase: Phase
    step: str = ""
    ends_in_uncross: bool = False
    put_through: bool = False
    is_locked: bool = False


@dataclass(frozen=True, slots=True)
class Timetable:
    """The spans of one trading day, from midnight, ascending, first and last CLOSED."""

    spans: tuple[PhaseSpan, ...]
    _starts: tuple[time, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_starts", tuple(span.start for span in self.spans))

    @classmethod
    def from_data(cls, data: RuleData) -> "Timetable":
        """Read a list of spans. Raises RuleDataError when they are no whole day."""
        table = cls(tuple(_span(row) for row in data.rows()))
        if not table._is_whole_day():
            raise RuleDataError(data.place, "ascending spans from 00:00, CLOSED at both ends", "")
        return table

    def span_at(self, local: time) -> PhaseSpan:
        """Return the span that holds a local time of a trading day."""
        return self.spans[bisect_right(self._starts, local) - 1]

    def next_change(self, local: time) -> PhaseSpan | None:
        """Return the first span after `local` that begins another phase; None: none on this day."""
        index = bisect_right(self._starts, local)
        phase = self.spans[index - 1].phase
        return next((span for span in self.spans[index:] if span.phase is not phase), None)

    def next_span(self, local: time) -> PhaseSpan | None:
        """Return the first span after `local`; None: none on this day."""
        index = bisect_right(self._starts, local)
        return self.spans[index] if index < len(self.spans) else None

    @property
    def opening(self) -> PhaseSpan:
        """The first span that is not CLOSED."""
        return self.spans[1]

    @property
    def uncrosses(self) -> tuple[time, ...]:
        """Local times at which collected orders are matched at one price."""
        pairs = zip(self.spans, self.spans[1:], strict=False)
        return tuple(after.start for span, after in pairs if span.ends_in_uncross)

    def _is_whole_day(self) -> bool:
        if len(self.spans) < 3 or self._starts[0] != _MIDNIGHT:
            return False
        phases = [span.phase for span in self.spans]
        is_closed_inside = Phase.CLOSED in phases[1:-1]
        ends = {phases[0], phases[-1]}
        ascending = list(self._starts) == sorted(set(self._starts))
        return ascending and ends == {Phase.CLOSED} and not is_closed_inside


def _span(row: RuleData) -> PhaseSpan:
    row.allow("start", "phase", "step", "ends_in_uncross", "put_through")
    step = row.get("step")
    return PhaseSpan(
        start=row["start"].time_of_day(),
        phase=row["phase"].member(Phase),
        step=step.text() if step else "",
        ends_in_uncross=_flag(row, "ends_in_uncross"),
        put_through=_flag(row, "put_through"),
    )


def _flag(row: RuleData, key: str) -> bool:
    found = row.get(key)
    return found.flag() if found else False


def local_of(at: datetime) -> datetime:
    """Return an instant in exchange-local time."""
    return at.astimezone(EXCHANGE_TZ)


def instant_of(day: date, local: time) -> datetime:
    """Return the UTC instant of a local time of a day."""
    return datetime.combine(day, local, tzinfo=EXCHANGE_TZ).astimezone(UTC)
