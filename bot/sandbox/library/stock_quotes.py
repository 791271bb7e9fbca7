"""The unified quotes of stocks: catalogue, history, depth as it was. Foreign shares are among them.

Quote and depth of what is listed here come from the exchanges (`market_reads.py`); foreign shares
have a quote in dollars, days alone, and no depth.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from bot.domain.quote import DepthLevel
from bot.protocol.quotes import CURRENCY
from bot.protocol.values.quotes import CatalogueItem, ListedQuote
from bot.protocol.values.series import DepthHistory, DepthSnapshot, PriceHistory, PriceLevel
from bot.sandbox.library.asked import Answer, Asked
from bot.sandbox.library.figures import maybe, percent, scaled
from bot.sandbox.library.market_assets import Asset, Assets
from bot.sandbox.library.series import STEPS, daily, intraday, price_bars
from bot.sandbox.library.stocks import Stocks
from bot.sandbox.library.walk import Bar
from bot.sandbox.markets.recorder import DepthTaken

DOLLAR: Final = "USD"
_DAILY: Final = "1D"
FOREIGN: Final = "foreign_stock"


class StockQuotes:
    """Answers about stocks; `history_digits` is 3 where the scenario wants thousands of VND."""

    def __init__(self, stocks: Stocks, assets: Assets, *, history_digits: int = 0) -> None:
        self._stocks = stocks
        self._assets = assets
        self._digits = history_digits

    def answers(self) -> Mapping[str, Answer]:
        """Return what answers each call, by its name."""
        return {
            "stock_catalogue": self.catalogue,
            "stock_history": self.history,
            "stock_depth_history": self.depth_history,
        }

    def catalogue(self, _: Asked) -> object:
        """Answer every share there is."""
        own = (CatalogueItem(each, self._stocks.name(each)) for each in self._stocks.shares_only)
        rows = self._assets.rows(FOREIGN)
        return (*own, *(CatalogueItem(row["symbol"], row["name"]) for row in rows))

    def history(self, asked: Asked) -> object:
        """Answer bars; of foreign shares days alone."""
        foreign = self._assets.find(FOREIGN, asked.symbol)
        if foreign is not None and asked.symbol not in self._stocks.scripts:
            return self._foreign_history(asked, foreign)
        symbol = self._stocks.script(asked.symbol).symbol
        resolution = asked.query["resolution"]
        bars = price_bars(listed_bars(asked, self._stocks, symbol), self._digits)
        return PriceHistory(symbol, bars, CURRENCY, resolution)

    def _foreign_history(self, asked: Asked, foreign: Asset) -> PriceHistory:
        if asked.query["resolution"] != _DAILY:
            raise asked.bad("resolution: only 1D of a foreign share")
        bars = price_bars(daily(asked, foreign.bars(asked.at)), foreign.digits)
        return PriceHistory(foreign.symbol, bars, DOLLAR, _DAILY)

    def depth_history(self, asked: Asked) -> object:
        """Answer today's depth, one look in five minutes."""
        symbol = asked.symbol
        if symbol not in self._stocks.scripts and self._assets.find(FOREIGN, symbol):
            raise asked.bad("symbol: no depth of a foreign share")
        self._stocks.script(symbol)
        taken = self._stocks.depths(symbol, asked.today)
        return DepthHistory(symbol, tuple(map(_snapshot, taken)), CURRENCY)


def listed_bars(asked: Asked, stocks: Stocks, symbol: str) -> Iterable[Bar]:
    """Return the bars of a listed symbol in the resolution asked for."""
    resolution = asked.query["resolution"]
    if resolution == _DAILY:
        return daily(asked, stocks.bars(symbol))
    step: timedelta = STEPS[resolution]
    return intraday(asked, stocks.days, lambda day: stocks.slots(symbol, day), step)


def foreign_quote(asset: Asset, asked_at: datetime) -> ListedQuote:
    """Return the quote: in dollars, without ceiling and floor."""
    now, digits = asset.now(asked_at), asset.digits
    return ListedQuote(
        symbol=asset.symbol,
        price=scaled(now.price, digits),
        name=asset.row["name"],
        exchange=asset.row["exchange"],
        currency=DOLLAR,
        open=maybe(now.opened, digits),
        high=maybe(now.high, digits),
        low=maybe(now.low, digits),
        reference=scaled(now.reference, digits),
        change=scaled(now.change, digits),
        change_percent=percent(now.change, now.reference),
        volume=now.volume,
        updated_at=asked_at,
    )


def _snapshot(taken: DepthTaken) -> DepthSnapshot:
    return DepthSnapshot(
        taken_at=taken.at,
        bids=_levels(taken.depth.bids),
        asks=_levels(taken.depth.asks),
        remain_bid=taken.bids,
        remain_ask=taken.asks,
    )


def _levels(levels: Iterable[DepthLevel]) -> tuple[PriceLevel, ...]:
    return tuple(PriceLevel(level.price, level.volume) for level in levels)
