"""The call auction: one price for all orders, computed from the whole book.

Sources: HOSE Decision 352/QĐ-SGDHCM (2025), art. 6 (price) and art. 14.3 (ATO and ATC rank as limit
orders at a price computed from the book); Vietnam Exchange Decision 17/QĐ-HĐTV, art. 21.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bot.domain.order import Side
from bot.sandbox.exchange.book import Book, BookSide, RestingOrder
from bot.sandbox.exchange.day import PriceGrid


@dataclass(frozen=True, slots=True)
class Clearing:
    """The auction's price and the shares that trade at it."""

    price: int
    volume: int


@dataclass(frozen=True, slots=True)
class Pair:
    """A buy and a sell that meet in the auction."""

    buy: RestingOrder
    sell: RestingOrder
    quantity: int


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A price at which the most shares trade; better-priced orders go before those at it."""

    price: int
    volume: int
    buys_above: int
    buys_at: int
    sells_below: int
    sells_at: int

    def fills_all_better(self) -> bool:
        """Whether every buy above and every sell below the price is filled."""
        return self.buys_above <= self.volume and self.sells_below <= self.volume

    def fills_some_at_it(self) -> bool:
        """Whether neither side has orders at the price that would not trade at all."""
        return (self.buys_at == 0 or self.buys_above < self.volume) and (
            self.sells_at == 0 or self.sells_below < self.volume
        )


def clearing_of(book: Book, grid: PriceGrid, anchor: int) -> Clearing | None:
    """Find the auction price of a book; `anchor` is the last price, else the reference.

    None if nothing can trade.
    """
    buy_price, sell_price = unpriced_prices(book, grid, anchor)
    demand = _volumes(book.buys) + Counter({buy_price: _unpriced_volume(book, Side.BUY)})
    supply = _volumes(book.sells) + Counter({sell_price: _unpriced_volume(book, Side.SELL)})
    return clearing(demand, supply, grid.prices, anchor)


def clearing(
    demand: Mapping[int, int], supply: Mapping[int, int], prices: Sequence[int], anchor: int
) -> Clearing | None:
    """Choose among `prices` (ascending) by the exchange's steps.

    Largest volume with all better orders filled; then prices at which the orders at the price trade
    at least in part; then the nearest to `anchor`; of two equally near, the higher (our choice, no
    rule is published).
    """
    best: list[_Candidate] = []
    most, wanted, offered = 1, sum(demand.values()), 0
    for price in prices:
        buys_at, sells_at = demand.get(price, 0), supply.get(price, 0)
        volume = min(wanted, offered + sells_at)
        if volume > most:
            most, best = volume, []
        if volume == most:
            above = wanted - buys_at
            best.append(_Candidate(price, volume, above, buys_at, offered, sells_at))
        wanted -= buys_at
        offered += sells_at
    first = [each for each in best if each.fills_all_better()]
    second = [each for each in first if each.fills_some_at_it()] or first
    if not second:
        return None
    chosen = min(second, key=lambda each: (abs(each.price - anchor), -each.price))
    return Clearing(chosen.price, chosen.volume)


def unpriced_prices(book: Book, grid: PriceGrid, anchor: int) -> tuple[int, int]:
    """Return the prices at which ATO or ATC orders rank, for buys and for sells.

    A book with no other orders is priced one tick towards the larger side.
    """
    anchor = grid.nearest(anchor)
    if not book.buys.keys and not book.sells.keys:
        bought, sold = _unpriced_volume(book, Side.BUY), _unpriced_volume(book, Side.SELL)
        if bought and sold and bought != sold:
            anchor = grid.up(anchor) if bought > sold else grid.down(anchor)
        return anchor, anchor
    buy, sell = [anchor], [anchor]
    if (bid := book.buys.best()) is not None:
        buy.append(grid.up(bid))
    if (ask := book.sells.best()) is not None:
        sell.append(grid.down(ask))
    if (highest := book.sells.worst()) is not None:
        buy.append(highest)
    if (lowest := book.buys.worst()) is not None:
        sell.append(lowest)
    return max(buy), min(sell)


def _volumes(side: BookSide) -> Counter[int]:
    return Counter({key * side.sign: level.volume for key, level in side.levels.items()})


def _unpriced_volume(book: Book, side: Side) -> int:
    return sum(order.remaining for order in book.unpriced.values() if order.side is side)


def pairs(book: Book, grid: PriceGrid, anchor: int, found: Clearing) -> list[Pair]:
    """Allocate the auction's volume by price, then time. The book itself is not changed."""
    buy_price, sell_price = unpriced_prices(book, grid, anchor)
    buys = _allocated(_ranked(book, Side.BUY, buy_price, found), found.volume)
    sells = _allocated(_ranked(book, Side.SELL, sell_price, found), found.volume)
    made, volume = [], found.volume
    (buy, wanted), (sell, offered) = next(buys), next(sells)
    while True:
        quantity = min(wanted, offered)
        made.append(Pair(buy, sell, quantity))
        volume, wanted, offered = volume - quantity, wanted - quantity, offered - quantity
        if not volume:
            return made
        buy, wanted = (buy, wanted) if wanted else next(buys)
        sell, offered = (sell, offered) if offered else next(sells)


def _allocated(ranked: Sequence[RestingOrder], volume: int) -> Iterator[tuple[RestingOrder, int]]:
    for order in ranked:
        share = min(order.remaining, volume)
        yield order, share
        volume -= share
        if not volume:
            return


def _ranked(book: Book, side: Side, unpriced_price: int, found: Clearing) -> list[RestingOrder]:
    """List the orders of a side that may trade, best price first, then earliest."""
    resting = book.side(side)
    sign = resting.sign
    orders = [order for order in book.unpriced.values() if order.side is side]
    for level in resting.best_first():
        if level.key < found.price * sign:
            break
        orders.extend(level)
    orders.sort(key=lambda order: (-sign * (order.price or unpriced_price), order.sequence))
    return orders
