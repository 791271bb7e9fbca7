"""What the day's last day order book shows as executed of our orders, beside what the journal has.

A break holds the next start, so one row proves nothing: it may be old, on its way, or another
order's. Nor does one read that lists no row of an order: a lagging node hides it for a while. It is
a difference if the same figures, or none, come again so much later that no lagging node
shows them; if they show less than was executed, only as a correction (`orders/doubts.py`). What
differs in every read for `OLD_FOR` is one, whatever it shows: the book does not bear the journal
out. An order with several ids agrees if its rows do by either way of counting; while one of them
is missing, nothing can be compared: that is told with the day's end, and holds nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from bot.domain.message import TodaysOrdersRead
from bot.domain.order import OrderReport, OrderState
from bot.engine.flows import RowDoubt
from bot.engine.orders.matching import belongs, contradiction, known_prices
from bot.engine.orders.revived import OLD_FOR
from bot.engine.settings import LAG_MAX
from bot.engine.state import State
from bot.engine.tracked import TrackedOrder

NOT_LISTED: Final = "is in no row of the day order book"


@dataclass(frozen=True, slots=True)
class RowDifference:
    """What an order's rows show otherwise, or that it has none; `is_certain`: a break."""

    order: TrackedOrder
    text: str
    is_certain: bool


def differences(state: State, book: TodaysOrdersRead) -> tuple[RowDifference, ...] | None:
    """Return which of our orders of today a complete day order book shows with other figures, or
    not at all; None while only another read can tell.
    """
    before, state.reconciling.rows = state.reconciling.rows, {}
    found, is_clear = [], True
    for order, rows in _ours(state, book):
        row, figures = order.row, _figures(rows)
        if rows and _agrees(state, order, rows):
            continue
        doubt = before.get(row.order_id) or RowDoubt(figures, book.requested_at, book.requested_at)
        if doubt.figures != figures:
            doubt = RowDoubt(figures, book.requested_at, doubt.begun_at)
        state.reconciling.rows[row.order_id] = doubt
        has_stayed = book.requested_at - doubt.begun_at >= OLD_FOR
        is_seen_again = book.requested_at - doubt.since >= LAG_MAX
        is_whole = not rows or len(rows) == len(state.chains.ids(row.order_id))
        is_credible = not rows or _is_credible(state, order, rows)
        is_certain = is_whole and (has_stayed or (is_seen_again and is_credible))
        is_clear &= is_certain or has_stayed
        text = f"{row.order_id} ({row.side} {row.symbol}) {NOT_LISTED}"
        if rows:
            text = (
                f"{row.order_id} ({row.side} {row.symbol}) has {row.executed_quantity:,} executed "
                f"for {row.executed_amount:,} VND in the journal and {_words(rows)} in the day "
                "order book"
            )
        found.append(RowDifference(order, text, is_certain))
    return tuple(found) if is_clear else None


def in_doubt(state: State) -> Iterator[str]:
    """Yield the orders of the ended day whose rows await another read, or stay different."""
    for order_id, doubt in state.reconciling.rows.items():
        shown = "is shown with other fills than here" if doubt.figures else NOT_LISTED
        yield f"{order_id} {shown}"


def _ours(
    state: State, book: TodaysOrdersRead
) -> Iterator[tuple[TrackedOrder, Mapping[str, OrderReport]]]:
    """Yield our orders of today that belong into a book, with their rows by id: none for one that
    it does not list. One that was refused with an id need not become a row.
    """
    listed: dict[str, OrderReport] = {}
    for report in book.reports:  # of a row that pages show twice the older one has less executed
        twin = listed.setdefault(report.order_id, report)
        if report.executed_quantity > twin.executed_quantity:
            listed[report.order_id] = report
    for order in state.orders.values():
        row = order.row
        if not order.is_own or row.trading_date != state.trading_date:
            continue
        is_listed = not listed.keys().isdisjoint(state.chains.ids(row.order_id))
        is_refused = row.state is OrderState.REJECTED and not row.executed_quantity
        if is_listed:
            yield order, state.chains.rows(row.order_id, listed)
        elif row.account == book.account and not is_refused:
            yield order, {}


def _agrees(state: State, order: TrackedOrder, rows: Mapping[str, OrderReport]) -> bool:
    """Return whether rows agree with the journal: counted on from id to id, or from zero."""
    figures, order_id = _figures(rows), order.row.order_id
    quantities, amounts = zip(*figures, strict=True)
    counts = {max(figures), (sum(quantities), sum(amounts))}
    if len(rows) < len(state.chains.ids(order_id)):
        whole = state.chains.whole(order_id, None, state.now)
        counts |= {(whole.executed_quantity, whole.executed_amount)} if whole is not None else set()
    return (order.row.executed_quantity, order.row.executed_amount) in counts


def _is_credible(state: State, order: TrackedOrder, rows: Mapping[str, OrderReport]) -> bool:
    """Return whether rows are the order's own, and are not known to be old."""
    row, totals = order.row, order.shown.totals
    whole = state.chains.whole(row.order_id, rows.get(row.order_id), state.now)
    if whole is None:
        return False
    if whole.executed_quantity < row.executed_quantity:
        return order.shown.is_corrected
    near = known_prices(state, row)
    wrong = belongs(row, whole, totals) or contradiction(row, whole, totals, near)
    is_as_merged = whole.executed_quantity, whole.executed_amount
    return not wrong and is_as_merged != (row.executed_quantity, row.executed_amount)


def _figures(rows: Mapping[str, OrderReport]) -> tuple[tuple[int, int], ...]:
    return tuple((each.executed_quantity, each.executed_amount) for each in rows.values())


def _words(rows: Mapping[str, OrderReport]) -> str:
    return " and ".join(
        f"{each.executed_quantity:,} for {each.executed_amount:,} VND"
        + (f" as {order_id}" if len(rows) > 1 else "")
        for order_id, each in rows.items()
    )
