"""Funds on the exchange. Each follows its index: its price is the index, scaled, on the tick.

A fund whose index has no member here is not there. One that the scenario lists is played on the
exchange like any other symbol, and its quote is the exchange's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import Final

from bot.domain.instrument import Exchange, Instrument, InstrumentKind, Phase
from bot.domain.rulebook import Rulebook
from bot.protocol.quotes import CURRENCY
from bot.protocol.values_quotes import EtfItem, ListedQuote
from bot.protocol.values_series import ListedDepth, PriceHistory, PriceLevel
from bot.sandbox.gatekeeper import not_found
from bot.sandbox.house import House
from bot.sandbox.library.asked import Answer, Asked
from bot.sandbox.library.assets import Day
from bot.sandbox.library.figures import maybe, percent, scaled
from bot.sandbox.library.indices import Index, Indices
from bot.sandbox.library.other_quotes import depth_around
from bot.sandbox.library.series import STEPS, daily, intraday, price_bars
from bot.sandbox.library.stock_quotes import listed_bars
from bot.sandbox.library.stocks import Stocks
from bot.sandbox.library.tables import Row, table
from bot.sandbox.library.walk import LOT, Bar, DayBar

_DAILY: Final = "1D"
_LEVELS: Final = 3


@dataclass(frozen=True, slots=True)
class Etf:
    """A fund of the table and its index; `reference` is its price at the index's start."""

    row: Row
    index: Index
    reference: int
    instrument: Instrument


