"""Requests to cancel: by an operator, the strategy, the order's time, or an account's loss of
today.

An order still on its way never leaves if no byte of it has (`sends.py`), else it is cancelled when
it turns up. `cancels.py` carries a cancel through;
`risk/losses.py` defines the loss and what it holds back. The loss is checked with each fill, each
account read, and each requested order.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Final

from bot.domain.entry import (
    ENTRIES_SCOPE,
    IN_DOUBT,
    Decision,
    Numbers,
    OrderUpdated,
    RunState,
    StateChanged,
    Verdict,
)
from bot.domain.order import REOPENED_NOTE, Intent, SendState, Side
from bot.domain.recovery import Recovery
from bot.engine import gate
from bot.engine.control_state import BY_ENGINE
from bot.engine.orders import matching
from bot.engine.risk.losses import limit_of
from bot.engine.state import State
from bot.engine.tracked import TrackedCancel, TrackedIntent, TrackedOrder

MAY_BE_ANOTHERS: Final = "may be somebody else's"
"""How the note of an order of ours ends that was found by its looks and may be somebody else's."""
DOUBT_LOOK: Final = timedelta(seconds=15)
"""How long after its symbol was resumed an order whose time is over may wait for its cancel."""


def request(state: State, order: TrackedOrder, reason: str) -> None:
    """Request the cancel of an own order; a repeated request is still one cancel."""
    row, under_way = order.row, state.cancels.get(order.row.order_id)
    is_knowing = is_in_doubt(state, order)
    if under_way is not None and is_knowing and not under_way.is_knowing:
        under_way.is_knowing = True
        _decide(state, order, Verdict.PASSED, "CANCEL", reason, {IN_DOUBT: True})
    if not order.is_open or not order.is_own or under_way is not None:
        return
    _begin(state, order, reason, is_knowing=is_knowing)
    matching.tell_left(state, reason, row.order_id)
    known: Numbers = {IN_DOUBT: True} if is_knowing else {}
    _decide(state, order, Verdict.PASSED, "CANCEL", reason, known)


def _decide(
    state: State, order: TrackedOrder, verdict: Verdict, code: str, why: str, known: Numbers
) -> None:
    row = order.row
    state.record(
        Decision(
            at=state.now,
            strategy=row.strategy or "",
            symbol=row.symbol,
            verdict=verdict,
            code=code,
            why=why,
            numbers={"open": order.open_quantity, "executed": row.executed_quantity, **known},
            request_id=row.intent_id,
            side=row.side,
            quantity=order.open_quantity,
            order_type=row.order_type,
            price=row.price,
        )
    )


def _begin(state: State, order: TrackedOrder, reason: str, *, is_knowing: bool) -> TrackedCancel:
    now, order_id = state.now, order.row.order_id
    cancel = state.cancels[order_id] = TrackedCancel(order_id, reason, now, now, is_knowing)
    return cancel


def give_up_in_doubt(state: State, cancel: TrackedCancel) -> bool:
    """Drop a cancel that was requested before anybody knew that its order may be somebody else's,
    and return whether it was; a halt's goes on.
    """
    order = state.orders[cancel.order_id]
    if cancel.is_knowing or _is_halted(state) or not is_in_doubt(state, order):
        return False
    del state.cancels[cancel.order_id]
    state.gate.cancel_when_seen.pop(order.row.intent_id or "", None)
    tracked = state.intents.get(order.row.intent_id or "")
    if tracked is not None and tracked.intent.expire_after is not None:
        order.expires_at = state.now + DOUBT_LOOK
    doubt = f"{cancel.order_id} may be somebody else's ({cancel.reason})"
    _decide(state, order, Verdict.SKIPPED, "IN_DOUBT", doubt, {})
    return True


def request_all(state: State, reason: str, strategy: str | None = None) -> None:
    """Request the cancel of every own open order, or of a strategy's; those on their way follow
    when they turn up.
    """
    _request_each(state, reason, lambda one: strategy in {None, one.strategy})
    if strategy is None:
        matching.tell_left(state, reason)


def request_entries(state: State, reason: str, account: str) -> None:
    """Request the cancel of every own buy of an account; those on their way follow when they turn
    up.
    """
    _request_each(state, reason, lambda one: one.side is Side.BUY and one.account == account)


