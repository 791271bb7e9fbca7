"""Orders that had ended here and that the broker shows at work, under their own id or a new one.

One of ours that is shown so under its own id is open again: the rest counts, it is polled, a cancel
reaches it and a row ends it. That is a correction, no move of an order (`ORDER_MOVES`): it always
raises an alert, and halts the symbol. One that works on under a new id stays ended here; its fills
are counted.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Final

from bot.domain.entry import Transition
from bot.domain.order import REOPENED_NOTE, TERMINAL_STATES, OrderReport, OrderState
from bot.domain.order_status import shown_state
from bot.engine.control_state import Standing
from bot.engine.orders import cancel_requests
from bot.engine.orders.order_words import row_facts, row_words
from bot.engine.risk.under_way import refused_at_work
from bot.engine.state import State
from bot.engine.tracked import TrackedOrder

OLD_FOR: Final = timedelta(seconds=60)
"""If an order's rows go back for this long, it is shown for as long as they do."""


def is_at_work(state: State, order: TrackedOrder, report: OrderReport) -> bool:
    """Return whether a row shows an order of ours of today at work that had ended here, with no
    less traded than is known.
    """
    is_todays = order.is_own and order.row.trading_date == state.trading_date
    is_open = shown_state(report) not in TERMINAL_STATES and report.remaining_quantity > 0
    is_ahead = report.executed_quantity >= order.row.executed_quantity
    return is_todays and not order.is_open and is_open and is_ahead


def is_news(order: TrackedOrder, report: OrderReport) -> bool:
    """Return whether such a row is certainly of after the end, as it shows more traded. Any other
    may be a lagging node's, also where only the place's own answer has said that it had ended.
    """
    return report.executed_quantity > order.row.executed_quantity


def reason_not_to_buy(state: State, symbol: str) -> str | None:
    """Return why nothing may be bought in a symbol until a second look: an order that was refused
    there is shown at work. What such a sale may sell is not sold again either (`means_of`).
    """
    for order in refused_at_work(state, symbol):
        said = "was refused, and a row of it shows it open: it is read again"
        return f"{order.row.order_id} {said}"
    return None


def reopen(state: State, order: TrackedOrder, report: OrderReport) -> None:
    """Open an order again before its row is merged; it is cancelled if that was requested before
    its end, or would be now: by its time, the loss of the day, or a halt by a person or a loss.
    """
    row = order.row
    text = (
        f"{row_words(row)}: it had ended here as {row.state}, but the broker shows it open, with"
        f" {report.remaining_quantity:,} left. It counts as open again, and no new order goes out"
        f" in {row.symbol}. Compare it with the broker's app; if it is not wanted: bot cancel"
        f' {row.order_id}; then: bot resume {row.symbol} --reason "…"'
    )
    facts = {**row_facts(row), "state": row.state, "open": report.remaining_quantity}
    about = f"{row.order_id} {row.at.isoformat()}"
    state.alert("ORDER_REOPENED", text, facts, about=about, symbol=row.symbol)
    state.halt_symbol(row.symbol, f"{row.order_id} had ended as {row.state} and works again")
    works = OrderState.PARTIALLY_FILLED if row.executed_quantity else OrderState.ACCEPTED
    order.row = replace(row, at=state.now, state=works, cancelled_quantity=0, note=REOPENED_NOTE)
    order.poll, order.look = state.first_poll(), None
    state.record(
        Transition(
            at=state.now,
            intent_id=row.intent_id,
            order_id=row.order_id,
            from_state=row.state,
            to_state=works,
            broker_status=report.status,
            source="engine",
            executed_quantity=row.executed_quantity,
            note=REOPENED_NOTE,
        )
    )
    state.record(order.row)
    tracked = state.intents.get(row.intent_id or "")
    if tracked is not None and tracked.may_be_anothers:
        cancel_requests.doubt_owner(state, tracked)
    cancel_requests.request_again(state, order)


def tell_if_it_stays(state: State, order: TrackedOrder) -> None:
    """Tell of an order that has been shown at work for long after its end, once."""
    row, told = order.row, stays_old(state, order)
    if told is not None:
        about = f"{row.order_id} {row.at.isoformat()}"
        state.alert(told.code, told.text, told.facts, about=about, symbol=row.symbol)


def stays_old(state: State, order: TrackedOrder) -> Standing | None:
    """Return what is told of an order whose rows have gone back for long, None if they have not.
    One that they show at work after its end stays ended, as each of them is a row of before: only a
    person reaches it.
    """
    row, at_work, since = order.row, order.shown.at_work, order.shown.old_since
    if since is None or state.now - since < OLD_FOR:
        return None
    seconds = round((state.now - since).total_seconds())
    facts = {**row_facts(row), "state": row.state, "seconds": seconds}
    if not at_work:
        text = (
            f"{row_words(row)}: it is {row.state} here, and for {seconds} s the broker has shown an"
            " earlier state of it. That changes nothing here. Compare it with the broker's app."
        )
        return Standing("ROWS_STAY_OLD", text, facts)
    text = (
        f"{row_words(row)}: it had ended here as {row.state}, and for {seconds} s the broker has"
        f" shown it open as before, with {at_work:,} left. It stays ended here until it trades:"
        " no halt and no bot cancel reaches it. Look in the broker's app; if it is open there and"
        " not wanted, cancel it there."
    )
    return Standing("ENDED_SHOWN_OPEN", text, {**facts, "open": at_work})


def tell_of_another_id(state: State, order: TrackedOrder, report: OrderReport) -> None:
    """An order that had ended here works on under a new id, which no old row could show."""
    row, new = order.row, report.order_id
    text = (
        f"{row_words(row)}: it had ended here as {row.state}, but the broker shows it open as"
        f" {new}, with {report.remaining_quantity:,} left. Its fills are counted where its quantity"
        " is the order's or one that you changed it to; the bot neither cancels nor changes it, and"
        f" no new order goes out in {row.symbol}. Cancel {new} in the broker's app if it is not"
        f' wanted, then: bot resume {row.symbol} --reason "…"'
    )
    facts = {**row_facts(row), "state": row.state, "new_id": new, "open": report.remaining_quantity}
    state.alert("ORDER_LIVES", text, facts, about=new, symbol=row.symbol)
    state.halt_symbol(row.symbol, f"{row.order_id} had ended and works on as {new}")
    order.shown.lives = True
