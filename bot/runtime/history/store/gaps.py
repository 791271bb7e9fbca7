"""What is missing in a symbol's bars: trading days without one, days that begin late or end early.

A day is held against the symbol's own usual day: one that trades seldom is not called short for it.
"""

from collections.abc import Iterable
from datetime import date
from itertools import groupby
from typing import Final

import numpy as np

from bot.domain.calendar import TradingCalendar
from bot.runtime.history.bars import Column, Gap
from bot.runtime.history.store.bar_files import DAY_S, OFFSET_S

SHORT_S: Final = 3_600
"""A day that ends so much before the symbol's usual end is said."""
_EPOCH: Final = date(1970, 1, 1).toordinal()


def gaps_of(
    symbol: str,
    starts: Iterable[Column],
    first: date,
    last: date,
    *,
    seconds: int,
    calendar: TradingCalendar,
) -> tuple[Gap, ...]:
    """Return the gaps from `first` to `last`, oldest first; days the calendar lacks have none."""
    begins, ends = _ends_of_days(starts)
    wanted = [day for day in calendar.trading_days if first <= day <= last]
    missing = [
        _missing(symbol, [day for _, day in run])
        for is_missing, run in groupby(enumerate(wanted), key=lambda each: each[1] not in ends)
        if is_missing
    ]
    if seconds >= DAY_S or not ends:
        return tuple(missing)
    usual_begin, usual_end = (int(np.median(list(each.values()))) for each in (begins, ends))
    short = [
        Gap(symbol, day, day, f"ends at {_clock(end)}, usually at {_clock(usual_end)}")
        for day, end in ends.items()
        if usual_end - end >= SHORT_S
    ]
    short += [
        Gap(symbol, day, day, f"begins at {_clock(begin)}, usually at {_clock(usual_begin)}")
        for day, begin in begins.items()
        if begin - usual_begin >= SHORT_S
    ]
    return tuple(sorted([*missing, *short], key=lambda gap: (gap.first, gap.what)))


def _missing(symbol: str, days: list[date]) -> Gap:
    what = "no bar" if len(days) == 1 else f"no bar on {len(days)} trading days"
    return Gap(symbol, days[0], days[-1], what)


def _ends_of_days(starts: Iterable[Column]) -> tuple[dict[date, int], dict[date, int]]:
    """Return the second of each local day at which its first and its last bar starts."""
    begins: dict[date, int] = {}
    ends: dict[date, int] = {}
    for column in starts:
        days, seconds = np.divmod(column + OFFSET_S, DAY_S)
        found, at = np.unique(days, return_index=True)
        lasts = np.append(at[1:], len(days)) - 1
        for number, begin, end in zip(found, seconds[at], seconds[lasts], strict=True):
            day = date.fromordinal(int(number) + _EPOCH)
            begins.setdefault(day, int(begin))
            ends[day] = int(end)
    return begins, ends


def _clock(second: int) -> str:
    return f"{second // 3_600:02}:{second // 60 % 60:02}"
