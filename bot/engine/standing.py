"""How the bot is, as one frozen value: what `bot status` and the pulse show."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bot.domain.entry import OrderUpdated, RunState
from bot.domain.instrument import Exchange, Phase
from bot.domain.order import Intent, OrderState, SendState
from bot.engine.gate import PRIORITY
from bot.engine.orders import set_aside
from bot.engine.risk.profit import day_result, unrealised
from bot.engine.state import Book
from bot.engine.tracks import (
    AmendTrack,
    CancelTrack,
    DepthSeen,
    FaultTrack,
    IntentTrack,
    QuoteSeen,
    Runner,
)


@dataclass(frozen=True, slots=True)
class PositionStanding:
    """A strategy's own shares of a symbol. `last` and `unrealised` are None without a quote."""

    strategy: str
    symbol: str
    shares: int
    cost: int
    last: int | None
    unrealised: int | None


@dataclass(frozen=True, slots=True)
class StrategyStanding:
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
class CauseStanding:
    """One of the causes that keep the bot from sending orders; several may stand at once."""

    state: RunState
    reason: str
    by: str
    since: datetime | None


@dataclass(frozen=True, slots=True)
class HeldOrder:
    """An order that a missing token blocks, and until when it waits."""

    intent: Intent
    until: datetime
    code: str


@dataclass(frozen=True, slots=True)
class CancelStanding:
    """A cancel under way; `queued_until` is when its exchange takes cancels again."""

    order_id: str
    reason: str
    tries: int
    queued_until: datetime | None


@dataclass(frozen=True, slots=True)
class AmendStanding:
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
class FaultStanding:
    """A fault of the engine since the last resume: when it was first, and how often."""

    at: datetime
    where: str
    error: str
    report: str
    count: int


