"""Orders that a missing token blocks: held for a while, then checked again, sent as new intents.

One POST per intent, ever: what goes out after the token has come is another intent that `follows`
the first. It is checked in full on a fresh quote, exits first, within the time that its strategy
allows.
"""

from bot.domain.entry import AuthEvent, Decision, RunState, Verdict
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.message import TwoFactorReady
from bot.domain.order import SendState
from bot.engine import gate, requests
from bot.engine.orders import cancels
from bot.engine.orders.orders import move_intent
from bot.engine.risk.sizing import OrderRequest
from bot.engine.state import State
from bot.engine.tracked import TrackedIntent


def on_two_factor_ready(state: State, event: TwoFactorReady) -> None:
    """Open the gate: cancels first, then exits, then the rest of what was held."""
    until = f"{event.until.astimezone(EXCHANGE_TZ):%H:%M}"
    count = state.gate.missed
    missed = f", {count} signal{'s' * (count != 1)} missed" if count else ""
    text = f"until {until}{missed}"
    state.record(AuthEvent(state.now, "ready", "", text))
    state.gate.token_until, state.gate.is_unproven = event.until, True
    state.gate.missed = 0
    gate.lift(state, RunState.NEEDS_2FA, f"2FA ok {text}", event.by)
    cancels.advance(state)
    for tracked in held(state):
        tracked.is_waiting_to_resume = True
        _resume(state, tracked)


def held(state: State) -> list[TrackedIntent]:
    """Return the held intents, exits first."""
    held = [tracked for tracked in state.intents.values() if tracked.state is SendState.HELD]
    return sorted(held, key=lambda t: (not t.intent.closes_position, t.intent.intent_id))


def on_fresh_quote(state: State, symbol: str) -> None:
    """A quote has come that a held order of the symbol was waiting for."""
    for tracked in held(state):
        if tracked.is_waiting_to_resume and tracked.intent.symbol == symbol:
            _resume(state, tracked)


def _resume(state: State, tracked: TrackedIntent) -> None:
    """Request the order again, unless its time is over or something is still against it."""
    first = tracked.intent
    quote, strategy = state.quotes.get(first.symbol), state.strategies.get(first.strategy)
    if quote is None or state.now - quote.at > state.settings.max_quote_age:
        return
    if strategy is None or gate.objection(strategy, first.side) is not None:
        return
    if not state.gate.is_open or _is_over(state, tracked):
        return
    move_intent(state, tracked, SendState.REFUSED, f"{tracked.refusal_code}: requested again")
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
    requests.submit(state, strategy, request)


def _is_over(state: State, tracked: TrackedIntent) -> bool:
    return tracked.held_until is not None and tracked.held_until <= state.now


def expire_held(
    state: State,
    *,
    at_once: str | None = None,
    code: str = "TWO_FACTOR",
    strategy: str | None = None,
) -> None:
    """Give up the held orders whose time is over, or all (of a strategy) for a reason `at_once`;
    the decision has the `code` of what ended the wait.
    """
    for tracked in held(state):
        intent = tracked.intent
        is_due = at_once is not None or _is_over(state, tracked)
        if strategy not in {None, intent.strategy} or not is_due:
            continue
        owner = state.strategies.get(intent.strategy)
        hold = owner.plan.hold_2fa if owner else None
        seconds = round(hold.total_seconds()) if hold else 0
        length = f"{seconds // 60} min" if seconds and seconds % 60 == 0 else f"{seconds} s"
        reason = at_once or f"no 2FA within {length}"
        move_intent(state, tracked, SendState.EXPIRED_LOCAL, reason)
        state.counts["expired"] += 1
        state.record(
            Decision(
                at=state.now,
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
