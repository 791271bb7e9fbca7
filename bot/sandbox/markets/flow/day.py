"""The plan of a day of the order flow: phases, volume, and the path of the price.

Prices are counted in ticks up from the floor, so that no later step needs the tick table. It is
drawn once, when the day begins, from a random stream of symbol and date, so a day is the same
whatever was traded before it. A symbol's move is its own plus beta times the market's; where the
sum reaches the end of the band, the price is locked there. The market's move is drawn from seed and
date alone, so all symbols share it, whichever others there are. Floats are fine here: this models
opinion, not money.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from itertools import pairwise
from math import sqrt
from random import Random
from typing import Final

from pydantic import Field

from bot.domain.instrument import Exchange, Phase
from bot.domain.rulebook import Rulebook
from bot.sandbox.scenario_part import Part

PATH_STARTS: Final = 9 * 3_600
PATH_ENDS: Final = 13 * 3_600
"""In seconds of the local day without its lunch: 14:30, when the closing auction begins."""
_DEVIATION_PCT: Final = 1.3
"""Of the index from day to day. Source: VNINDEX, January 2020 to March 2026."""
_FREEDOM: Final = 4
"""Degrees of freedom of Student's distribution: tails as fat as the index has them."""
_MOST_PCT: Final = 6.5
"""The worst days of the index come near the band of its shares but do not exceed it."""
_GAP_SHARE: Final = 0.35
"""Share of the day's move already in its first price."""
_STEPS: Final = 16
_WANDERING_PCT: Final = 0.7
"""How far the index strays from a straight line to its close."""
DAY_VOLUME_IN_LEVELS: Final = 150
"""An ordinary day's volume as a multiple of a typical level's volume, as in the
library's history.
"""
LOCAL_OFFSET_S: Final = 7 * 3_600
"""Exchange time is UTC+7 all year, so the second of the day needs no time zone."""
DAY_S: Final = 86_400
_HOUR: Final = 3_600
_FIRST_LOCK: Final = 10 * _HOUR
_LAST_LOCK: Final = 13 * _HOUR + 1_800
_LUNCH_STARTS: Final = 11 * _HOUR + 1_800
_LUNCH_S: Final = 5_400
_BEYOND: Final = 2.0
"""How many ticks beyond the end of the band a locked price is aimed at."""
_GAP_PCT: Final = 0.25
_STRAY_ZONE: Final = 0.15
"""How far from the end of the band, as a fraction of it, a stray first trade may be."""
_EDGE: Final = 1.5
"""Ticks that the fair price of an unlocked day stays away from the ends of the band."""


Path = tuple[tuple[int, float], ...]
"""(`traded_second`, ticks or percent), ascending."""


def market_day(seed: int, day: date) -> Path:
    """Draw the market's move since the day before, in percent."""
    random = Random(f"{seed}|flow|market|{day}")
    # Student's distribution, scaled to a deviation of 1.
    chi_squared = random.gammavariate(_FREEDOM / 2, 2)
    tailed = random.gauss(0, 1) * sqrt((_FREEDOM - 2) / chi_squared)
    close = min(max(tailed * _DEVIATION_PCT, -_MOST_PCT), _MOST_PCT)
    steps = [0.0]
    for _ in range(_STEPS):
        steps.append(steps[-1] + random.gauss(0, _WANDERING_PCT / sqrt(_STEPS)))
    shares = [number / _STEPS for number in range(_STEPS + 1)]
    return tuple(
        (
            round(PATH_STARTS + share * (PATH_ENDS - PATH_STARTS)),
            close * (_GAP_SHARE + (1 - _GAP_SHARE) * share) + strayed - share * steps[-1],
        )
        for share, strayed in zip(shares, steps, strict=True)
    )


class DayKind(StrEnum):
    """What sort of day a symbol has.

    On a limit day the price is driven to the end of the band before the closing auction; there one
    side stays empty and the other queues.
    """

    QUIET = "quiet"
    UP = "up"
    DOWN = "down"
    VOLATILE = "volatile"
    LIMIT_UP = "limit_up"
    LIMIT_DOWN = "limit_down"


