"""The engine: an event goes in, commands come out. Pure, synchronous; events bring the time.

    bars that have ended close ─► hooks ─► the event's handler ─► hooks ─► deadlines ─► commands

Strategies' hooks are called when the state has settled: no request of a strategy interrupts a
handler, and no deadline wakes a strategy. All `Record` commands of an event come first; the shell
commits them before it does anything else.

What to read next. The engine's state: `state.py` and its parts. From quote to order: `market.py`,
`belief.py`, `wake.py`, `requests.py`, then `risk/`. What becomes of the order: `orders/`, starting
with `sends.py`. What holds orders back: `gate.py`, `health.py`, `two_factor.py`, and by an operator
`operator.py`, `flatten.py`. The beginning and end of a day: `day.py`. What is shown: `status.py`,
`account_status.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final, Never

from bot.domain import message, operations
from bot.domain.entry import CheckResult, RunState
from bot.domain.instrument import Instrument
from bot.domain.message import (
    AccountRead,
    Command,
    Event,
    FaultFound,
    PlaceAnswered,
    ReadTodaysOrders,
    Record,
    TimePassed,
)
from bot.domain.operations import AmendAsked, BreakAccepted, CancelAsked, VerdictAsked
from bot.domain.order import Intent
from bot.domain.quote import BarsRead, ClosesRead, LastClose
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
from bot.engine.risk import accounts, breaks
from bot.engine.settings import (
    EngineSettings,
    Guard,
    Invoke,
    LoadedStrategy,
    unguarded,
)
from bot.engine.state import MakeContext, State
from bot.engine.status import BotStatus, SymbolSeen, status_of, symbol_status_of
from bot.strategy import Context

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
"""When to look at time again although the deadlines are not known."""


class Engine:
    """The decision core. `invoke` calls a strategy's hook, `guard` runs one of the engine's own
    steps; the shell's versions catch exceptions. If `must_yield` is true between two hooks,
    `handle` returns with the others still due, so that an operator's event may come before `go_on`
    calls them. `context` creates an instance's context; `passing` is for shells that pass over
    bars.

    All methods except `handle` and `go_on` only read. Other tasks call them between events and get
    the state at that time, as the last check before a send needs; so a replay of the events does
    not reproduce them.
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
        """Process one event; return what is to be recorded and done, records first."""
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
        if isinstance(event, AccountRead | TimePassed):
            invariants.of_all(state, event)
        return self.go_on()

    @property
    def is_behind(self) -> bool:
        """Whether hooks of an earlier event are still due: call `go_on`."""
        return bool(self._state.due_hooks)

    def go_on(self) -> list[Command]:
        """Call the hooks that are due, and process deadlines; return what is to be done."""
        state = self._state
        if state.due_hooks:
            wake.call_hooks(state, self._must_yield)
        _take_steps(state)
        commands = invariants.of_decided(state, state.drain())
        if more := state.drain():  # the records of a halt
            commands = sorted([*more, *commands], key=lambda one: not isinstance(one, Record))
        return commands

    def next_due(self) -> datetime | None:
        """Return the earliest deadline still ahead: send `TimePassed` then."""
        state, ahead = self._state, list[datetime]()
        if guarded(state, "next deadline", _find_deadlines, state, ahead):
            return min(ahead, default=None)
        return state.now + AFTER_A_FAULT

    def objection(self, ask: AmendAsked | CancelAsked | VerdictAsked) -> CheckResult | None:
        """Return why a request would be refused now; None if it would be accepted.
        Nothing changes.
        """
        return asks.objection(self._state, ask)

    def objection_to_accept(self, ask: BreakAccepted) -> str:
        """Return why a break would not be accepted now; empty if it would. Nothing changes."""
        return breaks.objection(self._state, ask)

    def objection_to_resume(self, symbol: str) -> str:
        """Return why there is nothing to resume in a symbol; empty if there is. Nothing changes."""
        return operator.objection_to_resume(self._state, symbol)

    def halted_words(self) -> str:
        """Return what is halted and needs a reason to resume; empty if nothing is."""
        return operator.halted_words(self._state)

    def reconciliation(self) -> Reconciliation:
        """Return how journal, day order book and account compare now."""
        return account_status.reconciliation_of(self._state)

    def balances(self) -> tuple[Balance, ...]:
        """Return what each account is worth. Nothing changes."""
        return balances_of(self._state)

    def reason_not_to_send(self, intent: Intent) -> str | None:
        """Return why an approved order must not be sent after all. Nothing changes, except by a
        fault.
        """
        return self._last_look(partial(sends.reason_not_to_place, self._state, intent))

    def passes_halt(self, intent: Intent) -> bool:
        """Return whether an order is a sale that a person has requested with the halt itself."""
        return self._state.passes_halt(intent.intent_id)

    def reason_not_to_amend(self, intent_id: str) -> str | None:
        """Return why an amendment of that intent's order must not be sent after all."""
        return self._last_look(partial(amends.reason_not_to_send, self._state, intent_id))

    def _last_look(self, ask: Callable[[], str | None]) -> str | None:
        found: list[str | None] = []
        state = self._state
        if guarded(state, "last look before a send", lambda: found.append(ask())):
            return found[0]
        return ENGINE_FAULT

    @property
    def is_day_begun(self) -> bool:
        """Whether all that a day begins with has been read, today."""
        return self._state.is_reconciled

    @property
    def instruments(self) -> Mapping[str, Instrument]:
        """Where each symbol is listed, as far as known: at first by the table of symbols."""
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
        """Return whether the nonce result of a POST still matters. Nothing changes."""
        state = self._state
        return amends.is_asked_after(state, intent_id) and unknown.is_asked_after(state, intent_id)

    def noted_closes(self) -> tuple[LastClose, ...]:
        """Return the last close of each symbol that this run has journalled."""
        noted = (each.noted for _, each in sorted(self._state.beliefs.items()))
        return tuple(close for close in noted if close is not None)

    def dump(self) -> str:
        """Return the state for the report of a broken invariant."""
        return invariants.dump(self._state)

    def status(self) -> BotStatus:
        """Return the bot's status."""
        return status_of(self._state)

    def limits(self) -> tuple[LimitUse, ...]:
        """Return how much of every limit is used. Nothing changes."""
        return limits_used(self._state)

    def symbol_status(self, symbol: str) -> SymbolSeen:
        """Return what is known about a symbol's market, and our open orders in it."""
        return symbol_status_of(self._state, symbol)


