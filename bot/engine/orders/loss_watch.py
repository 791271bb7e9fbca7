"""Stops entries, or everything, where an account has lost too much today.

It is looked at with each fill, each read of the account, and each order that is asked for; what the
loss is and what it keeps back stands in `risk/losses.py`.
"""

from typing import Final

from bot.domain.entry import ENTRIES_SCOPE, Numbers, RunState, StateChanged
from bot.engine import gate
from bot.engine.orders import cancels
from bot.engine.risk.losses import limit_of
from bot.engine.state import State

HALT_AT: Final = 2
"""Times the limit of the day: from there on the bot is halted."""


def watch(state: State, account: str) -> None:
    """Stop entries, or everything, where an account has lost too much today."""
    limit, loss = limit_of(state, account), state.exposure.of(account).loss
    if limit is None or loss <= 0 or loss < limit:
        return
    usage = state.usage.of(account)
    facts: Numbers = {"loss": loss, "limit": limit}
    reason = f"day loss {loss:,} VND of {limit:,}"
    if not usage.reduced_by:
        usage.reduced_by = reason
        scope = f"{ENTRIES_SCOPE}{account}"
        halted = StateChanged(
            state.now, RunState.RUNNING, RunState.HALTED, reason, gate.BY_LIMIT, scope=scope
        )
        state.record(halted)
        text = (
            f"{loss:,} VND lost today, the account's limit is {limit:,}: nothing is bought until "
            "tomorrow, open buys are cancelled; sales go on. Nothing to do; look at bot limits and "
            "bot positions"
        )
        state.alert("ENTRIES_STOPPED", text, facts)
        cancels.request_entries(state, reason, account)
    if loss >= HALT_AT * limit and RunState.HALTED not in state.gate.causes:
        text = (
            f"{loss:,} VND lost today, {HALT_AT} times the account's limit of {limit:,}: the bot "
            "is halted, all its open orders are cancelled, positions stay. Keep them, or sell "
            "them: bot halt --flatten. While the loss is as high a resume is followed by another "
            'halt; tomorrow: bot resume --reason "…"'
        )
        state.alert("LOSS_HALT", text, facts)
        gate.close(state, RunState.HALTED, reason, gate.BY_LIMIT)
        cancels.request_all(state, "halt")
