"""A day order book that is still an earlier day's.

It shows orders, but none of today's, although some could be in it: a broker may roll it late, or
not at all. Its rows are ignored. Worse is what it cannot show: neither an order whose answer got
lost nor one placed elsewhere could be found in it. So nothing is bought in its account until it is
today's, or a person allows buys for the day. Sales go out: an exit that waits may cost more, and
the shares of one that gets lost stay reserved.
"""

from collections.abc import Iterator
from datetime import date

from bot.domain.instrument import Exchange, Phase
from bot.domain.local_time import local_of
from bot.domain.message import TodaysOrdersRead
from bot.engine.control_state import Standing
from bot.engine.orders.matching import is_of_before
from bot.engine.state import State


def learn(state: State, event: TodaysOrdersRead) -> None:
    """Record the day of an account's newest day order book if it is an earlier one."""
    state.old_books.days.pop(event.account, None)
    if is_of_before(state, event):
        state.old_books.days[event.account] = max(row.trading_date for row in event.reports)


def reason_not_to_buy(state: State, account: str) -> str | None:
    """Return why nothing may be bought in an account now; None if its book allows it."""
    day = _day_of(state, account)
    if day is None or state.old_books.accepted_on == state.trading_date:
        return None
    return f"the day order book shows orders of {day} and none of today"


def accept(state: State) -> None:
    """Allow buys for today despite an earlier day's book: a person has checked it."""
    if any(_day_of(state, account) for account in state.old_books.days):
        state.old_books.accepted_on = state.trading_date
        text = "buys go on although the day order book is an earlier day's, until today ends"
        state.note("RESUME", text)


def tell(state: State, account: str) -> None:
    """Raise the alert, once a day."""
    if told := _standing(state, account):
        state.alert(told.code, told.text, told.facts, about=account)


def alerts(state: State) -> Iterator[Standing]:
    """Yield the accounts whose book is an earlier day's now."""
    for account in state.old_books.days:
        if told := _standing(state, account):
            yield told


def _day_of(state: State, account: str) -> date | None:
    """Return the earlier day of the newest day order book, once today's orders could be in it: it
    was requested today and some exchange is not closed. An earlier request is only the last read.
    """
    day = state.old_books.days.get(account)
    if day is None or day >= state.trading_date:
        return None
    is_asked_today = local_of(state.set_aside[account].requested_at).date() >= state.trading_date
    phase_at, now = state.rulebook.phase_at, state.now
    is_open = any(phase_at(each, now) is not Phase.CLOSED for each in Exchange)
    return day if is_asked_today and is_open else None


def _standing(state: State, account: str) -> Standing | None:
    day = _day_of(state, account)
    if day is None:
        return None
    text = (
        f"the day order book shows orders of {day} and none of today ({state.trading_date}). They "
        "are left out; fills and ends of today's orders are seen late, an order without an answer "
        "is not taken for absent, and nothing is bought: a buy that got lost could not be found. "
        "Sales and cancels go on. Look in the broker's app for what is open. If it lasts, ask the "
        'broker; to buy all the same today: bot resume --reason "…"'
    )
    facts = {"day": day.isoformat(), "today": state.trading_date.isoformat()}
    return Standing("BOOK_OF_BEFORE", text, facts)
