"""When bars begin and end, and wider bars from narrower ones: the same live, in warm-up, backtest.

The grid begins anew with each part of a day, at 09:00 and 13:00 of the exchange's time, and nothing
lasts beyond 15:00: so no bar holds prices of two days, or of morning and afternoon. Within a part
bars follow one another by their width; the last one may be shorter. A bar of a day begins at local
midnight and ends when the exchanges close.

The parts are those of all three exchanges since 2025-05-05 (`rules/market.yaml`); the auctions of
HOSE and HNX are matched on this grid, at 09:15 and 14:45.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

from bot.domain.quote import Bar

DAY: Final = timedelta(days=1)
_OFFSET: Final = timedelta(hours=7)
"""Of Vietnam, which has no summer time: a grid is asked for too often for a time zone."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PARTS: Final = tuple(timedelta(hours=hour) for hour in (0, 9, 13, 15, 24))
CLOSE: Final = timedelta(hours=15)


def span_of(at: datetime, width: timedelta) -> tuple[datetime, datetime]:
    """Return start and end (the first instant after it) of the bar that holds an instant."""
    local = at - _EPOCH + _OFFSET
    since = local % DAY
    midnight = at - since
    if width >= DAY:
        return midnight, midnight + (CLOSE if since < CLOSE else DAY)
    for first, last in pairwise(_PARTS):
        if since < last:
            start = since - (since - first) % width
            return midnight + start, midnight + min(start + width, last)
    raise AssertionError("a day has 24 hours")


def width_name(width: timedelta) -> str:
    """Return a width as a strategy file has it: `1m`, `15m`, `1h`, `1d`."""
    seconds = round(width.total_seconds())
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds % length == 0:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def widened(bars: Iterable[Bar], width: timedelta) -> Iterator[Bar]:
    """Yield bars of a width made of narrower ones of one symbol, oldest first; a span without any
    has none. The last one holds what there is of it, whether or not its span is over.

    A bar opens with its first trade: flat bars before that stand at the price of before.
    """
    made: Bar | None = None
    end = _EPOCH
    for bar in bars:
        if made is not None and bar.start < end:
            if made.volume == 0 and made.high == made.low:
                made = replace(bar, start=made.start, seconds=made.seconds)
                continue
            made = replace(
                made,
                high=max(made.high, bar.high),
                low=min(made.low, bar.low),
                close=bar.close,
                volume=made.volume + bar.volume,
            )
            continue
        if made is not None:
            yield made
        start, end = span_of(bar.start, width)
        made = replace(bar, start=start, seconds=round(width.total_seconds()))
    if made is not None:
        yield made