def _request_each(
    state: State, reason: str, is_meant: Callable[[Intent | OrderUpdated], bool]
) -> None:
    """Request the cancels: first of orders that the broker has, then of those it may have, or may
    get, under an unknown id.
    """
    _request_when_seen(state, reason, is_meant)
    for order in state.open_orders():
        if is_meant(order.row):
            request(state, order, reason)


def request_pending(state: State, strategy: str, symbol: str, reason: str) -> bool:
    """Request the cancel of a strategy's orders in a symbol that have no order of the broker yet;
    return whether there are any.
    """
    return _request_when_seen(
        state, reason, lambda one: (one.strategy, one.symbol) == (strategy, symbol)
    )


def request_on_its_way(state: State, tracked: TrackedIntent, reason: str) -> None:
    """Request the cancel of one order that has no order of the broker yet."""
    _request_when_seen(state, reason, lambda one: one is tracked.intent)


def _request_when_seen(state: State, reason: str, is_meant: Callable[[Intent], bool]) -> bool:
    """Request the cancel of what is on its way, or of unknown outcome: what has not left stays, the
    rest is cancelled when it turns up. Return whether there is any. A repeated request is still one
    cancel.
    """
    found = [tracked for tracked in state.pending_intents() if is_meant(tracked.intent)]
    for tracked in found:
        intent = tracked.intent
        if intent.intent_id in state.gate.cancel_when_seen:
            continue
        state.gate.cancel_when_seen[intent.intent_id] = reason
        state.record(
            Decision(
                at=state.now,
                strategy=intent.strategy,
                symbol=intent.symbol,
                verdict=Verdict.PASSED,
                code="CANCEL",
                why=reason,
                numbers={"send": tracked.state},
                request_id=intent.intent_id,
                side=intent.side,
                quantity=intent.quantity,
                order_type=intent.order_type,
                price=intent.limit_price,
            )
        )
    return bool(found)


def sweep(state: State, order: TrackedOrder) -> None:
    """Cancel an order that has just turned up, if that was requested before."""
    intent_id, gate = order.row.intent_id or "", state.gate
    reason, is_knowing = gate.cancel_when_seen.get(intent_id), intent_id in gate.knowing_cancels
    if reason is not None and (_is_halted(state) or is_knowing or not is_in_doubt(state, order)):
        request(state, order, reason)


def end(state: State, row: OrderUpdated) -> bool:
    """End the cancel of an order that has ended, and return whether there was one. Should the
    broker show the order at work after all, it is to be cancelled still.
    """
    cancel = state.cancels.pop(row.order_id, None)
    if cancel is not None and row.intent_id is not None:
        state.gate.cancel_when_seen.setdefault(row.intent_id, cancel.reason)
        if cancel.is_knowing:
            state.gate.knowing_cancels.add(row.intent_id)
    return cancel is not None


def request_again(state: State, order: TrackedOrder) -> None:
    """Request the cancel of an order that is open again after its end, if that was requested
    before, or has been of all such orders meanwhile. Its time, if over, is one of the expired.
    """
    sweep(state, order)
    row = order.row
    reduced = state.usage.of(row.account).reduced_by
    if reduced and row.side is Side.BUY:
        request(state, order, reduced)
    strategy = state.strategies.get(row.strategy or "")
    if strategy is not None and gate.is_halted_by_person(strategy):
        request(state, order, strategy.state_reason or "halt")
    if _is_halted_with_cancels(state):
        request(state, order, "halt")


def take_up(state: State, recovery: Recovery) -> None:
    """Continue the cancels that an earlier run of the day had begun. One that was requested before
    its order came into doubt is given up, as that run would have done.
    """
    state.gate.cancel_when_seen.update(recovery.cancels)
    state.gate.knowing_cancels |= recovery.knowing_cancels
    for order in state.open_orders():
        order_id = order.row.order_id
        reason = state.gate.cancel_when_seen.get(order.row.intent_id or "")
        is_todays = order.row.trading_date == state.trading_date
        if reason is not None and is_todays and order_id not in state.cancels:
            is_knowing = order.row.intent_id in recovery.knowing_cancels
            cancel = _begin(state, order, reason, is_knowing=is_knowing)
            if give_up_in_doubt(state, cancel):
                continue
            text = f"{order_id} was to be cancelled before the restart, and still is: {reason}"
            state.note("CANCEL", text, symbol=order.row.symbol)


def request_if_halted(state: State) -> None:
    """Request the cancel of today's open orders if a person or a loss has halted the bot: that may
    have been before the journal was read, or in a run that had no time left for it.
    """
    if _is_halted_with_cancels(state):
        _request_each(state, "halt", lambda one: one.trading_date == state.trading_date)
        matching.tell_left(state, "halt")


