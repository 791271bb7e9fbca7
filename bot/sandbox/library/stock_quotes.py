"""The unified quotes of stocks, foreign shares among them, and of exchange-traded funds.

Quote and depth of a listed stock come from the exchanges (`api/market_reads.py`). Foreign shares
have a quote in dollars, days alone, and no depth. An ETF that the scenario does not list is not
there, for nobody could trade it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bot.domain.instrument import InstrumentKind
from bot.domain.quote import DepthLevel
from bot.protocol.quotes import CURRENCY
from bot.protocol.values import quotes, series
from bot.sandbox.api.gatekeeper import not_found
from bot.sandbox.library.asked import Asked
from bot.sandbox.library.assets import Asset, Assets
from bot.sandbox.library.figures import scaled
from bot.sandbox.library.series import DAILY, daily, in_resolution, price_bars
from bot.sandbox.library.stocks import Stocks
from bot.sandbox.library.tables import Row, table
from bot.sandbox.library.walk import Bar

DOLLAR: Final = "USD"
FOREIGN: Final = "foreign_stock"
_UNKNOWN: Final[Row] = {"fund_company": "", "underlying_index": ""}


@dataclass(frozen=True, slots=True)
class StockQuotes:
    """Answers about stocks; `digits` is 3 where histories are to be in thousands of VND."""

    stocks: Stocks
    assets: Assets
    digits: int = 0

    def stock_catalogue(self, _: Asked) -> object:
        own = (
            quotes.CatalogueItem(each, self.stocks.name(each)) for each in self.stocks.shares_only
        )
        rows = self.assets.rows(FOREIGN)
        return (*own, *(quotes.CatalogueItem(row["symbol"], row["name"]) for row in rows))

    def stock_history(self, asked: Asked) -> object:
        """Answer bars; of foreign shares days alone."""
        foreign = self.assets.find(FOREIGN, asked.symbol)
        if foreign is None or asked.symbol in self.stocks.scripts:
            return listed_history(asked, self.stocks, self.digits)
        if asked.query["resolution"] != DAILY:
            raise asked.bad("resolution: only 1D of a foreign share")
        bars = price_bars(daily(asked, foreign.bars(asked.at)), foreign.digits)
        return series.PriceHistory(foreign.symbol, bars, DOLLAR, DAILY)

    def stock_depth_history(self, asked: Asked) -> object:
        """Answer today's depth, one look in five minutes."""
        symbol = asked.symbol
        if symbol not in self.stocks.scripts and self.assets.find(FOREIGN, symbol):
            raise asked.bad("symbol: no depth of a foreign share")
        taken = self.stocks.house.recorder.depths(self.stocks.known(symbol), asked.today)
        looks = (
            series.DepthSnapshot(
                taken_at=each.at,
                bids=_levels(each.depth.bids),
                asks=_levels(each.depth.asks),
                remain_bid=each.bids,
                remain_ask=each.asks,
            )
            for each in taken
        )
        return series.DepthHistory(symbol, tuple(looks), CURRENCY)


@dataclass(frozen=True, slots=True)
class Etfs:
    """Answers about ETFs, which trade like any other symbol."""

    stocks: Stocks

    def _symbol(self, asked: Asked) -> str:
        script = self.stocks.scripts.get(asked.symbol)
        if script is None or script.kind is not InstrumentKind.ETF:
            raise not_found()
        return script.symbol

    def etf_catalogue(self, _: Asked) -> object:
        rows = {row["symbol"]: row for row in table("etfs")}
        listed = (
            (each.symbol, rows.get(each.symbol, _UNKNOWN))
            for each in self.stocks.scripts.values()
            if each.kind is InstrumentKind.ETF
        )
        return tuple(
            quotes.EtfItem(
                symbol, self.stocks.name(symbol), row["fund_company"], row["underlying_index"]
            )
            for symbol, row in sorted(listed, key=lambda each: each[0])
        )

    def etf_quote(self, asked: Asked) -> object:
        symbol = self._symbol(asked)
        board, now = self.stocks.board(symbol), self.stocks.now(symbol)
        return quotes.ListedQuote(
            symbol=symbol,
            price=scaled(now.price, 0),
            name=self.stocks.name(symbol),
            exchange=board.instrument.exchange,
            currency=CURRENCY,
            ceiling=scaled(board.ceiling, 0),
            floor=scaled(board.floor, 0),
            volume=now.volume,
            updated_at=asked.at,
            **now.figures(0),
        )

    def etf_history(self, asked: Asked) -> object:
        self._symbol(asked)
        return listed_history(asked, self.stocks, 0)

    def etf_depth(self, asked: Asked) -> object:
        symbol = self._symbol(asked)
        depth = self.stocks.house.venue.depth(symbol)
        return series.ListedDepth(
            symbol, _levels(depth.bids), _levels(depth.asks), CURRENCY, asked.at
        )


def listed_history(asked: Asked, stocks: Stocks, digits: int) -> series.PriceHistory:
    """Answer bars of a listed symbol; raises HttpRefusal 404."""
    bars = price_bars(listed_bars(asked, stocks), digits)
    return series.PriceHistory(asked.symbol, bars, CURRENCY, asked.query["resolution"])


def listed_bars(asked: Asked, stocks: Stocks) -> list[Bar]:
    """Return the bars of a listed symbol in the resolution asked for; raises HttpRefusal 404."""
    symbol = stocks.known(asked.symbol)
    bars = stocks.bars(symbol)
    return in_resolution(asked, bars, stocks.days, lambda day: stocks.slots(symbol, day))


def foreign_quote(asset: Asset, at: datetime) -> quotes.ListedQuote:
    """Return the quote of a foreign share: in dollars, without ceiling and floor."""
    now = asset.now(at)
    return quotes.ListedQuote(
        symbol=asset.symbol,
        price=scaled(now.price, asset.digits),
        name=asset.row["name"],
        exchange=asset.row["exchange"],
        currency=DOLLAR,
        volume=now.volume,
        updated_at=at,
        **now.figures(asset.digits),
    )


def _levels(levels: Iterable[DepthLevel]) -> tuple[series.PriceLevel, ...]:
    return tuple(series.PriceLevel(level.price, level.volume) for level in levels)
