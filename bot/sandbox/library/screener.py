"""The screener: every stock with its figures, chosen, filtered, sorted and cut into pages.

Over a window (up to now) volumes and values are sums of its days, and the change is against the
close before it; of a past day the figures are that day's. Price and ratios are always the present
ones, but for a past day, which has its close.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import reduce
from operator import add
from typing import Final

from bot.protocol.values.stocks import Screen, ScreenedStock, SectorName
from bot.protocol.words import DEFAULT_FIELDS, LIVE_FIELDS, MOVING_AVERAGES, SCREENED_FIELDS
from bot.sandbox.library.asked import Answer, Asked, Narrowed
from bot.sandbox.library.facts import sector_names
from bot.sandbox.library.figures import percent, ratio, rounded
from bot.sandbox.library.flows import Flow, Flows
from bot.sandbox.library.indices import Indices
from bot.sandbox.library.periods import page_of, window_asked
from bot.sandbox.library.stocks import Stocks
from bot.sandbox.library.walk import DayBar

_AVERAGES: Final = {"ma50": 50, "ma200": 200}
_DEFAULT_SORT: Final = "-market_cap"
_DEFAULT_SORT_OF_DAY: Final = "-volume"
_BOUNDS: Final[Mapping[str, Callable[[Decimal, Decimal], bool]]] = {
    "gt": lambda value, bound: value > bound,
    "lt": lambda value, bound: value < bound,
}

Figures = Mapping[str, Decimal | int | None]


class Screener:
    """Answers the one call."""

    def __init__(self, stocks: Stocks, indices: Indices, flows: Flows) -> None:
        self._stocks = stocks
        self._indices = indices
        self._flows = flows

    def answers(self) -> Mapping[str, Answer]:
        """Return what answers each call, by its name."""
        return {"screener": self.screen}

    def screen(self, asked: Asked) -> object:
        """Answer a page."""
        day = self._day(asked)
        sort = asked.text("sort") or (_DEFAULT_SORT_OF_DAY if day else _DEFAULT_SORT)
        figures = {symbol: self._figures(symbol, day, asked) for symbol in self._chosen(asked)}
        kept = [symbol for symbol in figures if _passes(figures[symbol], asked)]
        kept.sort(key=lambda symbol: _sort_key(symbol, figures[symbol], sort))
        if sort.startswith("-"):
            kept.reverse()
        wanted = _fields(asked, sort)
        page = Screen(
            items=tuple(self._item(each, figures[each], wanted) for each in page_of(asked, kept)),
            total=len(kept),
            page=asked.whole("page"),
            page_size=asked.whole("page_size"),
            window=asked.text("window"),
            day=day,
            updated_at=asked.at,
        )
        return Narrowed(page, items="items", fields=wanted)

    def _day(self, asked: Asked) -> date | None:
        """Return a past day; raises HttpRefusal 400 unless it was a trading day before today."""
        day = asked.day("date")
        if day is None:
            return None
        if day >= asked.today or not self._stocks.days.is_open(day):
            raise asked.bad("date: not a closed session")
        return day

    def _chosen(self, asked: Asked) -> Iterable[str]:
        exchange, sector, index = (asked.text(name) for name in ("exchange", "sector", "index"))
        found = self._indices.all.get(index) if index else None
        members = found.members if found else ()
        for symbol in self._stocks.shares_only:
            is_of_exchange = exchange in {None, self._stocks.scripts[symbol].exchange.value}
            is_of_sector = sector in {None, self._stocks.facts[symbol].sector}
            if is_of_exchange and is_of_sector and (index is None or symbol in members):
                yield symbol

    # ----------------------------------------------------------------------------- figures

    def _figures(self, symbol: str, day: date | None, asked: Asked) -> Figures:
        bars = self._stocks.bars(symbol)
        first, last = (
            (day, day) if day else window_asked(asked, self._stocks.days, self._stocks.trading_day)
        )
        flows = self._flows.between(symbol, first, last)
        flow = reduce(add, flows, Flow(last))
        before = [bar.close for bar in bars if bar.day < first]
        price = self._price(symbol, bars, day)
        base = self._base(symbol, before, day, asked)
        figures = {**self._live(symbol, price, bars), **_of_flow(flow)}
        figures["change_percent"] = percent(price - base, base)
        figures |= self._room(symbol, last)
        if day is not None:
            figures |= dict.fromkeys(LIVE_FIELDS)
        return {**figures, "price": price}

    def _price(self, symbol: str, bars: Sequence[DayBar], day: date | None) -> int:
        if day is None:
            return self._stocks.price(symbol)
        return [bar.close for bar in bars if bar.day <= day][-1]

    def _base(self, symbol: str, before: Sequence[int], day: date | None, asked: Asked) -> int:
        """What the change is against: today's reference, else the close before the window."""
        if (day is None and asked.text("window") == "1D") or not before:
            return self._stocks.board(symbol).reference
        return before[-1]

    def _live(
        self, symbol: str, price: int, bars: Sequence[DayBar]
    ) -> dict[str, Decimal | int | None]:
        facts = self._stocks.facts[symbol]
        return {
            "market_cap": facts.shares * price,
            "shares_outstanding": facts.shares,
            "pe": ratio(price, facts.eps),
            "pb": ratio(price, facts.book_value),
            "eps": Decimal(facts.eps),
            **{name: _average(bars, number) for name, number in _AVERAGES.items()},
        }

    def _room(self, symbol: str, day: date) -> dict[str, Decimal | int | None]:
        facts = self._stocks.facts[symbol]
        free = facts.foreign_max - self._flows.owned(symbol, day)
        return {
            "foreign_room_available": free,
            "foreign_room_available_pct": percent(free, facts.shares),
        }

    def _item(self, symbol: str, figures: Figures, wanted: frozenset[str]) -> ScreenedStock:
        sector = self._stocks.facts[symbol].sector
        named = {
            "symbol": symbol,
            "exchange": self._stocks.scripts[symbol].exchange.value,
            "name": self._stocks.name(symbol),
            "sector": SectorName(sector, sector_names()[sector]),
        }
        every: Mapping[str, object] = {**figures, **named}
        chosen = {name: value for name, value in every.items() if name in wanted}
        return ScreenedStock(**chosen)  # type: ignore[arg-type]


