"""The 2FA token that every write needs: when it is missing, when a person is asked for it, and when
an accepted write has proved it valid.

A person is asked at once, five minutes later, at each phase boundary and at least once an hour, on
trading days from 45 minutes before the first session to the end of the last. At other times nobody
is asked: a token that ends before anything can be written is useless.

If a token ends within those hours a person is told 15 and 5 minutes before; when it has ended,
writes are held at once, before the broker can refuse one.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from bot.domain.entry import AuthEvent, Numbers, RunState
from bot.domain.hours import Hours, hours_at
from bot.domain.instrument import EXCHANGE_TZ, Exchange
from bot.domain.local_time import clock_of, local_of, minute_of
from bot.domain.message import DropToken, TwoFactorMissing
from bot.domain.operations import CodesCounted
from bot.domain.order import Intent, SendState, Side
from bot.domain.outcome import Refused
from bot.engine import gate
from bot.engine.control_state import BY_BROKER, TokenEnding, TokenQuestion
from bot.engine.state import State

LEAD: Final = timedelta(minutes=45)
"""How long before the first session of a trading day a person is asked for that day's token."""
SECOND_AFTER: Final = timedelta(minutes=5)
AT_LEAST_EVERY: Final = timedelta(hours=1)
TOLD_BEFORE: Final = (timedelta(minutes=15), timedelta(minutes=5))
"""How long before a token ends in the middle of a session a person is asked for another."""
ON_ITS_WAY: Final = timedelta(seconds=2)
"""A write sent this shortly before the end of its token may arrive after it."""
ENDED: Final = "OTP_SESSION_EXPIRED"
WORDS: Final[Mapping[str, str]] = {
    "OTP_SESSION_REQUIRED": "there is no 2FA session yet today",
    "OTP_SESSION_EXPIRED": "the 2FA session has ended, as each one does at midnight at the latest",
    "OTP_SESSION_INVALID": "the broker refused the token: mistyped, or of another key",
    "OTP_SESSION_REVOKED": "the 2FA session was closed elsewhere, by a log-out or a change of the "
    "key: look at the account",
}
"""What each of the broker's four codes means."""
_NAMED_MAX: Final = 5


def close_for_two_factor(
    state: State, refused: Refused, refused_at: datetime, intent_id: str | None
) -> None:
    """The broker has refused the token: nothing is written with it again. A token that has come
    since is another one.
    """
    if refused.is_of_old_token and not state.gate.lacks_token:
        return
    state.command(DropToken(refused.code, refused_at))
    _need(state, refused.code, refused.reason, intent_id)


def on_two_factor_missing(state: State, event: TwoFactorMissing) -> None:
    """Without a token the broker would refuse, so it is not tried. While nothing can be written
    anyway, until 45 minutes before the next session, nobody is asked either.
    """
    if state.gate.lacks_token:
        return
    hours = _hours(state, state.now)
    is_ahead = hours is not None and hours.day == state.now.astimezone(EXCHANGE_TZ).date()
    if event.is_needed or is_ahead:
        _need(state, event.code, event.detail, None)
    else:
        state.gate.token_until, state.gate.is_unproven, state.gate.ending = None, False, None


def on_codes_counted(state: State, event: CodesCounted) -> None:
    """Store how many codes can still be mailed today, for the next question."""
    state.gate.codes_counted = event


def _need(state: State, code: str, detail: str, intent_id: str | None) -> None:
    gate_now = state.gate
    if not gate_now.lacks_token:
        gate_now.missed = 0
    gate_now.token_until, gate_now.is_unproven, gate_now.ending = None, False, None
    state.record(AuthEvent(state.now, "needed", code, detail, intent_id))
    gate.close(state, RunState.NEEDS_2FA, f"needs 2FA ({code})", "2fa", code)
    if gate_now.question is None:
        gate_now.question = TokenQuestion(code, state.now, state.now)
        _ask(state, gate_now.question)


def prove(state: State, order_id: str, intent_id: str | None) -> None:
    """A write was accepted, so the token is valid."""
    if state.gate.is_unproven:
        state.gate.is_unproven = False
        state.record(AuthEvent(state.now, "proved", "", f"proved by {order_id}", intent_id))


def is_exit(intent: Intent) -> bool:
    """Return whether it reduces risk: nothing is sold short."""
    return intent.side is Side.SELL


def take_back(state: State, strategy: str, symbol: str, side: Side | None, why: str) -> bool:
    """A strategy wants the opposite of what is held for it, or (no `side`) nothing any more: this
    gives up a held entry, and a buy request also a held exit. Return whether any was given up.

    What is on its way, and is refused for want of a token, is not held against the opposite either,
    unless its strategy wants it again by then.
    """
    is_given_up = False
    for tracked in (*state.index.held.of(True), *state.pending_intents()):
        intent, is_held = tracked.intent, tracked.state is SendState.HELD
        is_its = (intent.strategy, intent.symbol) == (strategy, symbol)
        is_opposite = is_held and not is_exit(intent) if side is None else intent.side is not side
        if is_its and is_opposite and intent.created_at < state.now:
            wish = f"wants to {side} by now" if side is not None else "has taken it back"
            tracked.taken_back = f"its strategy {wish}: {why}"
            is_given_up |= is_held
    return is_given_up


def want_again(
    state: State, strategy: str, symbol: str, side: Side, only: str | None = None
) -> None:
    """A strategy wants again what is on its way, all of it or only one, and is given no further
    order for that: those are held after all.
    """
    for tracked in state.pending_intents():
        intent = tracked.intent
        is_meant = (intent.strategy, intent.symbol, intent.side) == (strategy, symbol, side)
        if is_meant and only in {None, intent.intent_id}:
            tracked.taken_back = ""


