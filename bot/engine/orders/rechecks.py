"""What an order that was held for a token is asked before it goes out after all.

Its strategy decided by a market that has gone on. So an entry is given up where that market is
another one (`PRICE_MOVED`, `PHASE_CHANGED`) or the strategy would hardly ask again (`SIGNAL_GONE`);
an exit, which lowers what is at risk and whose limit holds, only where its shares are gone or its
strategy wants the opposite. Past its time either is given up (`HELD_TOO_LONG`). What passes here is
requested anew and meets every check of an order on top.
"""

from dataclasses import dataclass
from typing import Final

from bot.domain.entry import Decision, Numbers, Verdict
from bot.domain.instrument import PHASE_WORDS
from bot.domain.order import Intent, SendState
from bot.engine.orders.orders import move_intent
from bot.engine.state import State
from bot.engine.tracked import Basis, TrackedIntent
from bot.engine.two_factor import is_exit

PRICE_MOVE_PPM_MAX: Final = 10_000
"""1 %: five ticks of a share at 25,000 VND. Further away the signal was about another price."""
HELD_TOO_LONG: Final = "HELD_TOO_LONG"
PRICE_MOVED: Final = "PRICE_MOVED"
PHASE_CHANGED: Final = "PHASE_CHANGED"
SIGNAL_GONE: Final = "SIGNAL_GONE"
GIVEN_UP: Final = (HELD_TOO_LONG, PRICE_MOVED, PHASE_CHANGED, SIGNAL_GONE)
"""The codes of held orders that were given up because of what changed meanwhile."""


@dataclass(frozen=True, slots=True)
class Change:
    """Why a held order is given up."""

    code: str
    reason: str
    numbers: Numbers


def basis_of(state: State, intent: Intent) -> Basis:
    """Remember how things are now."""
    quote = state.quotes.get(intent.symbol)
    return Basis(
        at=state.now,
        last=quote.quote.last if quote is not None else None,
        phase=state.phase_of(intent.exchange).phase,
        shares=_shares(state, intent),
    )


def change_since(state: State, tracked: TrackedIntent) -> Change | None:
    """Return what has changed too much since the order was held; None: it may be requested."""
    intent, basis = tracked.intent, tracked.basis
    if basis is None:
        return None
    if tracked.taken_back:
        return Change(SIGNAL_GONE, tracked.taken_back, {})
    before, shares = basis.shares, _shares(state, intent)
    if is_exit(intent):
        has_gone = before >= intent.quantity > shares
        return _other_position(before, shares) if has_gone else None
    if (change := _market_change(state, intent, basis)) is not None:
        return change
    return _other_position(before, shares) if shares != before else None


def _other_position(before: int, shares: int) -> Change:
    words = f"its strategy holds {shares:,} shares, {before:,} when it was held"
    return Change(SIGNAL_GONE, words, {"shares_before": before, "shares": shares})


def _market_change(state: State, intent: Intent, basis: Basis) -> Change | None:
    phase = state.phase_of(intent.exchange).phase
    boundary = state.rulebook.next_phase_change(intent.exchange, basis.at).at
    if phase is not basis.phase or boundary <= state.now:
        words = f"it was held in {PHASE_WORDS[basis.phase]}, now it is {PHASE_WORDS[phase]}"
        return Change(PHASE_CHANGED, words, {"phase_before": basis.phase, "phase": phase})
    quote = state.quotes.get(intent.symbol)
    last = quote.quote.last if quote is not None else None
    if not basis.last or not last:
        return None
    moved_ppm = abs(last - basis.last) * 1_000_000 // basis.last
    if moved_ppm <= PRICE_MOVE_PPM_MAX:
        return None
    moved, most = f"{moved_ppm / 10_000:.1f} %", f"{PRICE_MOVE_PPM_MAX / 10_000:g} %"
    return Change(
        PRICE_MOVED,
        f"the price moved from {basis.last:,} to {last:,} ({moved}, limit {most})",
        {"last_before": basis.last, "last": last, "moved_ppm": moved_ppm},
    )


def _shares(state: State, intent: Intent) -> int:
    strategy = state.strategies.get(intent.strategy)
    position = strategy.positions.get(intent.symbol) if strategy is not None else None
    return position.shares if position is not None else 0


# --------------------------------------------------------------------------------- what is given up


def give_up(state: State, tracked: TrackedIntent, change: Change) -> None:
    """Journal that a held order is not sent after all. Without a token it counts as missed."""
    move_intent(state, tracked, SendState.EXPIRED_LOCAL, change.reason)
    state.counts["expired"] += 1
    state.gate.missed += state.gate.lacks_token and change.code in GIVEN_UP
    numbers = {"reason": change.reason, **change.numbers}
    decide(state, tracked.intent, Verdict.EXPIRED, change.code, numbers)


def decide(state: State, intent: Intent, verdict: Verdict, code: str, numbers: Numbers) -> None:
    """Journal what became of an order that has no token."""
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
