"""What a day of the order flow is meant to be: phases, volume, and where the price goes.

Prices are counted in ticks up from the floor, so that no later step needs the tick table. Drawn
once, when the day begins, from a random stream of symbol and date: a day is the same whatever was
traded before it. Floats are right here: this models opinion, not money.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Final

from bot.domain.instrument import Exchange, Phase
from bot.domain.rulebook import Rulebook
from bot.sandbox.flow.script import DayKind, FlowScript

DAY_VOLUME_IN_LEVELS: Final = 150
"""An ordinary day's volume in what typically waits at a price, as in the library's history."""
LOCAL_OFFSET_S: Final = 7 * 3_600
"""Exchange time is UTC+7 all year: a second of the day needs no time zone."""
DAY_S: Final = 86_400
_HOUR: Final = 3_600
_FIRST_LOCK: Final = 10 * _HOUR
_LAST_LOCK: Final = 13 * _HOUR + 1_800
_LUNCH_STARTS: Final = 11 * _HOUR + 1_800
_LUNCH_S: Final = 5_400
_PATH_ENDS: Final = 14 * _HOUR + 1_800
_PATH_STARTS: Final = 9 * _HOUR
_BEYOND: Final = 2.0
"""Ticks past the band's end at which a locked price is wanted."""
_GAP_PCT: Final = 0.25
_EDGE: Final = 1.5
"""Ticks that the fair price of an unlocked day keeps from the band's ends."""


@dataclass(frozen=True, slots=True)
class Character:
    """A kind of day. `drift_pct` is where it ends; `noise` and `volume` multiply the ordinary."""

    chance: float
    drift_pct: tuple[float, float]
    noise: float
    volume: float


CHARACTERS: Final = {
    DayKind.QUIET: Character(0.48, (-0.4, 0.4), 0.75, 0.8),
    DayKind.UP: Character(0.18, (0.8, 2.8), 0.9, 1.15),
    DayKind.DOWN: Character(0.18, (-2.8, -0.8), 0.9, 1.1),
    DayKind.VOLATILE: Character(0.13, (-1.0, 1.0), 1.9, 1.6),
    DayKind.LIMIT_UP: Character(0.015, (0.0, 0.0), 1.0, 2.0),
    DayKind.LIMIT_DOWN: Character(0.015, (0.0, 0.0), 1.0, 2.0),
}
LOCKS: Final = {DayKind.LIMIT_UP: 1, DayKind.LIMIT_DOWN: -1}


@dataclass(frozen=True, slots=True)
class FlowSpan:
    """A phase of one day, in seconds since 1970; `end` is the first second of the next."""

    phase: Phase
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class DayDraw:
    """A day as drawn. `path` is (`traded_second`, ticks from the floor), ascending.

    `noise` is the spread of a whole day's random walk in ticks; `lock_s` the second of the day at
    which the price reaches the band's end on the side `lock` (1 up, -1 down, 0 never).
    """

    kind: DayKind
    path: tuple[tuple[int, float], ...]
    noise: float
    volume: int
    lock: int
    lock_s: int

    def wanted(self, second: int) -> float:
        """Return the path's ticks at a second of the day, along straight lines."""
        second = traded_second(second)
        before, at_before = self.path[0]
        for after, at_after in self.path:
            if second < after:
                share = (second - before) / max(1, after - before)
                return at_before + (at_after - at_before) * max(0.0, share)
            before, at_before = after, at_after
        return at_before

    def is_locked(self, second: int) -> bool:
        """Say whether the price is held at the band's end from then on."""
        return self.lock != 0 and second >= self.lock_s


def traded_second(second: int) -> int:
    """Return a second of the local day, lunch left out: nobody changes their mind then."""
    return second - min(max(second - _LUNCH_STARTS, 0), _LUNCH_S)


def spans_from(rulebook: Rulebook, exchange: Exchange, at: datetime) -> Iterator[FlowSpan]:
    """Yield the rest of a trading day, the phase of `at` first; nothing while CLOSED."""
    phase = rulebook.phase_at(exchange, at)
    while phase is not Phase.CLOSED:
        following = rulebook.next_phase_change(exchange, at)
        yield FlowSpan(phase, int(at.timestamp()), int(following.at.timestamp()))
        at, phase = following.at, following.phase


def draw_day(
    script: FlowScript,
    number: int,
    *,
    level_volume: int,
    reference: int,
    prices: tuple[int, ...],
    random: Random,
) -> DayDraw:
    """Draw the day with that number since the start, 0 first; `prices` are all of its band."""
    kind = _kind(script, number, random)
    character, lock = CHARACTERS[kind], LOCKS.get(kind, 0)
    percent = len(prices) / (100 * (prices[-1] - prices[0]) / reference) if len(prices) > 1 else 1
    lock_s = random.randrange(_FIRST_LOCK, _LAST_LOCK)
    start = _nearest(prices, reference) + percent * random.gauss(lock * 1.0, _GAP_PCT)
    drift = percent * random.uniform(*character.drift_pct)
    path = _locked(start, lock, lock_s, len(prices)) if lock else _drifting(start, drift)
    return DayDraw(
        kind,
        path,
        percent * script.daily_pct * character.noise * random.uniform(0.8, 1.2),
        round(level_volume * DAY_VOLUME_IN_LEVELS * character.volume * random.uniform(0.7, 1.3)),
        lock,
        lock_s,
    )


def inside(ticks: float, draw: DayDraw, count: int) -> float:
    """Keep the fair price of a day that does not lock off the ends of a band of `count` prices."""
    if draw.lock:
        return ticks
    return min(max(ticks, _EDGE), max(count - 1 - _EDGE, _EDGE))


def _kind(script: FlowScript, number: int, random: Random) -> DayKind:
    chances = [character.chance for character in CHARACTERS.values()]
    drawn = random.choices(list(CHARACTERS), chances)[0]
    return script.days[number] if number < len(script.days) else drawn


def _nearest(prices: tuple[int, ...], reference: int) -> int:
    return min(range(len(prices)), key=lambda index: abs(prices[index] - reference))


def _drifting(start: float, drift: float) -> tuple[tuple[int, float], ...]:
    return ((_PATH_STARTS, start), (traded_second(_PATH_ENDS), start + drift))


def _locked(start: float, lock: int, lock_s: int, count: int) -> tuple[tuple[int, float], ...]:
    end = count - 1 + _BEYOND if lock > 0 else -_BEYOND
    locked = traded_second(lock_s)
    halfway = (_PATH_STARTS + locked) // 2
    return ((_PATH_STARTS, start), (halfway, start + (end - start) / 3), (locked, end))
