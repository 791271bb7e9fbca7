"""Statistics of one stock: its profile, its owners, its trading."""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Final

from bot.protocol.values import stocks as values
from bot.protocol.values.border import Unshaped
from bot.sandbox.library.answer import DAILY, Asked, percent, ratio, scaled
from bot.sandbox.library.flows import Amount, Flow, Flows, Split
from bot.sandbox.library.stocks import CompanyEvents, Facts, Stocks
from bot.sandbox.library.walk import months_before, sector_names, start_of, stream

_ORDERS_START: Final = date(2021, 1, 1)
_PERCENT_DIGITS: Final = 4


@dataclass(frozen=True, slots=True)
class Statistics:
    """Answers about one stock; raise HttpRefusal 404 for an unknown one."""

    stocks: Stocks
    flows: Flows
    events: CompanyEvents

    def _facts(self, asked: Asked) -> Facts:
        return self.stocks.fact(asked.symbol)

    def stock_profile(self, asked: Asked) -> object:
        facts, name = self._facts(asked), self.stocks.name(asked.symbol)
        step = values.SectorStep(facts.sector, sector_names()[facts.sector], 1)
        about = f"{name}: made-up profile of the sandbox."
        return values.Profile(asked.symbol, name, facts.name_en, (step,), about)

    def stock_listing(self, asked: Asked) -> object:
        facts = self._facts(asked)
        float_shares = facts.part(facts.float_pct)
        return values.Listing(
            symbol=asked.symbol,
            exchange=self.stocks.scripts[asked.symbol].exchange,
            listing_date=facts.listed,
            listing_reference_price=facts.first_price,
            listed_shares=facts.shares,
            outstanding_shares=facts.shares,
            treasury_shares=0,
            free_float=float_shares,
            free_float_pct=percent(float_shares, facts.shares),
        )

    def stock_ownership(self, asked: Asked) -> object:
        """Answer who owns it: state, foreigners and others add up to all shares and to 100 percent,
        as the last absorbs the rounding.
        """
        facts = self._facts(asked)
        foreign = self.flows.owned(asked.symbol, asked.today)
        state = min(facts.part(facts.state_pct), facts.shares - foreign)
        volumes = (state, foreign, facts.shares - state - foreign)
        parts = [
            scaled(volume * 100 * 10**_PERCENT_DIGITS // facts.shares, _PERCENT_DIGITS)
            for volume in volumes[:-1]
        ]
        parts.append(100 - sum(parts, Decimal(0)))
        structure = values.OwnershipStructure(*map(values.Stake, volumes, parts))
        most = facts.foreign_max
        room = values.RoomLimit(_number(facts.room_pct), most, most - foreign)
        return values.Ownership(asked.symbol, structure, self._holders(asked, facts, state), room)

    def _holders(self, asked: Asked, facts: Facts, state: int) -> tuple[values.Shareholder, ...]:
        source = stream(self.stocks.seed, "holders", asked.symbol)
        since = start_of(months_before(self.stocks.first_day, 3).replace(day=1))
        found = [("State holder (made up)", "organization", state)] if state else []
        for number in (1, 2):
            volume = facts.shares * source.randrange(10, 40) // 1_000
            found.append((f"Holder {number} (made up)", "individual", volume))
        return tuple(
            values.Shareholder(name, kind, volume, percent(volume, facts.shares), since)
            for name, kind, volume in found
        )

    def stock_foreign_room(self, asked: Asked) -> object:
        """Answer what foreigners own and what is free, together the maximum."""
        facts, today = self._facts(asked), self.stocks.trading_day
        owned = self.flows.owned(asked.symbol, today)
        return values.ForeignRoom(
            symbol=asked.symbol,
            day=today,
            max_pct=_number(facts.room_pct),
            max_volume=facts.foreign_max,
            owned=owned,
            available=facts.foreign_max - owned,
            updated_at=asked.at,
        )

    def stock_foreign_room_history(self, asked: Asked) -> object:
        """Answer the same by day, newest first, in pages."""
        facts, (first, last) = self._facts(asked), asked.days()
        days = [flow.day for flow in reversed(self.flows.between(asked.symbol, first, last))]
        most, items = facts.foreign_max, []
        for day in asked.page(days):
            owned = self.flows.owned(asked.symbol, day)
            pct = _number(facts.room_pct)
            items.append(values.ForeignRoomDay(day, pct, most, owned, most - owned))
        return values.ForeignRoomHistory(
            items=tuple(items),
            symbol=asked.symbol,
            total=len(days),
            page=asked.whole("page"),
            page_size=asked.whole("page_size"),
            resolution=DAILY,
            start=first,
            end=last,
            updated_at=asked.at,
        )

    def _flow(self, asked: Asked) -> Flow:
        self._facts(asked)
        return self.flows.of(asked.symbol, asked.day_or(self.stocks.trading_day))

    def _flows(self, asked: Asked) -> list[Flow]:
        """The days of the range, newest first."""
        self._facts(asked)
        return self.flows.between(asked.symbol, *asked.days())[::-1]

    def stock_trading(self, asked: Asked) -> object:
        flow = self._flow(asked)
        return values.Trading(asked.symbol, flow.day, *_split(flow.traded), asked.at)

    def stock_trading_history(self, asked: Asked) -> object:
        days = (values.TradingDay(flow.day, *_split(flow.traded)) for flow in self._flows(asked))
        return values.DailyHistory(tuple(days), asked.symbol, DAILY)

    def stock_foreign(self, asked: Asked) -> object:
        flow = self._flow(asked)
        return values.GroupTrading(asked.symbol, flow.day, *_turnovers(asked, flow), asked.at)

    def stock_foreign_history(self, asked: Asked) -> object:
        flows = self._flows(asked)
        days = (values.GroupTradingDay(flow.day, *_turnovers(asked, flow)) for flow in flows)
        return values.DailyHistory(tuple(days), asked.symbol, DAILY)

    stock_proprietary = stock_foreign
    stock_proprietary_history = stock_foreign_history

    def stock_orders(self, asked: Asked) -> object:
        """Answer the matched orders of a day; nothing for today before the close.

        The default is the latest closed day.
        """
        self._facts(asked)
        day, days = asked.day_or(self.stocks.trading_day), self.stocks.days
        is_running = days.is_open(day) and not self._is_over(asked, day)
        if is_running and asked.day("date") is not None:
            return values.OrderStatistics(asked.symbol, day, updated_at=asked.at)
        flow = self.flows.of(asked.symbol, days.before(day) if is_running else day)
        return values.OrderStatistics(asked.symbol, flow.day, *_orders(flow), asked.at)

    def stock_orders_history(self, asked: Asked) -> object:
        """Answer the same for the days that have closed, newest first."""
        items = (
            values.OrderStatisticsDay(flow.day, *_orders(flow))
            for flow in self._flows(asked)
            if flow.day >= _ORDERS_START and self._is_over(asked, flow.day)
        )
        return values.OrderStatisticsHistory(tuple(items), asked.symbol)

    def _is_over(self, asked: Asked, day: date) -> bool:
        latest = self.stocks.trading_day
        return day < latest or (day == latest and self.stocks.is_over(asked.symbol, asked.today))

    def stock_events(self, asked: Asked) -> object:
        """Answer corporate events, newest first."""
        self._facts(asked)
        return Unshaped(
            [
                {
                    "type": event.kind,
                    "title": event.title,
                    "ratio": event.ratio,
                    "ex_date": event.ex_date.isoformat(),
                    "record_date": event.ex_date.isoformat(),
                    "action_date": event.paid_on.isoformat(),
                }
                for event in self.events.of(asked.symbol)
            ]
        )

    def stock_insider(self, asked: Asked) -> object:
        facts, source = self._facts(asked), stream(self.stocks.seed, "insider", asked.symbol)
        volume = facts.shares // 100_000 * source.randrange(1, 5)
        day = self.stocks.days.before(self.stocks.first_day, source.randrange(20, 60))
        row = {
            "name": "Insider 1 (made up)",
            "side": source.choice(("BUY", "SELL")),
            "registered_volume": volume,
            "executed_volume": volume,
            "from": self.stocks.days.before(day, 10).isoformat(),
            "to": day.isoformat(),
        }
        return Unshaped([row])

    def stock_analyst_reports(self, asked: Asked) -> object:
        facts = self._facts(asked)
        day = self.stocks.days.before(self.stocks.first_day, 12).isoformat()
        title = f"{asked.symbol}: made-up report"
        return Unshaped([{"title": title, "date": day, "target_price": facts.eps * 15}])


Turnovers = tuple[values.Turnovers, values.Turnovers, values.Turnovers]


def _turnovers(asked: Asked, flow: Flow) -> Turnovers:
    """Purchases and sales of foreigners or brokers, depending on the call, and the difference."""
    group = flow.foreign if asked.call.startswith("stock_foreign") else flow.proprietary
    buy, sell, net = (values.Turnovers(*_split(s)) for s in (group.buy, group.sell, group.net))
    return buy, sell, net


def _split(split: Split) -> tuple[values.Turnover, values.Turnover, values.Turnover]:
    return _turnover(split.total), _turnover(split.matched), _turnover(split.put_through)


def _turnover(amount: Amount) -> values.Turnover:
    return values.Turnover(amount.volume, amount.value)


def _orders(flow: Flow) -> tuple[values.OrderFlow, values.OrderFlow, int]:
    buy, sell = (
        values.OrderFlow(count, volume, ratio(volume, count))
        for count, volume in ((flow.buy_orders, flow.buyers), (flow.sell_orders, flow.sellers))
    )
    return buy, sell, flow.buyers - flow.sellers


def _number(value: float) -> Decimal:
    return scaled(round(value * 100), 2)
