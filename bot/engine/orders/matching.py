"""What a row says about an order, and whose order an unowned row may be.

Rows may come late, twice and out of order (order-safety section 6). The executed quantity only
grows; the state comes from the row requested last; an ended order stays ended; a missing row says
nothing. So the same rows give the same result in any order of arrival.

An amendment may give its order another id, and a broker need not say which one it had before. The
owner of an unowned row that shows what a pending amendment asked for is uncertain: it counts in
full besides our own order and is not touched, and a person is told, until the amendment's verdict
comes under a known id, or the row has ended. Its possible owner is stored in its note, so that a
restart knows it too.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import combinations
from typing import Final

from bot.domain.entry import Numbers, OrderUpdated
from bot.domain.message import TodaysOrdersRead
from bot.domain.order import (
    ORDER_TYPES,
    TERMINAL_STATES,
    Intent,
    OrderReport,
    OrderResult,
    OrderType,
    SendState,
)
from bot.domain.order_status import settled, shown_state
from bot.engine import belief
from bot.engine.control_state import Standing
from bot.engine.findings import JUMP_MAX
from bot.engine.orders.order_words import row_facts, row_words
from bot.engine.state import State
from bot.engine.tracked import TrackedIntent, TrackedOrder

PARTS_MAX: Final = 3
"""At most this many rows may one order become: board lots, odd lots, and what an exchange's maximum
cuts off.
"""
ROWS_TRIED: Final = 30
NOT_OURS: Final = "not placed here"
"""The note of an order of somebody else that looks like none of ours."""


def merged(row: OrderUpdated, report: OrderReport, *, is_newer: bool) -> OrderUpdated:
    """Return the row with the report merged in. `is_newer`: requested after all earlier rows, and
    its status may follow; else only the executed quantity is taken, and the status that came with
    the last of it.
    """
    known = row
    if report.executed_quantity > row.executed_quantity:
        executed, amount = report.executed_quantity, report.executed_amount
        known = replace(row, executed_quantity=executed, executed_amount=amount)
        # More may be traded than was left of an order that had ended, or was amended meanwhile.
        total = report.quantity if executed > row.quantity else row.quantity
        cancelled = min(row.cancelled_quantity, total - executed)
        known = replace(known, quantity=total, cancelled_quantity=cancelled)
    executed = known.executed_quantity
    if row.state in TERMINAL_STATES:
        # The same end under another name, or one only reported now: MATCHED_ALL, COMPLETED.
        is_told = is_newer and shown_state(report) is row.state
        is_same = not is_told or report.status == row.broker_status
        return known if is_same else replace(known, broker_status=report.status)
    if not is_newer:
        quantity, cancelled = known.quantity, known.cancelled_quantity
        remaining = quantity - executed - cancelled
        sums = {"executed": executed, "remaining": remaining, "cancelled": cancelled}
        state = settled(row.state, quantity=quantity, **sums)
        # A row that shows it completely executed is newer than any that does not.
        status = report.status if state in TERMINAL_STATES else row.broker_status
        return replace(known, state=state, broker_status=status)
    state = settled(
        report.state,
        quantity=report.quantity,
        executed=executed,
        remaining=report.remaining_quantity,
        cancelled=report.cancelled_quantity,
    )
    # Most polled rows show nothing new: only a changed one is worth a copy.
    is_same = (
        state is row.state
        and known is row
        and report.quantity == row.quantity
        and report.status == row.broker_status
        and report.cancelled_quantity == row.cancelled_quantity
        and report.price in {None, row.price}
        and report.order_type in {"", row.order_type}
        and report.message in {"", row.reason}
    )
    if is_same:
        return row
    return replace(
        known,
        quantity=max(report.quantity, executed),
        order_type=report.order_type or row.order_type,
        price=report.price if report.price is not None else row.price,
        cancelled_quantity=report.cancelled_quantity,
        broker_status=report.status,
        reason=report.message or row.reason,
        state=state,
    )


def belongs(
    order: OrderUpdated | Intent, report: OrderReport, totals: Collection[int]
) -> str | None:
    """Return why a row is not this order's; None if it is.

    It is if account, symbol, side and trading day are equal and its quantity is one of `totals`:
    the ordered one, or one that our own amendments explain. Nothing may be taken from another row.
    Its time is evidence, not identity; the caller compares its id.
    """
    if wrong := another_order(order, report):
        return wrong
    if report.trading_date != order.trading_date:
        return f"it is of {report.trading_date}, the order of {order.trading_date}"
    if report.quantity not in totals:
        ours = " or ".join(f"{each:,}" for each in sorted(totals))
        return f"it is an order of {report.quantity:,}, ours is of {ours}"
    return None


def another_order(order: OrderUpdated | Intent, report: OrderReport) -> str | None:
    """Return a difference that no row of the same order can have, if there is one."""
    if report.symbol != order.symbol:
        return f"it is about {report.symbol}, the order is in {order.symbol}"
    if report.side is not order.side:
        return f"it is a {report.side}, the order a {order.side}"
    return "it is of another account" if report.account != order.account else None


def known_prices(state: State, order: OrderUpdated) -> list[int]:
    """Return what a price of an order can be compared with: its own, and the symbol's last one."""
    return [each for each in (order.price, belief.of(state, order.symbol).price) if each]