def _of_flow(flow: Flow) -> dict[str, Decimal | int | None]:
    figures: dict[str, Decimal | int | None] = {
        "volume": flow.traded.total.volume,
        "value": flow.traded.total.value,
    }
    for name, group in (("foreign", flow.foreign), ("proprietary", flow.proprietary)):
        figures[f"{name}_net_value"] = group.net.total.value
        figures[f"{name}_net_volume"] = group.net.total.volume
        figures[f"{name}_buy_value"] = group.buy.total.value
        figures[f"{name}_sell_value"] = group.sell.total.value
    return figures


def _average(bars: Sequence[DayBar], number: int) -> Decimal:
    closes = [bar.close for bar in bars[-number:]]
    return rounded(sum(closes) / len(closes), 2)


def _passes(figures: Figures, asked: Asked) -> bool:
    """Tell whether a stock is inside every bound; an unknown figure is inside none."""
    for field in SCREENED_FIELDS:
        for bound, is_inside in _BOUNDS.items():
            text = asked.text(f"{field}_{bound}")
            if text is None:
                continue
            value = figures.get(field)
            limit = figures[text] if text in MOVING_AVERAGES else Decimal(text)
            if value is None or limit is None or not is_inside(Decimal(value), Decimal(limit)):
                return False
    return True


def _sort_key(symbol: str, figures: Figures, sort: str) -> tuple[bool, Decimal, str]:
    value = figures.get(sort.removeprefix("-"))
    return value is not None, Decimal(value or 0), symbol


def _fields(asked: Asked, sort: str) -> frozenset[str]:
    """Return the fields chosen, and those that the question sorts and filters by."""
    filtered = {
        field
        for field in SCREENED_FIELDS
        for bound in _BOUNDS
        if asked.text(f"{field}_{bound}") is not None
    }
    chosen = asked.items("fields") or tuple(DEFAULT_FIELDS.split(","))
    return frozenset({*chosen, *filtered, sort.removeprefix("-"), "symbol"})
