"""A venue with one symbol of each exchange, driven by local times and short order lines."""

from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime, time
from functools import cache
from itertools import count
from typing import Any, TypeVar

from bot.config.rulebook import load_rulebook
from bot.domain.instrument import EXCHANGE_TZ, Exchange, Instrument
from bot.domain.order import OrderType, Side
from bot.domain.rulebook import Rulebook
from bot.sandbox.exchange.message import (
    CROWD,
    Listing,
    NewOrder,
    OrderAccepted,
    OrderRefused,
    Refusal,
    Traded,
    VenueEvent,
)
from bot.sandbox.exchange.venue import Venue

THURSDAY, FRIDAY, MONDAY = date(2026, 11, 19), date(2026, 11, 20), date(2026, 11, 23)
SYMBOLS = {Exchange.HOSE: "HPG", Exchange.HNX: "SHS", Exchange.UPCOM: "BSR"}
REFERENCES = {"HPG": 25_350, "SHS": 12_000, "BSR": 22_600}

Kind = TypeVar("Kind", bound=VenueEvent)


@cache
def rules() -> Rulebook:
    return load_rulebook()


def local(text: str, day: date = THURSDAY) -> datetime:
    return datetime.combine(day, time.fromisoformat(text), tzinfo=EXCHANGE_TZ)


def listing(exchange: Exchange, reference: int | None = None, **marks: Any) -> Listing:
    symbol = SYMBOLS[exchange]
    return Listing(Instrument(symbol, exchange), reference or REFERENCES[symbol], **marks)


class Stage:
    """Each call hands back the events of that call; `all` keeps them all."""

    def __init__(self, at: str, *listings: Listing, day: date = THURSDAY) -> None:
        listed = listings or tuple(listing(exchange) for exchange in SYMBOLS)
        self.day = day
        self.venue = Venue(rules(), listed, start=local(at, day))
        self.now = local(at, day)
        self.all: list[VenueEvent] = []
        self._ids = count(1)

    def kept(self, events: Sequence[VenueEvent]) -> list[VenueEvent]:
        self.all += events
        return list(events)

    def at(self, text: str, day: date | None = None) -> list[VenueEvent]:
        self.day = day or self.day
        self.now = local(text, self.day)
        return self.kept(self.venue.advance(self.now))

    def order(self, line: str, *, owner: str = CROWD, name: str = "") -> NewOrder:
        """Read `HPG BUY 100 LO 25350` or `HPG SELL 100 ATC`."""
        symbol, side, quantity, order_type, *price = line.split()
        return NewOrder(
            order_id=name or f"o{next(self._ids)}",
            owner=owner,
            symbol=symbol,
            side=Side(side),
            quantity=int(quantity),
            order_type=OrderType(order_type),
            price=int(price[0]) if price else None,
        )

    def submit(self, line: str, *, owner: str = CROWD, name: str = "") -> list[VenueEvent]:
        order = self.order(line, owner=owner, name=name)
        return self.kept(self.venue.submit(order, self.now))

    def refused(self, line: str, *, owner: str = CROWD) -> Refusal | None:
        """Submit, and return the refusal; what `Venue.refusal` says before must be the same."""
        order = self.order(line, owner=owner)
        foreseen = self.venue.refusal(order)
        events = self.kept(self.venue.submit(order, self.now))
        reasons = only(events, OrderRefused)
        assert foreseen == (reasons[0].reason if reasons else None)
        assert bool(reasons) is not bool(only(events, OrderAccepted))
        return foreseen

    def cancel(self, name: str) -> list[VenueEvent]:
        return self.kept(self.venue.cancel(name, self.now))

    def amend(self, name: str, **fields: int) -> list[VenueEvent]:
        return self.kept(self.venue.amend(name, self.now, **fields))

    def last(self, symbol: str, price: int) -> None:
        """Make `price` the last price, with orders that leave nothing behind."""
        self.submit(f"{symbol} SELL 100 LO {price}")
        self.submit(f"{symbol} BUY 100 LO {price}")

    def levels(self, symbol: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        depth = self.venue.depth(symbol, 10)
        bids = [(level.price, level.volume) for level in depth.bids]
        return bids, [(level.price, level.volume) for level in depth.asks]


def only(events: Sequence[VenueEvent], kind: type[Kind]) -> list[Kind]:
    return [event for event in events if isinstance(event, kind)]


def trades(events: Sequence[VenueEvent]) -> list[tuple[int, int]]:
    return [(trade.price, trade.quantity) for trade in only(events, Traded)]


def fills(events: Sequence[VenueEvent]) -> Counter[str]:
    found: Counter[str] = Counter()
    for trade in only(events, Traded):
        found[trade.buy_order_id] += trade.quantity
        found[trade.sell_order_id] += trade.quantity
    return found
