"""Orders held for a token, and the checks before they are sent after all.

The strategy decided on a market that has moved on. So an entry is given up if the market has
changed (`PRICE_MOVED`, `PHASE_CHANGED`) or the strategy would hardly request it again
(`SIGNAL_GONE`); an exit, which reduces risk and has its own price limit, only if its shares are
gone or its strategy wants the opposite. After its time, either is given up (`HELD_TOO_LONG`). What
passes here is requested as a new order and goes through every check, exits first, each in its turn:
no sooner than the account's rate of orders lets it out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from bot.domain.entry import AuthEvent, Decision, Numbers, RunState, Verdict
from bot.domain.instrument import PHASE_WORDS
from bot.domain.local_time import clock_of, minute_of
from bot.domain.message import (
    TwoFactorReady,
)
from bot.domain.operations import CancelAsked
from bot.domain.order import Intent, OrderState, SendState
from bot.engine import gate, requests, two_factor
from bot.engine.orders import cancels
from bot.engine.orders.orders import end_unplaced, move_intent, move_unplaced
from bot.engine.risk import sizing
from bot.engine.risk.accounts import means_of
from bot.engine.risk.sizing import OrderRequest
from bot.engine.state import State
from bot.engine.tracked import Basis, TrackedIntent
from bot.engine.two_factor import is_exit

PRICE_MOVE_PPM_MAX: Final = 10_000
"""1 %: five ticks of a share at 25,000 VND. Beyond that the signal was about another price."""
HELD_TOO_LONG: Final = "HELD_TOO_LONG"
PRICE_MOVED: Final = "PRICE_MOVED"
PHASE_CHANGED: Final = "PHASE_CHANGED"
SIGNAL_GONE: Final = "SIGNAL_GONE"
GIVEN_UP: Final = (HELD_TOO_LONG, PRICE_MOVED, PHASE_CHANGED, SIGNAL_GONE)
"""The codes of held orders given up because of what changed meanwhile."""


def hold(state: State, tracked: TrackedIntent, code: str, why: str) -> None:
    """A 403 OTP code is a definite refusal: hold the order for a while, or drop it. If a token has
    come meanwhile the order is requested again with this very event.
    """
    intent = tracked.intent
    tracked.refusal_code = code
    span = hold_span(state, intent)
    if span is None:
        is_sold = state.passes_halt(intent.intent_id)
        by = "a flatten sells again by itself" if is_sold else "as the strategy file says"
        reason = f"{code}: dropped, {by}"
        move_intent(state, tracked, SendState.REFUSED, reason)
        end_unplaced(state, tracked, OrderState.REJECTED, code, why)
        return
    move_intent(state, tracked, SendState.HELD, f"{code}: held")
    move_unplaced(state, tracked, OrderState.REJECTED, source="place", note=code)
    followed = state.intents.get(intent.follows or "")
    held_until = (followed.held_until if followed else None) or state.now + span
    tracked.held_until = held_until
    tracked.basis = (followed.basis if followed else None) or basis_of(state, intent)
    wanted = state.gate.cancel_when_seen.get(intent.intent_id)
    if wanted is not None and not is_exit(intent):
        tracked.taken_back = f"it was to be cancelled: {wanted}"
    state.counts["held"] += 1
    decide(state, intent, Verdict.HELD, code, {"until": held_until.isoformat()})
    tracked.is_waiting_to_resume = not state.gate.lacks_token
    if tracked.taken_by_hand is not None:
        give_up(state, tracked, Change(*tracked.taken_by_hand, {}))


def hold_span(state: State, intent: Intent) -> timedelta | None:
    """Return how long an order waits for a token; None: not at all. A sale of a flatten does not:
    nothing held is resumed after a halt, and it would block the next sale.
    """
    strategy = state.strategies.get(intent.strategy)
    if strategy is None or state.passes_halt(intent.intent_id):
        return None
    return strategy.plan.hold_2fa


def on_two_factor_ready(state: State, event: TwoFactorReady) -> None:
    """Open the gate: cancels first, then exits, then the rest of what was held."""
    for tracked in held_orders(state):
        if _is_fresh(state, tracked) and (change := change_since(state, tracked)) is not None:
            give_up(state, tracked, change)
    until = minute_of(event.until)
    count = state.gate.missed
    missed = f", {count} signal{'s' * (count != 1)} missed" if count else ""
    text = f"until {until}{missed}"
    state.record(AuthEvent(state.now, "ready", "", text))
    state.gate.token_until, state.gate.is_unproven = event.until, True
    state.gate.missed, state.gate.question = 0, None
    two_factor.expect_end(state, event.ends_at)
    gate.lift(state, RunState.NEEDS_2FA, f"2FA ok {text}", event.by)
    cancels.advance(state)
    for tracked in held_orders(state):
        tracked.is_waiting_to_resume = True


def held_orders(state: State) -> list[TrackedIntent]:
    """Return the held intents, exits first."""
    return sorted(
        state.index.held.of(True), key=lambda t: (not is_exit(t.intent), t.intent.intent_id)
    )


def _is_fresh(state: State, tracked: TrackedIntent) -> bool:
    """Return whether the symbol's last quote is fresh enough to judge by."""
    quote = state.quotes.get(tracked.intent.symbol)
    return quote is not None and state.now - quote.at <= state.settings.max_quote_age


