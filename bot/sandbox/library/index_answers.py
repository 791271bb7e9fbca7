"""Indices and sectors as calls: catalogue, quote, history, the day so far, members, their flows.

Undocumented shapes are modelled on those of a stock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from bot.protocol.values import quotes
from bot.protocol.values.border import JsonValue, Unshaped
from bot.protocol.values.quotes import IndexNow
from bot.protocol.values.series import IndexHistory
from bot.sandbox.api.gatekeeper import not_found
from bot.sandbox.library.answer import DAILY, Asked, closes_only, daily, percent, price_bars, scaled
from bot.sandbox.library.assets import Assets
from bot.sandbox.library.flows import Flow, Flows, Group, Split
from bot.sandbox.library.indices import DIGITS, Indices, StockIndex
from bot.sandbox.library.stocks import Stocks
from bot.sandbox.library.walk import sector_names


@dataclass(frozen=True, slots=True)
class IndexAnswers:
    stocks: Stocks
    indices: Indices
    assets: Assets
    flows: Flows

    def index_catalogue(self, _: Asked) -> object:
        own = (quotes.CatalogueItem(index.code, index.name) for index in self.indices.all.values())
        rows = self.assets.rows("index")
        return (*own, *(quotes.CatalogueItem(row["symbol"], row["name"]) for row in rows))

    def index_quote(self, asked: Asked) -> object:
        foreign = self.assets.find("index", asked.symbol)
        if foreign is not None:
            code, name = foreign.symbol, foreign.row["name"]
            now, digits = foreign.now(asked.at), foreign.digits
        else:
            index = self.indices.get(asked.symbol)
            code, name, now, digits = index.code, index.name, self.indices.now(index), DIGITS
        return quotes.IndexQuote(
            symbol=code,
            value=scaled(now.price, digits),
            name=name,
            volume=now.volume,
            updated_at=asked.at,
            **now.figures(digits),
        )

    def index_history(self, asked: Asked) -> object:
        """Answer days; closes only for foreign indices."""
        foreign = self.assets.find("index", asked.symbol)
        if foreign is not None:
            bars = closes_only(daily(asked, foreign.bars(asked.at)), foreign.digits)
            return IndexHistory(foreign.symbol, bars, DAILY)
        index = self.indices.get(asked.symbol)
        bars = price_bars(daily(asked, self.indices.bars(index)), DIGITS)
        return IndexHistory(index.code, bars, DAILY)

    def index_realtime(self, asked: Asked) -> object:
        """Answer the day so far of every known index; others are left out."""
        codes = dict.fromkeys(code.upper() for code in asked.items("index"))
        return tuple(
            self._now(self.indices.all[code], asked) for code in codes if code in self.indices.all
        )

    def _now(self, index: StockIndex, asked: Asked) -> IndexNow:
        day, now = self.stocks.trading_day, self.indices.now(index)
        minutes = self.indices.counted_minutes(index, day)
        breadth = asdict(self.indices.breadth(self._prices(index.members)))
        counts: dict[str, Any] = {
            f"{name}_series": tuple(getattr(minute.breadth, name) for minute in minutes)
            for name in breadth
        }
        return IndexNow(
            index=index.code,
            value=scaled(now.price, DIGITS),
            name=index.code,
            change=scaled(now.change, DIGITS),
            change_percent=now.change_percent,
            reference=scaled(now.reference, DIGITS),
            quantity=now.volume,
            amount=self.indices.value(index, day),
            values=tuple(scaled(minute.value, DIGITS) for minute in minutes),
            volumes=tuple(Decimal(minute.volume) for minute in minutes),
            times=tuple(minute.at for minute in minutes),
            phase=self.stocks.house.rulebook.phase_at(index.exchange, asked.at),
            **breadth,
            **counts,
        )

    def index_list(self, _: Asked) -> object:
        rows: list[JsonValue] = []
        for index in self.indices.all.values():
            now = self.indices.now(index)
            rows.append(
                {
                    "symbol": index.code,
                    "name": index.name,
                    "exchange": index.exchange.value,
                    "value": scaled(now.price, DIGITS),
                    "change": scaled(now.change, DIGITS),
                    "change_percent": now.change_percent,
                    "constituents": len(index.members),
                }
            )
        return Unshaped(rows)

    def sector_list(self, _: Asked) -> object:
        """Answer the sectors with how many stocks they have here."""
        facts = [self.stocks.facts[each].sector for each in self.stocks.shares_only]
        return Unshaped(
            [
                {"slug": slug, "name": name, "level": 1, "stocks": facts.count(slug)}
                for slug, name in sector_names().items()
            ]
        )

    def sector_performance(self, asked: Asked) -> object:
        """Answer how the worth of a sector has changed in a window; 1D is against the references.

        The change of a sector without stocks is null.
        """
        members, window = self._members(asked), asked.query["window"]
        first, _ = asked.window(self.stocks.days, self.stocks.trading_day)
        worth = self._worth(self._prices(members))
        base = self._worth({each: self.stocks.price_before(each, first) for each in members})
        return Unshaped(
            {
                "slug": asked.path["slug"].lower(),
                "window": window,
                "change_percent": percent(worth - base, base),
                "market_cap": worth,
            }
        )

    def sector_performance_history(self, asked: Asked) -> object:
        """Answer the change of each day, newest first."""
        members, today = self._members(asked), self.stocks.trading_day
        first, last = asked.days()
        closes = {each: {bar.day: bar.close for bar in self.stocks.bars(each)} for each in members}
        prices = {each: self.stocks.price_before(each, first) for each in members}
        rows = []
        for day in self.stocks.days.between(first, min(last, today)):
            references = {each: self.stocks.price_before(each, today) for each in members}
            base = self._worth(references if day == today else prices)
            prices = {each: closes[each].get(day, prices[each]) for each in members}
            worth = self._worth(prices)
            change = percent(worth - base, base)
            rows.append({"date": day.isoformat(), "change_percent": change, "market_cap": worth})
        return Unshaped({"resolution": DAILY, "data": rows[::-1]})

    def _prices(self, members: Sequence[str]) -> dict[str, int]:
        return {each: self.stocks.price(each) for each in members}

    def _worth(self, prices: Mapping[str, int]) -> int:
        return sum(self.indices.worth(each, price) for each, price in prices.items())

    def _members(self, asked: Asked) -> Sequence[str]:
        if asked.kind == "index":
            return self.indices.get(asked.symbol).members
        slug = asked.path["slug"].lower()
        if slug not in sector_names():
            raise not_found()
        facts = self.stocks.facts
        return [each for each in self.stocks.shares_only if facts[each].sector == slug]

    def index_breadth(self, asked: Asked) -> object:
        members = self._members(asked)
        counted = self.indices.breadth(self._prices(members))
        return Unshaped(
            {
                "advances": counted.advances,
                "declines": counted.declines,
                "nochanges": counted.unchanged,
                "ceiling": counted.ceiling,
                "floor": counted.floor,
                "total": len(members),
            }
        )

    def index_constituents(self, asked: Asked) -> object:
        """Answer the stocks with their weights, the heaviest first."""
        members = self._members(asked)
        worth = {each: self.indices.worth(each, self.stocks.price(each)) for each in members}
        rows: list[JsonValue] = []
        for symbol in sorted(members, key=lambda each: -worth[each]):
            board, now = self.stocks.board(symbol), self.stocks.now(symbol)
            rows.append(
                {
                    "symbol": symbol,
                    "name": self.stocks.name(symbol),
                    "price": now.price,
                    "change_percent": now.change_percent,
                    "shares": self.stocks.facts[symbol].shares,
                    "market_cap": worth[symbol],
                    "weight": percent(worth[symbol], sum(worth.values()), 4),
                    "volume": board.volume,
                    "value": board.value,
                }
            )
        return Unshaped(rows)

    def index_foreign(self, asked: Asked) -> object:
        """Answer what foreigners and others traded in all members on a day."""
        members, day = self._members(asked), asked.day_or(self.stocks.trading_day)
        return Unshaped(_flow(sum((self.flows.of(each, day) for each in members), Flow(day))))

    def index_foreign_history(self, asked: Asked) -> object:
        """Answer the same by day, newest first."""
        members, (first, last) = self._members(asked), asked.days()
        found: dict[date, Flow] = {}
        for each in members:
            for flow in self.flows.between(each, first, last):
                found[flow.day] = found.get(flow.day, Flow(flow.day)) + flow
        days: list[JsonValue] = [_flow(found[day]) for day in sorted(found, reverse=True)]
        return Unshaped({"resolution": DAILY, "data": days})

    sector_breadth = index_breadth
    sector_constituents = index_constituents
    sector_foreign = index_foreign
    sector_foreign_history = index_foreign_history


def _flow(flow: Flow) -> dict[str, JsonValue]:
    group = flow.foreign
    others = Group(flow.traded - group.buy, flow.traded - group.sell)
    return {
        "date": flow.day.isoformat(),
        "buy": _split(group.buy),
        "sell": _split(group.sell),
        "net": _split(group.net),
        "others": {"buy": _split(others.buy), "sell": _split(others.sell)},
        "traded": _split(flow.traded),
    }


def _split(split: Split) -> dict[str, JsonValue]:
    amounts = {"total": split.total, "matched": split.matched, "put_through": split.put_through}
    return {name: {"volume": each.volume, "value": each.value} for name, each in amounts.items()}