class Etfs:
    """Answers about them."""

    def __init__(self, house: House, stocks: Stocks, indices: Indices) -> None:
        self._house = house
        self._rulebook: Rulebook = house.rulebook
        self._stocks = stocks
        self._indices = indices

    def answers(self) -> Mapping[str, Answer]:
        """Return what answers each call, by its name."""
        return {
            "etf_catalogue": self.catalogue,
            "etf_quote": self.quote,
            "etf_history": self.history,
            "etf_depth": self.depth,
        }

    @cached_property
    def _listed(self) -> frozenset[str]:
        scripts = self._stocks.scripts.values()
        return frozenset(each.symbol for each in scripts if each.kind is InstrumentKind.ETF)

    @cached_property
    def _followers(self) -> Mapping[str, Etf]:
        return {
            row["symbol"]: _etf(row, self._indices.all[row["underlying_index"]])
            for row in table("etfs")
            if row["underlying_index"] in self._indices.all
            and row["symbol"] not in self._stocks.scripts
        }

    def catalogue(self, _: Asked) -> object:
        """Answer them all."""
        own = (EtfItem(each, self._stocks.name(each)) for each in sorted(self._listed))
        return (*own, *map(_item, self._followers.values()))

    def _etf(self, asked: Asked) -> Etf:
        found = self._followers.get(asked.symbol)
        if found is None:
            raise not_found()
        return found

    # ------------------------------------------------------------------------------- prices

    def _price(self, etf: Etf, level: int) -> int:
        price = etf.reference * level // etf.index.base
        return self._rulebook.tick_down(etf.instrument, price)

    def bars(self, etf: Etf) -> list[DayBar]:
        """Return its days: those of the index, scaled."""
        return [self._scaled(etf, bar) for bar in self._indices.bars(etf.index)]

    def _scaled(self, etf: Etf, bar: DayBar) -> DayBar:
        opened, high, low, close = (self._price(etf, level) for level in bar[1:5])
        volume = self._volume(etf, bar.volume)
        return DayBar(bar.day, opened, high, low, close, volume, volume * close)

    def now(self, etf: Etf) -> Day:
        """Return its latest day: that of the index, scaled."""
        day = self._indices.now(etf.index)
        opened, high, low = (
            None if level is None else self._price(etf, level)
            for level in (day.opened, day.high, day.low)
        )
        reference, price = self._price(etf, day.reference), self._price(etf, day.price)
        return Day(day.day, reference, price, opened, high, low, self._volume(etf, day.volume))

    def slots(self, etf: Etf, day: date) -> Sequence[Bar]:
        """Return a day in minutes, or in parts of five minutes."""
        bars: list[Bar] = []
        sold = 0
        for minute in self._indices.minutes(etf.index, day):
            close, volume = self._price(etf, minute.value), self._volume(etf, minute.volume)
            opened = bars[-1].close if bars else close
            high, low, part = max(opened, close), min(opened, close), volume - sold
            bars.append(Bar(minute.at, opened, high, low, close, part, part * close))
            sold = volume
        return bars

    def _volume(self, etf: Etf, of_index: int) -> int:
        """Return a volume that grows with that of the index, in whole lots."""
        typical = max(1, self._indices.volume_before(etf.index))
        return int(etf.row["volume"]) * of_index // typical // LOT * LOT

    # ------------------------------------------------------------------------------ answers

    def quote(self, asked: Asked) -> object:
        """Answer a quote."""
        if asked.symbol in self._listed:
            return self._listed_quote(asked)
        etf = self._etf(asked)
        now = self.now(etf)
        band = self._rulebook.band(etf.instrument, now.reference)
        return ListedQuote(
            symbol=etf.row["symbol"],
            price=scaled(now.price, 0),
            name=etf.row["name"],
            exchange=etf.row["exchange"],
            currency=CURRENCY,
            open=maybe(now.opened, 0),
            high=maybe(now.high, 0),
            low=maybe(now.low, 0),
            reference=scaled(now.reference, 0),
            ceiling=scaled(band.ceiling, 0),
            floor=scaled(band.floor, 0),
            change=scaled(now.change, 0),
            change_percent=percent(now.change, now.reference),
            volume=now.volume,
            updated_at=asked.at,
        )

    def _listed_quote(self, asked: Asked) -> ListedQuote:
        board, price = self._stocks.board(asked.symbol), self._stocks.price(asked.symbol)
        change = price - board.reference
        return ListedQuote(
            symbol=asked.symbol,
            price=Decimal(price),
            name=self._stocks.name(asked.symbol),
            exchange=board.instrument.exchange,
            currency=CURRENCY,
            open=maybe(board.open, 0),
            high=maybe(board.high, 0),
            low=maybe(board.low, 0),
            reference=Decimal(board.reference),
            ceiling=Decimal(board.ceiling),
            floor=Decimal(board.floor),
            change=Decimal(change),
            change_percent=percent(change, board.reference),
            volume=board.volume,
            updated_at=asked.at,
        )

    def history(self, asked: Asked) -> object:
        """Answer bars in the resolution asked for."""
        resolution = asked.query["resolution"]
        bars = price_bars(self._bars_asked(asked, resolution), 0)
        return PriceHistory(asked.symbol, bars, CURRENCY, resolution)

    def _bars_asked(self, asked: Asked, resolution: str) -> Sequence[Bar]:
        if asked.symbol in self._listed:
            return list(listed_bars(asked, self._stocks, asked.symbol))
        etf = self._etf(asked)
        if resolution == _DAILY:
            return daily(asked, self.bars(etf))
        return intraday(
            asked, self._stocks.days, lambda day: self.slots(etf, day), STEPS[resolution]
        )

    def depth(self, asked: Asked) -> object:
        """Answer three levels a side, while the exchange trades."""
        if asked.symbol in self._listed:
            return self._listed_depth(asked)
        etf = self._etf(asked)
        phase = self._rulebook.phase_at(Exchange(etf.row["exchange"]), asked.at)
        price = self.now(etf).price
        tick = self._rulebook.tick_size(etf.instrument, price)
        wanted = range(1, _LEVELS + 1) if phase is not Phase.CLOSED else ()
        steps = tuple(tick * each for each in wanted)
        return depth_around(asked.symbol, price, steps, asked.at, seed=self._stocks.seed)

    def _listed_depth(self, asked: Asked) -> ListedDepth:
        depth = self._house.venue.depth(asked.symbol)
        bids, asks = (
            tuple(PriceLevel(level.price, level.volume) for level in side)
            for side in (depth.bids, depth.asks)
        )
        return ListedDepth(asked.symbol, bids, asks, CURRENCY, asked.at)


def _etf(row: Row, index: Index) -> Etf:
    instrument = Instrument(row["symbol"], Exchange(row["exchange"]), InstrumentKind.ETF)
    return Etf(row, index, int(row["reference"]), instrument)


def _item(etf: Etf) -> EtfItem:
    row = etf.row
    return EtfItem(row["symbol"], row["name"], row["fund_company"], row["underlying_index"])
