"""The earlier paths about stocks: the price board, the chart, events.

They answer from the same data as the present ones.
"""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Final

from bot.domain.instrument import EXCHANGE_TZ, InstrumentKind
from bot.domain.quote import Depth
from bot.protocol.values import earlier as values
from bot.sandbox.house.house import House
from bot.sandbox.library.asked import Answer, Asked
from bot.sandbox.library.corporate import CompanyEvent, CompanyEvents
from bot.sandbox.library.days import local_day
from bot.sandbox.library.figures import maybe, percent, ratio
from bot.sandbox.library.flows import Flows
from bot.sandbox.library.stock_quotes import listed_bars
from bot.sandbox.library.stocks import Stocks

_WORDS: Final[Mapping[InstrumentKind, str]] = {
    InstrumentKind.STOCK: "STOCK",
    InstrumentKind.CLOSED_END_FUND: "ETF",
    InstrumentKind.ETF: "ETF",
    InstrumentKind.CW: "CW",
    InstrumentKind.BOND: "BOND",
}
_SIDES: Final = ("buy", "sell")
_LEVELS: Final = 3
_ALL_LEVELS: Final = 10_000


class EarlierStocks:
    """Answers from exchange, histories and statistics."""

    def __init__(self, house: House, stocks: Stocks, flows: Flows, events: CompanyEvents) -> None:
        self._house = house
        self._stocks = stocks
        self._flows = flows
        self._events = events

    def answers(self) -> Mapping[str, Answer]:
        """Return what answers each call, by its name."""
        return {
            "earlier_stock_realtime": self.realtime,
            "earlier_price_chart": self.chart,
            "earlier_news": self.events,
        }

    # ------------------------------------------------------------------------------- board

    def realtime(self, asked: Asked) -> object:
        """Answer one stock, or those of a list or of an exchange; unknown ones are left out."""
        if (symbol := asked.text("symbol")) is not None:
            script = self._stocks.script(symbol.upper())
            return values.StockBoard((self._now(script.symbol, asked.at),), is_single=True)
        wanted = [each.upper() for each in asked.items("symbols")]
        exchange = asked.text("exchange")
        found = (
            script.symbol
            for script in self._stocks.scripts.values()
            if script.symbol in wanted or script.exchange == exchange
        )
        return values.StockBoard(tuple(self._now(symbol, asked.at) for symbol in found))

    def _now(self, symbol: str, at: datetime) -> values.StockNow:
        board, price = self._stocks.board(symbol), self._stocks.price(symbol)
        facts, flow = self._stocks.facts[symbol], self._flows.of(symbol, self._stocks.trading_day)
        whole = self._house.venue.depth(symbol, _ALL_LEVELS)
        owned = self._flows.owned(symbol, local_day(at))
        change = price - board.reference
        return values.StockNow(
            symbol=symbol,
            price=Decimal(price),
            close=Decimal(price),
            open=maybe(board.open, 0),
            high=maybe(board.high, 0),
            low=maybe(board.low, 0),
            average=ratio(board.value, board.volume),
            reference=Decimal(board.reference),
            ceiling=Decimal(board.ceiling),
            floor=Decimal(board.floor),
            change=Decimal(change),
            change_percent=percent(change, board.reference),
            volume=Decimal(board.volume),
            total_volume=Decimal(board.volume),
            total_value=Decimal(board.value),
            foreign_bought=Decimal(flow.foreign.buy.total.volume),
            foreign_sold=Decimal(flow.foreign.sell.total.volume),
            foreign_remain=Decimal(facts.foreign_max - owned),
            remain_bid=Decimal(sum(level.volume for level in whole.bids)),
            remain_ask=Decimal(sum(level.volume for level in whole.asks)),
            stock_type=_WORDS[board.instrument.kind],
            exchange=board.instrument.exchange,
            name=self._stocks.name(symbol),
            created_at=Decimal(int(at.timestamp())),
            pe=ratio(price, facts.eps),
            pb=ratio(price, facts.book_value),
            roe=ratio(facts.eps, facts.book_value, 4),
            market_cap=Decimal(facts.shares * price),
            symbol_status="HALTED" if board.is_halted else None,
            **_levels(whole),
        )

    # -------------------------------------------------------------------------------- chart

    def chart(self, asked: Asked) -> object:
        """Answer bars by column."""
        symbol = self._stocks.script(asked.symbol).symbol
        bars = list(listed_bars(asked, self._stocks, symbol))
        return values.PriceChart(
            symbol=symbol,
            resolution=asked.query["resolution"],
            time=tuple(int(bar.start.timestamp()) for bar in bars),
            open=tuple(Decimal(bar.open) for bar in bars),
            close=tuple(Decimal(bar.close) for bar in bars),
            high=tuple(Decimal(bar.high) for bar in bars),
            low=tuple(Decimal(bar.low) for bar in bars),
            volume=tuple(Decimal(bar.volume) for bar in bars),
        )

    # ------------------------------------------------------------------------------- events

    def events(self, asked: Asked) -> object:
        """Answer corporate events of some stocks, or of all."""
        first, last = _slashed(asked.text("from_date")), _slashed(asked.text("to_date"))
        named = {each.upper() for each in (*asked.items("stocks"), *asked.items("stock"))}
        return tuple(
            _event(number, symbol, event)
            for symbol in self._stocks.shares_only
            if not named or symbol in named
            for number, event in enumerate(self._events.of(symbol), start=1)
            if _is_between(event.ex_date.isoformat(), first, last)
        )


def _levels(depth: Depth) -> dict[str, Decimal | None]:
    """Return the best three levels of each side; what is not there is None."""
    found: dict[str, Decimal | None] = {}
    for side, levels in zip(_SIDES, (depth.bids, depth.asks), strict=True):
        for number in range(_LEVELS):
            level = levels[number] if number < len(levels) else None
            found[f"{side}_price_{number + 1}"] = None if level is None else Decimal(level.price)
            found[f"{side}_volume_{number + 1}"] = None if level is None else Decimal(level.volume)
    return found


def _slashed(text: str | None) -> str | None:
    """Return `31/12/2026` as `2026-12-31`."""
    return None if text is None else "-".join(reversed(text.split("/")))


def _is_between(day: str, first: str | None, last: str | None) -> bool:
    return (first is None or first <= day) and (last is None or day <= last)


def _event(number: int, symbol: str, event: CompanyEvent) -> values.StockEvent:
    return values.StockEvent(
        stock=symbol,
        id=number,
        path=f"/{symbol}/{number}",
        title=event.title,
        body=event.title,
        created=event.told_at.astimezone(EXCHANGE_TZ).strftime("%d/%m - %H:%M"),
        action_date=event.paid_on.isoformat(),
        ex_date=event.ex_date.isoformat(),
        event_type=event.kind,
        event_type_name=event.kind.replace("_", " ").title(),
        url=f"https://news.example/{symbol}/{number}",
    )
