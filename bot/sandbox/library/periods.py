"""Days that a question names: one day, or a range of them, with what is assumed without."""

from collections.abc import Sequence
from datetime import date
from typing import Final, TypeVar

from bot.sandbox.library.asked import Asked
from bot.sandbox.library.days import Days, months_before

DEFAULT_MONTHS: Final = 3
_MONTHS: Final = {"1M": 1, "3M": 3, "6M": 6, "1Y": 12}
T = TypeVar("T")


def day_asked(asked: Asked, latest: date) -> date:
    """Return `date`, else `latest`; raises HttpRefusal 400 for one in the future."""
    day = asked.day("date")
    if day is None:
        return latest
    if day > asked.today:
        raise asked.bad("date: in the future")
    return day


def range_asked(asked: Asked) -> tuple[date, date]:
    """Return `from` and `to`, or the last three months; a range that begins in the future is 400.

    What lies in the future of a range is cut off.
    """
    first, last = asked.day("from"), asked.day("to")
    if first is None or last is None:
        return months_before(asked.today, DEFAULT_MONTHS), asked.today
    if first > asked.today:
        raise asked.bad("from: in the future")
    return first, min(last, asked.today)


def window_asked(asked: Asked, days: Days, today: date) -> tuple[date, date]:
    """Return the first and the last day of the `window` up to today."""
    window = asked.query["window"]
    if window == "1D":
        return today, today
    if window == "1W":
        return days.before(today, 4), today
    if window == "YTD":
        return today.replace(month=1, day=1), today
    return months_before(today, _MONTHS[window]), today


def page_of(asked: Asked, items: Sequence[T]) -> Sequence[T]:
    """Return the page asked for; behind the last there is an empty one."""
    size = asked.whole("page_size")
    first = (asked.whole("page") - 1) * size
    return items[first : first + size]
