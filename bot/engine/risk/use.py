"""Gathers what an account has used of its limits, for the checks of an order."""

from bot.domain.order import Side
from bot.engine.risk.accounts import Means
from bot.engine.risk.sizing import OrderRequest
from bot.engine.risk.view import AccountUse
from bot.engine.state import State


def use_of(state: State, request: OrderRequest, means: Means) -> AccountUse | None:
    """Return what the request's account has used; None where nothing is limited."""
    if not state.has_account_limits:
        return None
    limits = state.settings.account_limits
    account, usage = request.account, state.usage.of(request.account)
    here = [one for one in means.orders if one.is_own and one.row.account == account]
    pending = [one for one in means.pending if one.intent.account == account]
    seen, worst, shown = state.depths.get(request.symbol), None, 0
    if seen is not None and state.now - seen.at <= state.settings.max_depth_age:
        levels = seen.depth.asks if request.side is Side.BUY else seen.depth.bids
        worst = levels[-1].price if levels else None
        shown = sum([level.volume for level in levels])
    return AccountUse(
        limits=limits,
        open_orders=state.index.working.of(account),
        open_orders_here=len(here) + len(pending),
        last_second=usage.last_second.count(state.now),
        last_minute=usage.last_minute.count(state.now),
        orders_today=usage.orders_today,
        worst_price=worst,
        shown=shown,
    )
