"""How messages describe orders: their names, unknown outcomes, why one is still open.

Each message comes with its facts, from which other languages are rendered.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from bot.domain.entry import Number, Numbers, OrderUpdated
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.local_time import clock_of
from bot.domain.order import Intent, SendState, type_word
from bot.engine.state import State
from bot.engine.tracked import (
    CancelStage,
    Hindrance,
    TrackedCancel,
    TrackedIntent,
    TrackedOrder,
)

SEND_WORDS: Final[Mapping[SendState, str]] = {
    SendState.READY: "not sent yet",
    SendState.HELD: "waiting for a 2FA token, and not sent",
    SendState.SENDING: "being sent",
    SendState.ACKED: "accepted by the broker: its rows say what becomes of it",
    SendState.MATCHED: "found in the day order book: its rows say what becomes of it",
    SendState.REFUSED: "refused by the broker, so there is none",
    SendState.DENIED: "refused by a check of the bot, so there is none",
    SendState.NOT_SENT: "not sent, so there is none",
    SendState.EXPIRED_LOCAL: "not sent in time, so there is none",
    SendState.NOT_PLACED: "settled as never placed",
    SendState.EOD_ABSENT: "settled: its day ended without a row of it",
    SendState.UNKNOWN: (
        "of unknown outcome and still being found out: its nonce is tried for at most 270 s, and "
        "the day order book read"
    ),
    SendState.FRESH: "by its nonce no order, and looked for in the day order book to be sure",
    SendState.REACHED: "possibly at the broker",
    SendState.AMBIGUOUS: "one of several rows, or of none",
}
"""What an order is that has no row of its own."""


ELSEWHERE: Final = "ELSEWHERE"
"""Hinders a cancel whose order has ended under its own id and may work under another one."""
NOT_READ: Final = "day order book that could show it has been read yet"


def send_words(state: State, tracked: TrackedIntent) -> str:
    """Return what an order without a row is: of one that a token has let be requested again, as
    which; of one that never arrived, when a person may say so.
    """
    name = tracked.intent.intent_id
    again = next((one for one in state.intents.values() if one.intent.follows == name), None)
    if again is not None:
        return f"over: it was requested again as {again.intent.intent_id}"
    if tracked.state not in {SendState.FRESH, SendState.REACHED} or tracked.sent_at is None:
        return SEND_WORDS[tracked.state]
    is_read = tracked.state is SendState.FRESH or tracked.absent_reads
    words = SEND_WORDS[tracked.state] + ("" if is_read else f", and no {NOT_READ}")
    over = time_words(tracked.sent_at + state.settings.horizon)
    return f"{words}; a person may say what became of it after {over}"


def intent_words(intent: Intent) -> str:
    """Describe an order: `BUY 100 HPG LIMIT 27,000 (L-0001)`."""
    price = "" if intent.limit_price is None else f" {intent.limit_price:,}"
    kind = type_word(intent.order_type)
    return f"{intent.side} {intent.quantity:,} {intent.symbol} {kind}{price} ({intent.intent_id})"


def time_words(at: datetime | None) -> str:
    """Format an instant in exchange time."""
    return "an unknown time" if at is None else clock_of(at)


def intent_facts(tracked: TrackedIntent, rows: Sequence[str] = ()) -> Mapping[str, Number]:
    """Return the facts for a message about an order of unknown outcome."""
    intent, sent_at = tracked.intent, tracked.sent_at
    return {
        "intent_id": intent.intent_id,
        "side": intent.side,
        "quantity": intent.quantity,
        "symbol": intent.symbol,
        "order_type": intent.order_type,
        "price": intent.limit_price,
        "sent_at": None if sent_at is None else sent_at.isoformat(),
        "state": tracked.state,
        "nonce": tracked.burn,
        "reads": tracked.absent_reads,
        "rows": ", ".join(rows),
        "why": tracked.doubt,
    }


def question_text(
    tracked: TrackedIntent, rows: Sequence[str], not_before: datetime | None = None
) -> str:
    """Say what is unknown, what the bot does about it, and what a person can do; not before when,
    if the bot may find it out until then.
    """
    intent, sent_at = tracked.intent, tracked.sent_at
    name = f"{intent_words(intent)}, sent at {time_words(sent_at)},"
    if tracked.state is SendState.UNKNOWN:
        why = f" ({tracked.doubt})" if tracked.doubt else ""
        return (
            f"{name} has no answer that proves anything{why}: its nonce is being tried and the day "
            "order book read, and nothing is sent again. Nothing to do yet"
        )
    if tracked.state is SendState.FRESH:
        return (
            f"{name} has no answer, and its nonce was unused: it never reached the broker, and "
            "can't any more. It counts as open until the day order book has been without it for "
            "long enough; then its strategy hears that it was never placed. Nothing is sent again. "
            "If it happens again and again, ask the broker"
        )
    if tracked.state is SendState.REACHED:
        shown = "row of the day order book shows it" if tracked.absent_reads else NOT_READ
        over = time_words(not_before)
        when = f". Either is taken after {over}, or once one lacks it" if not_before else ""
        return (
            f"{name} may be at the broker, and no {shown}"
            f" ({tracked.burn or 'its nonce was used'}). The day order book is read until the day "
            "ends; the order's size stays reserved and the same order is not sent. Look in the "
            f"broker's app; if it is there: {if_there(intent)}; {if_absent(intent)}{when}"
        )
    named = ", ".join(rows) or "no row any more"
    why = f" ({tracked.doubt})" if tracked.doubt else ""
    return (
        f"{name} may be {named}{why}, and nothing proves it: none of them is touched, all of "
        "them count. Look in the broker's app, then say which one, if any, is ours: "
        f"{if_there(intent)}; {if_absent(intent)}"
    )


def overdue_text(tracked: TrackedIntent) -> str:
    """Say that a place that never arrived is still open, why, and how a person ends that."""
    intent = tracked.intent
    return (
        f"{intent_words(intent)}, sent at {time_words(tracked.sent_at)}, never reached the broker, "
        "by its nonce, and no day order book can show that it is not there: none of today can be "
        "read, or one of its rows can't be and may be this order. Its size stays reserved. Look in "
        f"the broker's app what that row is; {if_absent(intent)}; if it is there: "
        f"{if_there(intent)}"
    )


def if_there(intent: Intent) -> str:
    """Return the command that says which row an order of unknown outcome is."""
    return f'bot order {intent.intent_id} --is ORD… --reason "…"'


def if_absent(intent: Intent) -> str:
    """Return what to do if there is none."""
    return f'if it is not there: bot order {intent.intent_id} --not-placed --reason "…"'


# ------------------------------------------------------------------------- an order of the broker's


def row_words(row: OrderUpdated) -> str:
    """Describe an order: our id and the broker's, and what it is."""
    name = f"{row.intent_id} ({row.order_id})" if row.intent_id else row.order_id
    price = f"{row.price:,}" if row.price is not None else type_word(row.order_type)
    return f"{name}, {row.side} {row.quantity:,} {row.symbol} at {price}"


