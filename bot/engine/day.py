"""How a day begins and ends: the same way after a start, and in a bot that ran over the night.

    Recovered, TradingDayStarted ─► gate STARTING ─► EarlierOrdersRead ─► day order book, account
                                                                          └─► Reconciled: gate opens

Today's day order book does not list the orders of an earlier day; the order history does. So what
was open at a close that nobody saw is merged before its day is closed, and what the history does
not know halts its symbol. Strategies come last: an instance hears of nothing before its `on_start`.
"""

from dataclasses import replace
from datetime import date

from bot.domain.entry import RunState, Transition
from bot.domain.message import EarlierOrdersRead, Reconciled, TradingDayStarted
from bot.domain.order import OrderReport, OrderState
from bot.engine import belief, gate, wake
from bot.engine.gate import guarded
from bot.engine.index import SeenIds
from bot.engine.orders import cancels, orders, sends, unknown
from bot.engine.state import BY_ENGINE, State
from bot.engine.tracked import TrackedOrder


def on_trading_day(state: State, event: TradingDayStarted) -> None:
    """Start the counters again; nothing is sent until the new day is reconciled."""
    if event.trading_date == state.trading_date:
        return
    sends.expire_held(state, at_once="the day ended")
    belief.begin_day(state, ended=state.trading_date)
    state.trading_date = event.trading_date
    state.is_reconciled = False
    day = event.trading_date.isoformat()
    text = f"{day} begins: reading the order history, the day order book and the account"
    gate.close(state, RunState.STARTING, text, "bot")
    state.alerted.clear()
    state.counts.clear()
    for strategy in state.strategies.values():
        strategy.orders_today = strategy.realised_today = strategy.fees_today = 0
        if (strategy.state, strategy.state_by) == (gate.PAUSED, gate.BY_LIMIT):
            gate.switch(state, strategy, gate.ON, "a new day", gate.BY_LIMIT)


def left_open(state: State) -> tuple[TrackedOrder, ...]:
    """Return our own orders that an earlier day has left open."""
    return tuple(
        order
        for order in state.open_orders()
        if order.is_own and order.row.trading_date < state.trading_date
    )


def on_earlier_orders(state: State, event: EarlierOrdersRead) -> None:
    """Close the days before today's with what the order history says of their orders."""
    _end_earlier_days(state, event.reports)


def _end_earlier_days(state: State, reports: tuple[OrderReport, ...]) -> None:
    """No order of an earlier day is open, and no id of one is ever written to again. One whose end
    the history does not tell halts its symbol.
    """
    ran_over_night, today = state.earlier_ended_at > date.min, state.trading_date
    state.earlier_ended_at = state.trading_date
    by_id = {report.order_id: report for report in reports}
    for order in left_open(state):
        row = order.row
        where, report = f"{row.order_id} of an earlier day", by_id.get(row.order_id)
        if len(state.chains.ids(row.order_id)) > 1:
            report = None  # the history tells of its first id alone: what the later ones matched
        is_taken = report is not None and guarded(
            state, where, orders.apply, state, order, report, "detail"
        )
        if not is_taken or order.is_open:  # a row that is not its own is not taken
            text = f"{row.order_id} was open when {row.trading_date} was last looked at"
            if order.shown.is_missing:
                text = f"{row.order_id} of {row.trading_date} was accepted and never listed"
            state.halt_symbol(row.symbol, f"{text}: compare the holding")
    todays = [key for key, order in state.orders.items() if order.row.trading_date == today]
    state.chains.forget_all_but(todays)
    state.amends = {key: amend for key, amend in state.amends.items() if key in todays}
    unknown.end_day(state, state.trading_date)
    for order in state.open_orders():
        if order.row.trading_date < state.trading_date:
            _lapse(state, order)
    if ran_over_night:
        # Only what may still matter is kept: the day order book of today knows no older row.
        state.index.forget_ended()
        state.seen_ids = SeenIds(state.orders)


def _lapse(state: State, order: TrackedOrder) -> None:
    """All orders are day orders: what is unfilled lapses at the close (exchange rules)."""
    from_state, note = order.row.state, "lapsed at the close"
    row = replace(order.row, at=state.now, state=OrderState.EXPIRED, note=note)
    state.record(
        Transition(
            at=state.now,
            intent_id=row.intent_id,
            order_id=row.order_id,
            from_state=from_state,
            to_state=row.state,
            broker_status=row.broker_status,
            source="engine",
            executed_quantity=row.executed_quantity,
            note=note,
        )
    )
    state.record(row)
    order.row, order.poll = row, None
    state.cancels.pop(row.order_id, None)


def on_reconciled(state: State, _event: Reconciled) -> None:
    """Order history, day order book and account are merged: the bot runs, and strategies wake.

    After an operator's halt open orders are cancelled: the run that it stopped may have had no time
    to. What became of orders meanwhile is told to a strategy after its `on_start`.
    """
    if state.earlier_ended_at != state.trading_date:  # nothing of an earlier day outlives this
        _end_earlier_days(state, ())
    gate.lift(state, RunState.STARTING, "reconciled with the broker", "bot")
    halted = state.gate.causes.get(RunState.HALTED)
    if halted is not None and halted.by != BY_ENGINE:
        cancels.request_all(state, "halt")
    state.is_reconciled = True
    for strategy in state.strategies.values():
        for instance in strategy.instances.values():
            if not instance.has_started:
                wake.wake(state, strategy, instance, "on_start", None)
    state.due_hooks.extend(state.early_news)
    state.early_news.clear()