def contradiction(
    order: OrderUpdated, report: OrderReport, totals: Collection[int], near: Sequence[int] = ()
) -> str | None:
    """Return why a row is impossible for any order, or under this one's id; None if it is not.

    The average price is floored, so amount and quantity × average differ by less than the quantity.
    A price that is far off all of `near` has slipped in its unit.
    """
    executed, amount = report.executed_quantity, report.executed_amount
    if wrong := another_order(order, report):
        return wrong
    ordered, cancelled = report.quantity, report.cancelled_quantity
    for name, quantity in (("executed", executed), ("ordered", ordered), ("cancelled", cancelled)):
        if quantity < 0:
            return f"it shows a negative {name} quantity, {quantity:,}"
    if executed > min(report.quantity, max(totals)):
        return f"it shows {executed:,} executed of {min(report.quantity, max(totals)):,} ordered"
    if executed and amount <= 0:
        return f"it shows {executed:,} executed for {amount:,} VND"
    if executed and abs(amount - executed * report.average_price) >= executed:
        return f"its amount {amount:,} is not {executed:,} x {report.average_price:,}"
    average = report.average_price if executed else None
    for name, price in (("price", report.price), ("average price", average)):
        if price and near and all(price * JUMP_MAX < it or price > it * JUMP_MAX for it in near):
            return f"its {name} {price:,} is more than {JUMP_MAX} times off {near[0]:,}"
    if executed > order.executed_quantity and amount <= order.executed_amount:
        fell = f"fell from {order.executed_amount:,} to {amount:,}"
        fell = fell if amount < order.executed_amount else f"stayed at {amount:,}"
        rose = f"rose from {order.executed_quantity:,} to {executed:,}"
        return f"its executed quantity {rose}, and its amount {fell}"
    return None


def parts_of(quantity: int, rows: Sequence[OrderReport]) -> tuple[OrderReport, ...]:
    """Return the rows that a broker may have split one order into: several with one price whose
    quantities add up to it, as few as possible; empty if there are none. `rows` agree with the
    order in everything else.
    """
    for count in range(2, min(len(rows), PARTS_MAX) + 1):
        for parts in combinations(rows[:ROWS_TRIED], count):
            is_one_price = len({part.price for part in parts}) == 1
            if is_one_price and sum(part.quantity for part in parts) == quantity:
                return parts
    return ()


def report_of(result: OrderResult, requested_at: datetime) -> OrderReport:
    """Convert the result of a place to the order's first row."""
    return OrderReport(
        order_id=result.order_id,
        root_order_id="",
        account=result.account,
        trading_date=result.transaction_date,
        symbol=result.symbol,
        side=result.side,
        quantity=result.quantity,
        order_type=result.order_type,
        price=result.limit_price,
        executed_quantity=result.executed_quantity,
        average_price=result.average_price,
        executed_amount=result.executed_amount,
        remaining_quantity=result.quantity - result.executed_quantity,
        cancelled_quantity=0,
        status=result.status,
        state=result.state,
        may_cancel=None,
        may_amend=None,
        placed_at=None,
        message=result.reason or "",
        requested_at=requested_at,
        raw=result.raw,
    )


