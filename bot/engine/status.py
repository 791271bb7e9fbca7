"""The bot's status as one frozen value, for `bot status` and the pulse."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bot.domain.entry import OrderUpdated, RunState
from bot.domain.instrument import Exchange, Phase
from bot.domain.order import Intent, OrderState, SendState
from bot.engine import (
    belief,
    ex_dates,
    flatten,
    gate,
    health,
    hook_faults,
    market,
    wake,
)
from bot.engine.control_state import PRIORITY, Standing
from bot.engine.orders import (
    amends,
    answers,
    cancels,
    doubts,
    matching,
    reports,
    unattended,
    unknown,
    unseen,
)
from bot.engine.orders.order_words import why_still_open
from bot.engine.risk import breaks, gone_shares, lags, losses, unshown
from bot.engine.risk.accounts import day_result, unrealised
from bot.engine.seen import DepthSeen, QuoteSeen
from bot.engine.state import Position, State, StrategyState
from bot.engine.tracked import TrackedAmend


@dataclass(frozen=True, slots=True)
class PositionStatus:
    """A strategy's own shares of a symbol. `last` and `unrealised` are None without a quote."""

    strategy: str
    symbol: str
    shares: int
    cost: int
    last: int | None
    unrealised: int | None


@dataclass(frozen=True, slots=True)
class StrategyStatus:
    """One strategy. `state` is on, warming, paused or disabled; money is VND of today."""

    name: str
    state: str
    reason: str
    mode: str
    symbols: tuple[str, ...]
    orders_today: int
    realised_today: int
    fees_today: int
    day_result: int


@dataclass(frozen=True, slots=True)
class CauseStatus:
    """One of the causes that hold orders back; there may be several. REDUCING only holds back
    entries.
    """

    state: RunState
    reason: str
    by: str
    since: datetime | None


@dataclass(frozen=True, slots=True)
class HeldOrder:
    """An order blocked by a missing token, and until when it waits."""

    intent: Intent
    until: datetime
    code: str


@dataclass(frozen=True, slots=True)
class CancelStatus:
    """A cancel under way; `queued_until` is when its exchange accepts cancels again, `why` why the
    order is still open and when the next step is taken.
    """

    order_id: str
    reason: str
    tries: int
    queued_until: datetime | None
    why: str


@dataclass(frozen=True, slots=True)
class AmendStatus:
    """The last amendment of an order; `verdict` is empty while it is under way."""

    order_id: str
    asked_at: datetime
    field: str
    old: int
    new: int
    stage: str
    verdict: str
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class FaultStatus:
    """A fault of the engine since the last resume: when it was first, and how often."""

    at: datetime
    where: str
    error: str
    report: str
    count: int


@dataclass(frozen=True, slots=True)
class SymbolSeen:
    """What was last polled of a symbol, None if nothing was, and our open orders in it."""

    quote: QuoteSeen | None
    depth: DepthSeen | None
    open_orders: tuple[OrderUpdated, ...]


@dataclass(frozen=True, slots=True)
class BotStatus:
    """The whole status. `since` is None before the first event."""

    at: datetime
    state: RunState
    reason: str
    since: datetime | None
    causes: tuple[CauseStatus, ...]
    until_resume: tuple[str, ...]
    """What holds orders back until a person resumes."""
    blocked_by: tuple[str, ...]
    """Why no order leaves although the state may be RUNNING, until a person ends it."""
    token_until: datetime | None
    is_unproven: bool
    missed_signals: int
    strategies: tuple[StrategyStatus, ...]
    positions: tuple[PositionStatus, ...]
    unloaded: tuple[PositionStatus, ...]
    """Positions of strategies missing in this run: nobody sells them."""
    open_orders: tuple[OrderUpdated, ...]
    later_ids: Mapping[str, tuple[str, ...]]
    cancels: tuple[CancelStatus, ...]
    amends: tuple[AmendStatus, ...]
    held: tuple[HeldOrder, ...]
    sending: tuple[Intent, ...]
    """Orders that have no answer yet, and may be open at the broker any moment."""
    unknown: tuple[Intent, ...]
    faults: tuple[FaultStatus, ...]
    halted_symbols: Mapping[str, str]
    standing: tuple[Standing, ...]
    """What stays wrong, or waits for a person, for as long as it does."""
    phases: Mapping[Exchange, Phase]
    counts: Mapping[str, int]
    orders_today: Mapping[str, int]
    """What has become of the day's orders, including those of an earlier run."""
    day_result: int

    @property
    def alerts(self) -> tuple[str, ...]:
        """The standing alerts, one sentence each."""
        return tuple(each.text for each in self.standing)


