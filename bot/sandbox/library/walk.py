"""The library's building blocks: small tables, days, and seeded random walks over them.

In a table, a line that begins with `#` is a comment.

A walk consists of days that end at a given close, days that continue from it, and the path within a
day. Prices are whole units of 10^-digits, so that everything adds up; floats only decide where the
walk goes. A random stream is made from seed and name: the same names give the same walk in every
run.
"""

import csv
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from math import exp
from random import Random
from typing import Final, NamedTuple

from bot.domain.calendar import TradingCalendar
from bot.domain.instrument import BOARD_LOT, EXCHANGE_TZ
from bot.domain.venue import TickTable

Row = Mapping[str, str]


@cache
def table(name: str) -> tuple[Row, ...]:
    """Return the rows of a table in order, read on first use."""
    text = (files("bot.sandbox.library") / "tables" / f"{name}.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


@cache
def sector_names() -> Mapping[str, str]:
    """Return the sectors: slug to name."""
    return {row["slug"]: row["name"] for row in table("sectors")}


_DRIFT: Final = 0.0003
_MOVE_MAX: Final = 0.04
_HALF_RANGE: Final = 0.4
_ON_TICK_MIN: Final = 1_000
_WALKS_KEPT: Final = 128


class SimulatedBar(NamedTuple):
    """A bar of a day or of a part of it; `volume` in units, `value` in units of the price."""

    start: datetime
    open: int
    high: int
    low: int
    close: int
    volume: int
    value: int


class DayBar(NamedTuple):
    """One day."""

    day: date
    open: int
    high: int
    low: int
    close: int
    volume: int
    value: int


@dataclass(frozen=True, slots=True)
class Nature:
    """How something moves: `daily` is the typical move of a day (0.01 is 1 %), `volume` a typical
    day's, 0 if it has none; with `ticks` its prices are on their grid, at about 1,000 or more.
    """

    daily: float
    volume: int
    ticks: TickTable | None = None

    def snap(self, price: float) -> int:
        whole = round(price)
        return whole if self.ticks is None else self.ticks.down(max(_ON_TICK_MIN, whole))


def stream(seed: int, *names: object) -> Random:
    return Random("|".join(map(str, (seed, *names))))


@lru_cache(_WALKS_KEPT)
def walk_until(
    days: tuple[date, ...], end: int, nature: Nature, seed: int, symbol: str
) -> tuple[DayBar, ...]:
    """Return the bars of `days`, ascending, of which the last closes at `end`; every sandbox of a
    seed has the same for a symbol.
    """
    bars: list[DayBar] = []
    close, source = end, stream(seed, "days", symbol)
    for day in reversed(days):
        previous = max(1, nature.snap(close / exp(_move(nature, source))))
        bars.append(_day_bar(day, previous, close, nature, source))
        close = previous
    return tuple(reversed(bars))


def days_from(days: Iterable[date], start: int, nature: Nature, source: Random) -> list[DayBar]:
    """Return the bars of `days`, ascending; the previous day closed at `start`."""
    bars: list[DayBar] = []
    previous = start
    for day in days:
        close = max(1, nature.snap(previous * exp(_move(nature, source))))
        bars.append(_day_bar(day, previous, close, nature, source))
        previous = close
    return bars


def _move(nature: Nature, source: Random) -> float:
    return max(-_MOVE_MAX, min(_MOVE_MAX, source.gauss(_DRIFT, nature.daily)))


def _day_bar(day: date, previous: int, close: int, nature: Nature, source: Random) -> DayBar:
    snap, room = nature.snap, close * nature.daily * _HALF_RANGE
    opened = max(1, snap(previous + (close - previous) * source.random() * 0.5))
    high = max(opened, close, snap(max(opened, close) + abs(source.gauss(0, room))))
    low = max(1, min(opened, close, snap(min(opened, close) - abs(source.gauss(0, room)))))
    volume = round(nature.volume * source.lognormvariate(0, 0.4) / BOARD_LOT) * BOARD_LOT
    return DayBar(
        day, opened, high, low, close, volume, volume * (opened + high + low + close) // 4
    )


# ------------------------------------------------------------------------------ within a day


@dataclass(frozen=True, slots=True)
class Hours:
    """When something trades: spans of local time, cut into slots of length `slot`."""

    spans: tuple[tuple[time, time], ...]
    slot: timedelta = timedelta(minutes=5)

    def slots(self, day: date) -> list[datetime]:
        spans = [
            [datetime.combine(day, each, EXCHANGE_TZ).astimezone(UTC) for each in span]
            for span in self.spans
        ]
        return [
            first + number * self.slot
            for first, last in spans
            for number in range(-(-(last - first) // self.slot))
        ]


EXCHANGE_HOURS: Final = Hours(((time(9), time(11, 30)), (time(13), time(14, 50))))
ROUND_THE_CLOCK: Final = Hours(((time(0), time(23, 59)),), timedelta(minutes=15))


def within(bar: DayBar, hours: Hours, nature: Nature, source: Random) -> list[SimulatedBar]:
    """Return the slots of a day; together they make up the day's bar.

    Closes lead from the day's open to its close, inside its range. Volumes are whole lots; the last
    slot takes the remaining volume and value.
    """
    starts = hours.slots(bar.day)
    number = len(starts)
    room, noise, closes = (bar.high - bar.low) * 0.25, 0.0, []
    for index in range(1, number):
        noise = 0.8 * noise + source.gauss(0, room)
        straight = bar.open + (bar.close - bar.open) * index / number
        closes.append(max(bar.low, min(bar.high, nature.snap(straight + noise))))
    closes.append(bar.close)
    weights = [source.random() + 0.2 for _ in range(number)]
    volumes = [
        int(bar.volume * weight / sum(weights)) // BOARD_LOT * BOARD_LOT for weight in weights
    ]
    volumes[-1] += bar.volume - sum(volumes)
    opens = [bar.open, *closes[:-1]]
    highs, lows = list(map(max, opens, closes)), list(map(min, opens, closes))
    highs[source.randrange(number)] = bar.high
    lows[source.randrange(number)] = bar.low
    values = [bar.value * volume // bar.volume if bar.volume else 0 for volume in volumes]
    values[-1] += bar.value - sum(values)
    return list(map(SimulatedBar, starts, opens, highs, lows, closes, volumes, values))


def merged(bars: Iterable[SimulatedBar], start: datetime) -> SimulatedBar | None:
    """Return several bars merged into one that starts at `start`, None for no bars."""
    parts = list(bars)
    if not parts:
        return None
    return SimulatedBar(
        start,
        parts[0].open,
        max(part.high for part in parts),
        min(part.low for part in parts),
        parts[-1].close,
        sum(part.volume for part in parts),
        sum(part.value for part in parts),
    )


def grouped(bars: Iterable[SimulatedBar], step: timedelta) -> list[SimulatedBar]:
    """Return bars gathered into steps of local time; a step without bars is left out."""
    found: dict[datetime, list[SimulatedBar]] = {}
    for bar in bars:
        local = bar.start.astimezone(EXCHANGE_TZ)
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
        start = (midnight + (local - midnight) // step * step).astimezone(UTC)
        found.setdefault(start, []).append(bar)
    together = (merged(parts, start) for start, parts in found.items())
    return [bar for bar in together if bar is not None]


HISTORY_STARTS: Final = date(2021, 1, 1)
"""Nothing in the library is older."""
SATURDAY: Final = 5
_STARTS_KEPT: Final = 4_096


class Days:
    """Trading days of the calendar; before the years it covers, weekdays."""

    def __init__(self, calendar: TradingCalendar) -> None:
        self._calendar = calendar

    @cached_property
    def all(self) -> tuple[date, ...]:
        """Every trading day since the histories start, including future ones."""
        covered = date(min(self._calendar.years), 1, 1)
        known = (day for day in self._calendar.trading_days if day >= HISTORY_STARTS)
        return (*weekdays(HISTORY_STARTS, covered - timedelta(days=1)), *known)

    def is_open(self, day: date) -> bool:
        return self.last(day) == day

    def last(self, day: date) -> date:
        """Return the day itself if it is a trading day, else the one before it."""
        return self.all[max(0, bisect_right(self.all, day) - 1)]

    def before(self, day: date, number: int = 1) -> date:
        """Return the trading day so many before a day; at the earliest the first."""
        return self.all[max(0, bisect_left(self.all, day) - number)]

    def between(self, first: date, last: date) -> tuple[date, ...]:
        """Return the trading days of a range, both ends included."""
        return self.all[bisect_left(self.all, first) : bisect_right(self.all, last)]


def every_day(first: date, last: date) -> list[date]:
    """Return all days of a range, both ends included."""
    return [first + timedelta(days=number) for number in range((last - first).days + 1)]


def weekdays(first: date, last: date) -> list[date]:
    return [day for day in every_day(first, last) if day.weekday() < SATURDAY]


@lru_cache(_STARTS_KEPT)
def start_of(day: date) -> datetime:
    """Return the midnight, in Vietnam, at which a day begins; daily bars start there."""
    return datetime.combine(day, time(), EXCHANGE_TZ).astimezone(UTC)


def months_before(day: date, months: int) -> date:
    """Return the same day some months earlier; at most the 28th, which every month has."""
    index = day.year * 12 + day.month - 1 - months
    return day.replace(year=index // 12, month=index % 12 + 1, day=min(day.day, 28))
