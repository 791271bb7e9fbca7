"""Completes a request: price and size, if the strategy left them to its file.

A strategy file's price is written for a buyer; a seller's is its mirror: `ask` is then the bid and
`+1 tick` one tick lower. A price between two ticks goes to the passive one (a buy down, a sell up).
Ticks lead to the floor or ceiling and not beyond, or nothing could be sold while bids are at the
floor; a market price that is itself outside is left to be refused. A price given by the strategy
itself is not changed. A size from the file is rounded down to whole
lots, never to an odd lot; a quantity given by the strategy itself is not changed.

A position must not be locked in by a limit. A close larger than one order may be sells as much as
allowed, and always at least a lot: shares that cannot be sold are a greater risk than an order
beyond a size or daily limit. Sales wait only for sales, and a close that hits their rate limit is
not refused: it waits for its turn, and is sized and priced then.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from bot.domain.entry import Numbers
from bot.domain.instrument import BOARD_LOT, Instrument, Lot, Phase
from bot.domain.order import ORDER_TYPES, Intent, OrderType, Side
from bot.domain.plan import OrderPlan, PriceBasis, SizeUnit
from bot.domain.quote import DepthLevel
from bot.domain.rulebook import PPM, Rulebook
from bot.engine.findings import AUCTIONS
from bot.engine.risk.accounts import Means
from bot.engine.risk.codes import judged
from bot.engine.risk.under_way import unpriced, worst_price
from bot.engine.state import State, StrategyState, WaitingClose
from bot.strategy import Default, Request, RequestKind

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
    """A strategy's complete order request. `limit_price` is None if not LO.

    `follows` is the held intent that it replaces. `is_flattening`: it sells after a halt, which it
    passes.
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
    """No order can be made from the request: the code of the refusal and its numbers."""

    code: str
    numbers: Numbers


def request_of(
    state: State, strategy: StrategyState, symbol: str, request: Request, means: Means, why: str
) -> OrderRequest | Unsized:
    """Complete a request with the strategy file's price and size."""
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
    # whole lots first; the rest is an odd lot, ordered separately
    if request.kind is RequestKind.CLOSE:
        quantity = means.sellable // BOARD_LOT * BOARD_LOT or means.sellable
    elif request.quantity is not None:
        quantity = request.quantity
    elif (buy := _unpriced_beside(state, strategy, side)) is not None:
        found_it = judged("UNPRICED_BUY", False, order=buy[0], symbol=buy[1])
        return Unsized(found_it.code, {**found_it.numbers, "reason": found_it.text})
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


def _unpriced_beside(state: State, strategy: StrategyState, side: Side) -> tuple[str, str] | None:
    """Return the buy without a price beside which the file's share of the cash is not known."""
    is_of_cash = side is Side.BUY and strategy.plan.order.size_unit is SizeUnit.PERCENT
    return unpriced(state, strategy.plan.account) if is_of_cash else None


def file_quantity(plan: OrderPlan, *, price: int, cash: int) -> int:
    """Return the file's size in shares, rounded down to whole lots; 0 if it buys none. Fewer shares
    than a lot, where the file says so, are an odd lot.
    """
    if plan.size_unit is SizeUnit.SHARES:
        return plan.size if plan.size < BOARD_LOT else plan.size // BOARD_LOT * BOARD_LOT
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
    price = shifted(state.rulebook, state.instruments[symbol], side, found, plan.ticks)
    floor, ceiling = (quote.quote.floor, quote.quote.ceiling) if quote else (None, None)
    if floor is None or ceiling is None or not floor <= found <= ceiling:
        return price
    return min(max(price, floor), ceiling)


def basis_for(basis: PriceBasis, side: Side) -> PriceBasis:
    """Return the basis for this side, which the file states for a buyer."""
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
    """Return the price if it is on the grid, else the next one down for a buy, up for a sell."""
    grid = rulebook.ticks_of(instrument)
    if grid.is_on_grid(price):
        return price
    return grid.down(price) if side is Side.BUY else grid.up(price)


def gap_of(price: int, base: int) -> int:
    """Return how far a price is from another, in parts per million of the latter."""
    return abs(price - base) * PPM // base if base > 0 else PPM


