"""The days on which the exchanges trade. All exchanges and the depository close together.

Weekends, the days of the list, and every day of a year that the list does not cover count as
closed: a day is open only if it is known to be. A make-up Saturday never trades. The exchanges
themselves have no half days, but an operator can name a day that ends early.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, time, timedelta
from enum import StrEnum

from bot.domain.errors import CalendarEnds, RuleDataError
from bot.domain.rule_data import RuleData

_SATURDAY = 5


class DayStatus(StrEnum):
    """How certain a closure is.

    CONFIRMED: seen in an exchange notice or in price data. EXPECTED: a law or decision, no notice
    seen yet. PROVISIONAL: derived from the general rule. OPERATOR: from the operator's override.
    """

    CONFIRMED = "CONFIRMED"
    EXPECTED = "EXPECTED"
    PROVISIONAL = "PROVISIONAL"
    OPERATOR = "OPERATOR"


_HOW_SURE = {
    DayStatus.EXPECTED: "decided, no notice of the exchanges seen",
    DayStatus.PROVISIONAL: "by the general rule, not announced yet",
}


@dataclass(frozen=True, slots=True)
class Closure:
    """A weekday on which the exchanges do not trade (for `doubts`: may not trade)."""

    day: date
    name: str
    status: DayStatus


@dataclass(frozen=True, slots=True)
class EarlyClose:
    """A trading day on which every exchange closes at the given local time, regardless of its
    timetable.
    """

    day: date
    at: time
    name: str


@dataclass(frozen=True, slots=True)
class TradingCalendar:
    """The trading days of whole years, without gaps. `doubts` are open days that may still be
    closed, `early_closes` days that end before their time.
    """

    years: Mapping[int, DayStatus]
    closures: Mapping[date, Closure]
    doubts: Mapping[date, Closure] = field(default_factory=dict)
    early_closes: Mapping[date, EarlyClose] = field(default_factory=dict)
    trading_days: tuple[date, ...] = field(init=False, repr=False)
    _open: frozenset[date] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        years = sorted(self.years)
        if not years or years != list(range(years[0], years[-1] + 1)):
            raise RuleDataError("calendar.years", "years without a gap", years)
        first, end = date(years[0], 1, 1), date(years[-1] + 1, 1, 1)
        all_days = (first + timedelta(days=number) for number in range((end - first).days))
        weekdays = (day for day in all_days if day.weekday() < _SATURDAY)
        days = tuple(day for day in weekdays if day not in self.closures)
        object.__setattr__(self, "trading_days", days)
        object.__setattr__(self, "_open", frozenset(days))

    @classmethod
    def from_data(cls, data: RuleData) -> "TradingCalendar":
        """Read `years`, `closed` and `unconfirmed_closures`; a closure on a weekend is refused."""
        return cls(
            years={_year(key, row): row.member(DayStatus) for key, row in data["years"].items()},
            closures=_by_day(data["closed"].rows()),
            doubts=_by_day(data["unconfirmed_closures"].rows()),
        )

    def if_doubts_close(self) -> "TradingCalendar":
        """Return the calendar in which every doubtful day is closed."""
        closures = {**self.closures, **self.doubts}
        return TradingCalendar(self.years, closures, early_closes=self.early_closes)

    def is_trading_day(self, day: date) -> bool:
        """Return whether the exchanges trade; False for a day outside the calendar."""
        return day in self._open

    def covers(self, day: date) -> bool:
        return day.year in self.years

    def next_trading_day(self, day: date) -> date:
        """Return the first trading day after `day`. Raises CalendarEnds."""
        return self.add_trading_days(day, 1)

    def add_trading_days(self, day: date, n: int) -> date:
        """Return the `n`-th trading day after `day`. Raises CalendarEnds.

        With `n` 0: `day` itself, or the trading day before it if it is closed; negative goes back.
        """
        index = bisect_right(self.trading_days, day) - 1 + n
        if not self.covers(day):
            raise CalendarEnds(day)
        if not 0 <= index < len(self.trading_days):
            raise CalendarEnds(date(max(self.years) + 1, 1, 1) if n > 0 else day)
        return self.trading_days[index]

    def with_override(self, data: RuleData) -> "TradingCalendar":
        """Apply an operator's `closed`, `open`, `years` and `early_closes`; a day in both `closed`
        and `open` is open.

        Only a listed closure can be opened; weekends cannot. Raises RuleDataError.
        """
        closed, opens = data.get("closed"), data.get("open")
        opened = set()
        for row in opens.rows() if opens else ():
            row.allow("date", "name", "source")
            day = row["date"].day()
            if day not in self.closures and day not in self.doubts:
                wanted = "a weekday that the calendar has closed (a weekend never trades)"
                raise RuleDataError(row.place, wanted, str(day))
            opened.add(day)
        extra = _by_day(closed.rows() if closed else (), DayStatus.OPERATOR)
        years = data.get("years")
        more = {_year(k, r): r.member(DayStatus) for k, r in years.items()} if years else {}
        closures = {d: c for d, c in {**self.closures, **extra}.items() if d not in opened}
        decided = opened | set(extra)
        doubts = {d: c for d, c in self.doubts.items() if d not in decided}
        found = TradingCalendar({**self.years, **more}, closures, doubts)
        early, closes = data.get("early_closes"), dict[date, EarlyClose]()
        for row in early.rows() if early else ():
            row.allow("date", "at", "name", "source")
            day = row["date"].day()
            if not found.is_trading_day(day):
                raise RuleDataError(row["date"].place, "a trading day", str(day))
            if day in closes:
                raise RuleDataError(row["date"].place, "each day once", str(day))
            closes[day] = EarlyClose(day, row["at"].time_of_day(), row["name"].text())
        return replace(found, early_closes={**self.early_closes, **closes})


def day_words(calendar: TradingCalendar, day: date) -> str:
    """Describe whether the exchanges trade on a day, why not, and how certain that is."""
    name = f"{day:%a} {day}"
    closure, doubt = calendar.closures.get(day), calendar.doubts.get(day)
    if closure is not None:
        sure = _HOW_SURE.get(closure.status)
        return f"{name}, closed: {closure.name}" + (f" ({closure.status}: {sure})" if sure else "")
    if doubt is not None:
        return f"{name}, a trading day unless it is closed: {doubt.name}, not confirmed"
    if (early := calendar.early_closes.get(day)) is not None:
        return f"{name}, a trading day that ends at {early.at:%H:%M}: {early.name}"
    if calendar.is_trading_day(day):
        return f"{name}, a trading day"
    is_weekend = day.weekday() >= _SATURDAY
    why = "weekend" if is_weekend else "a year that the calendar does not know"
    return f"{name}, closed: {why}"


def _closure(row: RuleData, status: DayStatus | None = None) -> Closure:
    row.allow("date", "name", "status", "source")
    day = row["date"].day()
    if day.weekday() >= _SATURDAY:
        raise RuleDataError(row["date"].place, "a weekday (weekends are closed anyway)", str(day))
    return Closure(day, row["name"].text(), status or row["status"].member(DayStatus))


def _by_day(rows: Iterable[RuleData], status: DayStatus | None = None) -> dict[date, Closure]:
    found: dict[date, Closure] = {}
    for row in rows:
        closure = _closure(row, status)
        if closure.day in found:
            raise RuleDataError(row["date"].place, "each day once", str(closure.day))
        found[closure.day] = closure
    return found


def _year(key: str, row: RuleData) -> int:
    if not (key.isdecimal() and len(key) == 4):
        raise RuleDataError(row.place, "a year like 2028", key)
    return int(key)
