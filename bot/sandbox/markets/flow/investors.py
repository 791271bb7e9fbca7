"""The actions of one symbol's investors in continuous trading, one investor at a time.

Most leave a limit order near the touch, the others trade. Both lean towards a fair price, in ticks
from the floor, that follows the day's path with a random walk around it, one step per investor, so
the more come, the more it moves. Once the price is locked at the end of the band they queue there,
and anyone still offering is bought out at once.

A tick is an index into the day's prices from floor to ceiling. Orders beyond them are not placed,
as the exchange would refuse them.
"""

from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from math import exp, floor, log10, sqrt
from random import Random
from typing import Final

from bot.domain.instrument import BOARD_LOT
from bot.domain.order import OrderType, Side
from bot.sandbox.exchange.venue import ALL_LEVELS
from bot.sandbox.markets.flow.day import DAY_VOLUME_IN_LEVELS, DayDraw, inside
from bot.sandbox.markets.source import ORDER_MAX, OTHER, CrowdOrders, MarketAccess

CONTINUOUS_SHARE: Final = 0.92
TRADES: Final = 0.42
_ODD: Final = 0.02
_MILLION: Final = 1_000_000
_EVENTS_A_MILLION: Final = 1_000
"""Investors a day for a symbol that trades a million shares; more volume brings more investors."""
_EVENTS_POWER: Final = 0.35
_MARGIN: Final = 1.6
_MARGIN_MAX: Final = 2.5
_ORDERS_IN_LEVEL: Final = 3
_BOOK_LEVELS: Final = 10
_DEPTH_MEAN_TICKS: Final = 2.2
_TAIL: Final = 1.1
"""Standard deviation of the logarithm of an order's size."""
_MOOD: Final = 0.75
"""Standard deviation of the logarithm of the fair price's step size; it makes the tails fat."""
_MOOD_STAYS: Final = 0.99
"""How much of that mood carries over to the next investor, so that volatility clusters."""
_MOOD_STEP: Final = _MOOD * sqrt(1 - _MOOD_STAYS**2)
_MEMORY: Final = 0.3
_HALF: Final = 0.5
_LEAN: Final = 0.35
_LOCKED_TRADES: Final = 0.2
_QUEUE_LEVELS: Final = 12
_GIVING_UP: Final = 4
"""A seller into the queue at the ceiling takes at most this fraction (1/n) of it."""
_BUY: Final = Side.BUY
_LOCKED_SIDE: Final = {1: Side.BUY, -1: Side.SELL}
_PIECES_MAX: Final = 200
_KEPT_MAX: Final = 60
"""Orders kept in the book; older ones are cancelled."""


@dataclass(frozen=True, slots=True)
class Crowdedness:
    """The activity in a symbol on an ordinary day.

    `events` is the number of investors, `improves` the chance that one quotes within the spread,
    `margin` the ticks that they keep from the fair price.
    """

    events: float
    level_volume: int
    improves: float
    margin: float


def crowdedness(level_volume: int) -> Crowdedness:
    """Return the activity for a level volume: liquid symbols have many investors and a spread of
    one tick.
    """
    millions = level_volume * DAY_VOLUME_IN_LEVELS / _MILLION
    improves = min(0.75, max(0.04, 0.3 + 0.4 * log10(millions)))
    margin = min(_MARGIN_MAX, max(0.0, -_MARGIN * log10(millions)))
    events = _EVENTS_A_MILLION * millions**_EVENTS_POWER
    return Crowdedness(events, level_volume, improves, margin)


class OrderPlacer:
    """Places and cancels orders of one symbol."""

    def __init__(self, symbol: str, access: MarketAccess) -> None:
        self._symbol, self._venue = symbol, access.venue
        self._orders = CrowdOrders(symbol, access)
        self._kept: deque[str] = deque()
        self._at = datetime(1970, 1, 1, tzinfo=UTC)
        self.prices: tuple[int, ...] = ()
        self._ticks: dict[int, int] = {}

    def begin_day(self, prices: tuple[int, ...]) -> None:
        """Take the prices of a new day; earlier orders have lapsed."""
        self.prices = prices
        self._ticks = {price: tick for tick, price in enumerate(prices)}
        self._kept.clear()

    def move_to(self, at: datetime) -> None:
        self._at = at

    def touch(self) -> tuple[int | None, int | None]:
        """Return the ticks of the best bid and ask, None for an empty side."""
        bid, ask = self._venue.touch(self._symbol)
        return (
            None if bid is None else self._ticks[bid],
            None if ask is None else self._ticks[ask],
        )

    def waiting(self, side: Side) -> int:
        """Return all shares that wait on a side at a price."""
        depth = self._venue.depth(self._symbol, ALL_LEVELS)
        return sum(level.volume for level in (depth.bids if side is Side.BUY else depth.asks))

    def give(self, side: Side, tick: int, quantity: int) -> None:
        """Place a limit order, in pieces if it is larger than the exchange takes."""
        if 0 <= tick < len(self.prices):
            most = min(quantity, _PIECES_MAX * ORDER_MAX)
            level = side, self.prices[tick]
            self._kept.extend(self._orders.submit_in_pieces(level, most, self._at))

    def give_unpriced(self, side: Side, quantity: int, order_type: OrderType) -> None:
        most = min(quantity, ORDER_MAX)
        self._orders.submit(side, most, None, self._at, order_type=order_type)

    def trim(self) -> None:
        """Cancel the oldest orders while there are too many."""
        while len(self._kept) > _KEPT_MAX:
            self._orders.cancel(self._kept.popleft(), self._at)