STANDING: Final[tuple[Callable[[State], Iterable[Standing]], ...]] = (
    cancels.alerts,
    flatten.alerts,
    unknown.alerts,
    answers.alerts,
    gate.scope_alerts,
    health.trouble_alerts,
    health.offset_alerts,
    losses.alerts,
    health.read_alerts,
    breaks.alerts,
    lags.alerts,
    unshown.alerts,
    gone_shares.alerts,
    doubts.alerts,
    amends.alerts,
    matching.alerts,
    unseen.day_alerts,
    reports.alerts,
    unseen.row_alerts,
    belief.alerts,
    unattended.alerts,
    unattended.dropped,
    hook_faults.alerts,
    wake.alerts,
    health.step_alerts,
    health.disk_alerts,
    market.phase_alerts,
)
"""The sources of standing alerts, most urgent first."""

_ON_ITS_WAY: Final = frozenset({SendState.READY, SendState.SENDING})


def status_of(state: State) -> BotStatus:
    """Read the state; nothing changes."""
    now, reducing = state.gate, gate.reducing(state)
    is_reducing = reducing is not None and now.state is RunState.RUNNING
    strategies = [_strategy(state, strategy) for strategy in state.strategies.values()]
    pending = state.pending_intents()
    return BotStatus(
        at=state.now,
        state=RunState.REDUCING if is_reducing else now.state,
        reason=reducing[0] if reducing is not None and is_reducing else now.reason,
        since=now.since,
        causes=tuple(_causes(state, reducing)),
        until_resume=tuple(gate.until_resume(state)),
        blocked_by=tuple(gate.blocked_by(state)),
        token_until=now.token_until,
        is_unproven=now.is_unproven,
        missed_signals=now.missed,
        strategies=tuple(strategies),
        positions=tuple(
            _position(state, strategy.plan.name, symbol, position)
            for strategy in state.strategies.values()
            for symbol, position in sorted(strategy.positions.items())
            if position.shares
        ),
        unloaded=tuple(
            _position(state, name, symbol, position)
            for (name, symbol), position in sorted(state.unloaded.items())
            if position.shares
        ),
        open_orders=tuple(order.row for order in state.open_orders()),
        later_ids=state.chains.later_ids(),
        cancels=tuple(_cancels(state)),
        amends=tuple(_amend(each) for each in state.amends.values()),
        held=tuple(
            HeldOrder(each.intent, each.held_until, each.refusal_code)
            for each in state.index.held.of(True)
            if each.held_until is not None
        ),
        sending=tuple(each.intent for each in pending if each.state in _ON_ITS_WAY),
        unknown=tuple(
            each.intent
            for each in pending
            if each.is_unresolved and each.state is not SendState.SENDING
        ),
        faults=tuple(
            FaultStatus(each.at, each.where, each.fault.error, each.fault.report, each.count)
            for each in state.faults.values()
        ),
        halted_symbols=dict(state.halted_symbols),
        standing=tuple(each for find in STANDING for each in _standing(state, find)),
        phases={exchange: state.phase_of(exchange).phase for exchange in state.phases},
        counts=dict(state.counts),
        orders_today=_orders_today(state),
        day_result=sum(each.day_result for each in strategies),
    )


def _causes(state: State, reducing: tuple[str, str] | None) -> Iterator[CauseStatus]:
    """Strongest first."""
    for run_state in PRIORITY:
        if (cause := state.gate.causes.get(run_state)) is not None:
            yield CauseStatus(run_state, cause.reason, cause.by, cause.since)
    if reducing is not None:
        yield CauseStatus(RunState.REDUCING, *reducing, None)


