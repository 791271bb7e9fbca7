"""Fills put together into round trips: what was bought, what its sale brought, and why.

By average cost, as the engine keeps a strategy's position: a sale takes its share of what the
position has cost, buying fees included, rounded down to the VND; the last sale takes the rest, so
no VND is lost between trips. One sell order is one trip, however many fills it had.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from bot.domain.entry import Decision, Fill
from bot.domain.order import Side


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """Shares bought and sold again by one sell order. VND; `fee` and `tax` are the sale's own.

    `cost` holds the fees of buying. `opened` is when the position began that these shares are of.
    """

    strategy: str
    symbol: str
    opened: datetime
    closed: datetime
    quantity: int
    cost: int
    amount: int
    fee: int
    tax: int
    entry_why: str
    exit_why: str

    @property
    def result(self) -> int:
        return self.amount - self.fee - self.tax - self.cost


@dataclass(frozen=True, slots=True)
class OpenPosition:
    """Shares that were bought and are still held at the end; `cost` holds the fees of buying."""

    strategy: str
    symbol: str
    opened: datetime
    quantity: int
    cost: int
    entry_why: str


@dataclass(frozen=True, slots=True)
class Trips:
    """All round trips in the order of their sales, what is still open, and shares sold that no
    fill had bought (held from the start, or come without a purchase): these are in no trip.
    """

    closed: tuple[RoundTrip, ...]
    open: tuple[OpenPosition, ...]
    unmatched: int


def whys(decisions: Iterable[Decision]) -> Mapping[str, Decision]:
    """Return the decision behind each intent, by its id: the first, later ones are of cancels."""
    found: dict[str, Decision] = {}
    for each in decisions:
        if each.request_id is not None:
            found.setdefault(each.request_id, each)
    return found


def round_trips(fills: Iterable[Fill], decisions: Iterable[Decision]) -> Trips:
    """Put fills, in their order, together into round trips and what is left open."""
    behind = whys(decisions)
    held: dict[tuple[str, str], OpenPosition] = {}
    closed: dict[str, RoundTrip] = {}
    unmatched = 0
    for fill in fills:
        strategy = fill.strategy or ""
        key = strategy, fill.symbol
        decision = behind.get(fill.intent_id or "")
        why = decision.why if decision else ""
        position = held.get(key)
        if fill.side is Side.BUY:
            before = position or OpenPosition(strategy, fill.symbol, fill.at, 0, 0, why)
            held[key] = replace(
                before,
                quantity=before.quantity + fill.quantity,
                cost=before.cost + fill.amount + fill.fee,
            )
            continue
        taken = min(fill.quantity, position.quantity) if position else 0
        unmatched += fill.quantity - taken
        if position is None:
            continue
        trip = _sold(position, fill, taken, why)
        earlier = closed.get(fill.order_id)
        closed[fill.order_id] = trip if earlier is None else _joined(earlier, trip)
        left = position.quantity - taken
        if left:
            held[key] = replace(position, quantity=left, cost=position.cost - trip.cost)
        else:
            del held[key]
    return Trips(tuple(closed.values()), tuple(held.values()), unmatched)


def _sold(position: OpenPosition, fill: Fill, taken: int, why: str) -> RoundTrip:
    """Return the trip of one sale; of one that is larger than the position, its part in it."""
    return RoundTrip(
        strategy=position.strategy,
        symbol=fill.symbol,
        opened=position.opened,
        closed=fill.at,
        quantity=taken,
        cost=position.cost * taken // position.quantity,
        amount=fill.amount * taken // fill.quantity,
        fee=fill.fee * taken // fill.quantity,
        tax=fill.tax * taken // fill.quantity,
        entry_why=position.entry_why,
        exit_why=why,
    )


def _joined(earlier: RoundTrip, later: RoundTrip) -> RoundTrip:
    return replace(
        earlier,
        closed=later.closed,
        quantity=earlier.quantity + later.quantity,
        cost=earlier.cost + later.cost,
        amount=earlier.amount + later.amount,
        fee=earlier.fee + later.fee,
        tax=earlier.tax + later.tax,
    )
