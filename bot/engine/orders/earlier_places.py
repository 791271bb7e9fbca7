"""Lost places whose day is over: looked for once more, in the order history, and ended.

The history shows such a row as its day's list would have, and settles a place in the same way. What
it does not show either was not placed, as far as can be known. A row of that day may still turn up
in a later list: nobody knows what of it the account contains by then, so it counts nowhere, and
halts its symbol for a person to look.
"""

from collections.abc import Sequence
from datetime import date
from typing import Final

from bot.domain.entry import OrderResultSeen
from bot.domain.order import OrderReport, SendState
from bot.engine.gate import guarded
from bot.engine.orders import orders
from bot.engine.orders.lost_places import assign, groups_of, rows_of
from bot.engine.orders.matching import candidates, is_alike, known_as_external
from bot.engine.orders.order_words import intent_facts, intent_words
from bot.engine.orders.orders import move_intent
from bot.engine.orders.unknown import (
    MAY_BE_FRESH,
    NONCE_UNUSED,
    OPEN_QUESTIONS,
    not_placed,
    release,
)
from bot.engine.state import State

UNREAD: Final = "the order history could not be read"


def match(state: State, reports: Sequence[OrderReport]) -> None:
    """Settle the open questions of earlier days by what the order history shows.

    A row that is known as somebody else's may show by now that more of it has traded.
    """
    rows = list[OrderReport]()
    for report in reports:
        known = known_as_external(state, report)
        if known is not None:
            where = f"row {report.order_id}"
            guarded(state, where, orders.apply, state, known, report, "detail")
        elif state.chains.first(report.order_id) not in state.orders:
            rows.append(report)
    for group in groups_of(state):
        first, taken = group[0], list[OrderReport]()
        if first.intent.trading_date < state.trading_date:
            others = frozenset.intersection(*(each.rows_told for each in group))
            unknown = [row for row in rows if row.order_id not in others]
            where, fitting = f"the rows of {first.name}", rows_of(state, first, unknown)
            guarded(state, where, assign, state, group, fitting, taken, "the order history")
            rows = [row for row in rows if row not in taken]


def end(state: State, *, is_unread: bool) -> None:
    """The day order books of the days before today's are closed: what neither they nor the order
    history showed was not placed, as far as can be known. What may have traded halts its symbol, as
    everything does where the history `is_unread`.
    """
    for tracked in state.pending_intents():
        intent, reads = tracked.intent, tracked.absent_reads
        if intent.trading_date >= state.trading_date or tracked.state not in OPEN_QUESTIONS:
            continue
        is_absent = tracked.state is SendState.FRESH and reads >= state.settings.absent_reads
        if is_absent and not is_unread:
            not_placed(state, tracked, f"{NONCE_UNUSED}, absent until the day's end")
            continue
        rows, symbol = candidates(state, tracked), intent.symbol
        if tracked.state in MAY_BE_FRESH:
            move_intent(state, tracked, SendState.REACHED, "the day ended before it was known")
        shown = f"none of {', '.join(rows)} is proved to be it" if rows else "no row showed it"
        shown = f"{shown}, and {UNREAD}" if is_unread else shown
        proof = f"in no day order book until the day's end: {shown}"
        traded = sum(state.orders[order_id].row.executed_quantity for order_id in rows)
        release(state, tracked, SendState.EOD_ABSENT, "the day is over", proof=proof)
        tracked.rows_told |= _ids_of(state, intent.trading_date)
        text = (
            f"the search for {intent_words(intent)} of {intent.trading_date} has ended with its "
            f"day: {shown}. Compare the holding of {symbol} with the broker's statement"
        )
        facts = {**intent_facts(tracked, rows), "traded": traded}
        state.alert("ORDER_ABSENT", text, facts, about=intent.intent_id, symbol=symbol)
        if traded:
            state.halt_symbol(symbol, f"{traded:,} shares traded that may be {intent.intent_id}'s")
        elif is_unread:
            state.halt_symbol(symbol, f"{intent.intent_id} was never found, and {UNREAD}")


def _ids_of(state: State, day: date) -> frozenset[str]:
    """Return every id of a day's known orders: a row under one of them is no lost place's."""
    orders = (order.row for order in state.orders.values())
    ours = (row.order_id for row in orders if row.trading_date == day)
    return frozenset(each for order_id in ours for each in state.chains.ids(order_id))


def tell_of_late(state: State, row: OrderReport) -> None:
    """A row of an earlier day that looks like an order whose day ended without one halts its
    symbol, once; it counts nowhere.
    """
    look = row.account, row.trading_date, row.symbol, row.side, row.quantity
    ghosts = [
        tracked
        for tracked in state.index.not_placed.of(look)
        if tracked.state is SendState.EOD_ABSENT and is_alike(state, tracked, row)
    ]
    if not ghosts or any(row.order_id in tracked.rows_told for tracked in ghosts):
        return
    ghost = max(ghosts, key=lambda each: each.sent_at or state.now)
    ghost.rows_told = ghost.rows_told | {row.order_id}
    intent, symbol = ghost.intent, row.symbol
    state.record(OrderResultSeen(state.now, "book", row.order_id, intent.intent_id, None, row.raw))
    text = (
        f"{row.order_id} of {row.trading_date} is at the broker and looks like "
        f"{intent_words(intent)}, which was {ghost.state}. It counts as an order of somebody else "
        f"and is not touched, what it traded ({row.executed_quantity:,}) is in no position here, "
        f"and nothing new is sent in {symbol}. Look whose it is and compare the holding of "
        f'{symbol}, then: bot resume --reason "…"'
    )
    facts = {**intent_facts(ghost, [row.order_id]), "found_as": None}
    state.alert("GHOST_ORDER", text, facts, about=row.order_id, symbol=symbol)
    looks = f"looks like {intent.intent_id}, which was {ghost.state}"
    state.halt_symbol(symbol, f"{row.order_id} {looks}")
