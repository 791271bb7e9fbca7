"""Completes a request: its price and its size, where the strategy left them to its file.

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
from bot.domain.rulebook import Rulebook
from bot.engine.risk.accounts import Means, worst_price
from bot.engine.state import State
from bot.engine.tracked import StrategyState
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
    """An order as a strategy asks for it, complete. `limit_price` is None when not LO.

    `follows` is the held intent that it takes the place of. `is_flattening`: it sells after a halt,
    and passes it.
    """

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
    is_flattening: bool = False


@dataclass(frozen=True, slots=True)
class Unsized:
    """No order can be made of the request: the code of the refusal and its numbers."""

    code: str
    numbers: Numbers


def request_of(
    state: State, strategy: StrategyState, symbol: str, request: Request, means: Means, why: str
) -> OrderRequest | Unsized:
    """Complete a request by what the strategy file says of price and size."""
    plan, side = strategy.plan.order, SIDES[request.kind]
    is_by_plan = isinstance(request.limit, Default)
    order_type = request.market or (plan.order_type if is_by_plan else OrderType.LO)
    price = request.limit if order_type is OrderType.LO else None
    if isinstance(price, Default):
        basis = basis_for(plan.basis, side)
        found = _price_by_plan(state, plan, symbol, side, basis)
        if isinstance(found, str):
            return Unsized("NO_PRICE", {"basis": basis, "side": side, "reason": found})
        price = found
    if request.kind is RequestKind.CLOSE:  # whole lots first; what is left is an odd lot of its own
        quantity = means.sellable // BOARD_LOT * BOARD_LOT or means.sellable
    elif request.quantity is not None:
        quantity = request.quantity
    else:
        worst = worst_price(state, symbol, price)
        quantity = file_quantity(plan, price=worst, cash=means.cash or 0)
    if quantity <= 0:
        reason = f"the size comes to {quantity} shares, a whole lot is {BOARD_LOT}"
        numbers: Numbers = {
            "quantity": quantity,
            "lot": BOARD_LOT,
            "size": plan.size,
            "reason": reason,
        }
        return Unsized("SIZE", numbers)
    return OrderRequest(
        strategy=strategy.plan.name,
        account=strategy.plan.account,
        symbol=symbol,
        side=side,
        quantity=quantity,
        order_type=order_type,
        limit_price=price,
        why=why,
        closes_position=request.kind is RequestKind.CLOSE,
        expire_after=plan.expire_after,
    )


def file_quantity(plan: OrderPlan, *, price: int, cash: int) -> int:
    """Return the file's size in shares, rounded down to whole lots; 0 when it buys none."""
    if plan.size_unit is SizeUnit.SHARES:
        return plan.size // BOARD_LOT * BOARD_LOT
    money = plan.size if plan.size_unit is SizeUnit.CASH else cash * plan.size // 100
    return money // price // BOARD_LOT * BOARD_LOT if price > 0 else 0


# ------------------------------------------------------------------------------------------ price


def _price_by_plan(
    state: State, plan: OrderPlan, symbol: str, side: Side, basis: PriceBasis
) -> int | str:
    """Return the file's price, or what the market lacks: `no ask in the depth to buy at`."""
    verb = "buy" if side is Side.BUY else "sell"
    quote, seen, found = state.quotes.get(symbol), state.depths.get(symbol), None
    if basis is PriceBasis.LAST:
        found = quote.quote.last if quote and quote.quote.last > 0 else None
        missing = f"no last price to {verb} at"
    elif seen is None or state.now - seen.at > state.settings.max_depth_age:
        missing = f"no fresh depth to {verb} by"
    elif basis is PriceBasis.MID:
        bid, ask = seen.depth.bid, seen.depth.ask
        found = (bid + ask) // 2 if bid is not None and ask is not None else None
        missing = f"no bid or no ask in the depth to {verb} at"
    else:
        found = seen.depth.bid if basis is PriceBasis.BID else seen.depth.ask
        missing = f"no {basis.value} in the depth to {verb} at"
    if found is None:
        return missing
    return shifted(state.rulebook, state.instruments[symbol], side, found, plan.ticks)


def basis_for(basis: PriceBasis, side: Side) -> PriceBasis:
    """Return the basis as a buyer's file means it for this side."""
    return basis if side is Side.BUY else _MIRROR[basis]


def shifted(rulebook: Rulebook, instrument: Instrument, side: Side, basis: int, ticks: int) -> int:
    """Snap a basis to the passive tick, then move it `ticks` towards the other side."""
    price = snapped(rulebook, instrument, side, basis)
    is_up = (ticks > 0) is (side is Side.BUY)
    grid = rulebook.ticks_of(instrument)
    for _ in range(abs(ticks)):
        price = grid.up(price) if is_up else grid.down(price)
    return price


def snapped(rulebook: Rulebook, instrument: Instrument, side: Side, price: int) -> int:
    """Return the price when it is on the grid, else the next one down for a buy, up for a sell."""
    grid = rulebook.ticks_of(instrument)
    if grid.is_on_grid(price):
        return price
    return grid.down(price) if side is Side.BUY else grid.up(price)
