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
    """Remember until its settlement what a strategy has bought, also one that does not run."""
    if not strategy or not flow.shares_in or flow.settles_at <= state.now:
        return
    owner = state.strategies.get(strategy)
    if owner is not None:
        coming = owner.coming.setdefault(flow.symbol, {})
    else:
        coming = state.unloaded_coming.setdefault((strategy, flow.symbol), {})
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
    """Return what the account's other strategies have settled and in none of their sells, whether
    they still list the symbol or not. One that does not run counts, whichever its account was.
    """
    settled = {
        other.plan.name: other.position(symbol).shares - other.unsettled(symbol, state.now)
        for other in state.strategies.values()
        if other is not strategy and other.plan.account == account
    }
    for key, position in state.unloaded.items():
        if key[1] == symbol:
            coming = state.unloaded_coming.get(key, {})
            unsettled = sum(shares for at, shares in coming.items() if at > state.now)
            settled[key[0]] = position.shares - unsettled
    sales = [(each.row.strategy, each.row.side, each.open_quantity) for each in orders]
    sales += [(each.intent.strategy, each.intent.side, each.intent.quantity) for each in pending]
    for name, side, quantity in sales:
        if side is Side.SELL and name in settled:
            settled[name] -= quantity
    return sum(max(0, shares) for shares in settled.values())