# ----------------------------------------------------------------------------- the end of a token


def expect_end(state: State, ends_at: datetime | None) -> None:
    """Remember when a new token ends, if that is on a trading day while it is needed."""
    state.gate.ending = None
    hours = _hours(state, ends_at) if ends_at is not None else None
    if ends_at is not None and hours is not None and hours.opens - LEAD < ends_at:
        due = max(ends_at - TOLD_BEFORE[0], hours.opens - LEAD)
        state.gate.ending = TokenEnding(ends_at - ON_ITS_WAY, due)


def _advance_ending(state: State, ending: TokenEnding) -> None:
    if ending.due > state.now:
        return
    if ending.at <= state.now:
        _need(state, ENDED, "the 2FA token has ended", None)
        return
    ending.times += 1
    moments = [ending.at + ON_ITS_WAY - before for before in TOLD_BEFORE]
    ending.due = next((at for at in moments if at > state.now), ending.at)
    ends_at = ending.at + ON_ITS_WAY
    minutes = max(1, round((ends_at - state.now).total_seconds() / 60))
    text = (
        f"the 2FA token ends at {clock_of(ends_at)}, in {minutes} min, "
        "while it is needed. From then on no order, change or cancel is sent. Get a new one before "
        f"then{_codes_words(state)}: bot otp request and bot otp submit, or bot otp token"
    )
    facts: Numbers = {"ends_at": ends_at.isoformat(), "minutes": minutes, "asked": ending.times}
    state.alert("TWO_FACTOR_ENDING", text, {**facts, **_codes_facts(state)})


def _codes_left(state: State) -> tuple[int, int] | None:
    """Return how many codes can still be mailed today, and how many a day: a new day starts with
    all of them, before anybody has counted.
    """
    counted = state.gate.codes_counted
    if counted is None:
        return None
    is_todays = local_of(counted.at).date() == local_of(state.now).date()
    return counted.left if is_todays else counted.of, counted.of


def _codes_words(state: State) -> str:
    if (found := _codes_left(state)) is None:
        return ""
    left, a_day = found
    return f" ({left or 'none'} of the day's {a_day} codes {'is' if left == 1 else 'are'} left)"


def _codes_facts(state: State) -> Numbers:
    left, a_day = _codes_left(state) or (None, None)
    return {"codes_left": left, "codes_a_day": a_day}


# ------------------------------------------------------------------------------------ the question


def advance(state: State) -> None:
    """Ask again when it is due; each trading day the count restarts."""
    if state.gate.ending is not None:
        _advance_ending(state, state.gate.ending)
    question = state.gate.question
    if question is None or question.due is None or question.due > state.now:
        return
    if question.asked_at.astimezone(EXCHANGE_TZ).date() < state.now.astimezone(EXCHANGE_TZ).date():
        question.times, question.since = 0, state.now
    _ask(state, question)


def _ask(state: State, question: TokenQuestion) -> None:
    question.times += 1
    question.asked_at = state.now
    question.due = _next_due(state, question)
    rows = [order.row for order in state.open_orders() if order.is_own]
    ids = [row.order_id for row in rows]
    named = ", ".join(
        f"{row.order_id} {row.side} {row.quantity - row.executed_quantity:,} {row.symbol}"
        for row in rows[:_NAMED_MAX]
    )
    more = f" and {len(rows) - _NAMED_MAX} more" if len(rows) > _NAMED_MAX else ""
    is_open = (
        f" These open orders can't be cancelled from here meanwhile, only in the broker's own app:"
        f" {named}{more}."
        if rows
        else ""
    )
    since = minute_of(question.since)
    is_away = BY_BROKER in state.gate.troubles
    goes_on = "nothing can be read either" if is_away else "quotes, positions and journal go on"
    text = (
        f"2FA needed since {since}: {WORDS.get(question.code, question.code)}. No order, change or "
        f"cancel is sent without a token; {goes_on}.{is_open} Give a code or a token"
        f"{_codes_words(state)}: bot otp"
    )
    facts: Numbers = {
        "auth_code": question.code,
        "needed_at": question.since.isoformat(),
        "asked": question.times,
        "orders": len(rows),
        "ids": " ".join(ids),
        "is_broker_away": is_away,
    }
    state.alert("TWO_FACTOR_NEEDED", text, {**facts, **_codes_facts(state)})


def _next_due(state: State, question: TokenQuestion) -> datetime | None:
    at = question.asked_at
    hours = _hours(state, at)
    if hours is None:
        return None
    if at < hours.opens - LEAD:
        return hours.opens - LEAD
    if question.times == 1:
        due = at + SECOND_AFTER
    else:
        boundaries = [state.rulebook.next_phase_change(each, at).at for each in _exchanges(state)]
        due = min(at + AT_LEAST_EVERY, *boundaries)
    if due < hours.closes:
        return due
    following = _hours(state, hours.closes)
    return None if following is None else following.opens - LEAD


def _hours(state: State, at: datetime) -> Hours | None:
    return hours_at(state.rulebook, _exchanges(state), at)


def _exchanges(state: State) -> frozenset[Exchange]:
    """Return where the strategies trade; until that is known, every exchange."""
    known = frozenset(
        state.instruments[symbol].exchange
        for symbol in state.instances
        if symbol in state.instruments
    )
    return known or frozenset(state.rulebook.venues)