class FlowScript(Part):
    """How the order flow of a symbol behaves: the `flow` section of a scenario.

    `days` names its first days in order; later ones are drawn from the seed. `daily_pct` is the
    typical move of an ordinary day in percent, `beta` how much of the market's move is added (None:
    the exchange's usual). The symbol's `level_volume` determines how much trades: an ordinary day's
    volume is 150 times a level.
    """

    days: tuple[DayKind, ...] = ()
    daily_pct: float = Field(default=1.1, gt=0, le=10)
    beta: float | None = Field(default=None, ge=-5, le=5)


@dataclass(frozen=True, slots=True)
class Character:
    """A kind of day. `drift_pct` is where its own path ends; `noise` and `volume` multiply the
    ordinary ones. `weight` is its relative frequency; how often limit days occur depends on the
    exchange.
    """

    weight: float
    drift_pct: tuple[float, float]
    noise: float
    volume: float


CHARACTERS: Final = {
    DayKind.QUIET: Character(0.6, (-0.4, 0.4), 0.8, 0.8),
    DayKind.UP: Character(0.14, (0.8, 2.8), 0.9, 1.15),
    DayKind.DOWN: Character(0.14, (-2.8, -0.8), 0.9, 1.1),
    DayKind.VOLATILE: Character(0.12, (-1.0, 1.0), 2.3, 1.6),
    DayKind.LIMIT_UP: Character(0.0, (0.0, 0.0), 1.0, 2.0),
    DayKind.LIMIT_DOWN: Character(0.0, (0.0, 0.0), 1.0, 2.0),
}
LOCKS: Final = {DayKind.LIMIT_UP: 1, DayKind.LIMIT_DOWN: -1}
_LOCK_KINDS: Final = {lock: kind for kind, lock in LOCKS.items()}


@dataclass(frozen=True, slots=True)
class Temper:
    """Typical behaviour of an exchange's days.

    `beta` is the usual share in the market's move, `unrest` multiplies a symbol's own moves,
    `limit_chance` is how often a symbol's own news carries it to either end of the band,
    `stray_chance` how often the first trade of a day is far from the price.
    """

    beta: float
    unrest: float
    limit_chance: float
    stray_chance: float


TEMPERS: Final = {
    Exchange.HOSE: Temper(1.0, 0.7, 0.01, 0.0),
    Exchange.HNX: Temper(1.25, 0.7, 0.008, 0.14),
    Exchange.UPCOM: Temper(0.9, 0.95, 0.002, 0.03),
}
"""Calibrated on days of 23 stocks, July 2024 to June 2025; `bench/README.md` has the figures. An
exchange without an opening auction sometimes begins with a small trade near the end of the band.
"""


@dataclass(frozen=True, slots=True)
class FlowSpan:
    """A phase of one day, in seconds since 1970; `end` is the first second of the next."""

    phase: Phase
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class DayDraw:
    """A day as drawn. `path` is in ticks from the floor.

    `noise` is the spread of a whole day's random walk in ticks; `lock_s` the second of the day at
    which the price reaches the end of the band on the side `lock` (1 up, -1 down, 0 never), `stray`
    the tick of a small first trade far from the price, None on most days.
    """

    kind: DayKind
    path: Path
    noise: float
    volume: int
    lock: int
    lock_s: int
    stray: int | None

    def wanted(self, second: int) -> float:
        """Return the path's ticks at a second of the day, by linear interpolation."""
        return along(self.path, traded_second(second))

    def is_locked(self, second: int) -> bool:
        """Return whether the price is locked at the end of the band at that second."""
        return self.lock != 0 and second >= self.lock_s


def traded_second(second: int) -> int:
    """Return the second of the local day with lunch cut out: opinions do not change over lunch."""
    return second - min(max(second - _LUNCH_STARTS, 0), _LUNCH_S)


