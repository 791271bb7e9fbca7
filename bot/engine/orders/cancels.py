"""Cancels: one DELETE after the other leaves until a row shows that the order has ended.

    WANTED ─► READING ─► SENT ─► CONFIRMING ─► (a row shows the end) done
       ▲          └─────────────┴──────┘ still open: again, at growing distances, without an end

Before a DELETE the order's detail row is asked for, since a DELETE for what has ended is one in
vain. What cannot be read holds no cancel back: after 2 s it goes by a row of the day order book
that is at most 10 s old, or by none. Nor does anything else but what the broker or the exchange
would refuse for certain: no 2FA token, a phase in which nothing is cancelled, a fresh row that says
no. Such a cancel waits for the first second in which it may go, and says so.

An answer to a DELETE is never a verdict. After five of them a person is told, and they go on.
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
from bot.engine.orders import refusals
from bot.engine.orders.order_words import cancel_facts, cancel_name, cancel_sentence
from bot.engine.state import State
from bot.engine.tracked import CancelStage, Hindrance, TrackedCancel, TrackedOrder

LOOK_PATIENCE: Final = timedelta(seconds=2)
"""How long a cancel waits for the row before it."""
LOOKS_MAX: Final = 5
"""Rows that are awaited at once; with more orders to cancel the quota is the DELETEs' own."""
ROW_AGE_MAX: Final = timedelta(seconds=10)
"""An older row says nothing about whether an order may be cancelled."""
STUCK_EVERY: Final = timedelta(seconds=30)
"""From one DELETE to the next once a person has been told; also how long our guess from a state
holds one back."""
NOT_SENT_MAX: Final = timedelta(seconds=5)
"""From one try to the next while none can leave: as late as that a quota may be found open."""
QUOTA_MAX: Final = timedelta(seconds=120)
"""A reset of the quota further away is not believed."""
PHASES_MAX: Final = 20
"""Phases that are looked through for the next one with cancels: more than two days have."""
_NOT_CANCELLABLE: Final = frozenset({OrderState.PENDING_CANCEL, OrderState.PENDING_REPLACE})


# ------------------------------------------------------------------------------------ step by step


def advance(state: State) -> None:
    """Take every cancel that is due one step on, and name those that are late."""
    blocked: list[TrackedCancel] = []
    for cancel in tuple(state.cancels.values()):
        guarded(state, f"the cancel of {cancel.order_id}", _step, state, cancel, blocked)
    if blocked:
        names = ", ".join(cancel_name(state, cancel) for cancel in blocked)
        text = (
            f"no 2FA token: these orders can't be cancelled before there is one: {names}. The"
            " cancels go out first then. Get a token: bot otp. Until then only the broker's own app"
            " can cancel"
        )
        ids = " ".join(cancel.order_id for cancel in blocked)
        state.alert("CANCEL_NEEDS_TOKEN", text, {"orders": len(blocked), "ids": ids})


def are_leaving(state: State) -> bool:
    """Whether a DELETE is about to leave, before which no order that was held for a token does."""
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
    """Nothing can be written without a token: then it is kept for the second in which one comes."""
    if not state.gate.lacks_token:
        # Also when a row has come that does not say no any more.
        is_held_by_row = cancel.hindrance is Hindrance.FORBIDDEN and _has_row(state, cancel)
        is_freed = cancel.stage is CancelStage.WANTED and is_held_by_row
        if cancel.due <= state.now or (is_freed and not _is_forbidden(state, cancel)):
            _advance(state, cancel)
    elif cancel.due <= state.now and cancel.hindrance is not Hindrance.TWO_FACTOR:
        cancel.stage, cancel.hindrance = CancelStage.WANTED, Hindrance.TWO_FACTOR
        cancel.queued_until = None
        blocked.append(cancel)
    if is_late(state, cancel) and not cancel.is_told:
        cancel.is_told = True
        _alert(state, "CANCEL_LATE", cancel, f"The bot goes on. {IN_THE_APP}")


def _advance(state: State, cancel: TrackedCancel) -> None:
    """Ask for the row, or send the DELETE that waited for it; in its time, else queue it."""
    order = state.orders[cancel.order_id]
    row = order.row
    if not order.is_open or row.trading_date < state.trading_date:
        del state.cancels[cancel.order_id]  # nothing is ever written to an id of an earlier day
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
        cancel.is_told = False
    if cancel.tries >= state.settings.cancel_tries:
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
    else:
        cancel.stage, cancel.sent_at = CancelStage.SENT, state.now
        cancel.due = state.now + 2 * state.settings.read_patience
        assert row.intent_id is not None, "only own orders are cancelled"
        state.command(CancelOrder(row.order_id, row.intent_id, row.account, cancel.reason))


