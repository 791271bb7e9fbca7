"""Starting is recovering: the engine goes on from the journal, and asks before it acts.

A place whose outcome was lost is fenced first of all; what was never sent, or was held for a token,
is given up: nothing is sent because of an earlier run. Strategies wake at `Reconciled`, not before.
"""

from collections.abc import Mapping
from typing import Final

from bot.domain.entry import Decision, OrderUpdated, RunState, Verdict
from bot.domain.message import ReadAccount, ReadTodaysOrders, Reconciled, Recovered
from bot.domain.order import Intent, OrderReport, OrderState, SendState
from bot.domain.recovery import Recovery, StoredIntent
from bot.engine import gate, market, wake
from bot.engine.gate import guarded
from bot.engine.index import SeenIds
from bot.engine.orders import cancels, orders, sends
from bot.engine.orders.orders import move_intent, move_unplaced
from bot.engine.risk.accounts import flow_of
from bot.engine.state import BY_ENGINE, LASTING, State
from bot.engine.tracked import BackOff, Position, TrackedIntent, TrackedOrder

_ORDER_STATES: Final[Mapping[SendState, OrderState]] = {
    SendState.READY: OrderState.INITIALIZED,
    SendState.SENDING: OrderState.SUBMITTED,
    SendState.UNKNOWN: OrderState.UNKNOWN,
    SendState.FRESH: OrderState.UNKNOWN,
    SendState.REACHED: OrderState.UNKNOWN,
    SendState.AMBIGUOUS: OrderState.UNKNOWN,
    SendState.HELD: OrderState.REJECTED,
}


def on_recovered(state: State, event: Recovered) -> None:
    """Take over what the journal knows."""
    recovery = event.recovery
    state.trading_date = recovery.trading_date
    state.next_intent_number = recovery.next_intent_number
    state.next_fill_number = recovery.next_fill_number
    state.halted_symbols.update(recovery.halted_symbols)
    if recovery.run_state in LASTING and recovery.run_state not in state.gate.causes:
        state.gate.kept = recovery.run_state
        by = recovery.run_state_by if recovery.run_state_by == BY_ENGINE else "journal"
        gate.close(state, recovery.run_state, recovery.run_state_reason, by)
    for name, stored in recovery.strategies.items():
        strategy = state.strategies.get(name)
        if strategy is not None:
            strategy.positions = {s: Position(*held) for s, held in stored.positions.items()}
            strategy.orders_today = stored.orders_today
            strategy.realised_today = stored.realised_today
            strategy.fees_today = stored.fees_today
            strategy.state = stored.state or gate.ON
    intents = {one.intent.intent_id: one.intent for one in recovery.intents}
    for row in recovery.orders:
        intent = intents.get(row.intent_id or "")
        guarded(state, f"{row.order_id} at the start", _restore_order, state, row, intent)
    for one in recovery.intents:
        guarded(state, f"{one.intent.intent_id} at the start", _take_over, state, one)
    guarded(state, "fills of earlier days", _restore_flows, state, recovery)
    guarded(state, "orders of earlier days", _end_earlier_days, state, recovery.earlier)
    state.command(ReadTodaysOrders("start"))
    state.command(ReadAccount("start"))


def _restore_order(state: State, row: OrderUpdated, intent: Intent | None) -> None:
    """An own open order is polled at once; its time to work counts from its intent."""
    order = TrackedOrder(row)
    state.index.track_order(order)
    state.seen_ids.add(row.order_id)
    if order.is_own and order.is_open:
        order.poll = BackOff(state.now)
        if intent is not None and intent.expire_after is not None:
            order.expires_at = intent.created_at + intent.expire_after


def _take_over(state: State, stored: StoredIntent) -> None:
    """Go on with a place by how far it had got; one that is settled is kept for its likeness."""
    intent, attempt = stored.intent, stored.attempt
    tracked = TrackedIntent(
        intent=intent,
        state=stored.state,
        order_state=_ORDER_STATES.get(stored.state, OrderState.SUBMITTED),
        order_id=stored.order_id,
        sent_at=attempt.at if attempt else None,
        known_ids=SeenIds(attempt.known_ids if attempt else ()).until_now(),
    )
    state.index.track_intent(tracked)
    match stored.state:
        case SendState.READY:
            move_intent(state, tracked, SendState.EXPIRED_LOCAL, "not sent before the restart")
            move_unplaced(state, tracked, OrderState.EXPIRED, source="engine", note="restart")
        case SendState.HELD:
            reason = "no 2FA before the restart"
            move_intent(state, tracked, SendState.EXPIRED_LOCAL, reason)
            decision = Decision(
                at=state.now,
                strategy=intent.strategy,
                symbol=intent.symbol,
                verdict=Verdict.EXPIRED,
                code="TWO_FACTOR",
                why=intent.why,
                numbers={"reason": reason},
                request_id=intent.intent_id,
            )
            state.record(decision)
        case SendState.SENDING:  # signed and committed, no answer journalled: it may have arrived
            move_intent(state, tracked, SendState.UNKNOWN, "no answer before the restart")
            move_unplaced(state, tracked, OrderState.UNKNOWN, source="engine", note="restart")
            sends.ask_after(state, tracked)
        case SendState.UNKNOWN:
            sends.ask_after(state, tracked)
        case SendState.FRESH | SendState.REACHED:
            tracked.poll = BackOff(state.now)


def _restore_flows(state: State, recovery: Recovery) -> None:
    flows = (flow_of(state, fill, day) for day, fill in recovery.recent_fills)
    state.early_flows += [flow for flow in flows if flow is not None]


def _end_earlier_days(state: State, reports: tuple[OrderReport, ...]) -> None:
    """What was open when the bot went down before the close has ended unseen: the order history
    says how, today's day order book knows nothing about it, and no id of an earlier day is ever
    written to again. Where the history does not know the order, its symbol is halted.
    """
    by_id = {report.order_id: report for report in reports}
    for order in state.open_orders():
        row = order.row
        if not order.is_own or row.trading_date >= state.trading_date:
            continue
        where, report = f"{row.order_id} of an earlier day", by_id.get(row.order_id)
        is_taken = report is not None and guarded(
            state, where, orders.apply, state, order, report, "detail"
        )
        if not is_taken or order.is_open:  # a row that is not its own is not taken
            text = f"{row.order_id} was open when the bot went down on {row.trading_date}"
            state.halt_symbol(row.symbol, f"{text}: compare the holding")
    market.end_earlier_days(state)


def on_reconciled(state: State, _event: Reconciled) -> None:
    """Day order book and account are merged: the bot runs, and strategies wake. After an operator's
    halt open orders are cancelled: the run that it stopped may have had no time to.
    """
    gate.lift(state, RunState.STARTING, "reconciled with the broker", "bot")
    halted = state.gate.causes.get(RunState.HALTED)
    if halted is not None and halted.by != BY_ENGINE:
        cancels.request_all(state, "halt")
    for strategy in state.strategies.values():
        for instance in strategy.instances.values():
            wake.wake(state, strategy, instance, "on_start", None)
