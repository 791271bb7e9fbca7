"""What moves all symbols of the order flow together: the day of the market as a whole.

Drawn from seed and date alone, so every symbol sees the same day, whichever others there are. A
symbol takes part by its beta. Floats are right here: this models opinion, not money.
"""

from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from math import sqrt
from random import Random
from typing import Final

PATH_STARTS: Final = 9 * 3_600
PATH_ENDS: Final = 13 * 3_600
"""In seconds of the local day without its lunch: 14:30, when the closing auction begins."""
_DEVIATION_PCT: Final = 1.3
"""Of the index from day to day. Source: VNINDEX, January 2020 to March 2026."""
_FREEDOM: Final = 4
"""Degrees of freedom of Student's distribution: tails as fat as the index has them."""
_MOST_PCT: Final = 6.5
"""The worst days of the index come near the band of its shares, and not beyond."""
_GAP_SHARE: Final = 0.35
"""How much of the day's move is there at its first price already."""
_STEPS: Final = 16
_WANDERING_PCT: Final = 0.7
"""How far the index strays from the straight way to its close."""


@dataclass(frozen=True, slots=True)
class MarketDay:
    """The market's move since the day before: (`traded_second`, percent), ascending."""

    path: tuple[tuple[int, float], ...]


def market_day(seed: int, day: date) -> MarketDay:
    random = Random(f"{seed}|flow|market|{day}")
    # Student's distribution, scaled to a deviation of 1 first.
    chi_squared = random.gammavariate(_FREEDOM / 2, 2)
    tailed = random.gauss(0, 1) * sqrt((_FREEDOM - 2) / chi_squared)
    close = min(max(tailed * _DEVIATION_PCT, -_MOST_PCT), _MOST_PCT)
    steps = [0.0]
    for _ in range(_STEPS):
        steps.append(steps[-1] + random.gauss(0, _WANDERING_PCT / sqrt(_STEPS)))
    shares = [number / _STEPS for number in range(_STEPS + 1)]
    return MarketDay(
        tuple(
            (
                round(PATH_STARTS + share * (PATH_ENDS - PATH_STARTS)),
                close * (_GAP_SHARE + (1 - _GAP_SHARE) * share) + strayed - share * steps[-1],
            )
            for share, strayed in zip(shares, steps, strict=True)
        )
    )


def along(path: tuple[tuple[int, float], ...], second: int) -> float:
    """Return a path's value at a `traded_second`, along straight lines; flat beyond its ends."""
    if second <= path[0][0]:
        return path[0][1]
    for (before, at_before), (after, at_after) in pairwise(path):
        if second < after:
            return at_before + (at_after - at_before) * (second - before) / (after - before)
    return path[-1][1]
