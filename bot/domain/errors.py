"""What goes wrong in the domain, and what nobody foresaw.

DomainError
├─ RuleDataError     a rule file says something that cannot be a rule
├─ NoRule            the exchange has no such rule for this instrument
└─ CalendarEnds      a day beyond the years that the calendar knows
"""

from dataclasses import dataclass
from datetime import date


class DomainError(Exception):
    """The root of this tree."""


class RuleDataError(DomainError):
    """A rule file cannot be used. `place` is the path to the value, like `closed[0].date`."""

    def __init__(self, place: str, wanted: str, found: object) -> None:
        super().__init__(f"{place or 'the file'}: wanted {wanted}, found {found!r}")
        self.place = place
        self.wanted = wanted
        self.found = found


class NoRule(DomainError):
    """There is no rule for this. `what` names it, like `tick size of CW on UPCOM`."""

    def __init__(self, what: str) -> None:
        super().__init__(f"no rule for the {what}")
        self.what = what


class CalendarEnds(DomainError):
    """The calendar does not reach `day`; nothing may be assumed about it."""

    def __init__(self, day: date) -> None:
        super().__init__(
            f"the trading calendar does not cover {day}: "
            "install a release that knows that year, or add it to the calendar override"
        )
        self.day = day


@dataclass(frozen=True, slots=True)
class Fault:
    """An exception that nobody foresaw, as whatever has caught it hands it on; it ends nothing.

    Equal faults have one `kind`: the exception's type and the line of code. `error` is one line,
    `trace` the whole traceback; neither holds a secret. `report` is the file that keeps the trace;
    empty when none could be written. `invariant` is the code of one that is broken.
    """

    kind: str
    error: str
    trace: str
    report: str = ""
    invariant: str = ""