def shown_to(state: State, symbol: str, side: Side) -> Sequence[DepthLevel]:
    """Return the levels of a fresh depth that an order on this side would meet, best first."""
    seen = state.depths.get(symbol)
    if seen is None or state.now - seen.at > state.settings.max_depth_age:
        return ()
    return seen.depth.asks if side is Side.BUY else seen.depth.bids


# ------------------------------------------------------------------------------------------- closes

CLOSE_WAITS_MAX: Final = timedelta(minutes=15)
"""A close that has not had its turn by then is given up and reported: its strategy may request it
again.
"""


def piece_of(state: State, strategy: StrategyState, order: OrderRequest) -> OrderRequest:
    """Return a close cut to what one order may have, in whole lots and at least one."""
    if not order.closes_position or order.quantity <= BOARD_LOT:
        return order
    most = min(_most(state, strategy, order), default=order.quantity)
    if most >= order.quantity:
        return order
    return replace(order, quantity=max(most // BOARD_LOT, 1) * BOARD_LOT)


def _most(state: State, strategy: StrategyState, order: OrderRequest) -> Iterator[int]:
    """Yield how many shares one order may have, by each applicable limit."""
    shared, own = state.settings.account_limits, strategy.limits
    price = worst_price(state, order.symbol, order.limit_price)
    for value in (own.max_order_value, shared.max_order_value):
        if value is not None and price > 0:
            yield value // price
    exchange = state.instruments[order.symbol].exchange
    for most in (shared.max_order_quantity, state.rulebook.venues[exchange].lots.max_quantity):
        if most is not None:
            yield most
    phase = state.phase_of(exchange).phase
    levels, quote = shown_to(state, order.symbol, order.side), state.quotes.get(order.symbol)
    if phase in AUCTIONS and shared.max_auction_share_ppm is not None:
        yield sum(each.volume for each in levels) * shared.max_auction_share_ppm // PPM
    elif (
        ORDER_TYPES[order.order_type].takes_depth and (gap := shared.max_price_gap_ppm) is not None
    ):
        last = quote.quote.last if quote is not None else 0
        yield sum(each.volume for each in levels if gap_of(each.price, last) <= gap)


def when_the_rest(state: State, intent: Intent) -> str:
    """Return when another close sells more: in an auction this order works until that is over."""
    phase = state.phase_of(intent.exchange).phase
    if phase not in AUCTIONS:
        return "The next close() sells more"
    is_last = not state.rulebook.accepted_types(intent.exchange, Phase.POST_SESSION, Lot.EVEN)
    if phase is Phase.PRE_CLOSED and is_last:
        return "No close() sells more today: the rest stays until the next trading day"
    return "No close() sells more until this auction is over"


def sales_open_at(state: State, account: str) -> datetime | None:
    """Return when a sale of an account may be sent; None: now."""
    return turn_at(state, account, Side.SELL)


def turn_at(state: State, account: str, side: Side) -> datetime | None:
    """Return when the account's rate of orders lets one of this side out; None: now."""
    limits, usage, now = state.settings.account_limits, state.usage.of(account), state.now
    counts = usage.last_second, usage.last_minute
    if side is Side.SELL:
        counts = usage.sales_of_second, usage.sales_of_minute
    found = (
        counts[0].opens_at(now, limits.max_orders_per_second),
        counts[1].opens_at(now, limits.max_orders_per_minute),
    )
    return max((at for at in found if at is not None), default=None)


def keep_waiting(
    state: State, strategy: StrategyState, symbol: str, request: Request, why: str, due: datetime
) -> None:
    """Queue a close for its turn; one already waiting keeps its place."""
    key = strategy.plan.name, symbol
    before = state.waiting_closes.get(key)
    since = before.since if before is not None else state.now
    state.waiting_closes[key] = WaitingClose(*key, request, why, since, due)


def due_closes(state: State) -> list[WaitingClose]:
    """Return the closes whose turn it is, those that have waited longest first."""
    found = [one for one in state.waiting_closes.values() if one.due <= state.now]
    return sorted(found, key=lambda one: one.since)
