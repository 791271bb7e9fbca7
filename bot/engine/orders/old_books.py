"""A day order book that is still an earlier day's.

It shows orders, and none of today, although some of today's could be in it: a broker may roll it
late, or not at all. Its rows are left out. What is worse is what it cannot show: a place whose
answer got lost could not be found in it, nor could what was placed elsewhere. So nothing is bought
in its account until it is today's, or a person says so for the day. Sales go out: an exit that
waits may cost more, and the shares of one that gets lost stay reserved.
"""

from collections.abc import Iterator
from datetime import date

from bot.domain.instrument import Exchange, Phase
from bot.domain.message import TodaysOrdersRead
from bot.domain.timetable import local_of
from bot.engine.control_state import Standing
from bot.engine.orders.matching import is_of_before
from bot.engine.state import State


def learn(state: State, event: TodaysOrdersRead) -> None:
    """Note which day the newest list of an account is of, where it is an earlier one."""
    state.old_books.days.pop(event.account, None)
    if is_of_before(state, event):
        state.old_books.days[event.account] = max(row.trading_date for row in event.reports)


def reason_not_to_buy(state: State, account: str) -> str | None:
    """Return why nothing is bought in an account now; None: its list is not against it."""
    day = _day_of(state, account)
    if day is None or state.old_books.accepted_on == state.trading_date:
        return None
    return f"the day order book shows orders of {day} and none of today"


def accept(state: State) -> None:
    """A person has looked: today an earlier day's list keeps no buy back any more."""
    if any(_day_of(state, account) for account in state.old_books.days):
        state.old_books.accepted_on = state.trading_date
        text = "buys go on although the day order book is an earlier day's, until today ends"
        state.note("RESUME", text)


def tell(state: State, account: str) -> None:
    """Alert it once a day."""
    if told := _standing(state, account):
        state.alert(told.code, told.text, told.facts, about=account)


def alerts(state: State) -> Iterator[Standing]:
    """Yield the lists that are an earlier day's now."""
    for account in state.old_books.days:
        if told := _standing(state, account):
            yield told


def _day_of(state: State, account: str) -> date | None:
    """Return the earlier day that the newest list is of, once today's orders could be in one: it
    was asked for today, and an exchange is not closed. One of the day before is only the last read.
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