def symbol_status_of(state: State, symbol: str) -> SymbolSeen:
    """Read what the state has of one symbol; nothing changes."""
    rows = tuple(order.row for order in state.index.open_in.of(symbol))
    return SymbolSeen(state.quotes.get(symbol), state.depths.get(symbol), rows)


def _strategy(state: State, strategy: StrategyState) -> StrategyStatus:
    """A strategy that is on but lacks history is warming, by the instance that needs most."""
    plan, now_is, reason = strategy.plan, strategy.state, strategy.state_reason
    instance = max(strategy.instances.values(), key=lambda each: each.bars_needed)
    if now_is == "on" and instance.bars_needed:
        now_is, reason = "warming", wake.words_of(state, strategy, instance)
    elif now_is == "on":
        doubts = (ex_dates.doubt_of(state, plan, symbol) for symbol in strategy.instances)
        if doubt := next(filter(None, doubts), ""):
            now_is, reason = "warming", doubt
    return StrategyStatus(
        name=plan.name,
        state=now_is,
        reason=reason,
        mode=plan.mode,
        symbols=plan.symbols,
        orders_today=strategy.orders_today,
        realised_today=strategy.realised_today,
        fees_today=strategy.fees_today,
        day_result=day_result(state, strategy),
    )


def _standing(state: State, find: Callable[[State], Iterable[Standing]]) -> list[Standing]:
    """Return the alerts of one source; a fault in it does not affect the others."""
    found: list[Standing] = []
    fault = state.guard(lambda: found.extend(find(state)))
    if fault is None:
        return found
    text = f"{fault.error}: a bug of ours, in this list. Report it; what else is wrong is below"
    return [*found, Standing("STATUS_FAULT", text, {"error": fault.error})]


def _cancels(state: State) -> Iterator[CancelStatus]:
    for each in state.cancels.values():
        why = why_still_open(state, each)
        yield CancelStatus(each.order_id, each.reason, each.tries, each.queued_until, why)


def _position(state: State, strategy: str, symbol: str, position: Position) -> PositionStatus:
    seen = state.quotes.get(symbol)
    return PositionStatus(
        strategy=strategy,
        symbol=symbol,
        shares=position.shares,
        cost=position.cost,
        last=seen.quote.last if seen else None,
        unrealised=unrealised(state, symbol, position) if seen else None,
    )


def _amend(tracked: TrackedAmend) -> AmendStatus:
    return AmendStatus(
        order_id=tracked.ask.order_id,
        asked_at=tracked.ask.at,
        field="price" if tracked.is_of_price else "quantity",
        old=tracked.old,
        new=tracked.new,
        stage=tracked.stage,
        verdict=tracked.verdict or "",
        code=tracked.code,
        text=tracked.text,
    )


_OUTCOMES: Final[Mapping[SendState, str]] = {
    SendState.DENIED: "blocked",
    SendState.READY: "open",
    SendState.EXPIRED_LOCAL: "expired",
    SendState.HELD: "held",
    SendState.SENDING: "open",
    SendState.ACKED: "open",
    SendState.REFUSED: "rejected",
    SendState.NOT_SENT: "expired",
    SendState.UNKNOWN: "unknown",
    SendState.FRESH: "unknown",
    SendState.NOT_PLACED: "never placed",
    SendState.REACHED: "unknown",
    SendState.MATCHED: "open",
    SendState.AMBIGUOUS: "unknown",
    SendState.EOD_ABSENT: "never placed",
}
"""The state of an intent that has no order row yet."""


def _orders_today(state: State) -> Mapping[str, int]:
    """Count by outcome; orders refused by a limit are stored as intents only from an earlier run.

    A partly filled order counts as such even if its rest was cancelled.
    """
    today = Counter(blocked=state.counts["denied"])
    for tracked in state.intents.values():
        if tracked.intent.trading_date != state.trading_date:
            continue
        order = state.orders.get(tracked.order_id or "")
        if order is None:
            was_held = tracked.state is SendState.REFUSED and tracked.held_until is not None
            outcome = "blocked" if was_held else _OUTCOMES[tracked.state]
        elif order.row.executed_quantity and order.row.state is not OrderState.FILLED:
            outcome = "partly filled"
        else:
            outcome = "open" if order.is_open else order.row.state.lower()
        today[outcome] += 1
    return +today