# ------------------------------------------------------------------------------- whose a row may be


def is_of_before(state: State, event: TodaysOrdersRead) -> bool:
    """Return whether a day order book is an earlier day's: it shows orders, but none of today. A
    row under the id of an open order is a question about that one only.
    """
    rows = [row for row in event.reports if not _is_open(state, row)]
    return bool(rows) and all(row.trading_date < state.trading_date for row in event.reports)


def _is_open(state: State, row: OrderReport) -> bool:
    order = state.orders.get(state.chains.first(row.order_id))
    return order is not None and order.is_open


def known_as_external(state: State, row: OrderReport) -> TrackedOrder | None:
    """Return the external order that a row of its day goes by; an id may be used again later."""
    order = state.orders.get(row.order_id)
    is_it = order is not None and not order.is_own
    return order if order and is_it and order.row.trading_date == row.trading_date else None


def is_alike(state: State, tracked: TrackedIntent, row: OrderReport | OrderUpdated) -> bool:
    """True if the row shows what was requested, and was not there before the bytes were sent."""
    intent, rulebook = tracked.intent, state.rulebook
    if tracked.sent_at is None or row.order_id in tracked.known_ids:
        return False
    asked = (intent.account, intent.trading_date, intent.symbol, intent.side, intent.quantity)
    if asked != (row.account, row.trading_date, row.symbol, row.side, row.quantity):
        return False
    named = OrderType.__members__.get(row.order_type)
    kind = rulebook.canonical(intent.exchange, named) if named else None
    if ORDER_TYPES[intent.order_type].has_price:
        return row.price == intent.limit_price and kind in {None, intent.order_type}
    wanted = rulebook.canonical(intent.exchange, intent.order_type)
    became_limit = ORDER_TYPES[wanted].rests_as_limit and kind is OrderType.LO
    is_unsaid = kind is None and row.price is None
    return kind is wanted or became_limit or is_unsaid


def is_in_time(state: State, tracked: TrackedIntent, row: OrderReport) -> bool:
    """Return whether the row's own time, if any, lies around the send, in market time."""
    sent_at, settings = tracked.sent_at, state.settings
    if sent_at is None or row.placed_at is None:
        return True
    return sent_at - settings.clock_max_offset <= row.placed_at <= sent_at + settings.horizon


def is_unseen(state: State, tracked: TrackedIntent) -> bool:
    """Return whether the broker has accepted it under an id that neither the day order book nor its
    detail has shown so far. After a restart only the journal knows: it gives the send of such an
    order, and of no other accepted one.
    """
    own = state.orders.get(tracked.order_id or "")
    is_accepted = tracked.state is SendState.ACKED and tracked.sent_at is not None
    return is_accepted and own is not None and not own.shown.rows


def candidates(state: State, tracked: TrackedIntent) -> list[str]:
    """Return the ids of unowned orders that may be this one."""
    if tracked.state is not SendState.AMBIGUOUS and not is_unseen(state, tracked):
        return []
    return [
        order.row.order_id
        for order in state.index.external.of(tracked.intent.account)
        if is_alike(state, tracked, order.row)
    ]


def listed_row(state: State, tracked: TrackedIntent, order_id: str) -> OrderReport | None:
    """Return the newest row of an id in the day order book of the intent's account."""
    return next((row for row in _listed(state, tracked) if row.order_id == order_id), None)


def _listed(state: State, tracked: TrackedIntent) -> Sequence[OrderReport]:
    read = state.set_aside.get(tracked.intent.account)
    return read.reports if read is not None else ()


def uncounted(state: State, tracked: TrackedIntent) -> Iterator[str]:
    """Yield the ids of listed rows that look like an order in question and count nowhere yet."""
    counted = candidates(state, tracked)
    for row in _listed(state, tracked):
        order = state.orders.get(state.chains.first(row.order_id))
        is_own = order is not None and order.is_own
        if is_alike(state, tracked, row) and row.order_id not in counted and not is_own:
            yield row.order_id