@dataclass(frozen=True, slots=True)
class SymbolStanding:
    """What was polled of a symbol last, None where nothing was, and our open orders in it."""

    quote: QuoteSeen | None
    depth: DepthSeen | None
    open_orders: tuple[OrderUpdated, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """Everything at a glance. `since` is None before the first event."""

    at: datetime
    state: RunState
    reason: str
    since: datetime | None
    causes: tuple[CauseStanding, ...]
    token_until: datetime | None
    is_unproven: bool
    missed_signals: int
    strategies: tuple[StrategyStanding, ...]
    positions: tuple[PositionStanding, ...]
    open_orders: tuple[OrderUpdated, ...]
    cancels: tuple[CancelStanding, ...]
    amends: tuple[AmendStanding, ...]
    held: tuple[HeldOrder, ...]
    unknown: tuple[Intent, ...]
    faults: tuple[FaultStanding, ...]
    halted_symbols: Mapping[str, str]
    unread_rows: tuple[str, ...]
    phases: Mapping[Exchange, Phase]
    counts: Mapping[str, int]
    orders_today: Mapping[str, int]
    """What has become of the orders of the day, also of those of an earlier run."""
    day_result: int


def standing_of(book: Book) -> Standing:
    """Read the book; nothing changes."""
    gate = book.gate
    runners = book.runners.values()
    return Standing(
        at=book.now,
        state=gate.state,
        reason=gate.reason,
        since=gate.since,
        causes=tuple(
            CauseStanding(state, cause.reason, cause.by, cause.since)
            for state in PRIORITY
            if (cause := gate.causes.get(state)) is not None
        ),
        token_until=gate.token_until,
        is_unproven=gate.is_unproven,
        missed_signals=gate.missed,
        strategies=tuple(_strategy(book, runner) for runner in runners),
        positions=tuple(one for runner in runners for one in _positions(book, runner)),
        open_orders=tuple(order.row for order in book.open_orders()),
        cancels=tuple(_cancel(each) for each in book.cancels.values()),
        amends=tuple(_amend(each) for each in book.amends.values()),
        held=_held(book),
        unknown=_unknown(book),
        faults=tuple(_fault(each) for each in book.faults.values()),
        halted_symbols=dict(book.halted_symbols),
        unread_rows=set_aside.told(book),
        phases={exchange: seen.phase for exchange, seen in book.phases.items()},
        counts=dict(book.counts),
        orders_today=_orders_today(book),
        day_result=sum(day_result(book, runner) for runner in runners),
    )


def symbol_standing_of(book: Book, symbol: str) -> SymbolStanding:
    """Read what the book has of one symbol; nothing changes."""
    rows = tuple(order.row for order in book.open_orders() if order.row.symbol == symbol)
    return SymbolStanding(book.quotes.get(symbol), book.depths.get(symbol), rows)


def _strategy(book: Book, runner: Runner) -> StrategyStanding:
    waits = _waits_for(book, runner) if runner.state == "on" else ""
    return StrategyStanding(
        name=runner.plan.name,
        state="warming" if waits else runner.state,
        reason=waits or runner.state_reason,
        mode=runner.plan.mode,
        symbols=runner.plan.symbols,
        orders_today=runner.orders_today,
        realised_today=runner.realised_today,
        fees_today=runner.fees_today,
        day_result=day_result(book, runner),
    )


def _waits_for(book: Book, runner: Runner) -> str:
    """`waiting for 20 bars (7 so far)`, by the instance that needs most; empty when none waits."""
    seat = max(runner.seats.values(), key=lambda each: each.bars_needed)
    if not seat.bars_needed:
        return ""
    width = runner.plan.wake.bar
    series = book.bars.find(seat.symbol, width) if width is not None else None
    return f"waiting for {seat.bars_needed} bars ({series.count if series else 0} so far)"


def _positions(book: Book, runner: Runner) -> list[PositionStanding]:
    found = []
    for symbol, position in sorted(runner.positions.items()):
        if position.shares:
            seen = book.quotes.get(symbol)
            found.append(
                PositionStanding(
                    strategy=runner.plan.name,
                    symbol=symbol,
                    shares=position.shares,
                    cost=position.cost,
                    last=seen.quote.last if seen else None,
                    unrealised=unrealised(book, symbol, position) if seen else None,
                )
            )
    return found


def _cancel(track: CancelTrack) -> CancelStanding:
    return CancelStanding(track.order_id, track.reason, track.tries, track.queued_until)


def _amend(track: AmendTrack) -> AmendStanding:
    return AmendStanding(
        order_id=track.ask.order_id,
        asked_at=track.ask.at,
        field="price" if track.is_of_price else "quantity",
        old=track.old,
        new=track.new,
        stage=track.stage,
        verdict=track.verdict or "",
        code=track.code,
        text=track.text,
    )


def _fault(track: FaultTrack) -> FaultStanding:
    fault = track.fault
    return FaultStanding(track.at, track.where, fault.error, fault.report, track.count)


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
"""What became of an intent that has no order row yet."""


def _orders_today(book: Book) -> Mapping[str, int]:
    """Count by outcome; of what a limit refused only an earlier run's is kept as an intent."""
    today = Counter(
        _outcome(book, track)
        for track in book.intents.values()
        if track.intent.trading_date == book.trading_date
    )
    return today + Counter(blocked=book.counts["denied"])


def _outcome(book: Book, track: IntentTrack) -> str:
    """One word for an order: a partly filled one is that also when its rest was cancelled."""
    order = book.orders.get(track.order_id or "")
    if order is None:
        was_held = track.state is SendState.REFUSED and track.held_until is not None
        return "blocked" if was_held else _OUTCOMES[track.state]
    row = order.row
    if row.executed_quantity and row.state is not OrderState.FILLED:
        return "partly filled"
    return "open" if order.is_open else row.state.lower()


def _held(book: Book) -> tuple[HeldOrder, ...]:
    return tuple(
        HeldOrder(track.intent, track.held_until, track.refusal_code)
        for track in book.intents.values()
        if track.state is SendState.HELD and track.held_until is not None
    )


def _unknown(book: Book) -> tuple[Intent, ...]:
    return tuple(
        track.intent
        for track in book.intents.values()
        if track.is_unresolved and track.state is not SendState.SENDING
    )