def _resume(state: State, tracked: TrackedIntent) -> None:
    """Request the order again, unless its time is over or something still prevents it. Buys are
    sent after the cancels that are due.
    """
    first = tracked.intent
    strategy = state.strategies.get(first.strategy)
    if strategy is None or _is_over(state, tracked) or _hindrance(state, tracked):
        return
    if (change := change_since(state, tracked)) is not None:
        give_up(state, tracked, change)
        return
    if not is_exit(first) and cancels.are_leaving(state):
        return
    text = f"{tracked.refusal_code}: requested again as {requests.next_id(state)}"
    move_intent(state, tracked, SendState.REFUSED, text)
    _give_back(state, first)
    request = OrderRequest(
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
    )
    requests.submit(state, strategy, request, means_of(state, strategy, first.symbol))


def _hindrance(state: State, tracked: TrackedIntent) -> str:
    """Return what besides a token keeps an order from being requested again; empty if nothing."""
    intent, strategy = tracked.intent, state.strategies.get(tracked.intent.strategy)
    if state.gate.causes:
        reason = state.gate.causes[state.gate.state].reason
        return f"the bot is {state.gate.state}{f': {reason}' if reason else ''}"
    if (halted := gate.scope_objection(state, intent.account, intent.side)) is not None:
        return halted[1]
    if strategy is not None and (why := gate.strategy_objection(strategy, intent.side)) is not None:
        return why
    if not _is_fresh(state, tracked):
        return f"no fresh quote of {intent.symbol} came"
    if (turn := sizing.turn_at(state, intent.account, intent.side)) is not None:
        return f"the account's next {intent.side} may go out at {clock_of(turn)}"
    return ""


def deadlines(state: State) -> Iterator[datetime | None]:
    """Yield when the time of a held order is over, and when it is the turn of one with a token."""
    for tracked in state.index.held.of(True):
        yield tracked.held_until
        if tracked.is_waiting_to_resume:
            yield sizing.turn_at(state, tracked.intent.account, tracked.intent.side)


def _is_over(state: State, tracked: TrackedIntent) -> bool:
    return tracked.held_until is not None and tracked.held_until <= state.now


def advance(state: State) -> None:
    """Process what waits for a token: the question to a person, the time of held orders, and those
    that wait for cancels, a fresh quote, their turn or an open gate.
    """
    two_factor.advance(state)
    expire_held(state)
    for tracked in held_orders(state):
        if tracked.taken_back and (change := change_since(state, tracked)) is not None:
            give_up(state, tracked, change)
        elif tracked.is_waiting_to_resume:
            _resume(state, tracked)


def expire_held(
    state: State,
    *,
    at_once: str | None = None,
    code: str = HELD_TOO_LONG,
    strategy: str | None = None,
    only: TrackedIntent | None = None,
) -> None:
    """Give up the held orders whose time is over, or all (of a strategy, or `only` one) for a
    reason `at_once`, with the closes that wait for their turn; the decision has the `code` of what
    ended the wait. What is on its way then, and is refused for want of a token, is not held either.
    """
    if at_once is not None:
        for tracked in state.pending_intents():
            if strategy in {None, tracked.intent.strategy} and (only is None or only is tracked):
                tracked.taken_by_hand = code, at_once
        if only is None:
            _give_up_closes(state, at_once, strategy)
    for tracked in held_orders(state):
        intent = tracked.intent
        is_due = at_once is not None or _is_over(state, tracked)
        is_meant = strategy in {None, intent.strategy} and (only is None or only is tracked)
        if not (is_meant and is_due):
            continue
        owner = state.strategies.get(intent.strategy)
        hold = owner.plan.hold_2fa if owner else None
        seconds = round(hold.total_seconds()) if hold else 0
        length = f"{seconds // 60} min" if seconds and seconds % 60 == 0 else f"{seconds} s"
        reason = at_once or f"no 2FA within {length}"
        has_token = tracked.is_waiting_to_resume and not state.gate.lacks_token
        if at_once is None and has_token and (why := _hindrance(state, tracked)):
            reason = f"a token has come, but it could not be requested again within {length}: {why}"
        give_up(state, tracked, Change(code, reason, {}))


def end_after_loss(state: State) -> None:
    """Give up all that waits while a loss halts the bot, as a person's halt does: a resume sends
    nothing of before.
    """
    halted = state.gate.causes.get(RunState.HALTED)
    if halted is not None and halted.by == gate.BY_LIMIT:
        expire_held(state, at_once="halted", code="HALTED")


def _give_up_closes(state: State, why: str, strategy: str | None) -> None:
    for one in [*state.waiting_closes.values()]:
        if strategy in {None, one.strategy}:
            requests.give_up_close(state, state.strategies[one.strategy], one.symbol, why)


