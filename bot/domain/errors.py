"""What goes wrong in the domain.

DomainError
├─ RuleDataError     a rule file says something that cannot be a rule
├─ NoRule            the exchange has no such rule for this instrument
└─ CalendarEnds      a day beyond the years that the calendar knows
"""

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