def _legal_at(state: State, order: TrackedOrder) -> datetime:
    """When the exchange takes a cancel of it, by its own timetable; `now`: at once.

    What the broker has said about the phase last may be of before the phase.
    """
    at, exchange = state.now, order.row.exchange
    if exchange is None:
        return at
    rulebook = state.rulebook
    for _ in range(PHASES_MAX):
        if rulebook.may_cancel(exchange, rulebook.phase_at(exchange, at), at):
            break
        at = rulebook.next_phase_change(exchange, at).at
    return at


def _is_forbidden(state: State, cancel: TrackedCancel) -> bool:
    """Whether a row of just now says that the order can't be cancelled.

    Its own flag outranks a guess from its state, which holds nothing back for long.
    """
    order = state.orders[cancel.order_id]
    if not _has_row(state, cancel):
        return False
    if order.may_cancel is not None:
        return not order.may_cancel
    is_changing = order.row.state in _NOT_CANCELLABLE and order.change is None
    return is_changing and state.now < max(cancel.since, cancel.sent_at) + STUCK_EVERY


def _has_row(state: State, cancel: TrackedCancel) -> bool:
    return state.now - state.orders[cancel.order_id].requested_at <= ROW_AGE_MAX


def _wait(state: State, cancel: TrackedCancel, most: timedelta = STUCK_EVERY) -> None:
    """Come back to a cancel later, the more of it was in vain."""
    distances = (*state.settings.cancel_backoff, STUCK_EVERY)
    step = (cancel.waits or cancel.tries) - 1
    cancel.due = state.now + min(distances[min(step, len(distances) - 1)], most)


# ---------------------------------------------------------------------------------- what comes back


def on_row(state: State, event: OrderRead) -> None:
    """The detail row has been merged, or can't be read: go on if a cancel has waited for it.

    Where there is none, the day order book is to show soon what has become of the order.
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
    """Look at the row: what it shows is the verdict."""
    if event.finished is not None:
        state.record(event.finished)
    refusals.note_redirect(state, event.finished)
    cancel, outcome = state.cancels.get(event.order_id), event.outcome
    if isinstance(outcome, Refused) and outcome.needs_two_factor:
        intent_id = event.finished.intent_id if event.finished else None
        two_factor.close_for_two_factor(state, outcome, intent_id)
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
    """Take in what came of a DELETE; one that nobody looked at the order for is not counted."""
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
            cancel.detail = f"{code}: {reason}"  # it took one before: most likely that has ended it
        case Refused(code, reason):
            cancel.hindrance, cancel.detail = Hindrance.REFUSED, f"{code}: {reason}"
        case Unknown(reason):
            cancel.hindrance, cancel.detail = Hindrance.NO_ANSWER, reason
        case Accepted():
            cancel.hindrance = Hindrance.NOT_SHOWN
    cancel.tries, cancel.waits = cancel.tries + 1, 0
    _wait(state, cancel)


def note_taken(state: State, order_id: str, outcome: Accepted, source: str) -> None:
    """The broker took a command: rows asked for earlier say nothing about the status any more."""
    order = state.orders.get(order_id)
    intent_id, raw = order.row.intent_id if order else None, outcome.result.raw
    state.record(OrderResultSeen(state.now, source, order_id, intent_id, None, raw))
    two_factor.prove(state, order_id, intent_id)
    if order is not None:
        order.requested_at = max(order.requested_at, state.now)


# ------------------------------------------------------------------------------------- what is late

LATE_AFTER: Final = timedelta(seconds=8)
"""When a cancel that is not through is named, on the screen and in the status."""
BY_RULE: Final = frozenset({Hindrance.TWO_FACTOR, Hindrance.PHASE})
"""What lets no DELETE go at all."""
IN_THE_APP: Final = "If it must end now, cancel it in the broker's own app"


def is_late(state: State, cancel: TrackedCancel) -> bool:
    """Whether it is not through in time, though no rule holds it back."""
    return cancel.hindrance not in BY_RULE and state.now >= cancel.since + LATE_AFTER


def alerts(state: State) -> Iterator[Standing]:
    """Yield each cancel that waits by rule, or is not through in time, and why."""
    for cancel in state.cancels.values():
        if cancel.hindrance in BY_RULE or is_late(state, cancel):
            yield Standing(
                "CANCEL_OPEN", cancel_sentence(state, cancel), cancel_facts(state, cancel)
            )


def sentences(state: State) -> list[str]:
    """Name each order that is being cancelled and still open, and why it is."""
    return [cancel_sentence(state, cancel) for cancel in state.cancels.values()]


def _alert(state: State, code: str, cancel: TrackedCancel, what_next: str, about: str = "") -> None:
    """Alert, once for an order and what it is `about`."""
    row, facts = state.orders[cancel.order_id].row, cancel_facts(state, cancel)
    text = f"{cancel_sentence(state, cancel)}. {what_next}"
    state.alert(code, text, facts, about=f"{row.order_id} {about}", symbol=row.symbol)