def _take_in(state: State, event: Event) -> None:
    handler: Callable[..., None] = HANDLERS[type(event)]
    handler(state, event)


def _take_steps(state: State) -> None:
    """See to all that waits, one after the other: a step may give the next one something to do."""
    index, gate_now = state.index, state.gate
    waiting = index.held or index.pending or state.waiting_closes
    looks = (
        (state.reconciling.look_again_at, breaks.look_again),
        (state.reconciling.settled_at, accounts.look_at_settled),
        (health.reads_due(state), health.tell_reads),
        (state.now if state.checked.held_back else None, sends.end_held_back),
        (state.now if waiting else None, held.end_after_loss),
    )
    due_looks = [look for at, look in looks if at is not None and at <= state.now]
    if index.held or gate_now.question or gate_now.ending:
        guarded(state, "orders that wait", held.advance, state)
    if state.waiting_closes:
        guarded(state, "closes that wait", held.go_on_closing, state)
    if gate_now.flattening:
        guarded(state, "the flatten", flatten.advance, state)
    if index.expiries:
        guarded(state, "orders past their time", cancel_requests.request_expired, state)
    if state.cancels:
        guarded(state, "cancels", cancels.advance, state)
    if index.amending:
        guarded(state, "amendments", amends.advance, state)
    if index.order_polls or index.intent_polls:
        guarded(state, "polls", _poll, state)
    if state.machine.standstill:
        guarded(state, "the end of a standstill", health.ask_after_standstill, state)
    if index.pending:
        guarded(state, "open questions", unknown.advance, state)
    if index.looks:
        guarded(state, "second looks", doubts.look_again, state)
    for look in due_looks:
        guarded(state, "another look", look, state)
    if gate_now.causes and RunState.STOPPING in gate_now.causes:
        guarded(state, "the stop", operator.stop_if_settled, state)


def _poll(state: State) -> None:
    """Read the day order book once for everything due, unless an answer is still awaited.

    A read that got lost is requested again.
    """
    due = state.due_polls(state.now)
    for polled in due:
        state.advance_poll(polled)
    asked = state.day_order_book_asked_at
    if due and (asked is None or state.now - asked >= state.settings.read_patience):
        state.day_order_book_asked_at = state.now
        names = ", ".join([polled.name for polled in due])
        state.command(ReadTodaysOrders(f"poll {names}"))


def _find_deadlines(state: State, ahead: list[datetime]) -> None:
    """Find when something is next due: nothing has a timer of its own."""
    index, gate_now, now = state.index, state.gate, state.now
    found: list[datetime | None] = [state.reconciling.look_again_at, state.bars.next_end(now)]
    found += (state.reconciling.settled_at, health.reads_due(state))
    watched = (index.order_polls, index.intent_polls, index.expiries, index.looks)
    found += [deadlines.next_after(now) for deadlines in watched if deadlines]
    if index.held:
        found += held.deadlines(state)
    if index.amending:
        found += [amend.due for amend in index.amending.of(True)]
    if index.pending:
        for tracked in index.pending.of(True):
            found += (tracked.alert_due, tracked.burn_due)
    for waiting in (gate_now.question, gate_now.ending, state.machine.standstill):
        if waiting is not None:
            found.append(waiting.due)
    if state.waiting_closes:
        found += [each.due for each in state.waiting_closes.values()]
    if state.cancels:
        found += cancels.deadlines(state)
    if gate_now.flattening is not None:
        found += gate_now.flattening.due.values()
    if gate_now.causes and RunState.STOPPING in gate_now.causes:
        found.append(operator.stop_deadline(state))
    ahead += [at for at in found if at is not None and at > now]
