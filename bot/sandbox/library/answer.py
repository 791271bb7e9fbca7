"""Helpers for the library's answers: a call's parameters as typed values, and histories and
figures.

Everything that can be added up is a whole number inside the library (VND, shares, hundredths of a
point); Decimals appear only in answers.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, TypeVar

from bot.domain.local_time import local_date
from bot.protocol.values.series import PriceBar
from bot.sandbox.errors import HttpRefusal
from bot.sandbox.library.walk import DayBar, Days, SimulatedBar, grouped, months_before, start_of

_UNIX_S_MAX: Final = 4_102_444_800
"""The year 2100: later than all data, and far from where a calendar ends."""
_DEFAULT_MONTHS: Final = 3
_MONTHS_OF_WINDOW: Final = {"1M": 1, "3M": 3, "6M": 6, "1Y": 12}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asked:
    """One question. `query` includes defaults and is valid by the table of parameters; `bad` makes
    the 400 for errors that only the library can find.
    """

    call: str
    path: Mapping[str, str]
    query: Mapping[str, str]
    at: datetime
    bad: Callable[[str], HttpRefusal]

    @property
    def kind(self) -> str:
        """What the call is about, by the first word of its name."""
        return self.call.split("_")[0]

    @property
    def symbol(self) -> str:
        """The symbol from the path or the query, whatever its case."""
        return (self.path.get("symbol") or self.query["symbol"]).upper()

    @property
    def today(self) -> date:
        return local_date(self.at)

    def text(self, name: str) -> str | None:
        return self.query.get(name)

    def day(self, name: str) -> date | None:
        text = self.query.get(name)
        return None if text is None else date.fromisoformat(text)

    def instant(self, name: str) -> datetime | None:
        """Return Unix seconds as an instant (the year 2100 for what is beyond it)."""
        text = self.query.get(name)
        return None if text is None else datetime.fromtimestamp(min(int(text), _UNIX_S_MAX), UTC)

    def whole(self, name: str) -> int:
        """Return a whole number that is required or has a default."""
        return int(self.query[name])

    def items(self, name: str) -> tuple[str, ...]:
        """Return a list parameter, empty if omitted."""
        text = self.query.get(name, "")
        return tuple(item.strip() for item in text.split(",")) if text else ()

    def day_or(self, latest: date) -> date:
        """Return `date`, else `latest`; raises HttpRefusal 400 for one in the future."""
        day = self.day("date")
        if day is not None and day > self.today:
            raise self.bad("date: in the future")
        return day or latest

    def days(self) -> tuple[date, date]:
        """Return `from` and `to`, or the last three months; a range that begins in the future is a
        400. The future part of a range is cut off.
        """
        first, last = self.day("from"), self.day("to")
        if first is None or last is None:
            return months_before(self.today, _DEFAULT_MONTHS), self.today
        if first > self.today:
            raise self.bad("from: in the future")
        return first, min(last, self.today)

    def window(self, days: Days, today: date) -> tuple[date, date]:
        """Return the first and the last day of the `window` up to today."""
        match self.query["window"]:
            case "1D":
                return today, today
            case "1W":
                return days.before(today, 4), today
            case "YTD":
                return today.replace(month=1, day=1), today
            case window:
                return months_before(today, _MONTHS_OF_WINDOW[window]), today

    def span(self) -> tuple[datetime, datetime]:
        """Return from and to of a history; raises HttpRefusal 400 if `to` is earlier."""
        first, last = self.instant("from"), self.instant("to")
        assert first is not None, "the table of parameters requires both"
        assert last is not None, "the table of parameters requires both"
        if last < first:
            raise self.bad("to: before from")
        return first, last

    def page(self, items: Sequence[T]) -> tuple[T, ...]:
        """Return the requested page; a page after the last is empty."""
        size = self.whole("page_size")
        first = (self.whole("page") - 1) * size
        return tuple(items[first : first + size])


@dataclass(frozen=True, slots=True)
class Narrowed:
    """A value of which only part is sent: the elements of `items` have only `fields`."""

    value: object
    items: str
    fields: frozenset[str]

    def narrow(self, written: Any) -> Mapping[str, object]:
        """Drop the fields that were not chosen from the encoded value; chosen ones
        stay, even null.
        """
        kept = [
            {name: value for name, value in each.items() if name in self.fields}
            for each in written[self.items]
        ]
        return {**written, self.items: kept}


Answer = Callable[[Asked], object]
"""Answers one call with the value that its codec encodes, or that value Narrowed. Raises
HttpRefusal.
"""


_PERCENT_DIGITS: Final = 2


def scaled(units: int, digits: int) -> Decimal:
    """Return whole units of 10^-digits as a number."""
    return Decimal(units).scaleb(-digits)


def maybe(units: int | None, digits: int) -> Decimal | None:
    return None if units is None else scaled(units, digits)


def units_of(text: str, digits: int) -> int:
    """Return a table's number as whole units of 10^-digits."""
    return int(Decimal(text).scaleb(digits))


