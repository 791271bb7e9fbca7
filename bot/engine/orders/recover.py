"""Starting is recovering: the engine continues from the journal, and asks before it acts.

A place whose outcome was lost is fenced first; what was never sent, or was held for a token, is
given up: nothing is sent because of an earlier run. `engine/day.py` describes what follows, which
is the same after a start and after a night.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from bot.domain.entry import (
    KILLED_NOTE,
    OFF_NOTE,
    Fill,
    OrderUpdated,
    RunState,
)
from bot.domain.local_time import day_and_clock_of, local_of
from bot.domain.message import BurnNonce, ReadAccount, ReadTodaysOrders, Recovered
from bot.domain.order import (
    UNRESOLVED_SENDS,
    Intent,
    OrderState,
    RowFigures,
    SendState,
    Side,
)
from bot.domain.recovery import (
    RecoveredStrategy,
    Recovery,
    StoredChanges,
    StoredIntent,
    questions_in,
)
from bot.engine import flatten, gate
from bot.engine.account_state import DayTrade
from bot.engine.control_state import BY_ENGINE, LASTING, TrackedFault
from bot.engine.gate import guarded
from bot.engine.index import SeenIds
from bot.engine.limit_changes import note_limits
from bot.engine.orders import amends, answers, cancel_requests, held, sends, unattended
from bot.engine.orders.orders import move_intent, move_unplaced
from bot.engine.orders.unknown import ALERT_AFTER, NONCE_UNUSED
from bot.engine.risk import breaks, losses
from bot.engine.risk.accounts import flow_of, restore
from bot.engine.risk.breaks import DAMAGE
from bot.engine.risk.expected import expected_at
from bot.engine.risk.ledgers import note_agreed
from bot.engine.risk.shared_symbol import note_unsettled
from bot.engine.state import Position, State
from bot.engine.tracked import BackOff, TrackedIntent, TrackedOrder

_ORDER_STATES: Final[Mapping[SendState, OrderState]] = {
    SendState.READY: OrderState.INITIALIZED,
    SendState.SENDING: OrderState.SUBMITTED,
    SendState.UNKNOWN: OrderState.UNKNOWN,
    SendState.FRESH: OrderState.UNKNOWN,
    SendState.REACHED: OrderState.UNKNOWN,
    SendState.AMBIGUOUS: OrderState.UNKNOWN,
    SendState.HELD: OrderState.REJECTED,
}

CRASHES_MAX: Final = 3
"""This many runs in a row that were killed shortly before this one are no accident."""
_NEVER_LEFT: Final = frozenset({SendState.DENIED, SendState.EXPIRED_LOCAL, SendState.NOT_SENT})
"""Intents that were never sent do not count as orders of the day."""

_MAY_BE_ANOTHERS: Final = (" was taken for ", ": it is about ", ": it is a ", ": it is of another")
"""How the halt of a symbol goes on after an order's id if that order may be somebody else's: its
nonce was unused, or a row of it was another order's (`another_order`).
"""


def on_recovered(state: State, event: Recovered) -> None:
    """Take over what the journal knows."""
    recovery = event.recovery
    state.trading_date = recovery.trading_date
    state.next_intent_number = recovery.next_intent_number
    state.next_fill_number = recovery.next_fill_number
    state.halted_symbols.update(recovery.halted_symbols)
    state.halted_scopes.update(recovery.halted_scopes)
    if recovery.run_state in LASTING and recovery.run_state not in state.gate.causes:
        state.gate.kept = recovery.run_state
        by = recovery.run_state_by if recovery.run_state_by == BY_ENGINE else "journal"
        gate.close(state, recovery.run_state, recovery.run_state_reason, by)
    state.faults.update(
        (one.fault.kind, TrackedFault(one.at, one.where, one.fault, is_of_before=True))
        for one in recovery.faults
    )
    _tell_of_deaths(state, recovery)
    for name, known in recovery.strategies.items():
        _take_over_strategy(state, name, known)
    intents = {one.intent.intent_id: one.intent for one in recovery.intents}
    later_ids = {each for later in recovery.later_ids.values() for each in later}
    for row in recovery.orders:
        if row.order_id in later_ids:
            continue  # nobody owned it until a person said that it is one of ours
        intent = intents.get(row.intent_id or "")
        changes = recovery.changes.get(row.order_id, StoredChanges())
        where = f"{row.order_id} at the start"
        rows = recovery.rows.get(row.order_id, ())
        guarded(state, where, _restore_order, state, row, intent, changes, rows)
        if later := recovery.later_ids.get(row.order_id):
            state.chains.restore(row, later, changes, state.now)
    _restore_candidates(state, recovery)
    _take_over_usage(state, recovery)
    for one in recovery.intents:
        guarded(state, f"{one.intent.intent_id} at the start", _take_over, state, one)
    state.old_books.accepted_on = recovery.book_accepted_on
    answers.restore(state, recovery.places_seen)
    for amend in recovery.amends:
        guarded(state, f"the amendment of {amend.order_id}", amends.take_over, state, amend)
    guarded(state, "fills of earlier days", _restore_flows, state, recovery)
    for base in recovery.bases:
        guarded(state, f"the account {base.account[-5:]}", restore, state, base, recovery)
    guarded(state, "accounts before the start", _learn_of_reads, state, recovery)
    state.reconciling.known_at_start = frozenset(state.orders)
    state.reconciling.breaks = {each.break_id: each for each in recovery.breaks}
    state.reconciling.next_number = recovery.next_break_number
    if recovery.damage:
        breaks.begin_damage(state, recovery.damage)
    guarded(state, "halts of before the start", _tell_of_halts, state, recovery)
    guarded(state, "cancels at the start", cancel_requests.take_up, state, recovery)
    guarded(state, "a halt at the start", cancel_requests.request_if_halted, state)
    if recovery.flatten is not None and recovery.run_state is RunState.HALTED:
        guarded(state, "a flatten at the start", flatten.take_up, state, recovery.flatten)
    if recovery.started_by:
        note_limits(state, recovery.limits, recovery.started_by)
    guarded(state, "what strategies that do not run have left", _tell_of_gone, state, recovery)
    state.command(ReadTodaysOrders("start"))
    state.command(ReadAccount("start"))


def _learn_of_reads(state: State, recovery: Recovery) -> None:
    """Learn again what of its day's cash the broker holds back, or has delivered early: money that
    moves beside it is all that is unexplained.
    """
    for read in recovery.account_reads:
        if (ledger := state.ledgers.get(read.account)) is not None:
            then = replace(ledger, flows=[flow for flow in ledger.flows if flow.at <= read.at])
            note_agreed(then, expected_at(then, read.at), read)
            ledger.held_on, ledger.early_on = then.held_on, then.early_on


def _tell_of_halts(state: State, recovery: Recovery) -> None:
    """Say again what a person has yet to end: the state does not show it."""
    for told in gate.scope_alerts(state):
        state.alert(told.code, told.text, told.facts)
    for symbol, why in sorted(recovery.halted_symbols.items()):
        state.tell_of_halt(symbol, why)
    kept = [each for each in recovery.breaks if not (each.break_id == DAMAGE and recovery.damage)]
    if kept:
        # Not the alert of a break: from that the journal learns what it has corrected.
        told = breaks.start_held(kept)
        state.alert(told.code, told.text, told.facts)


def _tell_of_gone(state: State, recovery: Recovery) -> None:
    left_out = unattended.left_out(state, recovery.broken)
    for told in (*unattended.alerts(state), *unattended.dropped(state), *left_out):
        state.alert(told.code, told.text, told.facts)


def _tell_of_deaths(state: State, recovery: Recovery) -> None:
    """Say that the last run was killed. A bot that keeps dying may not trade after its next start;
    open orders stay.
    """
    if recovery.killed_since is not None:
        began = day_and_clock_of(recovery.killed_since)
        text = f"the last run, begun {began}, has no end in the journal: it was killed, or an error"
        state.note(KILLED_NOTE, f"{text} ended it (bot logs). What it left open is asked for now")
    crashes = recovery.crashes
    if crashes < CRASHES_MAX or RunState.HALTED in state.gate.causes:
        return
    text = (
        f"the last {crashes} runs were killed or died, all within 10 minutes: no new order is "
        "sent; open orders stay, reads and cancels go on. Find out why it dies (bugs/ in the state "
        "directory, the log of the service, memory), cancel what you do not want, then: bot resume "
        "--reason …"
    )
    state.alert("CRASH_LOOP", text, {"runs": crashes})
    gate.close(state, RunState.HALTED, f"crash loop: {crashes} runs without an end", BY_ENGINE)


def _take_over_strategy(state: State, name: str, stored: RecoveredStrategy) -> None:
    """Continue a strategy as it was: its positions, its used limits, whether it may order. For one
    that this run does not have only the positions, as its open orders may still fill.
    """
    positions, strategy = stored.positions.items(), state.strategies.get(name)
    if strategy is None:
        state.unloaded.update(((name, s), Position(*held)) for s, held in positions)
        return
    strategy.positions = {s: Position(*held) for s, held in positions}
    strategy.orders_today = stored.orders_today
    strategy.realised_today = stored.realised_today
    strategy.fees_today = stored.fees_today
    strategy.recent_buys.extend(stored.recent_buys)
    since = stored.state_since
    for at in (at for at in stored.refused if since is None or at > since):
        strategy.refused_of_late.add(at)
        strategy.refusals = min(strategy.refusals + 1, stored.refused_in_a_row)
    strategy.state = stored.state or gate.ON
    strategy.state_reason, strategy.state_by = stored.state_reason, stored.state_by
    is_of_before = since is not None and local_of(since).date() < state.trading_date
    if is_of_before and gate.only_sells(strategy):
        gate.switch(state, strategy, gate.ON, "a new day", gate.BY_LIMIT)
    if strategy.state != gate.ON:
        begun = f" since {day_and_clock_of(since)}" if since is not None else ""
        why = f": {strategy.state_reason}" if strategy.state_reason else ""
        end = f"To let it trade: bot strategy enable {name}"
        if gate.only_sells(strategy):
            end = "It trades again with the next day"
        state.note(OFF_NOTE, f"{name} is {strategy.state}{begun}{why}. {end}", {"strategy": name})


def _take_over_usage(state: State, recovery: Recovery) -> None:
    """Continue counting what the accounts have used of their limits today."""
    usage, exposure, today = state.usage, state.exposure, recovery.trading_date
    intents = {one.intent.intent_id: one.intent for one in recovery.intents}
    again = {one.follows for one in intents.values()}
    for one in recovery.intents:
        is_counted = one.state not in _NEVER_LEFT and one.intent.intent_id not in again
        if one.intent.trading_date == today and is_counted:
            usage.of(one.intent.account).orders_today += 1
    for account, at in recovery.recent_requests:
        usage.of(account).send(at)
    for account, at in recovery.recent_sales:
        usage.of(account).sell(at)
    for account, reason in recovery.reduced.items():
        if losses.is_limited(state):
            usage.of(account).reduced_by = reason
    todays = [fill for day, fill in recovery.recent_fills if day == today]
    _carry_shares(state, recovery, todays)
    for fill in todays:
        usage.of(fill.account).fill(fill.symbol, fill.side)
        exposure.trade(fill)
        owner = state.strategies.get(fill.strategy or "")
        stored = recovery.strategies.get(fill.strategy or "")
        since = stored.state_since if stored is not None else None
        if owner is not None:
            owner.days.setdefault(fill.symbol, DayTrade()).take(fill)
        is_repeat = losses.is_repeat(fill, intents.get(fill.intent_id or ""))
        if owner is not None and is_repeat and (since is None or fill.at > since):
            place = fill.symbol, fill.side
            owner.repeats[place] = owner.repeats.get(place, 0) + 1


def _carry_shares(state: State, recovery: Recovery, todays: Sequence[Fill]) -> None:
    """Set the shares with which strategies began the day: of one that this run does not have, those
    in which it has traded today or still may, as its sales would be of another one's.
    """
    begun = {
        (name, s): held[0]
        for name, one in recovery.strategies.items()
        for s, held in one.positions.items()
    }
    asked = [one.intent for one in recovery.intents if one.state not in _NEVER_LEFT]
    orders: tuple[Intent | OrderUpdated | Fill, ...] = (*asked, *recovery.orders, *todays)
    accounts = {(one.strategy or "", one.symbol): one.account for one in orders}
    for fill in todays:
        sold = fill.quantity if fill.side is Side.SELL else -fill.quantity
        key = fill.strategy or "", fill.symbol
        begun[key] = begun.get(key, 0) + sold
    for (name, symbol), shares in begun.items():
        owner = state.strategies.get(name)
        if owner is not None:
            owner.days[symbol] = DayTrade(begun=shares)
            state.exposure.carry(owner.plan.account, symbol, shares)
        elif (account := accounts.get((name, symbol))) is not None:
            state.exposure.carry(account, symbol, shares)


def _restore_order(
    state: State,
    row: OrderUpdated,
    intent: Intent | None,
    changes: StoredChanges,
    rows: Sequence[RowFigures],
) -> None:
    """An own open order is polled at once; its working time counts from its intent. Each of its
    journalled `rows` is old when it comes again.
    """
    order = TrackedOrder(row)
    for figures in rows:
        order.shown.remember(figures)
    order.shown.totals.update(changes.quantities)
    if intent is not None and row.price is not None:
        asked = {intent.limit_price or row.price, *changes.prices}
        # Of several, the one that it has was asked for last: rows of before an amendment are old.
        order.asked = (row.price,) if row.price in asked else tuple(sorted(asked))
    order.shown.lives = changes.had_ended and not order.is_open
    state.index.track_order(order)
    if order.is_own and order.is_open:
        order.poll = BackOff(state.now)
    if intent is not None and intent.expire_after is not None:
        order.expires_at = intent.created_at + intent.expire_after


def _restore_candidates(state: State, recovery: Recovery) -> None:
    """Until the order history is read, an ended order that may be a place that an earlier day has
    lost is known by its id, unless an order of today has that.
    """
    asked = {each.intent.intent_id for each in recovery.intents if each.state in UNRESOLVED_SENDS}
    for row in recovery.traded_elsewhere:
        if asked.intersection(questions_in(row.note)) and row.order_id not in state.orders:
            state.index.track_order(TrackedOrder(row))


def _take_over(state: State, stored: StoredIntent) -> None:
    """Take over a place according to its progress; a settled one is kept for comparison with new
    orders.
    """
    intent, attempt = stored.intent, stored.attempt
    tracked = TrackedIntent(
        intent=intent,
        state=stored.state,
        order_state=_ORDER_STATES.get(stored.state, OrderState.SUBMITTED),
        order_id=stored.order_id,
        sent_at=attempt.at if attempt else None,
        known_ids=SeenIds(attempt.known_ids if attempt else ()).until_now(),
        is_fenced=stored.state is SendState.FRESH or stored.proof.startswith(NONCE_UNUSED),
        rows_told=stored.day_ids,
    )
    signs = tuple(f"{stored.order_id}{each}" for each in _MAY_BE_ANOTHERS)
    found = state.orders.get(stored.order_id or "")
    is_doubted = state.halted_symbols.get(intent.symbol, "").startswith(signs)
    is_doubted |= found is not None and found.row.note.endswith(cancel_requests.MAY_BE_ANOTHERS)
    tracked.may_be_anothers = stored.state is SendState.MATCHED and is_doubted
    state.index.track_intent(tracked)
    match stored.state:
        case SendState.READY:
            reason = "not sent before the restart"
            move_intent(state, tracked, SendState.EXPIRED_LOCAL, reason)
            held.expire(state, intent, "NOT_SENT", {"reason": reason})
            move_unplaced(state, tracked, OrderState.EXPIRED, source="engine", note="restart")
        case SendState.HELD:
            reason = "no 2FA before the restart"
            move_intent(state, tracked, SendState.EXPIRED_LOCAL, reason)
            held.expire(state, intent, "TWO_FACTOR", {"reason": reason})
        case SendState.SENDING:  # signed and committed, no answer journalled: it may have arrived
            move_intent(state, tracked, SendState.UNKNOWN, "no answer before the restart")
            move_unplaced(state, tracked, OrderState.UNKNOWN, source="engine", note="restart")
            sends.ask_after(state, tracked, "the bot ended before an answer came")
        case SendState.UNKNOWN:
            sends.ask_after(state, tracked, "the bot was started again")
        case SendState.MATCHED if attempt is not None:  # by its looks: its nonce may say otherwise
            state.command(BurnNonce(intent.intent_id))
        case SendState.FRESH | SendState.REACHED:
            tracked.poll = BackOff(state.now)
            tracked.alert_due = state.now + ALERT_AFTER  # that run may not have told it
        case SendState.AMBIGUOUS:
            tracked.poll = BackOff(state.now)
            if attempt is not None:
                state.command(BurnNonce(intent.intent_id))


def _restore_flows(state: State, recovery: Recovery) -> None:
    for day, fill in recovery.recent_fills:
        flow = flow_of(state, fill, day)
        state.early_flows.append(flow)
        note_unsettled(state, fill.strategy, flow)
