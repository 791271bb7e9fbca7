"""Instants in the exchange's local time, UTC+7 all year: their days, and how screens tell them.

Datetimes are UTC in memory and on disk. Whoever needs a local day or a local clock asks here.
"""

from datetime import UTC, date, datetime, time

from bot.domain.instrument import EXCHANGE_TZ


def local_of(at: datetime) -> datetime:
    return at.astimezone(EXCHANGE_TZ)


def local_date(at: datetime) -> date:
    """Return the date of an instant in Vietnam."""
    return at.astimezone(EXCHANGE_TZ).date()


def instant_of(day: date, local: time) -> datetime:
    """Return the instant, in UTC, at which it is `local` on `day`."""
    return datetime.combine(day, local, tzinfo=EXCHANGE_TZ).astimezone(UTC)


def minute_of(at: datetime) -> str:
    """`09:16`."""
    return f"{at.astimezone(EXCHANGE_TZ):%H:%M}"


def minute_on(day: date | None, at: datetime) -> str:
    """`09:16` on that day, or if no day is known; else `2026-11-19 09:16`."""
    return minute_of(at) if day in {None, local_date(at)} else f"{local_date(at)} {minute_of(at)}"


def clock_of(at: datetime) -> str:
    """`09:16:00`."""
    return f"{at.astimezone(EXCHANGE_TZ):%H:%M:%S}"


def millis_of(at: datetime) -> str:
    """`09:16:00.102`, cut to milliseconds."""
    return at.astimezone(EXCHANGE_TZ).strftime("%H:%M:%S.%f")[:-3]


def day_and_clock_of(at: datetime) -> str:
    """`2026-11-19 09:16:00`."""
    return f"{at.astimezone(EXCHANGE_TZ):%Y-%m-%d %H:%M:%S}"
