"""Funds on the exchange: those that the scenario lists, traded there like any other symbol.

What the table knows of one, its company and its index, is shown with it; a fund that the scenario
does not list is not there, for nobody could trade it.
"""

from collections.abc import Mapping
from decimal import Decimal
from functools import cached_property
from typing import Final

from bot.domain.instrument import InstrumentKind
from bot.protocol.quotes import CURRENCY
from bot.protocol.values.quotes import EtfItem, ListedQuote
from bot.protocol.values.series import ListedDepth, PriceHistory, PriceLevel
from bot.sandbox.api.gatekeeper import not_found
from bot.sandbox.house.house import House
from bot.sandbox.library.asked import Answer, Asked
from bot.sandbox.library.figures import maybe, percent
from bot.sandbox.library.series import price_bars
from bot.sandbox.library.stock_quotes import listed_bars
from bot.sandbox.library.stocks import Stocks
from bot.sandbox.library.tables import Row, table

_UNKNOWN: Final[Row] = {"fund_company": "", "underlying_index": ""}


class Etfs:
    """Answers about them."""

    def __init__(self, house: House, stocks: Stocks) -> None:
        self._house = house
        self._stocks = stocks

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

    def _symbol(self, asked: Asked) -> str:
        if asked.symbol not in self._listed:
            raise not_found()
        return asked.symbol

    def catalogue(self, _: Asked) -> object:
        """Answer them all."""
        known = {row["symbol"]: row for row in table("etfs")}
        return tuple(self._item(each, known.get(each, _UNKNOWN)) for each in sorted(self._listed))

    def _item(self, symbol: str, row: Row) -> EtfItem:
        name = self._stocks.name(symbol)
        return EtfItem(symbol, name, row["fund_company"], row["underlying_index"])

    def quote(self, asked: Asked) -> object:
        """Answer a quote."""
        symbol = self._symbol(asked)
        board, price = self._stocks.board(symbol), self._stocks.price(symbol)
        change = price - board.reference
        return ListedQuote(
            symbol=symbol,
            price=Decimal(price),
            name=self._stocks.name(symbol),
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
        symbol = self._symbol(asked)
        bars = price_bars(listed_bars(asked, self._stocks, symbol), 0)
        return PriceHistory(symbol, bars, CURRENCY, asked.query["resolution"])

    def depth(self, asked: Asked) -> object:
        """Answer three levels a side."""
        symbol = self._symbol(asked)
        depth = self._house.venue.depth(symbol)
        bids, asks = (
            tuple(PriceLevel(level.price, level.volume) for level in side)
            for side in (depth.bids, depth.asks)
        )
        return ListedDepth(symbol, bids, asks, CURRENCY, asked.at)
