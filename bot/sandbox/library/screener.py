"""The screener: every stock with its figures, chosen, filtered, sorted and cut into pages.

Over a window (up to now) volumes and values are sums of its days, and the change is against the
close before it; for a past day the figures are that day's. Price and ratios are always current,
except that a past day has its close.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import reduce
from operator import add, gt, lt
from typing import Any, Final

from bot.protocol.values.stocks import Screen, ScreenedStock, SectorName
from bot.protocol.words import DEFAULT_FIELDS, LIVE_FIELDS, MOVING_AVERAGES, SCREENED_FIELDS
from bot.sandbox.library.answer import Asked, Narrowed, percent, ratio, rounded
from bot.sandbox.library.flows import Flow, Flows
from bot.sandbox.library.indices import Indices
from bot.sandbox.library.stocks import Stocks
from bot.sandbox.library.walk import sector_names

_AVERAGES: Final = {"ma50": 50, "ma200": 200}
_DEFAULT_SORT: Final = "-market_cap"
_DEFAULT_SORT_OF_DAY: Final = "-volume"
_BOUNDS: Final[Mapping[str, Callable[[Decimal, Decimal], bool]]] = {"gt": gt, "lt": lt}

Figures = dict[str, Decimal | int | None]


@dataclass(frozen=True, slots=True)
class Screener:
    stocks: Stocks
    indices: Indices
    flows: Flows

    def screener(self, asked: Asked) -> object:
        """Answer a page; raises HttpRefusal 400 unless `date` was a trading day before today."""
        day = asked.day("date")
        if day is not None and (day >= asked.today or not self.stocks.days.is_open(day)):
            raise asked.bad("date: not a closed session")
        sort = asked.text("sort") or (_DEFAULT_SORT_OF_DAY if day else _DEFAULT_SORT)
        field = sort.removeprefix("-")
        figures = {symbol: self._figures(symbol, day, asked) for symbol in self._chosen(asked)}
        kept = [symbol for symbol in figures if _passes(figures[symbol], asked)]
        kept.sort(
            key=lambda each: (
                figures[each].get(field) is not None,
                Decimal(figures[each].get(field) or 0),
                each,
            ),
            reverse=sort.startswith("-"),
        )
        fields = asked.items("fields") or tuple(DEFAULT_FIELDS.split(","))
        filtered = (name for name in SCREENED_FIELDS if _bounds(asked, name))
        wanted = frozenset({*fields, *filtered, field, "symbol"})
        page = Screen(
            items=tuple(self._item(each, figures[each], wanted) for each in asked.page(kept)),
            total=len(kept),
            page=asked.whole("page"),
            page_size=asked.whole("page_size"),
            window=asked.text("window"),
            day=day,
            updated_at=asked.at,
        )
        return Narrowed(page, items="items", fields=wanted)

    def _chosen(self, asked: Asked) -> list[str]:
        exchange, sector, index = (asked.text(name) for name in ("exchange", "sector", "index"))
        found = self.indices.all.get(index) if index else None
        members = found.members if found else ()
        return [
            symbol
            for symbol in self.stocks.shares_only
            if exchange in {None, self.stocks.scripts[symbol].exchange.value}
            and sector in {None, self.stocks.facts[symbol].sector}
            and (index is None or symbol in members)
        ]

    def _figures(self, symbol: str, day: date | None, asked: Asked) -> Figures:
        stocks, facts, bars = self.stocks, self.stocks.facts[symbol], self.stocks.bars(symbol)
        first, last = (day, day) if day else asked.window(stocks.days, stocks.trading_day)
        flow = reduce(add, self.flows.between(symbol, first, last), Flow(last))
        before = [bar.close for bar in bars if bar.day < first]
        price = stocks.price(symbol)
        if day is not None:
            price = [bar.close for bar in bars if bar.day <= day][-1]
        # Today's change is against the reference, which a corporate action may have moved.
        is_today = day is None and asked.text("window") == "1D"
        base = stocks.board(symbol).reference if is_today or not before else before[-1]
        free = facts.foreign_max - self.flows.owned(symbol, last)
        figures: Figures = {
            "market_cap": facts.shares * price,
            "shares_outstanding": facts.shares,
            "pe": ratio(price, facts.eps),
            "pb": ratio(price, facts.book_value),
            "eps": Decimal(facts.eps),
            "volume": flow.traded.total.volume,
            "value": flow.traded.total.value,
            "change_percent": percent(price - base, base),
            "foreign_room_available": free,
            "foreign_room_available_pct": percent(free, facts.shares),
        }
        for name, number in _AVERAGES.items():
            closes = [bar.close for bar in bars[-number:]]
            figures[name] = rounded(sum(closes) / len(closes), 2)
        for name, group in (("foreign", flow.foreign), ("proprietary", flow.proprietary)):
            figures[f"{name}_net_value"] = group.net.total.value
            figures[f"{name}_net_volume"] = group.net.total.volume
            figures[f"{name}_buy_value"] = group.buy.total.value
            figures[f"{name}_sell_value"] = group.sell.total.value
        if day is not None:
            figures |= dict.fromkeys(LIVE_FIELDS)
        return {**figures, "price": price}

    def _item(self, symbol: str, figures: Figures, wanted: frozenset[str]) -> ScreenedStock:
        sector = self.stocks.facts[symbol].sector
        every: Mapping[str, Any] = {
            **figures,
            "symbol": symbol,
            "exchange": self.stocks.scripts[symbol].exchange.value,
            "name": self.stocks.name(symbol),
            "sector": SectorName(sector, sector_names()[sector]),
        }
        return ScreenedStock(**{name: value for name, value in every.items() if name in wanted})


def _bounds(asked: Asked, field: str) -> dict[str, str]:
    """The query's bounds for a field, as written."""
    given = {bound: asked.text(f"{field}_{bound}") for bound in _BOUNDS}
    return {bound: text for bound, text in given.items() if text is not None}


def _passes(figures: Figures, asked: Asked) -> bool:
    """Return whether a stock is within every bound; an unknown figure is within none."""
    for field in SCREENED_FIELDS:
        for bound, text in _bounds(asked, field).items():
            value = figures.get(field)
            limit = figures[text] if text in MOVING_AVERAGES else Decimal(text)
            if value is None or limit is None or not _BOUNDS[bound](Decimal(value), Decimal(limit)):
                return False
    return True
