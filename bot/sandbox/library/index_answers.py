"""Indices and sectors as calls: catalogue, quote, history, the day so far, members, their flows.

Shapes that no source shows are made by analogy with those of a stock.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Final

from bot.protocol.values.border import JsonValue, Unshaped
from bot.protocol.values.index import IndexNow
from bot.protocol.values.quotes import CatalogueItem, IndexQuote
from bot.protocol.values.series import IndexHistory
from bot.sandbox.api.gatekeeper import not_found
from bot.sandbox.library.asked import Answer, Asked
from bot.sandbox.library.assets import Day
from bot.sandbox.library.facts import sector_names
from bot.sandbox.library.figures import maybe, percent, scaled
from bot.sandbox.library.flows import Amount, Flow, Flows, Group, Split
from bot.sandbox.library.indices import DIGITS, Breadth, Index, Indices, Minute
from bot.sandbox.library.market_assets import Assets
from bot.sandbox.library.periods import day_asked, range_asked, window_asked
from bot.sandbox.library.series import closes_only, daily, price_bars
from bot.sandbox.library.stocks import Stocks

_DAILY: Final = "1D"
GroupOf = Callable[[Flow], Group]
MembersOf = Callable[[Asked], Sequence[str]]


class IndexAnswers:
    """Answers about indices and sectors."""

    def __init__(self, stocks: Stocks, indices: Indices, assets: Assets, flows: Flows) -> None:
        self._stocks = stocks
        self._indices = indices
        self._assets = assets
        self._flows = flows

    def answers(self) -> Mapping[str, Answer]:
        """Return what answers each call, by its name."""
        return {
            "index_catalogue": self.catalogue,
            "index_quote": self.quote,
            "index_history": self.history,
            "index_realtime": self.realtime,
            "index_list": self.index_list,
            "sector_list": self.sector_list,
            **self._of_members("index", self._index_members),
            **self._of_members("sector", self._sector_members),
            **self._of_group("index_foreign", self._index_members, _foreign),
            **self._of_group("sector_foreign", self._sector_members, _foreign),
            "sector_performance": self.performance,
            "sector_performance_history": self.performance_by_day,
        }

    def _of_members(self, prefix: str, members_of: MembersOf) -> dict[str, Answer]:
        return {
            f"{prefix}_breadth": lambda asked: self.breadth(members_of(asked)),
            f"{prefix}_constituents": lambda asked: self.constituents(members_of(asked)),
        }

    def _of_group(self, name: str, members_of: MembersOf, group_of: GroupOf) -> dict[str, Answer]:
        return {
            name: lambda asked: self.flow_of_day(asked, members_of(asked), group_of),
            f"{name}_history": lambda asked: self.flow_by_day(asked, members_of(asked), group_of),
        }

    # ------------------------------------------------------------------------------ quotes

    def catalogue(self, _: Asked) -> object:
        """Answer our own indices and foreign ones."""
        own = (CatalogueItem(index.code, index.name) for index in self._indices.all.values())
        rows = self._assets.rows("index")
        return (*own, *(CatalogueItem(row["symbol"], row["name"]) for row in rows))

    def quote(self, asked: Asked) -> object:
        """Answer a value."""
        foreign = self._assets.find("index", asked.symbol)
        if foreign is not None:
            now, digits, name = foreign.now(asked.at), foreign.digits, foreign.row["name"]
            return _quote(foreign.symbol, name, now, digits, asked.at)
        index = self._indices.get(asked.symbol)
        return _quote(index.code, index.name, self._indices.now(index), DIGITS, asked.at)

    def history(self, asked: Asked) -> object:
        """Answer days; of foreign indices closes alone."""
        foreign = self._assets.find("index", asked.symbol)
        if foreign is not None:
            bars = closes_only(daily(asked, foreign.bars(asked.at)), foreign.digits)
            return IndexHistory(foreign.symbol, bars, _DAILY)
        index = self._indices.get(asked.symbol)
        bars = price_bars(daily(asked, self._indices.bars(index)), DIGITS)
        return IndexHistory(index.code, bars, _DAILY)

    def realtime(self, asked: Asked) -> object:
        """Answer the day so far of every index that is known; the others are left out."""
        codes = dict.fromkeys(code.upper() for code in asked.items("index"))
        known = (self._indices.all.get(code) for code in codes)
        return tuple(self._now(index, asked) for index in known if index is not None)

    def _now(self, index: Index, asked: Asked) -> IndexNow:
        now, minutes = self._indices.now(index), self._minutes(index)
        breadth = self._indices.breadth(index)
        counts = [minute.breadth for minute in minutes]
        return IndexNow(
            index=index.code,
            value=scaled(now.price, DIGITS),
            name=index.code,
            change=scaled(now.change, DIGITS),
            change_percent=percent(now.change, now.reference),
            reference=scaled(now.reference, DIGITS),
            quantity=now.volume,
            amount=self._indices.value(index),
            advances=breadth.advances,
            declines=breadth.declines,
            unchanged=breadth.unchanged,
            ceiling=breadth.ceiling,
            floor=breadth.floor,
            values=tuple(scaled(minute.value, DIGITS) for minute in minutes),
            volumes=tuple(Decimal(minute.volume) for minute in minutes),
            times=tuple(minute.at for minute in minutes),
            advances_series=tuple(each.advances for each in counts),
            declines_series=tuple(each.declines for each in counts),
            unchanged_series=tuple(each.unchanged for each in counts),
            ceiling_series=tuple(each.ceiling for each in counts),
            floor_series=tuple(each.floor for each in counts),
            phase=self._stocks.phase(index.exchange, asked.at),
        )

    def _minutes(self, index: Index) -> list[Minute]:
        return self._indices.counted_minutes(index, self._stocks.trading_day)

    # ------------------------------------------------------------------------------ members

    def _index_members(self, asked: Asked) -> Sequence[str]:
        return self._indices.get(asked.symbol).members

    def _sector_members(self, asked: Asked) -> Sequence[str]:
        slug = asked.path["slug"].lower()
        if slug not in sector_names():
            raise not_found()
        facts = self._stocks.facts
        return [each for each in self._stocks.shares_only if facts[each].sector == slug]

    def performance(self, asked: Asked) -> object:
        """Answer how the worth of a sector has changed in a window; of 1D against the references.

        The change of a sector without stocks is null.
        """
        members, window = self._sector_members(asked), asked.query["window"]
        first, _ = window_asked(asked, self._stocks.days, self._stocks.trading_day)
        before = {each: self._price_before(each, first) for each in members}
        now = {each: self._stocks.price(each) for each in members}
        worth, base = self._worth(now), self._worth(before)
        return Unshaped(
            {
                "slug": asked.path["slug"].lower(),
                "window": window,
                "change_percent": percent(worth - base, base),
                "market_cap": worth,
            }
        )

    def performance_by_day(self, asked: Asked) -> object:
        """Answer the change of each day, newest first."""
        members = self._sector_members(asked)
        first, last = range_asked(asked)
        closes = {each: {bar.day: bar.close for bar in self._stocks.bars(each)} for each in members}
        prices = {each: self._price_before(each, first) for each in members}
        rows = []
        for day in self._stocks.days.between(first, min(last, self._stocks.trading_day)):
            base = self._worth(
                prices if day < self._stocks.trading_day else self._references(members)
            )
            prices = {each: closes[each].get(day, prices[each]) for each in members}
            worth = self._worth(prices)
            change = percent(worth - base, base)
            rows.append({"date": day.isoformat(), "change_percent": change, "market_cap": worth})
        return Unshaped({"resolution": _DAILY, "data": rows[::-1]})

    def _worth(self, prices: Mapping[str, int]) -> int:
        return sum(self._indices.worth(each, price) for each, price in prices.items())

    def _references(self, members: Sequence[str]) -> dict[str, int]:
        return {each: self._stocks.board(each).reference for each in members}

    def _price_before(self, symbol: str, day: date) -> int:
        """Return the close before a day; of today the reference."""
        if day == self._stocks.trading_day:
            return self._stocks.board(symbol).reference
        return self._stocks.close_before(symbol, day)

    def index_list(self, _: Asked) -> object:
        """Answer our own indices with value and counts."""
        return Unshaped([self._index_row(index) for index in self._indices.all.values()])

    def _index_row(self, index: Index) -> dict[str, JsonValue]:
        now = self._indices.now(index)
        return {
            "symbol": index.code,
            "name": index.name,
            "exchange": index.exchange.value,
            "value": scaled(now.price, DIGITS),
            "change": scaled(now.change, DIGITS),
            "change_percent": percent(now.change, now.reference),
            "constituents": len(index.members),
        }

    def sector_list(self, _: Asked) -> object:
        """Answer the sectors with how many stocks they have here."""
        facts = [self._stocks.facts[each].sector for each in self._stocks.shares_only]
        return Unshaped(
            [
                {"slug": slug, "name": name, "level": 1, "stocks": facts.count(slug)}
                for slug, name in sector_names().items()
            ]
        )

    def breadth(self, members: Sequence[str]) -> Unshaped:
        """Answer how many stocks rise and fall."""
        counted = self._indices.breadth_at({each: self._stocks.price(each) for each in members})
        return Unshaped(_breadth(counted, len(members)))

    def constituents(self, members: Sequence[str]) -> Unshaped:
        """Answer the stocks with their weights, the heaviest first."""
        worth = {each: self._indices.worth(each, self._stocks.price(each)) for each in members}
        ordered = sorted(members, key=lambda each: -worth[each])
        return Unshaped([self._member(each, worth) for each in ordered])

    def _member(self, symbol: str, worth: Mapping[str, int]) -> dict[str, JsonValue]:
        board, price = self._stocks.board(symbol), self._stocks.price(symbol)
        return {
            "symbol": symbol,
            "name": self._stocks.name(symbol),
            "price": price,
            "change_percent": percent(price - board.reference, board.reference),
            "shares": self._stocks.facts[symbol].shares,
            "market_cap": worth[symbol],
            "weight": percent(worth[symbol], sum(worth.values()), 4),
            "volume": board.volume,
            "value": board.value,
        }

    # -------------------------------------------------------------------------------- flows

    def flow_of_day(self, asked: Asked, members: Sequence[str], group_of: GroupOf) -> Unshaped:
        """Answer what a group traded in all members on a day, and what the others did."""
        day = day_asked(asked, self._stocks.trading_day)
        return Unshaped(_flow(self._together(members, day), group_of))

    def _together(self, members: Sequence[str], day: date) -> Flow:
        return sum((self._flows.of(each, day) for each in members), Flow(day))

    def flow_by_day(self, asked: Asked, members: Sequence[str], group_of: GroupOf) -> Unshaped:
        """Answer the same day by day, newest first."""
        first, last = range_asked(asked)
        found: dict[date, Flow] = {}
        for each in members:
            for flow in self._flows.between(each, first, last):
                found[flow.day] = found.get(flow.day, Flow(flow.day)) + flow
        days = [_flow(found[day], group_of) for day in sorted(found, reverse=True)]
        return Unshaped({"resolution": _DAILY, "data": days})


def _quote(symbol: str, name: str, now: Day, digits: int, at: datetime) -> IndexQuote:
    return IndexQuote(
        symbol=symbol,
        value=scaled(now.price, digits),
        name=name,
        open=maybe(now.opened, digits),
        high=maybe(now.high, digits),
        low=maybe(now.low, digits),
        reference=scaled(now.reference, digits),
        change=scaled(now.change, digits),
        change_percent=percent(now.change, now.reference),
        volume=now.volume,
        updated_at=at,
    )


def _foreign(flow: Flow) -> Group:
    return flow.foreign


def _breadth(counted: Breadth, total: int) -> dict[str, JsonValue]:
    return {
        "advances": counted.advances,
        "declines": counted.declines,
        "nochanges": counted.unchanged,
        "ceiling": counted.ceiling,
        "floor": counted.floor,
        "total": total,
    }


def _flow(flow: Flow, group_of: GroupOf) -> dict[str, JsonValue]:
    group = group_of(flow)
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
    return {
        "total": _amount(split.total),
        "matched": _amount(split.matched),
        "put_through": _amount(split.put_through),
    }


def _amount(amount: Amount) -> dict[str, JsonValue]:
    return {"volume": amount.volume, "value": amount.value}
