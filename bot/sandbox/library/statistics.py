"""What is known of one stock: who it is, who owns it, who traded it."""

from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from typing import Final

from bot.protocol.values import stocks as values
from bot.protocol.values.border import JsonValue, Unshaped
from bot.sandbox.library.asked import Answer, Asked
from bot.sandbox.library.corporate import CompanyEvent, CompanyEvents
from bot.sandbox.library.days import months_before, start_of
from bot.sandbox.library.facts import Facts, sector_names
from bot.sandbox.library.figures import percent, ratio, scaled
from bot.sandbox.library.flows import Amount, Flow, Flows, Group, Split
from bot.sandbox.library.periods import day_asked, page_of, range_asked
from bot.sandbox.library.stocks import Stocks
from bot.sandbox.library.walk import stream

_DAILY: Final = "1D"
_ORDERS_START: Final = date(2021, 1, 1)
_PERCENT_DIGITS: Final = 4
GroupOf = Callable[[Flow], Group]


class Statistics:
    """Answers about one stock."""

    def __init__(self, stocks: Stocks, flows: Flows, events: CompanyEvents) -> None:
        self._events = events
        self._stocks = stocks
        self._flows = flows
        self._days = stocks.days

    def answers(self) -> Mapping[str, Answer]:
        """Return what answers each call, by its name."""
        return {
            "stock_profile": self.profile,
            "stock_listing": self.listing,
            "stock_ownership": self.ownership,
            "stock_foreign_room": self.room,
            "stock_foreign_room_history": self.room_history,
            "stock_trading": self.trading,
            "stock_trading_history": self.trading_history,
            "stock_foreign": lambda asked: self._group(asked, _foreign),
            "stock_foreign_history": lambda asked: self._group_history(asked, _foreign),
            "stock_proprietary": lambda asked: self._group(asked, _proprietary),
            "stock_proprietary_history": lambda asked: self._group_history(asked, _proprietary),
            "stock_orders": self.orders,
            "stock_orders_history": self.orders_history,
            "stock_events": self.events,
            "stock_insider": self.insider,
            "stock_analyst_reports": self.analyst_reports,
        }

    def _facts(self, asked: Asked) -> Facts:
        return self._stocks.fact(asked.symbol)

    # ------------------------------------------------------------------------ who and how many

    def profile(self, asked: Asked) -> object:
        """Answer who the company is."""
        facts, name = self._facts(asked), self._stocks.name(asked.symbol)
        step = values.SectorStep(facts.sector, sector_names()[facts.sector], 1)
        about = f"{name}: made-up profile of the sandbox."
        return values.Profile(asked.symbol, name, facts.name_en, (step,), about)

    def listing(self, asked: Asked) -> object:
        """Answer where and since when it is listed."""
        facts = self._facts(asked)
        float_shares = int(facts.shares * facts.float_pct / 100)
        return values.Listing(
            symbol=asked.symbol,
            exchange=self._stocks.scripts[asked.symbol].exchange,
            listing_date=facts.listed,
            listing_reference_price=facts.first_price,
            listed_shares=facts.shares,
            outstanding_shares=facts.shares,
            treasury_shares=0,
            free_float=float_shares,
            free_float_pct=percent(float_shares, facts.shares),
        )

    def ownership(self, asked: Asked) -> object:
        """Answer who owns it: state, foreigners and others are together all shares."""
        facts = self._facts(asked)
        foreign = self._flows.owned(asked.symbol, asked.today)
        state = min(facts.state_shares, facts.shares - foreign)
        structure = values.OwnershipStructure(
            *self._stakes(facts, (state, foreign, facts.shares - state - foreign))
        )
        room = values.RoomLimit(
            _number(facts.room_pct), facts.foreign_max, facts.foreign_max - foreign
        )
        return values.Ownership(asked.symbol, structure, self._holders(asked, facts, state), room)

    def _stakes(self, facts: Facts, volumes: tuple[int, int, int]) -> list[values.Stake]:
        """Percentages that add up to 100: the last takes what rounding left."""
        parts = [
            Decimal(volume * 100 * 10**_PERCENT_DIGITS // facts.shares).scaleb(-_PERCENT_DIGITS)
            for volume in volumes[:-1]
        ]
        rest = 100 - sum(parts, Decimal(0))
        return list(map(values.Stake, volumes, [*parts, rest]))

    def _holders(self, asked: Asked, facts: Facts, state: int) -> tuple[values.Shareholder, ...]:
        source = stream(self._stocks.seed, "holders", asked.symbol)
        since = start_of(months_before(self._stocks.first_day, 3).replace(day=1))
        found = [("State holder (made up)", "organization", state)] if state else []
        for number in (1, 2):
            volume = facts.shares * source.randrange(10, 40) // 1_000
            found.append((f"Holder {number} (made up)", "individual", volume))
        return tuple(
            values.Shareholder(name, kind, volume, percent(volume, facts.shares), since)
            for name, kind, volume in found
        )

    # ---------------------------------------------------------------------------------- room

    def room(self, asked: Asked) -> object:
        """Answer what foreigners own and what is free, together the maximum."""
        facts, today = self._facts(asked), self._stocks.trading_day
        owned = self._flows.owned(asked.symbol, today)
        return values.ForeignRoom(
            symbol=asked.symbol,
            day=today,
            max_pct=_number(facts.room_pct),
            max_volume=facts.foreign_max,
            owned=owned,
            available=facts.foreign_max - owned,
            updated_at=asked.at,
        )

    def room_history(self, asked: Asked) -> object:
        """Answer the same day by day, newest first, in pages."""
        facts, (first, last) = self._facts(asked), range_asked(asked)
        days = [flow.day for flow in reversed(self._flows.between(asked.symbol, first, last))]
        return values.ForeignRoomHistory(
            items=tuple(self._room_day(asked.symbol, facts, day) for day in page_of(asked, days)),
            symbol=asked.symbol,
            total=len(days),
            page=asked.whole("page"),
            page_size=asked.whole("page_size"),
            resolution=_DAILY,
            start=first,
            end=last,
            updated_at=asked.at,
        )

    def _room_day(self, symbol: str, facts: Facts, day: date) -> values.ForeignRoomDay:
        owned, most = self._flows.owned(symbol, day), facts.foreign_max
        return values.ForeignRoomDay(day, _number(facts.room_pct), most, owned, most - owned)

    # ------------------------------------------------------------------------------- trading

    def _flow(self, asked: Asked) -> Flow:
        self._facts(asked)
        return self._flows.of(asked.symbol, day_asked(asked, self._stocks.trading_day))

    def _range(self, asked: Asked) -> list[Flow]:
        """Return the days of the range, newest first."""
        self._facts(asked)
        return self._flows.between(asked.symbol, *range_asked(asked))[::-1]

    def trading(self, asked: Asked) -> object:
        """Answer what was traded on a day."""
        flow = self._flow(asked)
        return values.Trading(asked.symbol, flow.day, *_split(flow.traded), asked.at)

    def trading_history(self, asked: Asked) -> object:
        """Answer what was traded, newest first."""
        days = (values.TradingDay(flow.day, *_split(flow.traded)) for flow in self._range(asked))
        return values.TradingHistory(tuple(days), asked.symbol, _DAILY)

    def _group(self, asked: Asked, group_of: GroupOf) -> values.GroupTrading:
        flow = self._flow(asked)
        return values.GroupTrading(asked.symbol, flow.day, *turnovers(group_of(flow)), asked.at)

    def _group_history(self, asked: Asked, group_of: GroupOf) -> values.GroupTradingHistory:
        days = (
            values.GroupTradingDay(flow.day, *turnovers(group_of(flow)))
            for flow in self._range(asked)
        )
        return values.GroupTradingHistory(tuple(days), asked.symbol, _DAILY)

    def orders(self, asked: Asked) -> object:
        """Answer the matched orders of a day; of today nothing before the close.

        Without a day the latest that has closed is meant.
        """
        self._facts(asked)
        day = day_asked(asked, self._stocks.trading_day)
        is_open = self._days.is_open(day) and not self._has_closed(asked, day)
        if is_open and asked.day("date") is None:
            day, is_open = self._days.before(day), False
        if is_open:
            return values.OrderStatistics(asked.symbol, day, updated_at=asked.at)
        flow = self._flows.of(asked.symbol, day)
        return values.OrderStatistics(asked.symbol, day, *_orders(flow), asked.at)

    def _has_closed(self, asked: Asked, day: date) -> bool:
        latest = self._stocks.trading_day
        is_over = latest < asked.today or self._stocks.has_closed(asked.symbol)
        return day < latest or (day == latest and is_over)

    def orders_history(self, asked: Asked) -> object:
        """Answer the same for the days that have closed, newest first."""
        flows = (
            flow
            for flow in self._range(asked)
            if flow.day >= _ORDERS_START and self._has_closed(asked, flow.day)
        )
        items = (values.OrderStatisticsDay(flow.day, *_orders(flow)) for flow in flows)
        return values.OrderStatisticsHistory(tuple(items), asked.symbol)

    # --------------------------------------------------------------- shapes that nobody shows

    def events(self, asked: Asked) -> object:
        """Answer corporate events, newest first."""
        self._facts(asked)
        return Unshaped([_event(event) for event in self._events.of(asked.symbol)])

    def insider(self, asked: Asked) -> object:
        """Answer one made-up trade of an insider."""
        facts, source = self._facts(asked), stream(self._stocks.seed, "insider", asked.symbol)
        volume = facts.shares // 100_000 * source.randrange(1, 5)
        day = self._days.before(self._stocks.first_day, source.randrange(20, 60))
        row = {
            "name": "Insider 1 (made up)",
            "side": source.choice(("BUY", "SELL")),
            "registered_volume": volume,
            "executed_volume": volume,
            "from": self._days.before(day, 10).isoformat(),
            "to": day.isoformat(),
        }
        return Unshaped([row])

    def analyst_reports(self, asked: Asked) -> object:
        """Answer one made-up report."""
        facts = self._facts(asked)
        day = self._days.before(self._stocks.first_day, 12).isoformat()
        title = f"{asked.symbol}: made-up report"
        return Unshaped([{"title": title, "date": day, "target_price": facts.eps * 15}])


def _event(event: CompanyEvent) -> dict[str, JsonValue]:
    return {
        "type": event.kind,
        "title": event.title,
        "ratio": event.ratio,
        "ex_date": event.ex_date.isoformat(),
        "record_date": event.ex_date.isoformat(),
        "action_date": event.paid_on.isoformat(),
    }


def _foreign(flow: Flow) -> Group:
    return flow.foreign


def _proprietary(flow: Flow) -> Group:
    return flow.proprietary


def turnovers(group: Group) -> tuple[values.Turnovers, values.Turnovers, values.Turnovers]:
    """Return bought, sold and net as the API writes them."""
    sides = (values.Turnovers(*_split(side)) for side in (group.buy, group.sell, group.net))
    buy, sell, net = sides
    return buy, sell, net


def _split(split: Split) -> tuple[values.Turnover, values.Turnover, values.Turnover]:
    return _turnover(split.total), _turnover(split.matched), _turnover(split.put_through)


def _turnover(amount: Amount) -> values.Turnover:
    return values.Turnover(amount.volume, amount.value)


def _orders(flow: Flow) -> tuple[values.OrderFlow, values.OrderFlow, int]:
    buy = _order_flow(flow.buy_orders, flow.buyers)
    return buy, _order_flow(flow.sell_orders, flow.sellers), flow.buyers - flow.sellers


def _order_flow(count: int, volume: int) -> values.OrderFlow:
    return values.OrderFlow(count, volume, ratio(volume, count))


def _number(value: float) -> Decimal:
    return scaled(round(value * 100), 2)
