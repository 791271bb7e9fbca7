"""The engine: an event goes in, commands come out. Pure, synchronous; events bring the time.

    bars that have ended close ─► hooks ─► the event's handler ─► hooks ─► deadlines ─► commands

Hooks of strategies are called when the state has settled: no request of a strategy comes into the
middle of a handler, and no deadline wakes a strategy. All `Record` commands of an event come first;
the shell commits them before it does anything else.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final, Never

from bot.domain import message, operations
from bot.domain.entry import CheckResult, RunState
from bot.domain.instrument import Instrument
from bot.domain.message import Command, Event, FaultFound, PlaceAnswered, ReadTodaysOrders, Record
from bot.domain.operations import AmendAsked, BreakAccepted, CancelAsked, VerdictAsked
from bot.domain.order import Intent
from bot.domain.quote import BarsRead, ClosesRead
from bot.domain.rulebook import Rulebook
from bot.engine import (
    account_status,
    belief,
    day,
    flatten,
    gate,
    health,
    invariants,
    market,
    operator,
    requests,
    two_factor,
    wake,
)
from bot.engine.account_status import Balance, LimitUse, Reconciliation, balances_of, limits_used
from bot.engine.gate import ENGINE_FAULT, guarded
from bot.engine.market import Passing
from bot.engine.orders import (
    amends,
    asks,
    cancel_requests,
    cancels,
    doubts,
    held,
    recover,
    reports,
    sends,
    unknown,
)
from bot.engine.risk import breaks
from bot.engine.settings import (
    EngineSettings,
    Guard,
    Invoke,
    LoadedStrategy,
    StrategyFault,
    UnknownPolicy,
    invoke_plainly,
    unguarded,
)
from bot.engine.state import MakeContext, State
from bot.engine.status import BotStatus, SymbolSeen, status_of, symbol_status_of
from bot.strategy import Context

__all__ = [
    "BotStatus",
    "Engine",
    "EngineSettings",
    "Guard",
    "Invoke",
    "LoadedStrategy",
    "StrategyFault",
    "UnknownPolicy",
    "invoke_plainly",
    "unguarded",
]

HANDLERS: Final[Mapping[type[Event], Callable[[State, Never], None]]] = {
    message.Recovered: recover.on_recovered,
    message.InstrumentsRead: market.on_instruments,
    operations.EarlierOrdersRead: day.on_earlier_orders,
    message.Reconciled: day.on_reconciled,
    message.QuoteReceived: market.on_quote,
    message.DepthReceived: market.on_depth,
    ClosesRead: belief.on_closes,
    message.BarClosed: market.on_bar,
    BarsRead: wake.on_bars_read,
    message.PhaseChanged: market.on_phase,
    message.TimerFired: market.on_timer,
    message.TimePassed: market.on_time,
    message.TradingDayStarted: day.on_trading_day,
    operations.TradingDayEnded: day.on_trading_day_ended,
    message.AccountRead: day.on_account,
    message.TodaysOrdersRead: reports.on_todays_orders,
    message.OrderRead: reports.on_order,
    message.SendStarted: sends.on_send_started,
    message.PlaceAnswered: sends.on_place_answered,
    message.CancelAnswered: cancels.on_cancel_answered,
    message.AmendAnswered: amends.on_amend_answered,
    message.NonceBurnt: amends.on_nonce_burnt,
    message.TwoFactorReady: held.on_two_factor_ready,
    message.TwoFactorMissing: two_factor.on_two_factor_missing,
    operations.CodesCounted: two_factor.on_codes_counted,
    message.BrokerHealthChanged: health.on_broker_health,
    message.JournalHealthChanged: health.on_journal_health,
    message.ReadHealthChanged: health.on_read_health,
    message.ClockOffsetChanged: health.on_clock_offset,
    operations.ClockStepped: health.on_clock_stepped,
    operations.StoodStill: health.on_stood_still,
    operations.DiskSeen: health.on_disk_seen,
    operations.OperatorActed: operator.on_operator,
    operations.AmendAsked: amends.on_amend_asked,
    operations.CancelAsked: asks.on_cancel_asked,
    operations.VerdictAsked: asks.on_verdict_asked,
    operations.BreakAccepted: day.on_break_accepted,
    operations.ReconcileAsked: day.on_reconcile_asked,
    FaultFound: gate.on_fault_found,
    message.Noted: market.on_noted,
}


AFTER_A_FAULT: Final = timedelta(seconds=1)
"""When time is looked at again although the deadlines are not known."""


class Engine:
    """Decides. `invoke` calls a strategy's hook, `guard` makes a step of the engine's own; the
    shell's versions catch what is raised. Where `must_yield` says so between two hooks, `handle`
    returns with the others still due: an operator's event may come before `go_on` calls them.
    `context` makes what an instance is shown; `passing` is for who passes over bars.

    All but `handle` only look. Other tasks ask them between events and get what is true then, which
    is what the last look before a send needs; so a replay of the events does not reproduce them.
    """

    def __init__(
        self,
        *,
        rulebook: Rulebook,
        strategies: Sequence[LoadedStrategy],
        settings: EngineSettings,
        invoke: Invoke,
        guard: Guard = unguarded,
        must_yield: wake.MustYield = wake.never,
        context: MakeContext = Context,
    ) -> None:
        self._must_yield = must_yield
        self._state = State(
            rulebook=rulebook,
            strategies=strategies,
            settings=settings,
            invoke=invoke,
            guard=guard,
            context=context,
        )
        self.passing = Passing(self._state)

    def handle(self, event: Event) -> list[Command]:
        """Take one event in; return what is to be recorded and done, records first."""
        state = self._state
        state.now = max(state.now, event.at)
        is_behind = bool(state.due_hooks)
        if state.bars.first_end <= state.now:
            guarded(state, "the end of bars", market.close_bars, state)
        if state.due_hooks and not is_behind:
            wake.call_hooks(state, self._must_yield)
        event = state.chains.received(event)
        is_done = guarded(state, type(event).__name__, _take_in, state, event)
        if not is_done and isinstance(event, PlaceAnswered):
            guarded(state, "a lost answer", sends.doubt, state, event)
        if state.machine.standstill is not None:
            guarded(state, "what was read since a standstill", health.note_read, state, event)
        invariants.of_all(state, event)
        return self.go_on()

    @property
    def is_behind(self) -> bool:
        """Whether hooks of an event before are still due: `go_on` is."""
        return bool(self._state.due_hooks)

    def go_on(self) -> list[Command]:
        """Call the hooks that are due, see to the deadlines; return what is to be done."""
        state, index = self._state, self._state.index
        if state.due_hooks:
            wake.call_hooks(state, self._must_yield)
        is_waiting = state.waiting_closes or state.gate.flattening is not None
        is_asked = state.gate.question is not None or state.gate.ending is not None
        if index.held or is_asked or is_waiting:
            guarded(state, "orders that wait", _look_at_waiting, state)
        if index.expiries:
            guarded(state, "orders past their time", cancel_requests.request_expired, state)
        if state.cancels:
            guarded(state, "cancels", cancels.advance, state)
        if index.amending:
            guarded(state, "amendments", amends.advance, state)
        if index.order_polls or index.intent_polls:
            guarded(state, "polls", _poll, state)
        if state.machine.standstill is not None:
            guarded(state, "the end of a standstill", health.ask_after_standstill, state)
        if index.pending:
            guarded(state, "open questions", unknown.advance, state)
        if index.looks:
            guarded(state, "second looks", doubts.look_again, state)
        if (
            state.reconciling.look_again_at is not None
            and state.reconciling.look_again_at <= state.now
        ):
            guarded(state, "another look", breaks.look_again, state)
        if RunState.STOPPING in state.gate.causes:
            guarded(state, "the stop", operator.stop_if_settled, state)
        commands = invariants.of_decided(state, state.drain())
        if more := state.drain():  # the records of a halt
            commands = sorted([*more, *commands], key=lambda one: not isinstance(one, Record))
        return commands

    def next_due(self) -> datetime | None:
        """Return the earliest deadline still ahead: send `TimePassed` then."""
        state, found = self._state, list[datetime]()
        ahead = (at for at in _deadlines(state) if at is not None and at > state.now)
        if guarded(state, "next deadline", found.extend, ahead):
            return min(found, default=None)
        return state.now + AFTER_A_FAULT

    def objection(self, ask: AmendAsked | CancelAsked | VerdictAsked) -> CheckResult | None:
        """Return why an ask would be refused now; None when it would be taken. Nothing changes."""
        return asks.objection(self._state, ask)

    def objection_to_accept(self, ask: BreakAccepted) -> str:
        """Return why a break would not be accepted now; empty: it would. Nothing changes."""
        return breaks.objection(self._state, ask)

    def objection_to_resume(self, symbol: str) -> str:
        """Return why there is nothing to resume in a symbol; empty: there is. Nothing changes."""
        return operator.objection_to_resume(self._state, symbol)

    def reconciliation(self) -> Reconciliation:
        """Return how journal, day order book and account compare now."""
        return account_status.reconciliation_of(self._state)

    def balances(self) -> tuple[Balance, ...]:
        """Return what each account is worth. Nothing changes."""
        return balances_of(self._state)

    def reason_not_to_send(self, intent: Intent) -> str | None:
        """Return why an approved order must not leave after all. Nothing changes but by a fault."""
        return self._last_look(partial(sends.reason_not_to_send, self._state, intent))

    def passes_halt(self, intent: Intent) -> bool:
        """Whether an order is a sale that a person has asked for with the halt itself."""
        return self._state.passes_halt(intent.intent_id)

    def reason_not_to_amend(self, intent_id: str) -> str | None:
        """Return why an amendment of that intent's order must not leave after all."""
        return self._last_look(partial(amends.reason_not_to_send, self._state, intent_id))

    def _last_look(self, ask: Callable[[], str | None]) -> str | None:
        found: list[str | None] = []
        state = self._state
        if guarded(state, "last look before a send", lambda: found.append(ask())):
            return found[0]
        return ENGINE_FAULT

    @property
    def instruments(self) -> Mapping[str, Instrument]:
        """Where each symbol trades, as far as is known: at first by the table of symbols."""
        return self._state.instruments

    def bars_wanted(self) -> Mapping[tuple[str, timedelta], int]:
        """Return the series that strategies want, and how many bars they declare to need."""
        wanted: dict[tuple[str, timedelta], int] = {}
        for strategy in self._state.strategies.values():
            width = strategy.plan.wake.bar
            if width is None:
                continue
            for symbol, instance in strategy.instances.items():
                key, needed = (symbol, width), type(instance.strategy).warm_up
                wanted[key] = max(needed, wanted.get(key, 0))
        return wanted

    def is_asked_after(self, intent_id: str) -> bool:
        """Return whether it matters what the nonce of a POST shows. Nothing changes."""
        state = self._state
        return amends.is_asked_after(state, intent_id) and unknown.is_asked_after(state, intent_id)

    def status(self) -> BotStatus:
        """Return how the bot is."""
        return status_of(self._state)

    def limits(self) -> tuple[LimitUse, ...]:
        """Return what is used of every limit. Nothing changes."""
        return limits_used(self._state)

    def symbol_status(self, symbol: str) -> SymbolSeen:
        """Return what is known of a symbol's market, and our open orders in it."""
        return symbol_status_of(self._state, symbol)


