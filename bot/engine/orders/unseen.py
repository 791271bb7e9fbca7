"""What a day order book can't show: a row that can't be read, and today's orders
while it is an earlier day's.

An unreadable row may be anybody's order: it is set aside and raises an alert. Until a later read is
complete nothing is bought in its symbol, or in its whole account if it names no known symbol; the
order it names neither ends nor changes, and a lost order is not regarded as absent. An own order in
such a row is read by its id.

A broker may roll its day order book late, or not at all: it shows orders, but none of today's,
although some could be in it. Its rows are ignored. Worse is what it cannot show: neither an order
whose answer got lost nor one placed elsewhere could be found in it. So nothing is bought in its
account until it is today's, or a person allows buys for the day. Sales go out: an exit that waits
may cost more, and the shares of one that gets lost stay reserved.
"""

from collections.abc import Iterator
from datetime import date
from typing import Final

from bot.domain.entry import BOOK_ACCEPTED, RESUME_NOTE, Numbers
from bot.domain.instrument import Exchange, Phase
from bot.domain.local_time import local_date
from bot.domain.message import ReadOrder, TodaysOrdersRead
from bot.domain.order import UnreadRow
from bot.domain.outcome import Outcome, Unknown
from bot.engine.control_state import Standing
from bot.engine.orders.matching import is_of_before, predecessor_of
from bot.engine.state import State
from bot.engine.tracked import TrackedAmend, TrackedIntent, TrackedOrder

NAMED_FROM: Final = 2
"""Looks for the row of a changed order, in which a day order book should have come."""


def keep(state: State, event: TodaysOrdersRead) -> None:
    """Store the day of this read and what it has set aside, unless a later one has come first."""
    before = state.set_aside.get(event.account)
    if before is not None and before.requested_at > event.requested_at:
        return
    state.set_aside[event.account] = event
    state.old_books.days.pop(event.account, None)
    if is_of_before(state, event):
        state.old_books.days[event.account] = max(row.trading_date for row in event.reports)
    for row in event.set_aside:
        order, symbol = _order_of(state, row), _symbol_of(state, row)
        told, about = _unread_standing(state, row), row.order_id or symbol or "a row without an id"
        facts = {**told.facts, "row": row.raw}
        state.alert(told.code, told.text, facts, about=about, symbol=symbol)
        if order is not None and order.is_open and order.row.intent_id is not None:
            state.command(ReadOrder(order.row.order_id, "the day order book's row can't be read"))
    if before is not None and before.set_aside and not event.set_aside:
        state.note("RESUME", "every row of the day order book can be read again")


def reason_not_to_buy(state: State, account: str, symbol: str) -> str | None:
    """Return why the newest day order book holds back buys in a symbol; None if it holds none."""
    day = _earlier_day(state, account)
    if day is not None and state.old_books.accepted_on != state.trading_date:
        return f"the day order book shows orders of {day} and none of today"
    read = state.set_aside.get(account)
    for row in read.set_aside if read is not None else ():
        if _symbol_of(state, row) in {None, symbol}:
            return _unread_words(row)
    for order in state.index.open_in.of(symbol):
        if order.may_be_elsewhere:
            return f"the change of {order.row.order_id} may have given it an id that no list shows"
    return None


def may_hide(state: State, event: TodaysOrdersRead, tracked: TrackedIntent) -> bool:
    """Return whether a row that was set aside may be the order of an intent that is looked for."""
    return any(_hiding(state, event, tracked))


def _hiding(state: State, event: TodaysOrdersRead, tracked: TrackedIntent) -> Iterator[UnreadRow]:
    for row in event.set_aside if event.account == tracked.intent.account else ():
        is_new = row.order_id not in state.orders and row.order_id not in tracked.known_ids
        if is_new and row.symbol in {None, tracked.intent.symbol}:
            yield row


def facts(state: State, tracked: TrackedIntent) -> Numbers:
    """Return what the newest day order book could show of a lost place: when it was asked for, and
    which of its rows may hide that place.
    """
    read = state.set_aside.get(tracked.intent.account)
    rows = _hiding(state, read, tracked) if read is not None else ()
    return {
        "listed_at": read.requested_at.isoformat() if read is not None else None,
        "unread": "; ".join(_unread_words(row) for row in rows),
    }


# -------------------------------------------------------------------------- rows that can't be read


def row_alerts(state: State) -> Iterator[Standing]:
    """Yield what is set aside now and what is held back by it."""
    for read in state.set_aside.values():
        for row in read.set_aside:
            yield _unread_standing(state, row)


