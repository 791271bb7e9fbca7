"""Gathers what an account has used of its limits, for the checks of an order."""

from bot.domain.instrument import Phase
from bot.domain.order import Side
from bot.engine.risk import losses
from bot.engine.risk.account_checks import SILENT_PHASES
from bot.engine.risk.accounts import Means, worst_price
from bot.engine.risk.sizing import OrderRequest
from bot.engine.risk.view import AccountUse
from bot.engine.state import State


def use_of(state: State, request: OrderRequest, means: Means) -> AccountUse | None:
    """Return what the request's account has used; None where nothing is limited."""
    if not state.has_account_limits:
        return None
    limits, account, symbol = state.settings.account_limits, request.account, request.symbol
    usage, snapshot = state.usage.of(account), state.accounts.get(account)
    worth, side, index = state.exposure.of(account), request.side, state.index
    here = open_value = 0
    for order in means.orders:
        row = order.row
        here += order.is_own and row.account == account
        if row.side is Side.BUY and row.account == account:
            price = worst_price(state, symbol, order.prices[-1])
            open_value += order.open_quantity * price
    for tracked in means.pending:
        intent = tracked.intent
        here += intent.account == account
        if intent.side is Side.BUY and intent.account == account:
            open_value += intent.quantity * worst_price(state, symbol, intent.limit_price)
    worst, shown = _shown(state, request)
    turns = usage.sides.get(symbol, side) is not side
    return AccountUse(
        limits=limits,
        open_orders=index.working.of(account),
        open_orders_here=here,
        last_second=usage.last_second.count(state.now),
        last_minute=usage.last_minute.count(state.now),
        orders_today=usage.orders_today,
        worst_price=worst,
        shown=shown,
        nav=snapshot.net_asset_value if snapshot is not None else None,
        age=state.now - snapshot.at if snapshot is not None else None,
        position_value=state.exposure.value_of(account, symbol) + open_value,
        gross=worth.value + bought(state, account),
        loss=worth.loss,
        loss_limit=losses.limit_of(state, account),
        is_reduced=bool(usage.reduced_by),
        flips=usage.flips[symbol] + turns,
        ends_in=_ends_in(state, request),
    )


def bought(state: State, account: str) -> int:
    """Return what the account's open buys may cost, without fees."""
    index = state.index
    total = index.bought.of(account)
    for order in index.orders_at_market.of(account):
        total += order.open_quantity * worst_price(state, order.row.symbol, None)
    for tracked in index.intents_at_market.of(account):
        total += tracked.intent.quantity * worst_price(state, tracked.intent.symbol, None)
    return total


def _shown(state: State, request: OrderRequest) -> tuple[int | None, int]:
    """Return the worst level of a fresh depth on the other side, and the shares of all."""
    seen = state.depths.get(request.symbol)
    if seen is None or state.now - seen.at > state.settings.max_depth_age:
        return None, 0
    levels = seen.depth.asks if request.side is Side.BUY else seen.depth.bids
    return levels[-1].price if levels else None, sum([level.volume for level in levels])


def _ends_in(state: State, request: OrderRequest) -> Phase | None:
    """Return the phase without orders that begins within the time of the last entry."""
    instrument = state.instruments.get(request.symbol)
    before = state.settings.account_limits.last_entry
    if before is None or instrument is None or request.side is Side.SELL:
        return None
    soon = state.rulebook.phase_at(instrument.exchange, state.now + before)
    return soon if soon in SILENT_PHASES else None