def go_on_closing(state: State) -> None:
    """Process the waiting closes that are due, as if their strategies requested them now."""
    for one in sizing.due_closes(state):
        strategy, symbol, request = state.strategies[one.strategy], one.symbol, one.request
        due = sizing.sales_open_at(state, strategy.plan.account)
        if due is None:
            del state.waiting_closes[one.strategy, symbol]
            means = means_of(state, strategy, symbol)
            requests.consider(state, strategy, symbol, request, means, why=one.why)
        elif state.now - one.since < sizing.CLOSE_WAITS_MAX:
            sizing.keep_waiting(state, strategy, symbol, request, one.why, due)
        else:
            minutes = round(sizing.CLOSE_WAITS_MAX.total_seconds() / 60)
            text = f"it had no turn within {minutes} minutes"
            requests.give_up_close(state, strategy, symbol, text)


def take_back(state: State, ask: CancelAsked, only: TrackedIntent | None = None) -> None:
    """A person cancels what is held, or `only` one: none of it is requested again, nor what is on
    its way and is refused for want of a token.
    """
    reason = f"cancelled by {ask.by}{f': {ask.reason}' if ask.reason else ''}"
    expire_held(state, at_once=reason, code="CANCEL", only=only)


@dataclass(frozen=True, slots=True)
class Change:
    """Why a held order is given up."""

    code: str
    reason: str
    numbers: Numbers


def basis_of(state: State, intent: Intent) -> Basis:
    """Record the present market and signal."""
    quote = state.quotes.get(intent.symbol)
    return Basis(
        at=state.now,
        last=quote.quote.last if quote is not None else None,
        phase=state.phase_of(intent.exchange).phase,
        shares=_shares(state, intent),
    )


def change_since(state: State, tracked: TrackedIntent) -> Change | None:
    """Return what has changed too much since the order was held; None if it may be requested."""
    intent, basis = tracked.intent, tracked.basis
    if basis is None:
        return None
    if tracked.taken_back:
        return Change(SIGNAL_GONE, tracked.taken_back, {})
    before, shares = basis.shares, _shares(state, intent)
    if is_exit(intent):
        has_gone = before >= intent.quantity > shares
        return _other_position(before, shares) if has_gone else None
    phase = state.phase_of(intent.exchange).phase
    boundary = state.rulebook.next_phase_change(intent.exchange, basis.at).at
    if phase is not basis.phase or boundary <= state.now:
        words = f"it was held in {PHASE_WORDS[basis.phase]}, now it is {PHASE_WORDS[phase]}"
        return Change(PHASE_CHANGED, words, {"phase_before": basis.phase, "phase": phase})
    quote, was = state.quotes.get(intent.symbol), basis.last
    last = quote.quote.last if quote is not None else None
    moved_ppm = abs(last - was) * 1_000_000 // was if was and last else 0
    if moved_ppm > PRICE_MOVE_PPM_MAX:
        moved, most = f"{moved_ppm / 10_000:.1f} %", f"{PRICE_MOVE_PPM_MAX / 10_000:g} %"
        words = f"the price moved from {was:,} to {last:,} ({moved}, limit {most})"
        numbers = {"last_before": was, "last": last, "moved_ppm": moved_ppm}
        return Change(PRICE_MOVED, words, numbers)
    return _other_position(before, shares) if shares != before else None


def _other_position(before: int, shares: int) -> Change:
    words = f"its strategy holds {shares:,} shares, {before:,} when it was held"
    return Change(SIGNAL_GONE, words, {"shares_before": before, "shares": shares})


def _shares(state: State, intent: Intent) -> int:
    strategy = state.strategies.get(intent.strategy)
    position = strategy.positions.get(intent.symbol) if strategy is not None else None
    return position.shares if position is not None else 0


def give_up(state: State, tracked: TrackedIntent, change: Change) -> None:
    """Journal that a held order is not sent after all. Without a token it counts as missed."""
    move_intent(state, tracked, SendState.EXPIRED_LOCAL, change.reason)
    state.counts["expired"] += 1
    state.gate.missed += state.gate.lacks_token and change.code in GIVEN_UP
    numbers = {"reason": change.reason, **change.numbers}
    expire(state, tracked.intent, change.code, numbers)


def expire(state: State, intent: Intent, code: str, numbers: Numbers) -> None:
    """Journal that an approved order is not sent after all; it is no order of its day any more."""
    _give_back(state, intent)
    decide(state, intent, Verdict.EXPIRED, code, numbers)


def _give_back(state: State, intent: Intent) -> None:
    """An approved order counts no more, as it never left or another one counts in its place."""
    if intent.trading_date == state.trading_date:
        state.usage.of(intent.account).orders_today -= 1
        if (strategy := state.strategies.get(intent.strategy)) is not None:
            strategy.orders_today -= 1


def decide(state: State, intent: Intent, verdict: Verdict, code: str, numbers: Numbers) -> None:
    """Journal what became of an order that was approved and is not sent, or not yet."""
    state.record(
        Decision(
            at=state.now,
            strategy=intent.strategy,
            symbol=intent.symbol,
            verdict=verdict,
            code=code,
            why=intent.why,
            numbers=numbers,
            request_id=intent.intent_id,
            side=intent.side,
            quantity=intent.quantity,
            order_type=intent.order_type,
            price=intent.limit_price,
        )
    )
