"""What is said of an order that nobody knows about: what is known, what is done, what to do."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from bot.domain.entry import Number
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.order import Intent, SendState, type_word
from bot.engine.tracked import TrackedIntent


def order_words(intent: Intent) -> str:
    """Name an order: `BUY 100 HPG LIMIT 27,000 (L-0001)`."""
    price = "" if intent.limit_price is None else f" {intent.limit_price:,}"
    kind = type_word(intent.order_type)
    return f"{intent.side} {intent.quantity:,} {intent.symbol} {kind}{price} ({intent.intent_id})"


def time_words(at: datetime | None) -> str:
    """Tell an instant by the exchange's clock."""
    return "an unknown time" if at is None else f"{at.astimezone(EXCHANGE_TZ):%H:%M:%S}"


def facts_of(tracked: TrackedIntent, rows: Sequence[str] = ()) -> Mapping[str, Number]:
    """Return the numbers and names of which a message about a question is made."""
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


def question_text(tracked: TrackedIntent, rows: Sequence[str]) -> str:
    """Say what nobody knows, what the bot does about it, and what a person can do."""
    intent, sent_at = tracked.intent, tracked.sent_at
    name = f"{order_words(intent)}, sent at {time_words(sent_at)},"
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
    verdict = f"bot order {intent.intent_id}"
    if_absent = f'if it is not there: {verdict} --not-placed --reason "…"'
    if tracked.state is SendState.REACHED:
        return (
            f"{name} may be at the broker, and no row of the day order book shows it"
            f" ({tracked.burn or 'its nonce was used'}). The book is read until the day ends; its "
            f"size stays reserved and the same order is not sent. Look in the broker's app; if it "
            f'is there: {verdict} --is ORD… --reason "…"; {if_absent}'
        )
    named = ", ".join(rows) or "no row any more"
    why = f" ({tracked.doubt})" if tracked.doubt else ""
    return (
        f"{name} may be {named}{why}, and nothing proves it: none of them is touched, all of them "
        f"count. Look in the broker's app; say which one is ours: {verdict} --is ORD… --reason "
        f'"…"; {if_absent}'
    )
