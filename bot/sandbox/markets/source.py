"""Sources of other investors' orders, merged in time.

A source depends only on its inputs and on our orders, not on the steps in which the market is
advanced: what is due at one instant happens in a fixed order.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from heapq import heapify, heapreplace
from typing import Final, Protocol

from bot.domain.instrument import EXCHANGE_TZ, Instrument
from bot.domain.order import OrderType, Side
from bot.domain.rulebook import Rulebook
from bot.domain.venue import Band
from bot.sandbox.exchange.day import PriceGrid, price_grid
from bot.sandbox.exchange.message import CROWD, NewOrder, VenueEvent
from bot.sandbox.exchange.venue import Venue
from bot.sandbox.markets.flow.day import FlowSpan, spans_from
from bot.sandbox.scenario import Scenario, SymbolScript

ORDER_MAX: Final = 500_000
"""HOSE takes no larger order; simulated investors keep to this everywhere."""

OTHER: Final = {Side.BUY: Side.SELL, Side.SELL: Side.BUY}
Level = tuple[Side, int]
"""A side of the market and a price."""
Step = Callable[[], int]
"""Does what is due, and returns the second of the next step."""


@dataclass(frozen=True, slots=True)
class MarketAccess:
    """How other investors trade; the venue's events go to `deliver`."""

    rulebook: Rulebook
    venue: Venue
    deliver: Callable[[list[VenueEvent]], None]

    def band(self, symbol: str) -> Band:
        """Return the band that the exchange has for a symbol today."""
        board = self.venue.board(symbol)
        return Band(board.ceiling, board.floor)

    def grid(self, instrument: Instrument) -> PriceGrid:
        """Return the prices of today's band."""
        return price_grid(self.rulebook, instrument, self.band(instrument.symbol))


class MarketSource(Protocol):
    """Something that trades by itself in the venue, at instants it knows beforehand."""

    def next_due(self) -> datetime:
        """When it acts next; this never goes back."""

    def run_next(self) -> datetime:
        """Let it act, and return the instant. The venue has been advanced to it."""


class MergedMarket:
    """Several sources as one. At one instant they act in the given order."""

    def __init__(self, sources: Sequence[MarketSource]) -> None:
        self._sources = tuple(sources)

    def next_due(self) -> datetime:
        return min(source.next_due() for source in self._sources)

    def run_next(self) -> datetime:
        return min(self._sources, key=lambda source: source.next_due()).run_next()


class Participant:
    """One actor in the market: each step returns when the next one is and sets what it does.

    This state is kept in attributes and not in a generator, so that a sandbox can be pickled at any
    time.
    """

    def __init__(self) -> None:
        self._then: Step = self._next_day
        self._todo: deque[tuple[int, Callable[[], object]]] = deque()

    def move_to(self, at: datetime) -> None:
        """Let the next step happen at that instant."""
        raise NotImplementedError

    def step(self) -> int:
        """Do what is due, and return the second since 1970 of the next step, never an
        earlier one.
        """
        return self._then()

    def _at(self, second: int, then: Step) -> int:
        self._then = then
        return second

    def _work_off(self) -> int:
        """Do the actions in `_todo`, each at its second; then the next phase begins."""
        if not self._todo:
            return self._next_span()
        second, act = self._todo.popleft()
        return self._at(second, partial(self._act, act))

    def _act(self, act: Callable[[], object]) -> int:
        act()
        return self._work_off()

    def _next_day(self) -> int:
        raise NotImplementedError

    def _next_span(self) -> int:
        raise NotImplementedError


class Participants:
    """A source made of participants; within one second they act in the order given."""

    def __init__(self, participants: Sequence[Participant]) -> None:
        self._participants = tuple(participants)
        self._due = [(each.step(), rank) for rank, each in enumerate(self._participants)]
        heapify(self._due)

    def next_due(self) -> datetime:
        return datetime.fromtimestamp(self._due[0][0], UTC)

    def run_next(self) -> datetime:
        second = self._due[0][0]
        at = datetime.fromtimestamp(second, UTC)
        while self._due[0][0] <= second:
            rank = self._due[0][1]
            self._participants[rank].move_to(at)
            heapreplace(self._due, (self._participants[rank].step(), rank))
        return at


class CrowdOrders:
    """Other investors' orders in one symbol: `mark` goes between symbol and number in their ids."""

    def __init__(self, symbol: str, access: MarketAccess, *, mark: str = "-") -> None:
        self._symbol, self._mark = symbol, mark
        self._venue, self._deliver = access.venue, access.deliver
        self._number = 0

    def submit(
        self,
        side: Side,
        quantity: int,
        price: int | None,
        at: datetime,
        *,
        order_type: OrderType = OrderType.LO,
    ) -> str:
        """Give an order and return its id."""
        self._number += 1
        order_id = f"{self._symbol}{self._mark}{self._number}"
        order = NewOrder(order_id, CROWD, self._symbol, side, quantity, order_type, price)
        self._deliver(self._venue.submit(order, at))
        return order_id

    def submit_in_pieces(
        self, level: Level, quantity: int, at: datetime, *, piece_max: int = ORDER_MAX
    ) -> list[str]:
        """Give limit orders of at most `piece_max` shares and return their ids."""
        side, price = level
        starts = range(0, quantity, piece_max)
        return [self.submit(side, min(piece_max, quantity - n), price, at) for n in starts]

    def cancel(self, order_id: str, at: datetime) -> None:
        """Cancel an order if it is still working."""
        if self._venue.is_live(order_id):
            self._deliver(self._venue.cancel(order_id, at))


class DayByDay(Participant):
    """From an instant on, each day begins and its phases follow one another."""

    def __init__(self, script: SymbolScript, scenario: Scenario, access: MarketAccess) -> None:
        super().__init__()
        self._script, self._seed, self._access = script, scenario.seed, access
        self._rulebook, self._opening = access.rulebook, scenario.starts_at
        self._spans: deque[FlowSpan] = deque()

    def _next_day(self) -> int:
        start, exchange = self._opening, self._script.exchange
        spans = tuple(spans_from(self._rulebook, exchange, start))
        closed = datetime.fromtimestamp(spans[-1].end, UTC) if spans else start
        self._opening = self._rulebook.next_phase_change(exchange, closed).at
        return self._at(int(start.timestamp()), partial(self._begin, start, spans))

    def _begin(self, start: datetime, spans: tuple[FlowSpan, ...]) -> int:
        if spans and self._begin_day(start.astimezone(EXCHANGE_TZ).date(), spans):
            self._spans = deque(spans)
        return self._next_span()

    def _next_span(self) -> int:
        if not self._spans:
            return self._next_day()
        span = self._spans.popleft()
        return self._at(span.start, partial(self._play, span))

    def _begin_day(self, day: date, spans: Sequence[FlowSpan]) -> bool:
        """Prepare the phases left of a day; return whether any is played."""
        raise NotImplementedError

    def _play(self, span: FlowSpan) -> int:
        raise NotImplementedError
