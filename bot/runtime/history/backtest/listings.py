"""The reference and band with which each symbol begins a day, and its last close before.

The data's own reference takes precedence over one derived from the previous day (close; UPCOM:
average).
"""

from collections.abc import Iterable, Mapping
from datetime import date, time
from typing import Final

from bot.domain.instrument import Exchange, Instrument, SymbolTable
from bot.domain.local_time import instant_of
from bot.domain.quote import LastClose
from bot.domain.rulebook import Rulebook
from bot.runtime.history.backtest.exchange import BarExchange
from bot.runtime.history.backtest.market import Market, MarketDay
from bot.sandbox.exchange.message import Listing

OPENS_AT: Final = time(8, 45)
"""When the day's reads are made, local time: before any exchange opens."""


class Listings:
    """Lists the symbols of each day. `told`: the assumptions made, as sentences."""

    def __init__(
        self,
        rulebook: Rulebook,
        exchange: BarExchange,
        table: SymbolTable,
        known: Mapping[str, Instrument],
    ) -> None:
        self.told: list[str] = []
        self._rulebook = rulebook
        self._exchange = exchange
        self._table = table
        self._known = known
        self._last_day: dict[str, date] = {}

    def look_back(self, market: Market, first: date) -> None:
        """Read the last day before the first one, whose close the first day is checked against."""
        found = []
        for symbol in self._known:
            before = market.before(symbol, first)
            if before is not None:
                found.append((before[0], symbol, before[1]))
        for day, symbol, bars in sorted(found, key=lambda each: each[:2]):
            instrument = self._table.instrument(symbol, day) or self._known[symbol]
            at = instant_of(day, OPENS_AT)
            self._exchange.start_day(at, [Listing(instrument, bars[0].open)])
            for bar in bars:
                self._exchange.end_bar(bar, at)
            self._last_day[symbol] = day

    def closes(self, day: MarketDay) -> tuple[LastClose, ...]:
        """Return the last closes before a day, as far as there are any."""
        found = []
        for symbol, each in day.symbols.items():
            if symbol in self._last_day:
                close = self._exchange.market(symbol).anchor
                is_new = each.is_moved or each.frame.ex_ratio is not None
                dates = frozenset({day.day}) if is_new else frozenset[date]()
                # Bars may lack the closing auction, and a reference an ex-date's ratio.
                is_reference = each.frame.reference in (None, close)
                last_day = self._last_day[symbol]
                last = LastClose(symbol, close, last_day, None, dates, is_reference=is_reference)
                found.append(last)
        return tuple(found)

    def of(self, day: MarketDay) -> list[Listing]:
        """Return the listings of a day's symbols; one about which nothing is known
        yet is omitted.
        """
        listed = []
        for symbol, each in day.symbols.items():
            frame, before = each.frame, self._exchange.next_listing(symbol)
            reference: int | None
            if frame.reference is not None:
                reference = frame.reference
            elif before is None or each.is_moved:
                reference = each.first
            elif frame.ex_ratio is not None:
                fallen = round(self._exchange.market(symbol).anchor * frame.ex_ratio)
                reference = self._rulebook.ticks_of(each.instrument).up(fallen - 1)
            else:
                reference = before.reference
            if reference is None:
                continue
            is_special = each.is_moved and before is not None and frame.reference is None
            if is_special:
                text = f"{symbol} moved to {each.instrument.exchange}: its first day there has the"
                text += f" wide band, around its first price ({reference:,} VND)"
                self.told.append(text)
            listed.append(Listing(each.instrument, reference, is_special=is_special))
        return listed

    def end(self, day: date, listed: Iterable[str]) -> None:
        """Record which symbols have traded on a day, as their last close is from then."""
        for symbol in listed:
            if self._exchange.market(symbol).totals.last is not None:
                self._last_day[symbol] = day


def fall_of(close: int, listing: Listing, ratio: float) -> int:
    """Return by how much a share falls on its ex-date. On UPCOM the reference comes from an average
    of the day before, so it does not say what the share has lost since its close.
    """
    if listing.instrument.exchange is Exchange.UPCOM:
        return close - round(close * ratio)
    return close - listing.reference
