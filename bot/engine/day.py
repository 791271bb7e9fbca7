"""A new trading day: counters start again, and what the old day left open has ended."""

from dataclasses import replace

from bot.domain.entry import OrderUpdated, Transition
from bot.domain.message import TradingDayStarted
from bot.domain.order import OrderState
from bot.engine import switches
from bot.engine.orders import held, unknown
from bot.engine.state import State
from bot.engine.tracked import TrackedOrder


def on_trading_day(state: State, event: TradingDayStarted) -> None:
    """Close the old day's questions and orders, and begin to count anew."""
    if event.trading_date == state.trading_date:
        return
    held.expire_held(state, at_once="the day ended")
    state.trading_date = event.trading_date
    end_earlier_days(state)
    _forget(state)
    _count_anew(state)


def end_earlier_days(state: State) -> None:
    """Close what a day before today's has left open: today's day order book knows nothing of it."""
    unknown.end_day(state, state.trading_date)
    for order in list(state.open_orders()):
        if order.row.trading_date < state.trading_date:
            _lapse(state, order)


def _lapse(state: State, order: TrackedOrder) -> None:
    """All orders are day orders: what is unfilled lapses at the close (exchange rules)."""
    row: OrderUpdated = replace(
        order.row, at=state.now, state=OrderState.EXPIRED, note="lapsed at the close"
    )
    state.record(
        Transition(
            at=state.now,
            intent_id=row.intent_id,
            order_id=row.order_id,
            from_state=order.row.state,
            to_state=row.state,
            broker_status=row.broker_status,
            source="engine",
            executed_quantity=row.executed_quantity,
            note=row.note,
        )
    )
    state.record(row)
    order.row, order.poll = row, None
    state.cancels.pop(row.order_id, None)


def _forget(state: State) -> None:
    """Keep only what may still matter: the day order book of today knows no older row."""
    state.orders = {key: order for key, order in state.orders.items() if order.is_open}
    state.intents = {
        key: tracked for key, tracked in state.intents.items() if tracked.reserves_in_full
    }
    state.seen_ids = set(state.orders)
    state.alerted.clear()


def _count_anew(state: State) -> None:
    state.counts.clear()
    for strategy in state.strategies.values():
        strategy.orders_today = strategy.realised_today = strategy.fees_today = 0
        if strategy.state == switches.PAUSED and strategy.state_by == switches.BY_LIMIT:
            switches.switch(state, strategy, switches.ON, "a new day", switches.BY_LIMIT)
