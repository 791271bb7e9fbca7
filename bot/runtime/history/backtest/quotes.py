"""What a poll would see of bars: the last price of those that have ended, and a modelled depth."""

from dataclasses import replace
from datetime import datetime
from operator import mul

from bot.domain.quote import Depth, DepthLevel, Quote
from bot.runtime.history.backtest.fills import touch_of
from bot.runtime.history.backtest.rows import DayRows
from bot.sandbox.exchange.market import SymbolMarket, Tape


def tape_after(tape: Tape, day: DayRows, first: int, end: int) -> Tape:
    """Return a tape with the bars of the rows from `first` to before `end` on it, too."""
    opens, highs, lows, closes, volumes = (each[first:end] for each in day.rows.columns[1:])
    if not any(volumes):
        return tape
    if 0 in volumes:
        columns = zip(opens, highs, lows, closes, volumes, strict=True)
        traded = [row for row in columns if row[-1]]
        opens, highs, lows, closes, volumes = map(list, zip(*traded, strict=True))
    volume, value = tape.volume + sum(volumes), tape.value + sum(map(mul, closes, volumes))
    made = replace(tape, volume=volume, value=value)
    for price in (opens[0], *map(min, (opens, lows, closes)), *map(max, (opens, highs, closes))):
        made.record(price, 0)
    made.record(closes[-1], 0)
    return made


def quote_of(market: SymbolMarket, tape: Tape, at: datetime) -> Quote:
    """Return the quote of a symbol whose day has this tape so far."""
    listing, band = market.listing, market.band
    last, reference = tape.last or listing.reference, listing.reference
    symbol, exchange = listing.instrument.symbol, listing.instrument.exchange
    frame = (last, reference, band.ceiling, band.floor)
    return Quote(symbol, exchange, *frame, tape.open, tape.high, tape.low, tape.volume, at)


def depth_of(market: SymbolMarket, tape: Tape, at: datetime) -> Depth:
    """Return a depth of one level on each side, around the last price."""
    listing = market.listing
    bid, ask = touch_of(tape.last or listing.reference, market.grid)
    shares = max(tape.volume, 1)
    bids = () if bid is None else (DepthLevel(bid, shares),)
    asks = () if ask is None else (DepthLevel(ask, shares),)
    return Depth(listing.instrument.symbol, bids, asks, at)
