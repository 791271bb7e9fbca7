"""Orders that the broker has accepted, and that its day order book does not show.

What is not in a list says nothing about an order's state: it may be hidden for a while. One that no
complete list shows for long is told of and asked for by its id, and counts as open in full until a
row says otherwise. An id that the broker does not know yet is asked for again, soon and a few
times.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from bot.domain.message import ReadOrder, TodaysOrdersRead
from bot.engine.orders.doubts import facts_of, words_of
from bot.engine.state import State
from bot.engine.tracked import BackOff, TrackedOrder
from bot.engine.watched import Standing

NOT_LISTED_AFTER: Final = timedelta(seconds=45)
"""Long enough for most rows that hide; the next list, at most 15 s later, tells of the order."""
ASKED_AFTER: Final = timedelta(seconds=5)
"""From then on each list without the order has it asked for by its id."""
ABSENT_LOOKS: Final = tuple(timedelta(seconds=each) for each in (0.2, 0.5, 1, 2, 5))
"""How soon an id is asked for again that the broker did not know."""


def learn(state: State, event: TodaysOrdersRead) -> None:
    """See which of our open orders this list shows, and for how long it has not shown others."""
    named = [report.order_id for report in event.reports]
    named += [row.order_id for row in event.set_aside if row.order_id]
    listed = {state.chains.first(order_id) for order_id in named}
    nameless = [row.symbol for row in event.set_aside if not row.order_id]
    for order in state.open_orders():
        row, shown = order.row, order.shown
        asked_at = max(event.requested_at, shown.listed_at or event.requested_at)
        if not order.is_own or (row.account, row.trading_date) != (
            event.account,
            state.trading_date,
        ):
            continue
        if row.order_id in listed:
            shown.listed_at = asked_at
            if shown.is_missing:
                shown.is_missing = False
                text = f"{words_of(row)}: the day order book lists it again"
                state.note("RESUME", text, symbol=row.symbol)
            continue
        if any(symbol in {None, row.symbol} for symbol in nameless):
            continue
        shown.listed_at = shown.listed_at or event.requested_at
        missed = event.requested_at - shown.listed_at
        if missed >= ASKED_AFTER:
            state.command(ReadOrder(row.order_id, "the day order book does not list it"))
        if missed >= NOT_LISTED_AFTER:
            shown.is_missing = True
            facts = {**facts_of(row), "seconds": round(missed.total_seconds())}
            about, symbol = row.order_id, row.symbol
            state.alert("ACCEPTED_NOT_LISTED", _text(order), facts, about=about, symbol=symbol)


def on_absent(state: State, order: TrackedOrder) -> None:
    """The broker does not know the id (yet): ask again soon, a few times in a row. A cancel has
    tries of its own.
    """
    tries = order.shown.absent_looks
    is_asked = order.is_own and order.is_open and order.row.order_id not in state.cancels
    if not is_asked or tries >= len(ABSENT_LOOKS):
        return
    order.shown.absent_looks = tries + 1
    order.look = BackOff(state.now + ABSENT_LOOKS[tries], step=len(ABSENT_LOOKS))


def alerts(state: State) -> Iterator[Standing]:
    """Yield the orders that are accepted and not listed."""
    for order in state.open_orders():
        if order.shown.is_missing:
            listed_at = order.shown.listed_at or state.now
            facts = {
                **facts_of(order.row),
                "seconds": round((state.now - listed_at).total_seconds()),
            }
            yield Standing("ACCEPTED_NOT_LISTED", _text(order), facts)


def _text(order: TrackedOrder) -> str:
    return (
        f"{words_of(order.row)}: the broker accepted it, and no complete day order book lists it."
        " It counts as open in full and is asked for by its id. Look in the broker's app whether it"
        " is there; if it never shows, compare the holding when the day is over."
    )
