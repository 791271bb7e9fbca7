"""Orders that a missing token blocks: held for a while, then checked anew and sent as new intents.

One POST per intent, ever: what goes out after the token has come is another intent that `follows`
the first. It is checked in full on a fresh quote, exits first, within the time that its strategy
allows.
"""

from bot.domain.entry import AuthEvent, Decision, RunState, Verdict
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.message import TwoFactorReady
from bot.domain.order import SendState
from bot.engine import gatekeeping, requests, switches
from bot.engine.gate import Cause
from bot.engine.orders import cancels
from bot.engine.orders.moves import move_intent
from bot.engine.risk.sizing import Request
from bot.engine.state import Book
from bot.engine.tracks import IntentTrack


def on_two_factor_ready(book: Book, event: TwoFactorReady) -> None:
    """Open the gate: cancels first, then exits, then the rest of what was held."""
    gate = book.gate
    until = f"{event.until.astimezone(EXCHANGE_TZ):%H:%M}"
    missed = f", {gate.missed} signal{'s' * (gate.missed != 1)} missed" if gate.missed else ""
    text = f"until {until}{missed}"
    book.record(AuthEvent(book.now, "ready", "", text))
    gate.token_until, gate.is_unproven, gate.missed = event.until, True, 0
    gatekeeping.lift(book, RunState.NEEDS_2FA, Cause(f"2FA ok {text}", event.by))
    cancels.advance(book)
    for track in held(book):
        track.is_waiting_to_resume = True
        _try(book, track)


def held(book: Book) -> list[IntentTrack]:
    """Return the held intents, exits first."""
    tracks = [track for track in book.intents.values() if track.state is SendState.HELD]
    return sorted(tracks, key=lambda t: (not t.intent.closes_position, t.intent.intent_id))


def on_fresh_quote(book: Book, symbol: str) -> None:
    """A quote has come that a held order of the symbol was waiting for."""
    for track in held(book):
        if track.is_waiting_to_resume and track.intent.symbol == symbol:
            _try(book, track)


def _try(book: Book, track: IntentTrack) -> None:
    quote = book.quotes.get(track.intent.symbol)
    is_fresh = quote is not None and book.now - quote.at <= book.settings.max_quote_age
    runner = book.runners.get(track.intent.strategy)
    is_on = runner is not None and switches.objection(runner, track.intent.side) is None
    if book.gate.is_open and is_on and is_fresh and not _is_over(book, track):
        _send_anew(book, track)


def _send_anew(book: Book, track: IntentTrack) -> None:
    first = track.intent
    move_intent(book, track, SendState.REFUSED, f"{track.refusal_code}: asked for anew")
    requests.submit(
        book,
        book.runners[first.strategy],
        Request(
            strategy=first.strategy,
            account=first.account,
            symbol=first.symbol,
            side=first.side,
            quantity=first.quantity,
            order_type=first.order_type,
            limit_price=first.limit_price,
            why=first.why,
            closes_position=first.closes_position,
            expire_after=first.expire_after,
            follows=first.intent_id,
        ),
    )


def _is_over(book: Book, track: IntentTrack) -> bool:
    return track.held_until is not None and track.held_until <= book.now


def expire_held(
    book: Book,
    *,
    at_once: str | None = None,
    code: str = "TWO_FACTOR",
    strategy: str | None = None,
) -> None:
    """Give up the held orders whose time is over, or all (of a strategy) for a reason `at_once`;
    the decision has the `code` of what ended the wait.
    """
    for track in held(book):
        if strategy not in {None, track.intent.strategy}:
            continue
        if at_once is not None or _is_over(book, track):
            reason = at_once or f"no 2FA within {_waited(book, track)}"
            move_intent(book, track, SendState.EXPIRED_LOCAL, reason)
            _note_expired(book, track, reason, code)


def _waited(book: Book, track: IntentTrack) -> str:
    """`15 min`, or `90 s`: how long the order's strategy lets it wait."""
    runner = book.runners.get(track.intent.strategy)
    seconds = round(runner.plan.hold_2fa.total_seconds()) if runner and runner.plan.hold_2fa else 0
    return f"{seconds // 60} min" if seconds and seconds % 60 == 0 else f"{seconds} s"


def _note_expired(book: Book, track: IntentTrack, reason: str, code: str) -> None:
    intent = track.intent
    book.counts["expired"] += 1
    book.record(
        Decision(
            at=book.now,
            strategy=intent.strategy,
            symbol=intent.symbol,
            verdict=Verdict.EXPIRED,
            code=code,
            why=intent.why,
            numbers={"reason": reason},
            request_id=intent.intent_id,
            side=intent.side,
            quantity=intent.quantity,
            order_type=intent.order_type,
            price=intent.limit_price,
        )
    )