def row_facts(row: OrderUpdated) -> Numbers:
    """Return the same as facts."""
    return {
        "intent_id": row.intent_id,
        "order_id": row.order_id,
        "side": row.side,
        "quantity": row.quantity,
        "symbol": row.symbol,
        "price": row.price,
        "order_type": row.order_type,
    }


def ambiguous_text(order: TrackedOrder, *, is_kept: bool) -> str:
    """Say that a row may be another order's; `is_kept`: so may the order."""
    row, kept = order.row, kept_words(order.row) if is_kept else ""
    return (
        f"{row_words(row)}: the broker's row under its id may be another order's:"
        f" {order.shown.doubt}. That row is ignored, and nothing is bought in {row.symbol} until"
        f" a row is its own again.{kept} If you changed this order elsewhere, say so: bot resume"
        f" {row.symbol} --reason …. Its rows then count again; a halt stays."
    )


def kept_words(row: OrderUpdated) -> str:
    """Say that nothing cancels what may be somebody else's, and why it may be."""
    return (
        f" The bot had found it by its looks, so {row.order_id} may be somebody else's: neither its"
        " time limit nor its strategy cancels it now; a halt, the day's loss limit or you do."
    )


# --------------------------------------------------------------------- a cancel that is not through


def is_elsewhere(state: State, cancel: TrackedCancel) -> bool:
    """Return whether its order works under an id that no list has shown, or not at all, and that is
    what the cancel waits for: neither a rule nor the answer to the change.
    """
    order, hindrance = state.orders.get(cancel.order_id), cancel.hindrance
    if order is None or order.change is None:
        return False
    waits = hindrance is Hindrance.FORBIDDEN and order.change.hopeless_at is None
    waits |= hindrance in {Hindrance.TWO_FACTOR, Hindrance.PHASE}
    return order.may_be_elsewhere and not waits


