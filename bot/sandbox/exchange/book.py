"""Orders that wait at their prices: price first, then time.

A side keeps its levels by *key*: the price, negated for sells, so that on both sides the greatest
key is the best price and the last of `keys`. The orders of a level are linked through themselves,
first in first out: taking one out from the middle costs as little as from the front, and nothing
is left behind. Memory grows with the open orders and with nothing else.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from bot.domain.instrument import Lot
from bot.domain.order import OrderType, Side

SIGN: Final = {Side.BUY: 1, Side.SELL: -1}


@dataclass(slots=True, eq=False)
class RestingOrder:
    """An order in the book. `price` is 0 while an auction order without a price waits for its own.

    `sequence` is its place in time over all books; a lost priority is a new sequence.
    """

    order_id: str
    owner: str
    symbol: str
    side: Side
    order_type: OrderType
    price: int
    quantity: int
    remaining: int
    lot: Lot
    sequence: int
    level: "Level | None" = field(default=None, repr=False)
    ahead: "RestingOrder | None" = field(default=None, repr=False)
    behind: "RestingOrder | None" = field(default=None, repr=False)


@dataclass(slots=True, eq=False)
class Level:
    """The orders at one price, first in first; `volume` is the sum of what they have open."""

    key: int
    volume: int = 0
    head: RestingOrder | None = field(default=None, repr=False)
    tail: RestingOrder | None = field(default=None, repr=False)

    def append(self, order: RestingOrder) -> None:
        """Put the order behind all others of this price."""
        order.level, order.ahead = self, self.tail
        if self.tail is None:
            self.head = order
        else:
            self.tail.behind = order
        self.tail = order
        self.volume += order.remaining

    def unlink(self, order: RestingOrder) -> None:
        """Take the order out, wherever it stands."""
        ahead, behind = order.ahead, order.behind
        if ahead is None:
            self.head = behind
        else:
            ahead.behind = behind
        if behind is None:
            self.tail = ahead
        else:
            behind.ahead = ahead
        order.level = order.ahead = order.behind = None
        self.volume -= order.remaining

    def __iter__(self) -> Iterator[RestingOrder]:
        order = self.head
        while order is not None:
            following = order.behind
            yield order
            order = following


class BookSide:
    """All priced orders of one side."""

    __slots__ = ("keys", "levels", "sign")

    def __init__(self, side: Side) -> None:
        self.sign = SIGN[side]
        self.keys: list[int] = []
        self.levels: dict[int, Level] = {}

    def add(self, order: RestingOrder) -> None:
        """Put the order last in time at its price."""
        key = order.price * self.sign
        level = self.levels.get(key)
        if level is None:
            level = self.levels[key] = Level(key)
            insort(self.keys, key)
        level.append(order)

    def remove(self, order: RestingOrder) -> None:
        """Take the order out; an emptied level goes with it."""
        level = order.level
        assert level is not None, "only a resting order can be removed"
        level.unlink(order)
        if level.head is None:
            self._close(level.key)

    def _close(self, key: int) -> None:
        del self.levels[key]
        if self.keys[-1] == key:
            self.keys.pop()
        else:
            del self.keys[bisect_left(self.keys, key)]

    def best(self) -> int | None:
        """Return the best price, None when the side is empty."""
        return self.keys[-1] * self.sign if self.keys else None

    def worst(self) -> int | None:
        """Return the price furthest from the other side, None when the side is empty."""
        return self.keys[0] * self.sign if self.keys else None

    def best_first(self) -> Iterator[Level]:
        """Yield the levels from the best price on."""
        return (self.levels[key] for key in reversed(self.keys))


class Book:
    """Both sides of one lot of one symbol, and the auction orders that carry no price."""

    __slots__ = ("buys", "sells", "unpriced")

    def __init__(self) -> None:
        self.buys = BookSide(Side.BUY)
        self.sells = BookSide(Side.SELL)
        self.unpriced: dict[str, RestingOrder] = {}

    def side(self, side: Side) -> BookSide:
        """Return the side on which such orders rest."""
        return self.buys if side is Side.BUY else self.sells

    def opposite(self, side: Side) -> BookSide:
        """Return the side against which such orders trade."""
        return self.sells if side is Side.BUY else self.buys

    def is_crossed(self) -> bool:
        """Say whether the best buy could trade with the best sell."""
        return bool(self.buys.keys and self.sells.keys) and (
            self.buys.keys[-1] + self.sells.keys[-1] >= 0
        )

    def can_fill(self, order: RestingOrder, limit: int) -> bool:
        """Say whether the whole of an arriving order would trade at `limit` or better."""
        reach, wanted = -limit * SIGN[order.side], order.remaining
        for level in self.opposite(order.side).best_first():
            if level.key < reach or wanted <= 0:
                break
            wanted -= level.volume
        return wanted <= 0

    def is_empty(self) -> bool:
        """Say whether no order waits, priced or not."""
        return not (self.unpriced or self.buys.keys or self.sells.keys)

    def __iter__(self) -> Iterator[RestingOrder]:
        yield from self.unpriced.values()
        for side in (self.buys, self.sells):
            for level in side.levels.values():
                yield from level

    def in_time_order(self) -> list[RestingOrder]:
        """Return every order, the earliest first."""
        return sorted(self, key=lambda order: order.sequence)

    def remove(self, order: RestingOrder) -> None:
        """Take the order out, priced or not."""
        if self.unpriced.pop(order.order_id, None) is None:
            self.side(order.side).remove(order)
