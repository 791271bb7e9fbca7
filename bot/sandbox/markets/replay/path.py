"""From a recorded day to what trades, second by second.

A bar is walked open, low, high, close when it closed at or above its open, else open, high, low,
close; a price that follows itself is visited once. Of a bar that traded fewer lots than it shows
prices, the last of them are played. A daily bar becomes minute bars first (`daily`).

Where a bar holds an auction and more (HOSE, 09:15), `OPENING_SHARE` of its volume is the auction's:
files do not tell. What is stamped with the minute in which continuous trading ends was traded just
before it and is played in its last second.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random
from typing import Final

from bot.domain.instrument import Phase
from bot.domain.order import Side
from bot.sandbox.markets.flow.day import FlowSpan
from bot.sandbox.markets.flow.placer import LOT
from bot.sandbox.markets.replay.daily import Snap, spread_over_day
from bot.sandbox.markets.replay.data import Print, RecordedBar, RecordedDay

OPENING_SHARE: Final = 0.6
_MINUTE_S: Final = 60
_HALF: Final = 0.5
EARLY_S: Final = 120
"""A bar stamped that little before trading begins belongs to its first second."""
_AUCTIONS: Final = frozenset({Phase.OPEN, Phase.PRE_CLOSED})


def walked(bar: RecordedBar) -> list[int]:
    """Return the prices that a bar visits, in order, as many as its volume can pay for."""
    inner = (bar.low, bar.high) if bar.close >= bar.open else (bar.high, bar.low)
    path = [bar.open, *inner, bar.close]
    distinct = [path[0], *(after for before, after in pairwise(path) if after != before)]
    return distinct[-max(1, bar.volume // LOT) :]


def place_of(second: int, spans: Sequence[FlowSpan]) -> FlowSpan | None:
    """Return the phase in which a bar of that second trades; None: in none.

    `spans` are a whole day's, in seconds of the local day. The bar of the second in which an
    auction ends holds that auction.
    """
    for span in spans:
        if span.phase in _AUCTIONS and second == span.end:
            return span
        if span.phase is Phase.PROGRESS and span.start - EARLY_S <= second <= span.end:
            return span
    return None


def prints_of(
    day: RecordedDay, spans: Sequence[FlowSpan], random: Random, snap: Snap
) -> list[Print]:
    """Return what trades on a recorded day, by second; `snap` brings a price to its tick."""
    if day.trades:
        return list(day.trades)
    minutes = day.minutes
    if day.whole is not None:
        minutes = tuple(spread_over_day(day.whole, walked(day.whole), spans, random, snap))
    found: list[Print] = []
    for bar in minutes:
        found += _prints_of_bar(bar, spans, random)
    return sorted(found, key=lambda each: each.second)


def _prints_of_bar(bar: RecordedBar, spans: Sequence[FlowSpan], random: Random) -> Iterator[Print]:
    span = place_of(bar.second, spans)
    assert span is not None, "a recorded bar lies within the day"
    path = walked(bar)
    if span.phase in _AUCTIONS:
        following = next((each for each in spans if each.start == span.end), None)
        yield from _auction(bar, path, following, random)
    else:
        yield from _continuous(bar, path, span, bar.volume, random)


def _auction(
    bar: RecordedBar, path: list[int], following: FlowSpan | None, random: Random
) -> Iterator[Print]:
    """Yield the auction, and what the bar traded after it when trading went on."""
    goes_on = following is not None and following.phase is Phase.PROGRESS
    rest = max(len(path) - 1, 0) * LOT
    share = _lots(bar.volume * OPENING_SHARE)
    volume = min(max(share, LOT), bar.volume - rest) if goes_on else bar.volume
    yield Print(bar.second, path[0], volume, None)
    if goes_on and following is not None and bar.volume > volume:
        left = path[1:] or path
        yield from _continuous(bar, left, following, bar.volume - volume, random)


def _continuous(
    bar: RecordedBar, path: list[int], span: FlowSpan, volume: int, random: Random
) -> Iterator[Print]:
    first = min(max(bar.second, span.start), span.end - 1)
    room = min(_MINUTE_S, span.end - first) if bar.second >= span.start else 1
    step = max(1, room // len(path))
    last = bar.open
    quantities = _shared(volume, path, random)
    for number, (price, quantity) in enumerate(zip(path, quantities, strict=True)):
        second = min(first + number * step + random.randrange(step), span.end - 1)
        side = Side.BUY if price > last or (price == last and random.random() < 0.5) else Side.SELL
        yield Print(second, price, quantity, side)
        last = price


def _lots(quantity: float) -> int:
    return round(quantity / LOT) * LOT


def _shared(volume: int, path: list[int], random: Random) -> list[int]:
    """Split whole lots into as many parts as there are prices, at least one lot each."""
    spare = volume // LOT - len(path)
    cuts = sorted(random.randint(0, spare) for _ in path[1:])
    edges = [0, *cuts, spare]
    parts = [(after - before + 1) * LOT for before, after in pairwise(edges)]
    return [*parts[:-1], volume - sum(parts[:-1])]
