"""Recorded days: their settings in a scenario, the contents of their files, and the trades by
second.

Prices are whole VND on the tick and within the band, quantities whole lots; the code that makes
these values has checked that. Seconds are those of the exchange's local day.

A bar is walked open, low, high, close when it closed at or above its open, else open, high, low,
close; repeated prices are visited once. If a bar traded fewer lots than it has prices, only the
last prices are played.

A daily bar is first split into minute bars: it opens in the first minute (HOSE: the opening
auction) and closes in the last (HOSE, HNX: the closing auction); the extremes are at random minutes
in between, with linear interpolation. Volume is distributed by random weights; the closing auction
weighs more.

Where a bar holds an auction and more (HOSE, 09:15), `OPENING_SHARE` of its volume is the auction's:
files do not say. A bar stamped with the minute in which continuous trading ends was traded just
before the end and is played in its last second.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from itertools import pairwise
from random import Random
from typing import Final

from pydantic import Field

from bot.domain.instrument import BOARD_LOT, Phase
from bot.domain.order import Side
from bot.sandbox.exchange.day import CALL_AUCTIONS
from bot.sandbox.markets.flow.day import FlowSpan
from bot.sandbox.scenario_part import Part


class RecordKind(StrEnum):
    """What a symbol is replayed from."""

    MINUTES = "minutes"
    DAILY = "daily"
    TRADES = "trades"


class ReplayScript(Part):
    """Where the records are, relative to the scenario's file; formats in `docs/market-files.md`.

    `minutes` and `trades` are folders with one file for each symbol, `daily` is one file of all
    symbols. `days` is how many trading days are read, starting with the scenario's.
    """

    minutes: str | None = None
    daily: str | None = None
    trades: str | None = None
    days: int = Field(default=1, ge=1, le=60)


@dataclass(frozen=True, slots=True)
class RecordedBar:
    """What was traded in the minute, or the day, that begins at `second`."""

    second: int
    open: int
    high: int
    low: int
    close: int
    volume: int


@dataclass(frozen=True, slots=True)
class Print:
    """Shares traded at one price. `aggressor` None: in the call auction ending at `second`."""

    second: int
    price: int
    quantity: int
    aggressor: Side | None


@dataclass(frozen=True, slots=True)
class RecordedDay:
    """One symbol on one day: its reference, and either minute bars, one bar, or trades."""

    reference: int
    minutes: tuple[RecordedBar, ...] = ()
    whole: RecordedBar | None = None
    trades: tuple[Print, ...] = ()


@dataclass(frozen=True, slots=True)
class Recording:
    """Everything that a scenario replays: days by symbol. `digest` distinguishes two recordings."""

    days: Mapping[str, Mapping[date, RecordedDay]] = field(default_factory=dict)
    digest: str = ""


OPENING_SHARE: Final = 0.6
EARLY_S: Final = 120
"""A bar stamped that little before trading begins belongs to its first second."""
_CLOSING_SHARE: Final = 0.07
_MINUTE_S: Final = 60
_MINUTES_MAX: Final = 120

Snap = Callable[[float], int]


def walked(bar: RecordedBar) -> list[int]:
    """Return the prices that a bar visits, in order, as many as it has lots."""
    inner = (bar.low, bar.high) if bar.close >= bar.open else (bar.high, bar.low)
    path = [bar.open, *inner, bar.close]
    distinct = [path[0], *(after for before, after in pairwise(path) if after != before)]
    return distinct[-max(1, bar.volume // BOARD_LOT) :]


def place_of(second: int, spans: Sequence[FlowSpan]) -> FlowSpan | None:
    """Return the phase in which a bar of that second trades, None outside all phases.

    `spans` are a whole day's, in seconds of the local day. The bar of the second in which an
    auction ends contains that auction.
    """
    for span in spans:
        if span.phase in CALL_AUCTIONS and second == span.end:
            return span
        if span.phase is Phase.PROGRESS and span.start - EARLY_S <= second <= span.end:
            return span
    return None


def prints_of(
    day: RecordedDay, spans: Sequence[FlowSpan], random: Random, snap: Snap
) -> list[Print]:
    """Yield the trades of a recorded day, by second; `snap` moves a price to its tick."""
    if day.trades:
        return list(day.trades)
    minutes = day.minutes
    if day.whole is not None:
        minutes = tuple(_spread_over_day(day.whole, spans, random, snap))
    found: list[Print] = []
    for bar in minutes:
        span = place_of(bar.second, spans)
        assert span is not None, "a recorded bar lies within the day"
        if span.phase in CALL_AUCTIONS:
            found += _auction(bar, following(span, spans), random)
        else:
            found += _continuous(bar, walked(bar), span, bar.volume, random)
    return sorted(found, key=lambda each: each.second)


def following(span: FlowSpan, spans: Sequence[FlowSpan]) -> FlowSpan | None:
    """Return the phase that begins when `span` ends."""
    return next((each for each in spans if each.start == span.end), None)


def _auction(bar: RecordedBar, after: FlowSpan | None, random: Random) -> Iterator[Print]:
    """Yield the auction, and what the bar traded after it if trading continued."""
    path = walked(bar)
    if after is None or after.phase is not Phase.PROGRESS:
        yield Print(bar.second, path[0], bar.volume, None)
        return
    share = round(bar.volume * OPENING_SHARE / BOARD_LOT) * BOARD_LOT
    volume = min(max(share, BOARD_LOT), bar.volume - (len(path) - 1) * BOARD_LOT)
    yield Print(bar.second, path[0], volume, None)
    if bar.volume > volume:
        yield from _continuous(bar, path[1:] or path, after, bar.volume - volume, random)


def _continuous(
    bar: RecordedBar, path: list[int], span: FlowSpan, volume: int, random: Random
) -> Iterator[Print]:
    """Yield a print for each price, with at least one lot, spread over the bar's minute."""
    first = min(max(bar.second, span.start), span.end - 1)
    room = min(_MINUTE_S, span.end - first) if bar.second >= span.start else 1
    step = max(1, room // len(path))
    spare = volume // BOARD_LOT - len(path)
    edges = [0, *sorted(random.randint(0, spare) for _ in path[1:]), spare]
    quantities = [(after - before + 1) * BOARD_LOT for before, after in pairwise(edges)]
    quantities[-1] = volume - sum(quantities[:-1])
    last = bar.open
    for number, (price, quantity) in enumerate(zip(path, quantities, strict=True)):
        second = min(first + number * step + random.randrange(step), span.end - 1)
        side = Side.BUY if price > last or (price == last and random.random() < 0.5) else Side.SELL
        yield Print(second, price, quantity, side)
        last = price


def _spread_over_day(
    bar: RecordedBar, spans: Sequence[FlowSpan], random: Random, snap: Snap
) -> Iterator[RecordedBar]:
    """Yield minute bars that add up to the day's bar, by second."""
    path = walked(bar)
    count = min(max(len(path), bar.volume // BOARD_LOT), _MINUTES_MAX)
    continuous = [span for span in spans if span.phase is Phase.PROGRESS]
    minutes = [at for span in continuous for at in range(span.start, span.end, _MINUTE_S)]
    ends = {span.phase: span.end for span in spans}
    inner = sorted(random.sample(minutes[1:-1], max(0, count - 2)))
    first, last = ends.get(Phase.OPEN, minutes[0]), ends.get(Phase.PRE_CLOSED, minutes[-1])
    seconds = [first, *inner, last][:count]
    prices = _prices(path, len(seconds), random, snap)
    weights = [random.expovariate(1) for _ in seconds]
    weights[-1] = max(weights[-1], _CLOSING_SHARE * sum(weights))
    spare = bar.volume - len(seconds) * BOARD_LOT
    volumes = [
        BOARD_LOT + int(spare * weight / sum(weights)) // BOARD_LOT * BOARD_LOT
        for weight in weights
    ]
    volumes[-1] += bar.volume - sum(volumes)
    for second, price, volume in zip(seconds, prices, volumes, strict=True):
        yield RecordedBar(second, price, price, price, price, volume)


def _prices(path: Sequence[int], count: int, random: Random, snap: Snap) -> list[int]:
    """Return `count` prices along the path at random places, linearly interpolated."""
    inner = sorted(random.sample(range(1, count - 1), len(path) - 2)) if len(path) > 1 else []
    stops = [0, *inner, count - 1][: len(path)]
    prices = [path[0]] * count
    for (start, before), (end, after) in pairwise(zip(stops, path, strict=True)):
        for index in range(start + 1, end):
            between = snap(before + (after - before) * ((index - start) / (end - start)))
            prices[index] = min(max(between, min(before, after)), max(before, after))
        prices[end] = after
    return prices
