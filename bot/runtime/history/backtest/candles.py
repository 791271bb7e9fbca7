"""Candles for a chart: a long run's bars merged until they are few enough to draw.

They are never used for decisions; a strategy gets the bars themselves. Times here are
exchange-local seconds (the chart shows them as given), so that a day's candle begins at its local
midnight.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Final

import numpy as np

from bot.runtime.history.bars import BarColumns, BarSource

CANDLES_MAX: Final = 4_000
"""Candles of one symbol on a page: some 150 kB."""
NEAR_BARS: Final = 30
"""Bars shown before and after a trade."""
TRADING_S: Final = 270 * 60
"""Roughly the most that a day can hold: four and a half hours of minutes."""
LOCAL_S: Final = 7 * 3_600
"""The exchanges are at UTC+7 all year."""
DAY_S: Final = 86_400
WIDTHS: Final = (60, 300, 900, 1_800, 3_600, DAY_S, 7 * DAY_S, 28 * DAY_S)

Candle = tuple[int, int, int, int, int]
"""Local second of its start, open, high, low, close."""


@dataclass(frozen=True, slots=True)
class Candles:
    """The candles of one symbol, oldest first, each `seconds` wide; `bars`: how many bars they
    merge.

    `near` has the unmerged bars around each requested local second.
    """

    symbol: str
    seconds: int
    bars: int
    rows: tuple[Candle, ...]
    near: Mapping[int, tuple[Candle, ...]] = field(default_factory=dict)


def candles_of(
    source: BarSource,
    symbol: str,
    first: date,
    last: date,
    limit: int = CANDLES_MAX,
    around: Sequence[int] = (),
) -> Candles:
    """Return the candles of local days `first` to `last`, at most about `limit`, and the bars
    before and after the local seconds `around`.
    """
    seconds = _width(int(source.width.total_seconds()), (last - first).days + 1, limit)
    bars, rows, near = 0, list[Candle](), dict[int, tuple[Candle, ...]]()
    for chunk in source.chunks(symbol, first, last):
        bars += len(chunk)
        local = chunk.start + LOCAL_S
        for second in around if len(chunk) else ():
            if local[0] <= second < local[-1] + DAY_S and second not in near:
                at = int(np.searchsorted(local, second))
                part = slice(max(0, at - NEAR_BARS), at + NEAR_BARS)
                columns = (local, chunk.open, chunk.high, chunk.low, chunk.close)
                near[second] = tuple(zip(*(each[part].tolist() for each in columns), strict=True))
        for row in _thinned(chunk, seconds):
            if rows and rows[-1][0] == row[0]:  # a candle shared by two chunks
                start, opened, high, low, _ = rows[-1]
                rows[-1] = (start, opened, max(high, row[2]), min(low, row[3]), row[4])
            else:
                rows.append(row)
    return Candles(symbol, seconds, bars, tuple(rows), near)


def _width(bar_s: int, days: int, limit: int) -> int:
    """Return the narrowest width that is at least the bars' own and keeps to the limit."""
    usual = [width for width in WIDTHS if width > bar_s and width % bar_s == 0]
    for width in (bar_s, *usual):
        a_day = max(1, TRADING_S // width) if width < DAY_S else DAY_S / width
        if days * 5 / 7 * a_day <= limit:
            return width
    return usual[-1] if usual else bar_s


def _thinned(chunk: BarColumns, seconds: int) -> Iterator[Candle]:
    """Yield the candles of a chunk: first open, highest high, lowest low, last close."""
    if not len(chunk):
        return
    local = chunk.start + LOCAL_S
    starts = local - local % seconds
    firsts = np.flatnonzero(np.diff(starts, prepend=starts[0] - 1))
    lasts = np.append(firsts[1:], len(starts)) - 1
    columns = (
        starts[firsts],
        chunk.open[firsts],
        np.maximum.reduceat(chunk.high, firsts),
        np.minimum.reduceat(chunk.low, firsts),
        chunk.close[lasts],
    )
    yield from zip(*(column.tolist() for column in columns), strict=True)