class Investors:
    """All investors of one symbol on one day."""

    def __init__(
        self, crowd: Crowdedness, draw: DayDraw, placer: OrderPlacer, random: Random
    ) -> None:
        self._crowd, self._draw, self._placer, self._random = crowd, draw, placer, random
        self._walked = 0.0
        self._mood = random.gauss(0, _MOOD)
        self._step = draw.noise / sqrt(crowd.events) / exp(_MOOD**2)
        self._traded_mean = draw.volume * CONTINUOUS_SHARE / (crowd.events * TRADES)
        self._quoted_mean = crowd.level_volume / _ORDERS_IN_LEVEL / (1 + crowd.margin)
        self._away_rate = 1 / (_DEPTH_MEAN_TICKS * (1 + 2 * crowd.margin))
        self._last_side = random.choice((Side.BUY, Side.SELL))

    def fair(self, second: int) -> float:
        """Return the tick of the fair price at a second of the day."""
        draw = self._draw
        walked = self._walked * max(0.0, 1 - second / draw.lock_s) if draw.lock else self._walked
        return inside(draw.wanted(second) + walked, draw, len(self._placer.prices))

    def lock(self, second: int) -> int:
        """Return 1 while the price is held at the ceiling, -1 at the floor, else 0."""
        return self._draw.lock if self._draw.is_locked(second) else 0

    def stray(self) -> None:
        """On a day with a stray first trade, let two small investors meet there; nobody else is
        present.
        """
        if self._draw.stray is not None:
            for side in (Side.SELL, Side.BUY):
                self._placer.give(side, self._draw.stray, BOARD_LOT)

    def fill_book(self, second: int) -> None:
        """Build a book around the fair price, outside existing orders."""
        fair, margin = floor(self.fair(second)), round(self._crowd.margin)
        bid, ask = self._placer.touch()
        low = fair if ask is None else min(fair, ask - 1)
        high = fair + 1 if bid is None else max(fair + 1, bid + 1)
        for away in range(_BOOK_LEVELS):
            for side, tick in ((Side.BUY, low - margin - away), (Side.SELL, high + margin + away)):
                quantity = self._lots(self._quoted_mean) * _ORDERS_IN_LEVEL
                self._placer.give(side, tick, quantity)

    def act(self, second: int) -> None:
        """Let one investor act at a second of the day."""
        random = self._random
        self._mood = self._mood * _MOOD_STAYS + random.gauss(0, _MOOD_STEP)
        self._walked += self._step * random.gauss(0, 1) * exp(self._mood)
        bid, ask = self._placer.touch()
        if self._draw.is_locked(second):
            self._press(_LOCKED_SIDE[self._draw.lock])
        elif bid is None or ask is None:
            self.fill_book(second)
        else:
            roll, fair = random.random(), self.fair(second)
            if roll < _ODD:
                # Two small investors trade at the touch; any remainder rests.
                tick = random.choice((bid, ask))
                for side in (Side.BUY, Side.SELL):
                    self._placer.give(side, tick, random.randint(1, BOARD_LOT - 1))
            elif roll < _ODD + TRADES:
                self._trade(bid, ask, fair)
            else:
                self._quote(bid, ask, fair)
        self._placer.trim()

    def _trade(self, bid: int, ask: int, fair: float) -> None:
        random, lean = self._random, fair - (bid + ask) / 2
        if not (abs(lean) <= 1 and random.random() < _MEMORY):
            self._last_side = Side.BUY if random.random() < _HALF + _LEAN * lean else Side.SELL
        side, quantity = self._last_side, self._lots(self._traded_mean)
        touch, wanted = (ask, floor(fair)) if side is _BUY else (bid, -floor(-fair))
        if abs(lean) <= 1:
            self._placer.give(side, touch, quantity)
        else:
            beyond = max(touch, wanted) if side is _BUY else min(touch, wanted)
            self._placer.give(side, beyond, whole_lots(quantity * (1 + min(abs(lean), 4))))

    def _quote(self, bid: int, ask: int, fair: float) -> None:
        random = self._random
        improves = ask - bid > 1 and random.random() < self._crowd.improves
        away = -1 if improves else int(random.expovariate(self._away_rate))
        wide = _HALF - self._crowd.margin
        if random.random() < _HALF:
            side, tick = Side.BUY, min(ask - 1, floor(fair + wide), bid) - away
        else:
            side, tick = Side.SELL, max(bid + 1, -floor(wide - fair), ask) + away
        self._placer.give(side, tick, self._lots(self._quoted_mean))

    def _press(self, side: Side) -> None:
        """Buy (or sell) out whoever still offers, else queue; a few give up and trade."""
        end = len(self._placer.prices) - 1 if side is _BUY else 0
        offered = self._placer.waiting(OTHER[side])
        queue = self._crowd.level_volume * _QUEUE_LEVELS
        if offered:
            self._placer.give(side, end, offered + queue)
        elif self._random.random() < _LOCKED_TRADES:
            most = max(BOARD_LOT, self._placer.waiting(side) // _GIVING_UP // BOARD_LOT * BOARD_LOT)
            self._placer.give(OTHER[side], end, min(self._lots(self._traded_mean), most))
        else:
            quantity = self._lots(self._quoted_mean) * _ORDERS_IN_LEVEL
            self._placer.give(side, end, quantity)

    def _lots(self, mean: float) -> int:
        return whole_lots(mean * self._random.lognormvariate(-_TAIL * _TAIL / 2, _TAIL))


def whole_lots(quantity: float) -> int:
    """Return the nearest whole number of lots, at least one."""
    return max(BOARD_LOT, round(quantity / BOARD_LOT) * BOARD_LOT)
