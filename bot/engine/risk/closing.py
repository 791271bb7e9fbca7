"""How much of a position one close sells, and when: a position must not be locked in by a limit.

A close of more than one order may be sells as much as one may, and always a lot: shares that can't
be sold are a greater risk than an order beyond a limit of its size or of the day. Sales wait for
sales alone, and a close that meets the limit of their rate is not refused: it waits for its turn,
and is sized and priced then.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from bot.engine.risk.account_checks import AT_THE_MARKET, AUCTIONS, PPM, gap_of
from bot.engine.risk.accounts import worst_price
from bot.engine.risk.sizing import BOARD_LOT, OrderRequest
from bot.engine.risk.use import shown_to
from bot.engine.state import State
from bot.engine.tracked import StrategyState, WaitingClose
from bot.strategy import Request

WAITS_MAX: Final = timedelta(minutes=15)
"""A close that has not had its turn by then is given up, and told: its strategy may ask again."""


def piece_of(state: State, strategy: StrategyState, order: OrderRequest) -> OrderRequest:
    """Return a close cut to what one order may be, in whole lots and at least one."""
    if not order.closes_position or order.quantity <= BOARD_LOT:
        return order
    most = min(_most(state, strategy, order), default=order.quantity)
    if most >= order.quantity:
        return order
    return replace(order, quantity=max(most // BOARD_LOT, 1) * BOARD_LOT)


def _most(state: State, strategy: StrategyState, order: OrderRequest) -> Iterator[int]:
    """Yield how many shares one order may have, by each limit that says so."""
    shared, own = state.settings.account_limits, strategy.limits
    price = worst_price(state, order.symbol, order.limit_price)
    for value in (own.max_order_value, shared.max_order_value):
        if value is not None and price > 0:
            yield value // price
    if shared.max_order_quantity is not None:
        yield shared.max_order_quantity
    phase = state.phase_of(state.instruments[order.symbol].exchange).phase
    levels, quote = shown_to(state, order.symbol, order.side), state.quotes.get(order.symbol)
    if phase in AUCTIONS and shared.max_auction_share_ppm is not None:
        yield sum(each.volume for each in levels) * shared.max_auction_share_ppm // PPM
    elif order.order_type in AT_THE_MARKET and (gap := shared.max_price_gap_ppm) is not None:
        last = quote.quote.last if quote is not None else 0
        yield sum(each.volume for each in levels if gap_of(each.price, last) <= gap)


def opens_at(state: State, account: str) -> datetime | None:
    """Return when a sale of an account may go out; None: now."""
    limits, usage, now = state.settings.account_limits, state.usage.of(account), state.now
    found = (
        usage.sales_of_second.opens_at(now, limits.max_orders_per_second),
        usage.sales_of_minute.opens_at(now, limits.max_orders_per_minute),
    )
    return max((at for at in found if at is not None), default=None)


def wait(
    state: State, strategy: StrategyState, symbol: str, request: Request, why: str, due: datetime
) -> None:
    """Keep a close for its turn; one that waits already stays at its place."""
    key = strategy.plan.name, symbol
    before = state.waiting_closes.get(key)
    since = before.since if before is not None else state.now
    state.waiting_closes[key] = WaitingClose(*key, request, why, since, due)


def due(state: State) -> list[WaitingClose]:
    """Return the closes whose turn it is, those that wait longest first."""
    found = [one for one in state.waiting_closes.values() if one.due <= state.now]
    return sorted(found, key=lambda one: one.since)
