"""The earlier paths about stocks: the price board, the chart, events.

They answer from the same data as the present ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from bot.domain.instrument import EXCHANGE_TZ, InstrumentKind
from bot.protocol.values import earlier as values
from bot.sandbox.exchange.venue import ALL_LEVELS
from bot.sandbox.library.asked import Asked
from bot.sandbox.library.corporate import CompanyEvents
from bot.sandbox.library.days import local_day
from bot.sandbox.library.figures import ratio
from bot.sandbox.library.flows import Flows
from bot.sandbox.library.news import LINK
from bot.sandbox.library.stock_quotes import listed_bars
from bot.sandbox.library.stocks import Stocks

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
        owned = self.flows.owned(symbol, local_day(at))
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