# -------------------------------------------------------------------- amended orders under a new id

_MAY_BE: Final = "may be amended "
IN_THE_APP: Final = (
    "Look in the broker's app whether it is; if so, cancel it there as soon as it is not wanted"
)


def predecessor_of(state: State, row: OrderReport) -> TrackedOrder | None:
    """Return our order that a row may be under a new id: it shows what was requested. Its quantity
    is the new total if the count continues; if it restarts at zero, what was open of the order by
    then.
    """
    shown = row.account, row.trading_date, row.symbol, row.side
    for amend in state.index.amending.of(True):
        order = state.orders.get(amend.name)
        change = order.change if order is not None else None
        if order is None or change is None or not order.may_be_renamed:
            continue
        ours = order.row
        if shown != (ours.account, ours.trading_date, ours.symbol, ours.side):
            continue
        is_price = change.is_of_price
        price, total = (change.new, ours.quantity) if is_price else (ours.price, change.new)
        before = ours.quantity if is_price else change.old
        is_rest = total - before <= row.quantity <= total - ours.executed_quantity
        is_fit = row.quantity == total or is_rest
        if row.price == price and row.quantity > 0 and is_fit:
            return order
    return None


def note_for(order: TrackedOrder) -> str:
    """Return the note for the row that may be this order."""
    return f"{_MAY_BE}{order.row.order_id}"


def tell_of_successor(state: State, order: TrackedOrder, row: OrderUpdated) -> None:
    """Report a row that may be an order of ours."""
    text = _successor_text(state, order.row.order_id, row)
    state.alert(
        "AMEND_AMBIGUOUS", text, _successor_facts(row), about=row.order_id, symbol=row.symbol
    )


def tell_left(state: State, reason: str, order_id: str | None = None) -> None:
    """Report that a cancel does not reach what may be the same order: for one of our orders, or for
    all.
    """
    for first, row in _open_successors(state):
        if order_id in {None, first}:
            text = (
                f"{reason}: {row_words(row)} may be {_name_of(state, first)} under a new id, and"
                f" nothing proves it: it is not cancelled. {IN_THE_APP}"
            )
            facts = {**_successor_facts(row), "reason": reason}
            state.alert("CANCEL_LEAVES", text, facts, about=row.order_id, symbol=row.symbol)


def settle_successors(state: State, order: TrackedOrder) -> None:
    """The amendment has its verdict under one of our ids: rows that matched it are external."""
    for first, row in _open_successors(state):
        if first == order.row.order_id:
            state.orders[row.order_id].row = replace(row, at=state.now, note=NOT_OURS)
            state.record(state.orders[row.order_id].row)
            text = f"{row_words(row)} is not {order.name}: that works under its own id"
            state.note("AMEND", text, _successor_facts(row), symbol=row.symbol)


def alerts(state: State) -> Iterator[Standing]:
    """Yield what may be an order of ours, as long as it is open."""
    for first, row in _open_successors(state):
        yield Standing("AMEND_AMBIGUOUS", _successor_text(state, first, row), _successor_facts(row))


def _open_successors(state: State) -> Iterator[tuple[str, OrderUpdated]]:
    for order in state.open_orders():
        if not order.is_own and order.row.note.startswith(_MAY_BE):
            yield order.row.note.removeprefix(_MAY_BE), order.row


def _name_of(state: State, first: str) -> str:
    order = state.orders.get(first)
    return f"{order.name} ({first})" if order is not None else first


def _successor_text(state: State, first: str, row: OrderUpdated) -> str:
    return (
        f"{row_words(row)} names no earlier id and shows what an amendment of"
        f" {_name_of(state, first)} asked for: it may be that order under a new id. Both count, and"
        f" the bot does not touch this one, in a halt either. {IN_THE_APP}"
    )


def _successor_facts(row: OrderUpdated) -> Numbers:
    return {**row_facts(row), "may_be": row.note.removeprefix(_MAY_BE)}
