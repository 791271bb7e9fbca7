"""The simulated market of one symbol: many investors who quote around a fair price and trade.

Every step the crowd takes away what no longer fits, refills the levels near its price, and now and
then somebody trades at the touch. A scenario can pull the price, thin out a side, freeze the
levels, or make somebody trade at a time. Our own orders stand in the same
book, in their place in time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Final

from bot.domain.bands import Band
from bot.domain.instrument import EXCHANGE_TZ, Phase
from bot.domain.order import OrderType, Side
from bot.domain.rulebook import Rulebook
from bot.sandbox.exchange.event import VenueEvent
from bot.sandbox.exchange.order import CROWD, NewOrder
from bot.sandbox.exchange.venue import Venue
from bot.sandbox.markets.fair_price import FairPrice
from bot.sandbox.scenario import Deal, Imbalance, Scenario, Standstill, SymbolScript

LEVELS: Final = 4
_LOT: Final = 100
_REFRESH_CHANCE: Final = 0.2
_WIDE_SPREAD_CHANCE: Final = 0.15
_AUCTION_LEVELS: Final = 3
_DEALS: Final = {"take": Side.BUY, "give": Side.SELL}
_AUCTIONS: Final = frozenset({Phase.OPEN, Phase.PRE_CLOSED})
CROWDED: Final = _AUCTIONS | {Phase.PROGRESS}
"""The phases in which the crowd does something."""

Level = tuple[Side, int]
Deliver = Callable[[list[VenueEvent]], None]


@dataclass(frozen=True, slots=True)
class Ladder:
    """Prices that the crowd wants to quote, best first."""

    bids: tuple[int, ...]
    asks: tuple[int, ...]

    def levels(self) -> Iterator[tuple[Level, int]]:
        """Yield each wanted level with its distance from the touch, 0 at the touch."""
        for distance, price in enumerate(self.bids):
            yield (Side.BUY, price), distance
        for distance, price in enumerate(self.asks):
            yield (Side.SELL, price), distance


class Crowd:
    """The investors of one symbol. Whatever happens in the venue goes to `deliver`, in order."""

    def __init__(
        self,
        script: SymbolScript,
        *,
        scenario: Scenario,
        rulebook: Rulebook,
        venue: Venue,
        deliver: Deliver,
    ) -> None:
        self._script = script
        self._scenario = scenario
        self._rulebook = rulebook
        self._ticks = rulebook.venues[script.exchange].ticks_of(script.kind)
        self._venue = venue
        self._deliver = deliver
        self._day = scenario.starts_at.astimezone(EXCHANGE_TZ).date()
        self._band = self._days_band()
        self._price = FairPrice(script, scenario, rulebook, self._band)
        self._random = Random(f"{scenario.seed}|crowd|{script.symbol}")
        self._resting: dict[str, Level] = {}
        self._number = 0

    def step(self, at: datetime) -> None:
        """Act once, as the phase allows: quote and trade, gather for an auction, or nothing."""
        self._begin_day(at)
        bid = self._price.step(at)
        phase = self._rulebook.phase_at(self._script.exchange, at)
        if phase in _AUCTIONS:
            self._gather(bid, at)
        elif phase is Phase.PROGRESS and self._standstill(at) is None:
            self._quote(self._ladder(bid), at)
            self._trade(at)

    def _begin_day(self, at: datetime) -> None:
        """On another day go on from its own reference: shares may have gone ex over night."""
        day = at.astimezone(EXCHANGE_TZ).date()
        if day != self._day:
            self._day, self._band = day, self._days_band()
            reference = self._venue.board(self._script.symbol).reference
            self._price.begin_day(at, reference, self._band)

    def _days_band(self) -> Band:
        board = self._venue.board(self._script.symbol)
        return Band(board.ceiling, board.floor)

    def freeze(self, standstill: Standstill, at: datetime) -> None:
        """Leave exactly the levels of a standstill."""
        self._forget_ended()
        for order_id in list(self._resting):
            self._cancel(order_id, at)
        for price, volume in standstill.bids:
            self._submit(Side.BUY, price, volume, at)
        for price, volume in standstill.asks:
            self._submit(Side.SELL, price, volume, at)

    def deal(self, deal: Deal, at: datetime) -> None:
        """Trade as scripted; what finds nobody is taken back at once."""
        self._strike(_DEALS[deal.do], deal.price, deal.volume, at)

    def _standstill(self, at: datetime) -> Standstill | None:
        moments = self._script.standstills
        return next((one for one in moments if self._holds(one, at)), None)

    def _holds(self, moment: Standstill | Imbalance, at: datetime) -> bool:
        return self._scenario.at(moment.at) <= at < self._scenario.at(moment.until)

    # ------------------------------------------------------------------------------ quoting

    def _ladder(self, bid: int) -> Ladder:
        ask = self._ticks.up(bid)
        if self._random.random() < _WIDE_SPREAD_CHANCE:
            ask = self._ticks.up(ask)
        return Ladder(self._steps(bid, self._ticks.down), self._steps(ask, self._ticks.up))

    def _steps(self, price: int, step: Callable[[int], int]) -> tuple[int, ...]:
        prices: list[int] = []
        while len(prices) < LEVELS and self._band.holds(price):
            prices.append(price)
            price = step(price)
        return tuple(prices)

    def _quote(self, ladder: Ladder, at: datetime) -> None:
        wanted = dict(ladder.levels())
        self._forget_ended()
        kept: set[Level] = set()
        for order_id, level in list(self._resting.items()):
            if level in wanted and level not in kept and self._random.random() >= _REFRESH_CHANCE:
                kept.add(level)
            else:
                self._cancel(order_id, at)
        for (side, price), distance in wanted.items():
            if (side, price) not in kept:
                self._submit(side, price, self._volume(side, distance, at), at)

    def _volume(self, side: Side, distance: int, at: datetime) -> int:
        typical = self._script.level_volume * (0.5 + self._random.random()) * (1 + 0.2 * distance)
        for imbalance in self._script.imbalances:
            if self._holds(imbalance, at):
                typical *= imbalance.bids if side is Side.BUY else imbalance.asks
        return max(_LOT, round(typical / _LOT) * _LOT)

    def _gather(self, bid: int, at: datetime) -> None:
        """Put orders into an auction: around the price, and some on either side that cross."""
        for side in (Side.BUY, Side.SELL):
            for distance in range(_AUCTION_LEVELS):
                price = self._ticks.up(bid) if side is Side.BUY else bid
                for _ in range(distance):
                    price = self._ticks.down(price) if side is Side.BUY else self._ticks.up(price)
                if self._band.holds(price):
                    self._submit(side, price, self._volume(side, distance, at), at)

    # ------------------------------------------------------------------------------ trading

    def _trade(self, at: datetime) -> None:
        if self._random.random() >= self._script.trade_chance:
            return
        side = self._random.choice((Side.BUY, Side.SELL))
        depth = self._venue.depth(self._script.symbol)
        touch = depth.ask if side is Side.BUY else depth.bid
        volume = _LOT * self._random.randint(1, max(1, self._script.level_volume // (3 * _LOT)))
        if touch is not None:
            self._strike(side, touch, volume, at)

    def _strike(self, side: Side, price: int, volume: int, at: datetime) -> None:
        order_id = self._submit(side, price, volume, at)
        if self._venue.is_live(order_id):
            self._cancel(order_id, at)

    # ------------------------------------------------------------------------------ the venue

    def _submit(self, side: Side, price: int, volume: int, at: datetime) -> str:
        self._number += 1
        order_id = f"{self._script.symbol}-{self._number}"
        self._resting[order_id] = (side, price)
        order = NewOrder(order_id, CROWD, self._script.symbol, side, volume, OrderType.LO, price)
        self._deliver(self._venue.submit(order, at))
        return order_id

    def _cancel(self, order_id: str, at: datetime) -> None:
        del self._resting[order_id]
        self._deliver(self._venue.cancel(order_id, at))

    def _forget_ended(self) -> None:
        ended = [order_id for order_id in self._resting if not self._venue.is_live(order_id)]
        for order_id in ended:
            del self._resting[order_id]
