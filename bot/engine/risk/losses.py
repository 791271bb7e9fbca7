"""What an account's loss of today stops, and a strategy that goes on filling on one side.

    loss at the limit ─► no entries until tomorrow, open buys are cancelled, exits go out
    at twice the limit ─► the bot is halted, all open orders are cancelled, a person resumes it

The loss is what strategies have realised today and what is unrealised now, less fees and taxes. It
is looked at with each fill, each read of the account, and each order that is asked for.
"""

from collections.abc import Iterator
from typing import Final

from bot.domain.entry import ENTRIES_SCOPE, Fill, Numbers, RunState, StateChanged
from bot.domain.order import Side
from bot.engine import gate
from bot.engine.state import State
from bot.engine.tracked import StrategyState
from bot.engine.watched import Standing

PPM: Final = 1_000_000


def limit_of(state: State, account: str) -> int | None:
    """Return the loss of a day at which entries stop, the tighter of VND and share of NAV."""
    limits, snapshot = state.settings.account_limits, state.accounts.get(account)
    found = [limits.max_loss_per_day]
    if limits.max_loss_nav_ppm is not None and snapshot is not None:
        found.append(max(0, snapshot.net_asset_value) * limits.max_loss_nav_ppm // PPM)
    return min((limit for limit in found if limit is not None), default=None)


def is_limited(state: State) -> bool:
    """Whether an account's loss of a day has a limit at all."""
    limits = state.settings.account_limits
    return limits.max_loss_per_day is not None or limits.max_loss_nav_ppm is not None


def objection(state: State, account: str, side: Side) -> str | None:
    """Return why an account's loss keeps an order back; None: it does not. A sale goes out."""
    reason = state.usage.of(account).reduced_by if side is Side.BUY else ""
    return f"no entries until tomorrow: {reason}" if reason else None


def begin_day(state: State) -> None:
    """A new day begins without the loss of the last one."""
    for account, usage in state.usage.all():
        if usage.reduced_by:
            running, scope = RunState.RUNNING, f"{ENTRIES_SCOPE}{account}"
            state.record(
                StateChanged(
                    state.now, RunState.HALTED, running, "a new day", gate.BY_LIMIT, scope=scope
                )
            )
    state.usage.begin_day()
    state.exposure.begin_day()


def alerts(state: State) -> Iterator[Standing]:
    """Yield which account takes no entries today."""
    for _, usage in state.usage.all():
        if usage.reduced_by:
            text = f"REDUCING: nothing is bought until tomorrow ({usage.reduced_by}); sales go on"
            yield Standing("REDUCING", f"{text}. Look at: bot limits", {"why": usage.reduced_by})


def count_fill(state: State, strategy: StrategyState, fill: Fill) -> None:
    """Count a fill of a strategy; one too many on one side of a symbol disables it."""
    place = fill.symbol, fill.side
    count = strategy.repeats[place] = strategy.repeats.get(place, 0) + 1
    most, name = strategy.limits.max_repeats, strategy.plan.name
    if most is None or count < most or strategy.state == gate.DISABLED:
        return
    why = f"{count:,} fills {fill.side} {fill.symbol} today, at most {most:,}"
    text = (
        f"{name} is disabled: {why} before a person has looked. Its open orders stay, other "
        "strategies go on. Look at bot fills and bot orders, then: bot resume --strategy "
        f"{name}"
    )
    facts: Numbers = {"strategy": name, "side": fill.side, "symbol": fill.symbol}
    state.alert("STRATEGY_REPEATS", text, {**facts, "count": count, "limit": most})
    gate.switch(state, strategy, gate.DISABLED, why, gate.BY_LIMIT)
