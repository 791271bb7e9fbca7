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
from bot.domain.order import ORDER_TYPES, OrderType, Side
from bot.domain.plan import OrderPlan, PriceBasis, SizeUnit
from bot.domain.quote import Depth
from bot.domain.rulebook import Rulebook
from bot.engine.risk.accounts import cash_free, sellable_of, worst_price
from bot.engine.state import State
from bot.engine.tracked import Instance, StrategyState
from bot.strategy import Default, Request, RequestKind

BOARD_LOT: Final = 100
"""Shares of a whole lot on HOSE, HNX and UPCOM (Vietnam Exchange Decision 17/QĐ-HĐTV; HOSE 352)."""

_MIRROR: Final = {
    PriceBasis.BID: PriceBasis.ASK,
    PriceBasis.ASK: PriceBasis.BID,
    PriceBasis.LAST: PriceBasis.LAST,
    PriceBasis.MID: PriceBasis.MID,
}
SIDES: Final = {
    RequestKind.BUY: Side.BUY,
    RequestKind.SELL: Side.SELL,
    RequestKind.CLOSE: Side.SELL,
}


@dataclass(frozen=True, slots=True)
class OrderRequest:
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


def request_of(
    state: State, strategy: StrategyState, instance: Instance, request: Request, why: str
) -> OrderRequest | Unsized:
    """Make the request that a wish stands for."""
    plan, side = strategy.plan, SIDES[request.kind]
    order_type = _order_type(plan.order, request)
    price = _limit_price(state, strategy, instance.symbol, side, request, order_type)
    if ORDER_TYPES[order_type].has_price and price is None:
        basis = basis_for(plan.order.basis, side)
        reason = _why_no_price(state, instance.symbol, basis, side)
        return Unsized("NO_PRICE", {"basis": basis, "side": side, "reason": reason})
    quantity = _quantity(state, strategy, instance.symbol, request, price)
    if quantity <= 0:
        size = plan.order.size
        reason = f"the size comes to {quantity} shares, a whole lot is {BOARD_LOT}"
        numbers: Numbers = {"quantity": quantity, "lot": BOARD_LOT, "size": size, "reason": reason}
        return Unsized("SIZE", numbers)
    return OrderRequest(
        strategy=plan.name,
        account=plan.account,
        symbol=instance.symbol,
        side=side,
        quantity=quantity,
        order_type=order_type,
        limit_price=price,
        why=why,
        closes_position=request.kind is RequestKind.CLOSE,
        expire_after=plan.order.expire_after,
    )


def _order_type(plan: OrderPlan, request: Request) -> OrderType:
    if request.market is not None:
        return request.market
    return plan.order_type if isinstance(request.limit, Default) else OrderType.LO


# ------------------------------------------------------------------------------------------ price


def _limit_price(
    state: State,
    strategy: StrategyState,
    symbol: str,
    side: Side,
    request: Request,
    order_type: OrderType,
) -> int | None:
    if not ORDER_TYPES[order_type].has_price:
        return None
    if not isinstance(request.limit, Default):
        return request.limit
    instrument = state.instruments.get(symbol)
    basis = _basis_price(state, symbol, basis_for(strategy.plan.order.basis, side))
    if instrument is None or basis is None:
        return None
    return shifted(state.rulebook, instrument, side, basis, strategy.plan.order.ticks)


def basis_for(basis: PriceBasis, side: Side) -> PriceBasis:
    """Return the basis as a buyer's file means it for this side."""
    return basis if side is Side.BUY else _MIRROR[basis]


def _basis_price(state: State, symbol: str, basis: PriceBasis) -> int | None:
    """Return the price of the basis, rounded down; None when the market does not show it."""
    quote, depth = state.quotes.get(symbol), _fresh_depth(state, symbol)
    if basis is PriceBasis.LAST:
        return quote.quote.last if quote and quote.quote.last > 0 else None
    if depth is None:
        return None
    bid, ask = depth.bid, depth.ask
    if basis is PriceBasis.MID:
        return (bid + ask) // 2 if bid is not None and ask is not None else None
    return bid if basis is PriceBasis.BID else ask


def _fresh_depth(state: State, symbol: str) -> Depth | None:
    seen = state.depths.get(symbol)
    is_fresh = seen is not None and state.now - seen.at <= state.settings.max_depth_age
    return seen.depth if seen is not None and is_fresh else None


def _why_no_price(state: State, symbol: str, basis: PriceBasis, side: Side) -> str:
    """Say what the market does not show: `no ask in the state to buy at`."""
    verb = "buy" if side is Side.BUY else "sell"
    if basis is PriceBasis.LAST:
        return f"no last price to {verb} at"
    if _fresh_depth(state, symbol) is None:
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


def _quantity(
    state: State, strategy: StrategyState, symbol: str, request: Request, price: int | None
) -> int:
    if request.kind is RequestKind.CLOSE:
        return _whole_or_odd(sellable_of(state, strategy.plan.name, symbol))
    if request.quantity is not None:
        return request.quantity
    return file_quantity(
        strategy.plan.order,
        price=worst_price(state, symbol, price),
        cash=cash_free(state, strategy.plan.account) or 0,
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
