"""From a wish to a request: its price and its size, where the strategy left them to its file.

A strategy file's price is written for a buyer; a seller's is its mirror: `ask` is then the bid and
`+1 tick` one tick lower. A price between two ticks goes to the passive one (a buy down, a sell up);
a price that the strategy itself gives is left as it is. A size of the file is rounded down to whole
lots, never to an odd lot; a quantity that the strategy itself gives is left as it is.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from bot.domain.entry import Numbers
from bot.domain.instrument import Instrument
from bot.domain.order import OrderType, Side
from bot.domain.plan import OrderPlan, PriceBasis, SizeUnit
from bot.domain.quote import Depth
from bot.domain.rulebook import Rulebook
from bot.engine.risk.accounts import cash_free, sellable_of, worst_price
from bot.engine.state import Book
from bot.engine.tracks import Runner, Seat
from bot.strategy import Default, Wish, WishKind

BOARD_LOT: Final = 100
"""Shares of a whole lot on HOSE, HNX and UPCOM (Vietnam Exchange Decision 17/QĐ-HĐTV; HOSE 352)."""

_MIRROR: Final = {
    PriceBasis.BID: PriceBasis.ASK,
    PriceBasis.ASK: PriceBasis.BID,
    PriceBasis.LAST: PriceBasis.LAST,
    PriceBasis.MID: PriceBasis.MID,
}
SIDES: Final = {WishKind.BUY: Side.BUY, WishKind.SELL: Side.SELL, WishKind.CLOSE: Side.SELL}


@dataclass(frozen=True, slots=True)
class Request:
    """An order as a strategy asks for it, complete. `limit_price` is None when not LO."""

    strategy: str
    account: str
    symbol: str
    side: Side
    quantity: int
    order_type: OrderType
    limit_price: int | None
    why: str
    closes_position: bool = False
    expire_after: timedelta | None = None
    follows: str | None = None


@dataclass(frozen=True, slots=True)
class Unsized:
    """No order can be made of the wish: the code of the refusal and its numbers."""

    code: str
    numbers: Numbers


def request_of(book: Book, runner: Runner, seat: Seat, wish: Wish, why: str) -> Request | Unsized:
    """Make the request that a wish stands for."""
    plan, side = runner.plan, SIDES[wish.kind]
    order_type = _order_type(plan.order, wish)
    price = _limit_price(book, runner, seat.symbol, side, wish, order_type)
    if order_type is OrderType.LO and price is None:
        basis = basis_for(plan.order.basis, side)
        reason = _why_no_price(book, seat.symbol, basis, side)
        return Unsized("NO_PRICE", {"basis": basis, "side": side, "reason": reason})
    quantity = _quantity(book, runner, seat.symbol, wish, price)
    if quantity <= 0:
        size = plan.order.size
        reason = f"the size comes to {quantity} shares, a whole lot is {BOARD_LOT}"
        numbers: Numbers = {"quantity": quantity, "lot": BOARD_LOT, "size": size, "reason": reason}
        return Unsized("SIZE", numbers)
    return Request(
        strategy=plan.name,
        account=plan.account,
        symbol=seat.symbol,
        side=side,
        quantity=quantity,
        order_type=order_type,
        limit_price=price,
        why=why,
        closes_position=wish.kind is WishKind.CLOSE,
        expire_after=plan.order.expire_after,
    )


def _order_type(plan: OrderPlan, wish: Wish) -> OrderType:
    if wish.market is not None:
        return wish.market
    return plan.order_type if isinstance(wish.limit, Default) else OrderType.LO


# ------------------------------------------------------------------------------------------ price


def _limit_price(
    book: Book, runner: Runner, symbol: str, side: Side, wish: Wish, order_type: OrderType
) -> int | None:
    if order_type is not OrderType.LO:
        return None
    if not isinstance(wish.limit, Default):
        return wish.limit
    instrument = book.instruments.get(symbol)
    basis = _basis_price(book, symbol, basis_for(runner.plan.order.basis, side))
    if instrument is None or basis is None:
        return None
    return shifted(book.rulebook, instrument, side, basis, runner.plan.order.ticks)


def basis_for(basis: PriceBasis, side: Side) -> PriceBasis:
    """Return the basis as a buyer's file means it for this side."""
    return basis if side is Side.BUY else _MIRROR[basis]


def _basis_price(book: Book, symbol: str, basis: PriceBasis) -> int | None:
    """Return the price of the basis, rounded down; None when the market does not show it."""
    quote, depth = book.quotes.get(symbol), _fresh_depth(book, symbol)
    if basis is PriceBasis.LAST:
        return quote.quote.last if quote and quote.quote.last > 0 else None
    if depth is None:
        return None
    bid, ask = depth.bid, depth.ask
    if basis is PriceBasis.MID:
        return (bid + ask) // 2 if bid is not None and ask is not None else None
    return bid if basis is PriceBasis.BID else ask


def _fresh_depth(book: Book, symbol: str) -> Depth | None:
    seen = book.depths.get(symbol)
    is_fresh = seen is not None and book.now - seen.at <= book.settings.max_depth_age
    return seen.depth if seen is not None and is_fresh else None


def _why_no_price(book: Book, symbol: str, basis: PriceBasis, side: Side) -> str:
    """Say what the market does not show: `no ask in the book to buy at`."""
    verb = "buy" if side is Side.BUY else "sell"
    if basis is PriceBasis.LAST:
        return f"no last price to {verb} at"
    if _fresh_depth(book, symbol) is None:
        return f"no fresh depth to {verb} by"
    missing = "bid or no ask" if basis is PriceBasis.MID else basis.value
    return f"no {missing} in the book to {verb} at"


def shifted(rulebook: Rulebook, instrument: Instrument, side: Side, basis: int, ticks: int) -> int:
    """Snap a basis to the passive tick, then move it `ticks` towards the other side."""
    price = snapped(rulebook, instrument, side, basis)
    is_up = (ticks > 0) is (side is Side.BUY)
    step = rulebook.tick_up if is_up else rulebook.tick_down
    for _ in range(abs(ticks)):
        price = step(instrument, price)
    return price


def snapped(rulebook: Rulebook, instrument: Instrument, side: Side, price: int) -> int:
    """Return the price when it is on the grid, else the next one down for a buy, up for a sell."""
    if rulebook.is_on_tick(instrument, price):
        return price
    step = rulebook.tick_down if side is Side.BUY else rulebook.tick_up
    return step(instrument, price)


# ------------------------------------------------------------------------------------------- size


def _quantity(book: Book, runner: Runner, symbol: str, wish: Wish, price: int | None) -> int:
    if wish.kind is WishKind.CLOSE:
        return _whole_or_odd(sellable_of(book, runner.plan.name, symbol))
    if wish.quantity is not None:
        return wish.quantity
    return file_quantity(
        runner.plan.order,
        price=worst_price(book, symbol, price),
        cash=cash_free(book, runner.plan.account) or 0,
    )


def _whole_or_odd(shares: int) -> int:
    """Return the whole lots first; what is left under one lot is an odd lot of its own."""
    return shares // BOARD_LOT * BOARD_LOT or shares


def file_quantity(plan: OrderPlan, *, price: int, cash: int) -> int:
    """Return the file's size in shares, rounded down to whole lots; 0 when it buys none."""
    if plan.size_unit is SizeUnit.SHARES:
        return plan.size // BOARD_LOT * BOARD_LOT
    money = plan.size if plan.size_unit is SizeUnit.CASH else cash * plan.size // 100
    return money // price // BOARD_LOT * BOARD_LOT if price > 0 else 0