def rounded(value: float, digits: int) -> Decimal:
    return Decimal(f"{value:.{digits}f}")


def ratio(part: float, whole: float, digits: int = _PERCENT_DIGITS) -> Decimal | None:
    """Return a quotient, None for a divisor of zero."""
    return rounded(part / whole, digits) if whole else None


def percent(part: float, whole: float, digits: int = _PERCENT_DIGITS) -> Decimal | None:
    """Return part of whole in percent, None if the whole is zero."""
    return ratio(100 * part, whole, digits)


INTRADAY_DAYS_MAX: Final = 60
"""Intraday histories cover at most so many of the newest trading days of a range."""
DAILY: Final = "1D"
_STEPS: Final = {
    "5": timedelta(minutes=5),
    "15": timedelta(minutes=15),
    "30": timedelta(minutes=30),
    "1H": timedelta(hours=1),
    "4H": timedelta(hours=4),
}
SlotsOf = Callable[[date], Iterable[SimulatedBar]]


def in_span(asked: Asked, points: Sequence[T], day_of: Callable[[T], date]) -> list[T]:
    """Return the points whose day begins within the span."""
    first, last = asked.span()
    return [point for point in points if first <= start_of(day_of(point)) <= last]


def daily(asked: Asked, bars: Sequence[DayBar]) -> list[SimulatedBar]:
    """Return the days of the span as bars."""
    found = in_span(asked, bars, lambda bar: bar.day)
    return [SimulatedBar(start_of(bar.day), *bar[1:]) for bar in found]


def in_resolution(
    asked: Asked, bars: Sequence[DayBar], days: Days, slots_of: SlotsOf
) -> list[SimulatedBar]:
    """Return the days of the span, or bars of the length that `resolution` asks for."""
    if asked.query["resolution"] == DAILY:
        return daily(asked, bars)
    first, last = asked.span()
    known = days.between(local_date(first), min(local_date(last), asked.today))
    step = _STEPS[asked.query["resolution"]]
    found = (bar for day in known[-INTRADAY_DAYS_MAX:] for bar in grouped(slots_of(day), step))
    return [bar for bar in found if first <= bar.start <= last]


def price_bars(bars: Iterable[SimulatedBar], digits: int) -> tuple[PriceBar, ...]:
    return tuple(
        PriceBar(
            bar.start,
            scaled(bar.open, digits),
            scaled(bar.high, digits),
            scaled(bar.low, digits),
            scaled(bar.close, digits),
            scaled(bar.volume, 0),
        )
        for bar in bars
    )


def closes_only(bars: Iterable[SimulatedBar], digits: int) -> tuple[PriceBar, ...]:
    return tuple(PriceBar(bar.start, close=scaled(bar.close, digits)) for bar in bars)