def request_expired(state: State) -> None:
    """Request the cancel of orders that have worked long enough, unless a person has to look."""
    for order in state.index.expiries.ripe(state.now):
        if is_in_doubt(state, order):
            order.expires_at = state.now + DOUBT_LOOK
            continue
        order.expires_at = None
        tracked = state.intents.get(order.row.intent_id or "")
        after = tracked.intent.expire_after if tracked else None
        request(state, order, f"expire {_length(after)}" if after else "expire")


def is_in_doubt(state: State, order: TrackedOrder) -> bool:
    """Return whether an order that was taken for ours by its looks may be somebody else's, and
    nobody has resumed its symbol since: its rows no longer look like it, or its nonce was unused.
    Then a person, a halt or a loss limit cancels it, and neither its time limit nor its strategy.
    """
    tracked = state.intents.get(order.row.intent_id or "")
    if tracked is None:
        return False
    is_strange = tracked.state is SendState.MATCHED and bool(order.shown.doubt)
    return is_strange or (tracked.may_be_anothers and order.row.symbol in state.halted_symbols)


def doubt_owner(state: State, tracked: TrackedIntent) -> None:
    """An order that was taken for ours by its looks may be somebody else's. Its row says so to a
    restart while it is open, as a symbol's halt has one reason, and may have another; of one that
    has ended the row keeps why.
    """
    tracked.may_be_anothers = True
    order = state.orders.get(tracked.order_id or "")
    if order is not None and order.is_open and not order.row.note.endswith(MAY_BE_ANOTHERS):
        before = f"{REOPENED_NOTE}; " if order.row.note == REOPENED_NOTE else ""
        order.row = replace(order.row, at=state.now, note=before + MAY_BE_ANOTHERS)
        state.record(order.row)


def accept_owner(state: State, *, only: str | None = None) -> None:
    """A person has looked and resumed every symbol, or one: what was taken for ours there is ours,
    whatever halts the symbol later. Its row says so to a restart.
    """
    for tracked in state.intents.values():
        if not tracked.may_be_anothers or only not in {None, tracked.intent.symbol}:
            continue
        tracked.may_be_anothers = False
        order = state.orders.get(tracked.order_id or "")
        if order is not None and order.is_open and order.row.note.endswith(MAY_BE_ANOTHERS):
            note = order.row.note.removesuffix(MAY_BE_ANOTHERS).removesuffix("; ")
            order.row = replace(order.row, at=state.now, note=note)
            state.record(order.row)


def _is_halted(state: State) -> bool:
    return RunState.HALTED in state.gate.causes


def _is_halted_with_cancels(state: State) -> bool:
    """Return whether a person or a loss has halted the bot; in a halt of its own orders stay."""
    halted = state.gate.causes.get(RunState.HALTED)
    return halted is not None and halted.by != BY_ENGINE


def _length(span: timedelta) -> str:
    seconds = round(span.total_seconds())
    return f"{seconds // 60}m" if seconds % 60 == 0 else f"{seconds}s"


# -------------------------------------------------------------------------------- an account's loss

HALT_AT: Final = 2
"""At this multiple of the day's limit the bot is halted."""


def stops_at(state: State, account: str) -> int | None:
    """Return the loss of today at which entries stop, or once they have, everything; None: at
    none.
    """
    limit = limit_of(state, account)
    if limit is None:
        return None
    if not state.usage.of(account).reduced_by:
        return max(limit, 1)
    return None if RunState.HALTED in state.gate.causes else max(HALT_AT * limit, 1)


def stop_after_loss(state: State, account: str) -> None:
    """Stop entries, or everything, if an account has lost too much today."""
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
        request_entries(state, reason, account)
    if loss >= HALT_AT * limit and RunState.HALTED not in state.gate.causes:
        text = (
            f"{loss:,} VND lost today, {HALT_AT} times the account's limit of {limit:,}: the bot "
            "is halted, all its open orders are cancelled, positions stay. Keep them, or sell "
            "them: bot halt --flatten. While the loss stays that high, a resume leads to another "
            'halt; tomorrow: bot resume --reason "…"'
        )
        state.alert("LOSS_HALT", text, facts)
        gate.close(state, RunState.HALTED, reason, gate.BY_LIMIT)
        request_all(state, "halt")
