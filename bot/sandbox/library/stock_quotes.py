"""The unified quotes of stocks, foreign shares among them, and of exchange-traded funds; and the
earlier paths about stocks (price board, chart, events), which answer from the same data.

Quote and depth of a listed stock come from the exchanges (`api/reads.py`). Foreign shares have a
quote in dollars, daily bars only, and no depth. ETFs that the scenario does not list are absent, as
nobody could trade them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from bot.domain.instrument import EXCHANGE_TZ, InstrumentKind
from bot.domain.local_time import local_date
from bot.domain.quote import DepthLevel
from bot.protocol.quotes import CURRENCY
from bot.protocol.values import earlier as values
from bot.protocol.values import quotes, series
from bot.sandbox.api.gatekeeper import not_found
from bot.sandbox.exchange.venue import ALL_LEVELS
from bot.sandbox.library.answer import DAILY, Asked, daily, in_resolution, price_bars, ratio, scaled
from bot.sandbox.library.assets import Asset, Assets
from bot.sandbox.library.flows import Flows
from bot.sandbox.library.news import LINK
from bot.sandbox.library.stocks import CompanyEvents, Stocks
from bot.sandbox.library.walk import Row, SimulatedBar, table

DOLLAR: Final = "USD"
FOREIGN: Final = "foreign_stock"
_UNKNOWN: Final[Row] = {"fund_company": "", "underlying_index": ""}


@dataclass(frozen=True, slots=True)
class StockQuotes:
    """Answers about stocks; `digits` is 3 if histories are in thousands of VND."""

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
        """Answer bars; daily ones only for foreign shares."""
        foreign = self.assets.find(FOREIGN, asked.symbol)
        if foreign is None or asked.symbol in self.stocks.scripts:
            return listed_history(asked, self.stocks, self.digits)
        if asked.query["resolution"] != DAILY:
            raise asked.bad("resolution: only 1D of a foreign share")
        bars = price_bars(daily(asked, foreign.bars(asked.at)), foreign.digits)
        return series.PriceHistory(foreign.symbol, bars, DOLLAR, DAILY)

    def stock_depth_history(self, asked: Asked) -> object:
        """Answer today's depth, one snapshot every five minutes."""
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


def listed_bars(asked: Asked, stocks: Stocks) -> list[SimulatedBar]:
    """Return the bars of a listed symbol in the requested resolution; raises HttpRefusal 404."""
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


_WORDS: Final[Mapping[InstrumentKind, str]] = {
    InstrumentKind.STOCK: "STOCK",
    InstrumentKind.CLOSED_END_FUND: "ETF",
    InstrumentKind.ETF: "ETF",
    InstrumentKind.CW: "CW",
    InstrumentKind.BOND: "BOND",
}
_LEVELS: Final = 3


@dataclass(frozen=True, slots=True)
class EarlierStocks:
    stocks: Stocks
    flows: Flows
    events: CompanyEvents

    def earlier_stock_realtime(self, asked: Asked) -> object:
        """Answer one stock, or those of a list or of an exchange; unknown ones are left out."""
        if (symbol := asked.text("symbol")) is not None:
            symbol = self.stocks.known(symbol.upper())
            return values.StockBoard((self._now(symbol, asked.at),), is_single=True)
        wanted = [each.upper() for each in asked.items("symbols")]
        exchange = asked.text("exchange")
        found = (
            self._now(script.symbol, asked.at)
            for script in self.stocks.scripts.values()
            if script.symbol in wanted or script.exchange == exchange
        )
        return values.StockBoard(tuple(found))

    def _now(self, symbol: str, at: datetime) -> values.StockNow:
        board, now = self.stocks.board(symbol), self.stocks.now(symbol)
        facts, foreign = self.stocks.facts[symbol], self.flows.of(symbol, now.day).foreign
        owned = self.flows.owned(symbol, local_date(at))
        whole = self.stocks.house.venue.depth(symbol, ALL_LEVELS)
        best: dict[str, Decimal | None] = {}
        for side, levels in (("buy", whole.bids), ("sell", whole.asks)):
            for number in range(_LEVELS):
                level = levels[number] if number < len(levels) else None
                best[f"{side}_price_{number + 1}"] = Decimal(level.price) if level else None
                best[f"{side}_volume_{number + 1}"] = Decimal(level.volume) if level else None
        return values.StockNow(
            symbol=symbol,
            price=Decimal(now.price),
            close=Decimal(now.price),
            average=ratio(board.value, board.volume),
            ceiling=Decimal(board.ceiling),
            floor=Decimal(board.floor),
            volume=Decimal(board.volume),
            total_volume=Decimal(board.volume),
            total_value=Decimal(board.value),
            foreign_bought=Decimal(foreign.buy.total.volume),
            foreign_sold=Decimal(foreign.sell.total.volume),
            foreign_remain=Decimal(facts.foreign_max - owned),
            remain_bid=Decimal(sum(level.volume for level in whole.bids)),
            remain_ask=Decimal(sum(level.volume for level in whole.asks)),
            stock_type=_WORDS[board.instrument.kind],
            exchange=board.instrument.exchange,
            name=self.stocks.name(symbol),
            created_at=Decimal(int(at.timestamp())),
            pe=ratio(now.price, facts.eps),
            pb=ratio(now.price, facts.book_value),
            roe=ratio(facts.eps, facts.book_value, 4),
            market_cap=Decimal(facts.shares * now.price),
            symbol_status="HALTED" if board.is_halted else None,
            **now.figures(0),
            **best,
        )

    def earlier_price_chart(self, asked: Asked) -> object:
        bars = listed_bars(asked, self.stocks)
        return values.PriceChart(
            symbol=asked.symbol,
            resolution=asked.query["resolution"],
            time=tuple(int(bar.start.timestamp()) for bar in bars),
            open=tuple(Decimal(bar.open) for bar in bars),
            close=tuple(Decimal(bar.close) for bar in bars),
            high=tuple(Decimal(bar.high) for bar in bars),
            low=tuple(Decimal(bar.low) for bar in bars),
            volume=tuple(Decimal(bar.volume) for bar in bars),
        )

    def earlier_news(self, asked: Asked) -> object:
        """Answer corporate events of some stocks, or of all."""
        first, last = (
            "-".join(reversed((asked.text(name) or "").split("/")))
            for name in ("from_date", "to_date")
        )
        named = {each.upper() for each in (*asked.items("stocks"), *asked.items("stock"))}
        found = []
        for symbol in self.stocks.shares_only:
            for number, event in enumerate(self.events.of(symbol), start=1):
                ex_date, kind = event.ex_date.isoformat(), event.kind
                if (named and symbol not in named) or ex_date < first or (last and ex_date > last):
                    continue
                listed = values.StockEvent(
                    stock=symbol,
                    id=number,
                    path=f"/{symbol}/{number}",
                    title=event.title,
                    body=event.title,
                    created=event.announced_at.astimezone(EXCHANGE_TZ).strftime("%d/%m - %H:%M"),
                    action_date=event.paid_on.isoformat(),
                    ex_date=ex_date,
                    event_type=kind,
                    event_type_name=kind.replace("_", " ").title(),
                    url=f"{LINK}{symbol}/{number}",
                )
                found.append(listed)
        return tuple(found)