def _take_in(state: State, event: Event) -> None:
    handler: Callable[..., None] = HANDLERS[type(event)]
    handler(state, event)


def _look_at_waiting(state: State) -> None:
    held.advance(state)
    requests.go_on_closing(state)
    flatten.advance(state)


def _poll(state: State) -> None:
    """Read the day order book once for all that is due, unless an answer is still awaited.

    A read that got lost is asked for again.
    """
    due = state.due_polls(state.now)
    for polled in due:
        state.advance_poll(polled)
    asked = state.day_order_book_asked_at
    if due and (asked is None or state.now - asked >= state.settings.read_patience):
        state.day_order_book_asked_at = state.now
        names = ", ".join([polled.name for polled in due])
        state.command(ReadTodaysOrders(f"poll {names}"))


def _deadlines(state: State) -> Iterator[datetime | None]:
    """Yield when something is due by the clock, past or ahead: nothing has a timer of its own."""
    index = state.index
    for deadlines in (index.order_polls, index.intent_polls, index.expiries, index.looks):
        if deadlines:
            yield deadlines.next_after(state.now)
    for tracked in index.held.of(True):
        yield tracked.held_until
    for amend in index.amending.of(True):
        yield amend.due
    for close in state.waiting_closes.values():
        yield close.due
    for tracked in state.pending_intents() if index.pending else ():
        yield tracked.alert_due
        yield tracked.burn_due
    yield from cancels.deadlines(state)
    yield flatten.next_due(state)
    if state.gate.question is not None:
        yield state.gate.question.due
    if state.gate.ending is not None:
        yield state.gate.ending.due
    yield operator.stop_deadline(state)
    if state.machine.standstill is not None:
        yield state.machine.standstill.due
    yield state.reconciling.look_again_at
    yield state.bars.next_end(state.now)
