"""Whose settled shares of a symbol are whose, where several strategies of an account hold it.

The account shows free shares, not who has bought them. What a strategy holds, and what of it has
not settled yet, is known from its own fills.
"""

from collections.abc import Sequence

from bot.domain.order import Side
from bot.engine.flows import Flow
from bot.engine.state import State, StrategyState
from bot.engine.tracked import TrackedIntent, TrackedOrder


def note_unsettled(state: State, strategy: str | None, flow: Flow) -> None:
    """Remember until its settlement what a strategy has bought."""
    owner = state.strategies.get(strategy or "")
    if owner is not None and flow.shares_in and flow.settles_at > state.now:
        coming = owner.coming.setdefault(flow.symbol, {})
        for at in [at for at in coming if at <= state.now]:
            del coming[at]
        coming[flow.settles_at] = coming.get(flow.settles_at, 0) + flow.shares_in


def settled_of_others(
    state: State,
    strategy: StrategyState,
    account: str,
    symbol: str,
    orders: Sequence[TrackedOrder],
    pending: Sequence[TrackedIntent],
) -> int:
    """Return what the account's other strategies have settled and in none of their sells."""
    shares = 0
    for other, _ in state.instances.get(symbol, ()):
        if other is strategy or other.plan.account != account:
            continue
        name = other.plan.name
        own = other.position(symbol).shares - other.unsettled(symbol, state.now)
        for order in orders:
            if order.row.side is Side.SELL and order.row.strategy == name:
                own -= order.open_quantity
        for tracked in pending:
            if tracked.intent.side is Side.SELL and tracked.intent.strategy == name:
                own -= tracked.intent.quantity
        shares += max(0, own)
    return shares
