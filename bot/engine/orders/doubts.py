"""Whether a row is taken: only one that is about its order, and true of it, changes anything.

A row under an order's id that is about another one, or whose figures can't be, halts the symbol at
once: its fills would be somebody else's. One with a quantity or a day that nothing of ours explains
may still be meant for it: nothing of it is taken, nothing is bought in the symbol and the order is
asked for by its id, until a row belongs to it again.
"""

from bot.domain.entry import Numbers, OrderUpdated
from bot.domain.message import ReadOrder
from bot.domain.order import OrderReport, type_word
from bot.engine.orders.merging import belongs, contradiction
from bot.engine.state import State
from bot.engine.tracked import TrackedOrder


def is_refused(state: State, order: TrackedOrder, report: OrderReport) -> bool:
    """Tell whether nothing of a row may be taken; if so, say why and hold back what it puts in
    doubt.
    """
    row, shown = order.row, order.shown
    _learn_totals(state, order, report)
    wrong = contradiction(row, report, shown.totals)
    executed = report.executed_quantity
    if (
        wrong is None
        and executed < row.executed_quantity
        and (report.requested_at > order.executed_at)
    ):
        wrong = f"executed quantity fell from {row.executed_quantity:,} to {executed:,}"
    if wrong is not None:
        text = (
            f"{words_of(row)}: the broker's row under its id can't be true: {wrong}. Nothing of it"
            f" is taken and no new order goes out in {row.symbol}. Compare order and holding with"
            " what the broker shows elsewhere, then resume."
        )
        _alert(state, "ROW_CONTRADICTS", text, row, report, wrong)
        state.halt_symbol(row.symbol, f"{row.order_id}: {wrong}")
        return True
    if state.chains.first(report.order_id) != row.order_id:
        strange: str | None = f"it names {report.order_id or 'no id'}"
    else:
        strange = belongs(row, report, shown.totals)
    is_newest = report.requested_at >= order.requested_at
    if strange is None:
        if shown.doubt and is_newest:
            shown.doubt = ""
            text = f"{words_of(row)}: the broker's row is its own again"
            state.note("RESUME", text, symbol=row.symbol)
        return False
    if is_newest and order.is_open and order.is_own:
        shown.doubt = strange
        _alert(state, "ROW_AMBIGUOUS", _ambiguous(order), row, report, strange)
    return True


def ask_again(state: State, order: TrackedOrder) -> None:
    """Ask for an order by its id, whose row of the day order book may be another one's."""
    if order.shown.doubt and order.is_open:
        why = "the day order book's row may be another order's"
        state.command(ReadOrder(order.row.order_id, why))


def alerts(state: State) -> tuple[str, ...]:
    """Return which orders the broker shows in a way that can't be taken, in words."""
    return tuple(_ambiguous(order) for order in state.open_orders() if order.shown.doubt)


def _ambiguous(order: TrackedOrder) -> str:
    row = order.row
    return (
        f"{words_of(row)}: the broker's row under its id may be another order's:"
        f" {order.shown.doubt}. Nothing of it is taken and nothing is bought in {row.symbol} until"
        " a row is its own again. If you changed this order elsewhere, cancel it there."
    )


def _learn_totals(state: State, order: TrackedOrder, report: OrderReport) -> None:
    """Know every quantity that the order may have by now. One of somebody else's may have any."""
    totals, change = order.shown.totals, order.change
    totals.add(order.row.quantity)
    tracked = state.intents.get(order.row.intent_id or "")
    if tracked is not None:
        totals.add(tracked.intent.quantity)
    if change is not None and not change.is_of_price:
        totals |= {change.old, change.new}
        # A broker may take the new quantity for the part that is open.
        if change.new < report.quantity <= change.new + report.executed_quantity:
            totals.add(report.quantity)
    if not order.is_own:
        totals.add(report.quantity)


def words_of(row: OrderUpdated) -> str:
    """Return an order in words: our id and the broker's, and what it is."""
    name = f"{row.intent_id} ({row.order_id})" if row.intent_id else row.order_id
    price = f"{row.price:,}" if row.price is not None else type_word(row.order_type)
    return f"{name}, {row.side} {row.quantity:,} {row.symbol} at {price}"


def facts_of(row: OrderUpdated) -> Numbers:
    """Return the same as numbers and names."""
    return {
        "intent_id": row.intent_id,
        "order_id": row.order_id,
        "side": row.side,
        "quantity": row.quantity,
        "symbol": row.symbol,
        "price": row.price,
        "order_type": row.order_type,
    }


def _alert(
    state: State, code: str, text: str, row: OrderUpdated, report: OrderReport, why: str
) -> None:
    facts: Numbers = {
        **facts_of(row),
        "why": why,
        "shown_symbol": report.symbol,
        "shown_side": report.side,
        "shown_day": report.trading_date.isoformat(),
        "shown_quantity": report.quantity,
        "shown_executed": report.executed_quantity,
        "shown_status": report.status,
        "row": report.raw,
    }
    state.alert(code, text, facts, about=row.order_id, symbol=row.symbol)
