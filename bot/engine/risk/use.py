"""Gathers what an account has used of its limits, for the checks of an order."""

from collections.abc import Sequence

from bot.domain.instrument import Phase
from bot.domain.order import Side
from bot.domain.quote import DepthLevel
from bot.engine.risk import losses
from bot.engine.risk.account_checks import SILENT_PHASES
from bot.engine.risk.accounts import Means, worst_price
from bot.engine.risk.sizing import OrderRequest
from bot.engine.risk.view import AccountUse
from bot.engine.state import State
from bot.engine.tracked import StrategyState


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
    levels = shown_to(state, symbol, side)
    turns = usage.sides.get(symbol, side) is not side
    return AccountUse(
        limits=limits,
        open_orders=index.working.of(account),
        open_orders_here=here,
        last_second=usage.last_second.count(state.now),
        last_minute=usage.last_minute.count(state.now),
        orders_today=usage.orders_today,
        sales_of_second=usage.sales_of_second.count(state.now),
        sales_of_minute=usage.sales_of_minute.count(state.now),
        worst_price=_worst(levels, request),
        shown=sum([level.volume for level in levels]),
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


def invested(state: State, strategy: StrategyState) -> int:
    """Return what a strategy's shares are worth, with what its open buys may cost, without fees."""
    name, total = strategy.plan.name, 0
    for symbol, position in strategy.positions.items():
        seen = state.quotes.get(symbol)
        last = seen.quote.last if seen is not None else 0
        total += position.shares * last if last > 0 else position.cost
    for order in state.open_orders():
        row = order.row
        if row.strategy == name and row.side is Side.BUY:
            total += order.open_quantity * worst_price(state, row.symbol, order.prices[-1])
    for tracked in state.pending_intents():
        intent = tracked.intent
        if intent.strategy == name and intent.side is Side.BUY:
            total += intent.quantity * worst_price(state, intent.symbol, intent.limit_price)
    return total


def shown_to(state: State, symbol: str, side: Side) -> Sequence[DepthLevel]:
    """Return the levels of a fresh depth that an order on this side meets, the best first."""
    seen = state.depths.get(symbol)
    if seen is None or state.now - seen.at > state.settings.max_depth_age:
        return ()
    return seen.depth.asks if side is Side.BUY else seen.depth.bids


def _worst(levels: Sequence[DepthLevel], request: OrderRequest) -> int | None:
    """Return the price of the worst level; for a sale, which must get out, the worst it reaches."""
    left = request.quantity
    for level in levels if request.side is Side.SELL else ():
        left -= level.volume
        if left <= 0:
            return level.price
    return levels[-1].price if levels else None


def _ends_in(state: State, request: OrderRequest) -> Phase | None:
    """Return the phase without orders that begins within the time of the last entry."""
    instrument = state.instruments.get(request.symbol)
    before = state.settings.account_limits.last_entry
    if before is None or instrument is None or request.side is Side.SELL:
        return None
    soon = state.rulebook.phase_at(instrument.exchange, state.now + before)
    return soon if soon in SILENT_PHASES else None
