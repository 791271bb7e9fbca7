"""A day's bar as the minute bars of a day that might have been.

It opens in the first minute (HOSE: the opening auction) and closes in the last (HOSE, HNX: the
closing auction); the extremes come at drawn minutes in between, straight lines lead from one to the
next. Volume is shared out by drawn weights, the last minute and the closing auction weigh more.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from random import Random
from typing import Final

from bot.domain.instrument import Phase
from bot.sandbox.markets.flow.day import FlowSpan
from bot.sandbox.markets.flow.placer import LOT
from bot.sandbox.markets.replay.data import RecordedBar

_MINUTE_S: Final = 60
_MINUTES_MAX: Final = 120
_CLOSING_SHARE: Final = 0.07

Snap = Callable[[float], int]


def spread_over_day(
    bar: RecordedBar, path: Sequence[int], spans: Sequence[FlowSpan], random: Random, snap: Snap
) -> Iterator[RecordedBar]:
    """Yield minute bars that together are the day's, by second.

    `path` is what the bar visits, at least one lot for each; `snap` brings a price to its tick.
    """
    count = min(max(len(path), bar.volume // LOT), _MINUTES_MAX)
    seconds = _seconds(spans, count, random)
    prices = _prices(path, len(seconds), random, snap)
    for second, price, volume in zip(
        seconds, prices, _volumes(bar.volume, len(seconds), random), strict=True
    ):
        yield RecordedBar(second, price, price, price, price, volume)


def _seconds(spans: Sequence[FlowSpan], count: int, random: Random) -> list[int]:
    """Return the minutes in which something trades; the auctions are the first and the last."""
    continuous = [span for span in spans if span.phase is Phase.PROGRESS]
    minutes = [at for span in continuous for at in range(span.start, span.end, _MINUTE_S)]
    ends = {span.phase: span.end for span in spans}
    first = ends.get(Phase.OPEN, minutes[0])
    last = ends.get(Phase.PRE_CLOSED, minutes[-1])
    inner = sorted(random.sample(minutes[1:-1], max(0, count - 2)))
    return [first, *inner, last][:count]


def _prices(path: Sequence[int], count: int, random: Random, snap: Snap) -> list[int]:
    inner = sorted(random.sample(range(1, count - 1), len(path) - 2)) if len(path) > 1 else []
    stops = [0, *inner, count - 1][: len(path)]
    prices = [path[0]] * count
    legs = pairwise(zip(stops, path, strict=True))
    for (start, before), (end, after) in legs:
        for index in range(start + 1, end):
            share = (index - start) / (end - start)
            between = snap(before + (after - before) * share)
            prices[index] = min(max(between, min(before, after)), max(before, after))
        prices[end] = after
    return prices


def _volumes(volume: int, count: int, random: Random) -> list[int]:
    """Share out whole lots, at least one each."""
    weights = [random.expovariate(1) for _ in range(count)]
    weights[-1] = max(weights[-1], _CLOSING_SHARE * sum(weights))
    spare = volume - count * LOT
    parts = [LOT + int(spare * weight / sum(weights)) // LOT * LOT for weight in weights]
    parts[-1] += volume - sum(parts)
    return parts
