"""Resting orders by price, then time.

A side keeps its levels by *key*: the price, negated for sells, so that on both sides the greatest
key is the best price and the last of `keys`. The orders of a level form a linked list, first in
first out, so removing one from the middle is as cheap as from the front and leaves nothing behind.
Memory grows with the open orders only.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Final

from bot.domain.instrument import Lot
from bot.domain.order import OrderType, Side

SIGN: Final = {Side.BUY: 1, Side.SELL: -1}


@dataclass(slots=True, eq=False)
class RestingOrder:
    """An order in the book. `price` is 0 while an auction order has no price yet.

    `sequence` is its place in time over all books; losing priority means a new sequence. `home` is
    the side of the book on which it rests.
    """

    order_id: str
    owner: str
    order_type: OrderType
    price: int
    quantity: int
    remaining: int
    sequence: int
    home: "BookSide" = field(repr=False)
    level: "Level | None" = field(default=None, repr=False)
    ahead: "RestingOrder | None" = field(default=None, repr=False)
    behind: "RestingOrder | None" = field(default=None, repr=False)

    def __getstate__(self) -> tuple[object, ...]:
        """Leave the neighbours out; the level stores the queue, or pickling would recurse link by
        link.
        """
        return tuple(getattr(self, name) for name in _STORED)

    def __setstate__(self, state: tuple[object, ...]) -> None:
        for name, value in zip(_STORED, state, strict=True):
            setattr(self, name, value)
        if self.level is None:
            self.ahead = self.behind = None

    def leave(self) -> None:
        """Leave the book, priced or not."""
        if self.level is not None:
            self.home.remove(self)
        else:
            del self.home.book.unpriced[self.order_id]

    @property
    def side(self) -> Side:
        return self.home.side

    @property
    def book(self) -> "Book":
        return self.home.book


_STORED: Final = tuple(
    each.name for each in fields(RestingOrder) if each.name not in {"ahead", "behind"}
)


@dataclass(slots=True, eq=False)
class Level:
    """The orders at one price, first in first; `volume` is the sum of what they have open."""

    key: int
    price: int
    volume: int = 0
    head: RestingOrder | None = field(default=None, repr=False)
    tail: RestingOrder | None = field(default=None, repr=False)

    def __getstate__(self) -> tuple[int, int, int, list[RestingOrder]]:
        return self.key, self.price, self.volume, list(self)

    def __setstate__(self, state: tuple[int, int, int, list[RestingOrder]]) -> None:
        self.key, self.price, self.volume, orders = state
        self.head, self.tail = orders[0], orders[-1]
        for ahead, order, behind in zip([None, *orders], orders, [*orders[1:], None], strict=False):
            order.ahead, order.behind = ahead, behind

    def pop_head(self) -> None:
        """Remove the first order; it has nothing open any more, so the volume does not change."""
        head = self.head
        assert head is not None, "a level has orders"
        self.head = behind = head.behind
        if behind is None:
            self.tail = None
        else:
            behind.ahead = None
        head.level = head.behind = None

    def __iter__(self) -> Iterator[RestingOrder]:
        order = self.head
        while order is not None:
            following = order.behind
            yield order
            order = following


class BookSide:
    """All priced orders of one side. `rivals` is the side against which they trade."""

    __slots__ = ("book", "keys", "levels", "rivals", "side", "sign")
    rivals: "BookSide"

    def __init__(self, side: Side, book: "Book") -> None:
        self.side = side
        self.book = book
        self.sign = SIGN[side]
        self.keys: list[int] = []
        self.levels: dict[int, Level] = {}

    def add(self, order: RestingOrder) -> None:
        """Add the order as the last in time at its price."""
        key = order.price * self.sign
        level = self.levels.get(key)
        if level is None:
            level = self.levels[key] = Level(key, order.price)
            insort(self.keys, key)
        tail = level.tail
        if tail is None:
            level.head = order
        else:
            tail.behind = order
        order.level, order.ahead, level.tail = level, tail, order
        level.volume += order.remaining

    def remove(self, order: RestingOrder) -> None:
        """Remove the order from any position; a level left empty goes too."""
        level, ahead, behind = order.level, order.ahead, order.behind
        assert level is not None, "only a resting order can be removed"
        if ahead is None:
            level.head = behind
        else:
            ahead.behind = behind
        if behind is None:
            level.tail = ahead
        else:
            behind.ahead = ahead
        order.level = order.ahead = order.behind = None
        level.volume -= order.remaining
        if level.head is None:
            self.close(level.key)

    def close(self, key: int) -> None:
        """Remove an empty level."""
        del self.levels[key]
        if self.keys[-1] == key:
            self.keys.pop()
        else:
            del self.keys[bisect_left(self.keys, key)]

    def best(self) -> int | None:
        return self.keys[-1] * self.sign if self.keys else None

    def worst(self) -> int | None:
        """Return the price furthest from the other side, None if the side is empty."""
        return self.keys[0] * self.sign if self.keys else None

    def can_fill(self, quantity: int, reach: int) -> bool:
        """Return whether `quantity` is available at the key `reach` or better."""
        for level in self.best_first():
            if level.key < reach or quantity <= 0:
                break
            quantity -= level.volume
        return quantity <= 0

    def best_first(self) -> Iterator[Level]:
        return (self.levels[key] for key in reversed(self.keys))


class Book:
    """Both sides of one lot of one symbol, and auction orders without a price."""

    __slots__ = ("buys", "lot", "sells", "symbol", "unpriced")

    def __init__(self, symbol: str, lot: Lot) -> None:
        self.symbol = symbol
        self.lot = lot
        self.buys = BookSide(Side.BUY, self)
        self.sells = BookSide(Side.SELL, self)
        self.buys.rivals, self.sells.rivals = self.sells, self.buys
        self.unpriced: dict[str, RestingOrder] = {}

    def side(self, side: Side) -> BookSide:
        return self.buys if side is Side.BUY else self.sells

    def is_crossed(self) -> bool:
        return bool(self.buys.keys and self.sells.keys) and (
            self.buys.keys[-1] + self.sells.keys[-1] >= 0
        )

    def is_empty(self) -> bool:
        return not (self.unpriced or self.buys.keys or self.sells.keys)

    def __iter__(self) -> Iterator[RestingOrder]:
        yield from self.unpriced.values()
        for side in (self.buys, self.sells):
            for level in side.levels.values():
                yield from level

    def in_time_order(self) -> list[RestingOrder]:
        return sorted(self, key=lambda order: order.sequence)
