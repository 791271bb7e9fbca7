"""What doing nothing would have brought on the same days: the same symbols held, and the market."""

from collections.abc import Iterator
from datetime import date, timedelta
from statistics import fmean
from typing import Final

from bot.runtime.history.backtest.figures import Benchmarks, local_day
from bot.runtime.history.backtest.result import BacktestResult
from bot.runtime.history.bars import BarSource

INDEX: Final = "VNINDEX"
"""Its file may lie among the bars, in points with two decimals."""


def benchmarks_of(result: BacktestResult, source: BarSource) -> Benchmarks:
    """Return both returns, as far as the data tell: ratios are floats, None where unknown.

    Buy and hold puts the same money into each symbol at its first close. What a share fell by on an
    ex-date is paid, as a backtest pays it, and put into more of the symbol.
    """
    if not result.equity:
        return Benchmarks(None, None)
    first, last = local_day(result.equity[0]), local_day(result.equity[-1])
    gains = []
    for symbol, (bought, now) in result.closes.items():
        if bought > 0:
            growth = 1.0
            for day, frame in source.frames(symbol, first, last).items():
                if first < day <= last and frame.ex_ratio:
                    growth /= frame.ex_ratio
            gains.append(now / bought * growth - 1)
    index = None
    if INDEX in source.symbols():
        closes = list(_closes(source, first, last))
        index = closes[-1] / closes[0] - 1 if closes and closes[0] > 0 else None
    return Benchmarks(fmean(gains) if gains else None, index)


def _closes(source: BarSource, first: date, last: date) -> Iterator[int]:
    """Yield the index's close of the first day and of the last one with bars."""
    for start, end in ((first, first), (max(first, last - timedelta(days=10)), last)):
        found = [int(chunk.close[-1]) for chunk in source.chunks(INDEX, start, end) if len(chunk)]
        yield from found[-1:]
