"""Walk-forward windows: each fold is searched on all days before its test, and tested on the next.

    days     |------------------------------------------|
    fold 1   [ searched      ][ test ]
    fold 2   [ searched            ][ test ]
    fold 3   [ searched                  ][ test        ]

The search itself sees the days before the last test alone: what the last test shows, no trial was
chosen by.
"""

from dataclasses import dataclass
from typing import Final

from bot.runtime.history.backtest.figures import RATIO_DAYS_MIN

FOLDS: Final = 3
FIRST_BLOCKS: Final = 2
"""The first fold is searched on as many blocks of days, each as long as a test."""
DAYS_MIN: Final = (FIRST_BLOCKS + 1) * RATIO_DAYS_MIN


@dataclass(frozen=True, slots=True)
class Fold:
    """Days by their number: searched from 0 to `until`, tested from there to before `end`."""

    until: int
    end: int


def folds_of(days: int, wanted: int) -> tuple[Fold, ...]:
    """Return up to `wanted` folds, as many as leave each test its days; none where not one does."""
    for count in range(wanted, 0, -1):
        block = days // (count + FIRST_BLOCKS)
        if block >= RATIO_DAYS_MIN:
            ends = [(FIRST_BLOCKS + number) * block for number in range(count)]
            return tuple(
                Fold(until, days if until == ends[-1] else until + block) for until in ends
            )
    return ()