def _unread_standing(state: State, row: UnreadRow) -> Standing:
    symbol = _symbol_of(state, row)
    text = (
        f"{_unread_words(row)}: nothing is bought in {symbol or 'anything'} until it can. If it"
        " stays so, look in the broker's app what order that is"
    )
    facts = {"order_id": row.order_id, "symbol": symbol, "why": row.reason}
    return Standing("ROW_UNREADABLE", text, facts)


def _unread_words(row: UnreadRow) -> str:
    name = f"the day order book's row {row.order_id or 'without an id'}"
    return f"{name} can't be read ({row.reason})"


def _symbol_of(state: State, row: UnreadRow) -> str | None:
    order = _order_of(state, row)
    return row.symbol if order is None else order.row.symbol


def _order_of(state: State, row: UnreadRow) -> TrackedOrder | None:
    return state.orders.get(state.chains.first(row.order_id)) if row.order_id else None


# -------------------------------------------------------------------- the orders of an earlier day


def accept(state: State) -> None:
    """Allow buys for today despite a day order book of an earlier day: a person has checked it."""
    if any(_earlier_day(state, account) for account in state.old_books.days):
        state.old_books.accepted_on = state.trading_date
        text = "buys go on although the day order book is an earlier day's, until today ends"
        state.note(RESUME_NOTE, text, {BOOK_ACCEPTED: state.trading_date.isoformat()})


def tell(state: State, account: str) -> None:
    """Raise the alert, once a day."""
    if told := _earlier_standing(state, account):
        state.alert(told.code, told.text, told.facts, about=account)


def day_alerts(state: State) -> Iterator[Standing]:
    """Yield the accounts whose day order book is an earlier day's now."""
    for account in state.old_books.days:
        if told := _earlier_standing(state, account):
            yield told


def _earlier_day(state: State, account: str) -> date | None:
    """Return the earlier day of the newest day order book, once today's orders could be in it: it
    was requested today and some exchange is not closed. An earlier request is only the last read.
    """
    day = state.old_books.days.get(account)
    if day is None:
        return None
    is_asked_today = local_date(state.set_aside[account].requested_at) >= state.trading_date
    phase_at, now = state.rulebook.phase_at, state.now
    is_open = any(phase_at(each, now) is not Phase.CLOSED for each in Exchange)
    return day if is_asked_today and is_open else None


def _earlier_standing(state: State, account: str) -> Standing | None:
    day = _earlier_day(state, account)
    if day is None:
        return None
    text = (
        f"the day order book shows orders of {day} and none of today ({state.trading_date}). They "
        "are left out; fills and ends of today's orders are seen late, an order without an answer "
        "is not taken for absent, and nothing is bought: a buy that got lost could not be found. "
        "Sales and cancels go on. Look in the broker's app for what is open. If it lasts, ask the "
        'broker; to buy today anyway: bot resume --reason "…"'
    )
    facts = {"day": day.isoformat(), "today": state.trading_date.isoformat()}
    return Standing("BOOK_OF_BEFORE", text, facts)


def note_named(state: State, amend: TrackedAmend, order: TrackedOrder, outcome: Outcome) -> None:
    """Keep the new id that the answer to a change names, if it repeats the order and is of nobody
    else: its own row can show what no day order book does.
    """
    result = outcome.result if isinstance(outcome, Unknown) else None
    if result is None or state.chains.first(result.order_id) in state.orders:
        return
    row = order.row
    of_order = row.account, row.trading_date, row.symbol, row.side
    if (result.account, result.transaction_date, result.symbol, result.side) == of_order:
        amend.named = result.order_id


def read_named(state: State, amend: TrackedAmend) -> None:
    """Ask for the row of that id if no day order book has come since the change."""
    is_listed = amend.keeps_id or amend.listed_at >= amend.since
    if amend.named and not is_listed and amend.step > NAMED_FROM:
        state.command(ReadOrder(amend.named, "the answer to its change names this id"))


def note_kept_ids(state: State, event: TodaysOrdersRead) -> None:
    """Record which orders under change this list shows under no new id, so far: none of its new
    rows, nor one that can't be read, may be such an order.
    """
    today = [row for row in event.reports if row.trading_date == state.trading_date]
    listed = {state.chains.first(row.order_id) for row in today}
    for amend in state.index.amending.of(True):
        order = state.orders.get(amend.name)
        tracked = state.intents.get(order.row.intent_id or "") if order is not None else None
        if tracked is None or amend.name not in listed:
            continue
        if any(row not in amend.unread_before for row in _hiding(state, event, tracked)):
            continue
        new = (row for row in today if state.chains.first(row.order_id) not in state.orders)
        if all(predecessor_of(state, row) is not order for row in new):
            amend.listed_at = max(amend.listed_at, event.requested_at)
