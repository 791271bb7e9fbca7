"""Cancels: one DELETE after another is sent until a row shows that the order has ended.

    WANTED ─► READING ─► SENT ─► CONFIRMING ─► (a row shows the end) done
       ▲          └─────────────┴──────┘ still open: again, at growing intervals, without end

Before a DELETE the order's detail row is read, since a DELETE for an ended order is useless. A
failing read never holds a cancel back: after 2 s a row of the day order book at most 10 s old is
used, or none. Only what the broker or the exchange would certainly refuse holds it back: no 2FA
token, a phase without cancels (for an order that the broker has passed on). Such a cancel waits for
the first second in which it may be sent, and reports that. A fresh row that forbids it does so for
30 s; then the broker is asked.

An answer to a DELETE is never a verdict. After five DELETEs a person is told, and they continue.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from bot.domain.entry import OrderResultSeen
from bot.domain.instrument import PHASE_WORDS
from bot.domain.message import (
    CancelAnswered,
    CancelOrder,
    OrderRead,
    ReadOrder,
    ReadOrderToCancel,
)
from bot.domain.order import OrderState
from bot.domain.outcome import Accepted, NotSent, Outcome, Refused, Unknown
from bot.engine import two_factor
from bot.engine.control_state import Standing
from bot.engine.gate import guarded
from bot.engine.orders import answers, cancel_requests
from bot.engine.orders.order_words import (
    ELSEWHERE,
    cancel_facts,
    cancel_name,
    cancel_sentence,
    is_elsewhere,
)
from bot.engine.settings import LONG_AGO
from bot.engine.state import State
from bot.engine.tracked import CancelStage, Hindrance, TrackedCancel, TrackedOrder

LOOK_PATIENCE: Final = timedelta(seconds=2)
"""How long a cancel waits for the row before it."""
LOOKS_MAX: Final = 5
"""Rows awaited at once; with more orders to cancel the quota is left to the DELETEs."""
ROW_AGE_MAX: Final = timedelta(seconds=10)
"""An older row does not say whether an order may be cancelled."""
STUCK_EVERY: Final = timedelta(seconds=30)
"""Between two DELETEs once a person has been told; also how long a row holds one back, by its flag
or its state.
"""
NOT_SENT_MAX: Final = timedelta(seconds=5)
"""Between two tries while none can be sent: the longest delay after the quota reopens."""
QUOTA_MAX: Final = timedelta(seconds=120)
"""A quota reset further away is not believed."""
PHASES_MAX: Final = 20
"""How many phases are searched for the next one with cancels: more than two days have."""
HELD_BY_BROKER: Final = "WAITING_TO_SEND"
"""The status of an order that the broker sends once its phase begins; until then it is cancelled
there.
"""
_NOT_CANCELLABLE: Final = frozenset({OrderState.PENDING_CANCEL, OrderState.PENDING_REPLACE})


# ------------------------------------------------------------------------------------ step by step


def advance(state: State) -> None:
    """Advance every cancel that is due by one step, and report late ones."""
    blocked: list[TrackedCancel] = []
    for cancel in tuple(state.cancels.values()):
        guarded(state, f"the cancel of {cancel.order_id}", _step, state, cancel, blocked)
    if blocked:
        names = ", ".join(cancel_name(state, cancel) for cancel in blocked)
        text = (
            f"without a 2FA token these orders can't be cancelled: {names}. Get a token: bot otp."
            " Then the cancels go out first. Until then only the broker's own app can cancel"
        )
        ids = " ".join(cancel.order_id for cancel in blocked)
        state.alert("CANCEL_NEEDS_TOKEN", text, {"orders": len(blocked), "ids": ids})


def are_leaving(state: State) -> bool:
    """Return whether a DELETE is about to be sent; orders held for a token wait for it."""
    return any(
        each.stage is CancelStage.READING
        or (each.stage is CancelStage.WANTED and each.due <= state.now)
        for each in state.cancels.values()
    )


def deadlines(state: State) -> Iterator[datetime]:
    """Yield when a cancel is due, and when it is late."""
    for cancel in state.cancels.values():
        if not (state.gate.lacks_token and cancel.hindrance is Hindrance.TWO_FACTOR):
            yield cancel.due
            yield cancel.since + LATE_AFTER


def _step(state: State, cancel: TrackedCancel, blocked: list[TrackedCancel]) -> None:
    """Without a token nothing can be written: then it waits for the second in which one comes."""
    if not state.gate.lacks_token:
        if cancel.due <= state.now or _is_freed(state, cancel):
            _advance(state, cancel)
    elif cancel.due <= state.now and cancel.hindrance is not Hindrance.TWO_FACTOR:
        cancel.stage, cancel.hindrance = CancelStage.WANTED, Hindrance.TWO_FACTOR
        cancel.queued_until = None
        blocked.append(cancel)
    if is_late(state, cancel):
        about = ELSEWHERE if is_elsewhere(state, cancel) else ""
        _alert(state, "CANCEL_LATE", cancel, f"The bot goes on. {IN_THE_APP}", about)


def _advance(state: State, cancel: TrackedCancel) -> None:
    """Request the row, or send the DELETE that waited for it, if it is time; else queue it."""
    order = state.orders[cancel.order_id]
    row = order.row
    if not order.is_open or row.trading_date < state.trading_date:
        del state.cancels[cancel.order_id]  # nothing is ever written to an id of an earlier day
        return
    if cancel_requests.give_up_in_doubt(state, cancel):
        return
    if cancel.stage is CancelStage.SENT:
        cancel.tries, cancel.waits = cancel.tries + 1, 0
        cancel.hindrance, cancel.detail = Hindrance.NO_ANSWER, ""
    legal_at = _legal_at(state, order)
    if legal_at > state.now:
        assert row.exchange is not None, "without an exchange nothing is queued"
        cancel.stage, cancel.hindrance = CancelStage.WANTED, Hindrance.PHASE
        cancel.due = cancel.queued_until = legal_at
        cancel.detail = PHASE_WORDS[state.rulebook.phase_at(row.exchange, state.now)]
        _alert(state, "CANCEL_QUEUED", cancel, "There is nothing to do", legal_at.isoformat())
        return
    if cancel.hindrance in BY_RULE:
        cancel.since, cancel.hindrance, cancel.queued_until = state.now, None, None
    if cancel.tries >= state.settings.cancel_tries and not is_elsewhere(state, cancel):
        go_on = f"The bot sends another every {STUCK_EVERY.seconds} s while it is open"
        _alert(state, "CANCEL_STUCK", cancel, f"{go_on}. {IN_THE_APP}")
    looking = sum(each.stage is CancelStage.READING for each in state.cancels.values())
    has_looked = cancel.stage is CancelStage.READING or cancel.hindrance is Hindrance.NOT_SENT
    if not has_looked and looking < LOOKS_MAX:
        cancel.stage, cancel.looked_at = CancelStage.READING, state.now
        cancel.due = state.now + LOOK_PATIENCE
        state.command(ReadOrderToCancel(cancel.order_id, f"before cancel: {cancel.reason}"))
    elif _is_forbidden(state, cancel):
        cancel.stage, cancel.hindrance = CancelStage.WANTED, Hindrance.FORBIDDEN
        cancel.detail, cancel.waits = row.broker_status or "?", cancel.waits + 1
        _wait(state, cancel)
        cancel.due = min(cancel.due, _forbidden_until(state, cancel))
    else:
        cancel.stage, cancel.sent_at = CancelStage.SENT, state.now
        cancel.due = state.now + 2 * state.settings.read_patience
        assert row.intent_id is not None, "only own orders are cancelled"
        state.command(CancelOrder(row.order_id, row.intent_id, row.account, cancel.reason))


def _is_freed(state: State, cancel: TrackedCancel) -> bool:
    """Return whether a row has come that no longer forbids it, or shows the order at the broker."""
    if cancel.stage is not CancelStage.WANTED or not _has_row(state, cancel):
        return False
    if cancel.hindrance is Hindrance.PHASE:
        return _legal_at(state, state.orders[cancel.order_id]) <= state.now
    return cancel.hindrance is Hindrance.FORBIDDEN and not _is_forbidden(state, cancel)


def _legal_at(state: State, order: TrackedOrder) -> datetime:
    """Return when the exchange accepts a cancel of it, by its own timetable; `now`: at once, also
    of an order that the exchange does not have yet.

    The broker's last word on the phase may be from before the phase.
    """
    at, exchange = state.now, order.row.exchange
    is_at_broker = order.row.broker_status == HELD_BY_BROKER and order.may_cancel is not False
    if exchange is None or is_at_broker:
        return at
    rulebook = state.rulebook
    for _ in range(PHASES_MAX):
        if rulebook.may_cancel(exchange, rulebook.phase_at(exchange, at), at):
            break
        at = rulebook.next_phase_change(exchange, at).at
    return at


def _is_forbidden(state: State, cancel: TrackedCancel) -> bool:
    """Return whether a current row says that the order cannot be cancelled, and has not said so for
    long.
    """
    return _has_row(state, cancel) and state.now < _forbidden_until(state, cancel)


def _forbidden_until(state: State, cancel: TrackedCancel) -> datetime:
    """Return until when the order's last row holds the cancel back: by its own flag, which takes
    precedence, or by a guess from its state. While a cancel or a change is under way that begins
    anew with each DELETE.
    """
    order = state.orders[cancel.order_id]
    is_changing = order.row.state in _NOT_CANCELLABLE and order.change is None
    if order.may_cancel or not (is_changing or order.may_cancel is False):
        return LONG_AGO
    begun = max(cancel.since, cancel.sent_at) if is_changing else cancel.since
    return begun + STUCK_EVERY


def _has_row(state: State, cancel: TrackedCancel) -> bool:
    return state.now - state.orders[cancel.order_id].requested_at <= ROW_AGE_MAX


def _wait(state: State, cancel: TrackedCancel, most: timedelta = STUCK_EVERY) -> None:
    """Return to a cancel later, the later the more tries were in vain."""
    distances = (*state.settings.cancel_backoff, STUCK_EVERY)
    step = (cancel.waits or cancel.tries) - 1
    cancel.due = state.now + min(distances[min(step, len(distances) - 1)], most)


# ---------------------------------------------------------------------------------- what comes back


def on_row(state: State, event: OrderRead) -> None:
    """The detail row has been merged, or cannot be read: continue a cancel that waited for it.

    Without a row, the day order book should soon show what has become of the order.
    """
    cancel, order = state.cancels.get(event.order_id), state.orders.get(event.order_id)
    if cancel is None or order is None:
        return
    if event.report is None:
        order.poll = state.first_poll()
    is_awaited = cancel.stage is CancelStage.READING and event.at >= cancel.looked_at
    if is_awaited and not state.gate.lacks_token:
        _advance(state, cancel)


def on_cancel_answered(state: State, event: CancelAnswered) -> None:
    """Read the row: what it shows is the verdict."""
    if event.finished is not None:
        state.record(event.finished)
    answers.note_redirect(state, event.finished)
    cancel, outcome = state.cancels.get(event.order_id), event.outcome
    if isinstance(outcome, Refused) and outcome.needs_two_factor:
        intent_id = event.finished.intent_id if event.finished else None
        two_factor.close_for_two_factor(state, outcome, event.at, intent_id)
        if cancel is not None:
            cancel.stage, cancel.due = CancelStage.WANTED, state.now
        return
    if isinstance(outcome, Accepted):
        note_taken(state, event.order_id, outcome, "cancel")
    if cancel is not None:
        _learn(state, cancel, outcome)
    if not isinstance(outcome, NotSent):
        state.command(ReadOrder(event.order_id, "after cancel"))


def _learn(state: State, cancel: TrackedCancel, outcome: Outcome) -> None:
    """Process the result of a DELETE; one that never reached the order is not counted."""
    cancel.stage, cancel.detail = CancelStage.CONFIRMING, ""
    match outcome:
        case NotSent(reason):
            cancel.hindrance, cancel.detail = Hindrance.NOT_SENT, reason
            cancel.waits += 1
            _wait(state, cancel, NOT_SENT_MAX)
            return
        case Refused(http_status=429, retry_after_s=retry_after_s):
            cancel.hindrance = Hindrance.QUOTA
            cancel.waits += 1
            _wait(state, cancel)
            reset = min(timedelta(seconds=retry_after_s or 0), QUOTA_MAX)
            cancel.due = max(cancel.due, state.now + reset)
            return
        case Refused(code, reason) if cancel.hindrance is Hindrance.NOT_SHOWN:
            # an earlier one was accepted: most likely that has ended the order
            cancel.detail = f"{code}: {reason}"
        case Refused(code, reason):
            cancel.hindrance, cancel.detail = Hindrance.REFUSED, f"{code}: {reason}"
        case Unknown(reason):
            cancel.hindrance, cancel.detail = Hindrance.NO_ANSWER, reason
        case Accepted():
            cancel.hindrance = Hindrance.NOT_SHOWN
    cancel.tries, cancel.waits = cancel.tries + 1, 0
    _wait(state, cancel)


def note_taken(state: State, order_id: str, outcome: Accepted, source: str) -> None:
    """The broker accepted a command: rows requested earlier say nothing about the
    status any more.
    """
    order = state.orders.get(order_id)
    intent_id, raw = order.row.intent_id if order else None, outcome.result.raw
    state.record(OrderResultSeen(state.now, source, order_id, intent_id, None, raw))
    two_factor.prove(state, order_id, intent_id)
    if order is not None:
        order.requested_at = max(order.requested_at, state.now)


# ------------------------------------------------------------------------------------- what is late

LATE_AFTER: Final = timedelta(seconds=8)
"""After this time an unfinished cancel is reported, on the screen and in the status."""
BY_RULE: Final = frozenset({Hindrance.TWO_FACTOR, Hindrance.PHASE})
"""Hindrances under which no DELETE can be sent at all."""
IN_THE_APP: Final = "If it must end now, cancel it in the broker's own app"


def is_late(state: State, cancel: TrackedCancel) -> bool:
    """Return whether it is overdue although no rule holds it back."""
    return cancel.hindrance not in BY_RULE and state.now >= cancel.since + LATE_AFTER


def alerts(state: State) -> Iterator[Standing]:
    """Yield each cancel that waits because of a rule, or is overdue, and why."""
    for cancel in state.cancels.values():
        if cancel.hindrance in BY_RULE or is_late(state, cancel):
            yield Standing(
                "CANCEL_OPEN", cancel_sentence(state, cancel), cancel_facts(state, cancel)
            )


def sentences(state: State) -> list[str]:
    """Yield each order that is being cancelled and still open, and why."""
    return [cancel_sentence(state, cancel) for cancel in state.cancels.values()]


def _alert(state: State, code: str, cancel: TrackedCancel, what_next: str, about: str = "") -> None:
    """Raise an alert, once for an order and for what it is `about`."""
    row, facts = state.orders[cancel.order_id].row, cancel_facts(state, cancel)
    text = f"{cancel_sentence(state, cancel)}. {what_next}"
    state.alert(code, text, facts, about=f"{row.order_id} {about}", symbol=row.symbol)