def why_still_open(state: State, cancel: TrackedCancel) -> str:
    """Say why the order is still open, and when the next step is taken."""
    detail, next_at = cancel.detail, time_words(cancel.due)
    match cancel.hindrance:
        case Hindrance.TWO_FACTOR:
            return "there is no 2FA token; the cancel goes out when there is one: bot otp"
        case Hindrance.PHASE:
            if _lapses(state, cancel):
                return f"the exchange cancels nothing any more today ({detail}); it lapses then"
            return f"the exchange cancels nothing now ({detail}); the cancel goes out at {next_at}"
        case _ if is_elsewhere(state, cancel):
            said = "its row shows its end, but its change may have given it another id, and no day"
            said += " order book shows whether it has: the broker's app does"
        case Hindrance.FORBIDDEN if state.orders[cancel.order_id].change is not None:
            said = f"the broker shows {detail}, and its change has no answer yet, which may tell of"
            said += " a new id"
        case Hindrance.FORBIDDEN:
            said = f"the broker's row says that it can't be cancelled now (status {detail})"
        case Hindrance.NOT_SENT:
            said = f"the cancel could not be sent: {detail}"
        case Hindrance.QUOTA:
            said = "the broker's request quota is used up (429)"
        case Hindrance.NO_ANSWER:
            said = f"the cancel had no answer that can be trusted: {detail or 'none came'}"
        case Hindrance.REFUSED:
            said = f"the broker refused the cancel: {detail}"
        case Hindrance.NOT_SHOWN:
            said = "the broker took the cancel, but no row shows the end of the order"
            said += f" (a later one was refused: {detail})" if detail else ""
        case _:
            said = "the cancel has no answer yet"
    return said if cancel.stage is CancelStage.SENT else f"{said}; next try at {next_at}"


def cancel_name(state: State, cancel: TrackedCancel) -> str:
    """Describe the order: `ORD1 (L-0001, BUY 100 HPG at 27,000)`."""
    order = state.orders[cancel.order_id]
    row = order.row
    price = f"at {row.price:,}" if row.price is not None else type_word(row.order_type)
    words = f"{row.side} {order.open_quantity:,} {row.symbol} {price}"
    return f"{row.order_id} ({row.intent_id}, {words})"


def cancel_sentence(state: State, cancel: TrackedCancel) -> str:
    """Say which order is still open, after what, and why."""
    tries = f" after {cancel.tries} cancels" if cancel.tries else ""
    is_open = "may still be" if is_elsewhere(state, cancel) else "is still"
    now_is = f"{cancel_name(state, cancel)} {is_open} open{tries} ({cancel.reason})"
    return f"{now_is}: {why_still_open(state, cancel)}"


def cancel_facts(state: State, cancel: TrackedCancel) -> Numbers:
    """Return the facts for a message about a cancel."""
    order = state.orders[cancel.order_id]
    is_over = cancel.hindrance is Hindrance.PHASE and _lapses(state, cancel)
    hindrance = "DAY_OVER" if is_over else cancel.hindrance
    if is_elsewhere(state, cancel):
        hindrance = ELSEWHERE
    return {
        **row_facts(order.row),
        "quantity": order.open_quantity,
        "reason": cancel.reason,
        "tries": cancel.tries,
        "hindrance": hindrance,
        "detail": cancel.detail,
        "next": cancel.due.isoformat(),
    }


def _lapses(state: State, cancel: TrackedCancel) -> bool:
    """Return whether the exchange accepts no cancel any more today."""
    return cancel.due.astimezone(EXCHANGE_TZ).date() > state.trading_date