def spans_from(rulebook: Rulebook, exchange: Exchange, at: datetime) -> Iterator[FlowSpan]:
    """Yield the rest of a trading day, the phase of `at` first; nothing if CLOSED."""
    phase = rulebook.phase_at(exchange, at)
    while phase is not Phase.CLOSED:
        following = rulebook.next_phase_change(exchange, at)
        yield FlowSpan(phase, int(at.timestamp()), int(following.at.timestamp()))
        at, phase = following.at, following.phase


def draw_day(
    script: FlowScript,
    number: int,
    *,
    exchange: Exchange,
    market: Path,
    level_volume: int,
    reference: int,
    prices: tuple[int, ...],
    random: Random,
) -> DayDraw:
    """Draw the day of that number since the start, 0 first; `prices` are all prices of its band.

    A day named in the script goes as named, whatever the market does.
    """
    temper, count = TEMPERS[exchange], len(prices)
    named = script.days[number] if number < len(script.days) else None
    drawn = _drawn_kind(temper, random)
    kind = named or drawn
    character, lock = CHARACTERS[kind], LOCKS.get(kind, 0)
    percent = count / (100 * (prices[-1] - prices[0]) / reference) if count > 1 else 1
    lock_s = random.randrange(_FIRST_LOCK, _LAST_LOCK)
    nearest = min(range(count), key=lambda index: abs(prices[index] - reference))
    start = nearest + percent * random.gauss(lock * 1.0, _GAP_PCT)
    drift = temper.unrest * random.uniform(*character.drift_pct)
    beta = 0.0 if named else temper.beta if script.beta is None else script.beta
    # Beta times the market's path plus the symbol's own, which ends at `drift` percent.
    length = PATH_ENDS - PATH_STARTS
    path = tuple(
        (second, start + percent * (beta * moved + drift * (second - PATH_STARTS) / length))
        for second, moved in market
    )
    if not named and not lock:
        end = path[-1][1]
        lock = (end >= count - 1) - (end <= 0)
        kind = _LOCK_KINDS.get(lock, kind)
    if lock:
        end = count - 1 + _BEYOND if lock > 0 else -_BEYOND
        locked = traded_second(lock_s)
        halfway = (PATH_STARTS + locked) // 2
        path = ((PATH_STARTS, start), (halfway, start + (end - start) / 3), (locked, end))
    return DayDraw(
        kind,
        path,
        percent * script.daily_pct * temper.unrest * character.noise * random.uniform(0.8, 1.2),
        round(level_volume * DAY_VOLUME_IN_LEVELS * character.volume * random.uniform(0.7, 1.3)),
        lock,
        lock_s,
        None if named else _stray(temper, count, random),
    )


def _drawn_kind(temper: Temper, random: Random) -> DayKind:
    limits = temper.limit_chance * len(LOCKS)
    weights = [
        temper.limit_chance if kind in LOCKS else (1 - limits) * character.weight
        for kind, character in CHARACTERS.items()
    ]
    return random.choices(list(CHARACTERS), weights)[0]


def _stray(temper: Temper, count: int, random: Random) -> int | None:
    """Return a tick near either end of a band of `count` prices, or (mostly) None."""
    away = int(count * random.uniform(0.0, _STRAY_ZONE))
    tick = random.choice((away, count - 1 - away))
    return tick if random.random() < temper.stray_chance else None


def inside(ticks: float, draw: DayDraw, count: int) -> float:
    """Keep the fair price of an unlocked day away from the ends of a band of `count` prices."""
    if draw.lock:
        return ticks
    return min(max(ticks, _EDGE), max(count - 1 - _EDGE, _EDGE))


def along(path: Path, second: int) -> float:
    """Return a path's value at a `traded_second` by linear interpolation; flat beyond its ends."""
    if second <= path[0][0]:
        return path[0][1]
    for (before, at_before), (after, at_after) in pairwise(path):
        if second < after:
            return at_before + (at_after - at_before) * (second - before) / (after - before)
    return path[-1][1]
