"""How a day begins and ends: in the same way after a start and in a bot that ran overnight.

    Recovered, TradingDayStarted ─► gate STARTING ─► EarlierOrdersRead ─► day order book, account
                                                                          └─► Reconciled: gate opens

Today's day order book does not list the orders of an earlier day; the order history does. So orders
open at a close that nobody saw are merged before their day is closed, and one missing in the
history halts its symbol. A place whose outcome was lost is looked for there, too. The gate opens
when journal and broker agree to the share and the VND, or a person has accepted the differences.
Strategies come last: no hook is called before `on_start`.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date

from bot.domain.entry import (
    DAY_NOTE,
    LAST_PRICE,
    RECONCILE_NOTE,
    Number,
    Numbers,
    OrderUpdated,
    RunState,
)
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.local_time import local_date
from bot.domain.message import (
    AccountRead,
    ReadAccount,
    ReadTodaysOrders,
    Reconciled,
    TradingDayStarted,
)
from bot.domain.operations import BreakAccepted, EarlierOrdersRead, ReconcileAsked, TradingDayEnded
from bot.domain.order import OrderReport, OrderState
from bot.engine import belief, gate, wake
from bot.engine.account_status import balances_of
from bot.engine.control_state import BY_CLOCK
from bot.engine.gate import guarded
from bot.engine.health import DISK
from bot.engine.index import SeenIds
from bot.engine.orders import (
    answers,
    cancel_requests,
    closing_rows,
    earlier_places,
    held,
    orders,
    unattended,
)
from bot.engine.risk import accounts, breaks, gone_shares, ledgers, losses
from bot.engine.state import State
from bot.engine.status import BotStatus, status_of
from bot.engine.tracked import TrackedOrder


def on_trading_day(state: State, event: TradingDayStarted) -> None:
    """Reset the counters; nothing is sent until the new day is reconciled."""
    if event.trading_date == state.trading_date:
        return
    held.expire_held(state, at_once="the day ended")
    if state.reconciling.closing_since is not None:
        state.reconciling.closing_since = None
        still_open = "; ".join((*breaks.doubts(state), *closing_rows.in_doubt(state)))
        _tell_not_compared(state, state.trading_date, still_open)
        note_summary(state)
    state.reconciling.rows = {}
    belief.begin_day(state, ended=state.trading_date)
    state.trading_date = event.trading_date
    state.is_reconciled = False
    day = event.trading_date.isoformat()
    text = f"{day} begins: reading the order history, the day order book and the account"
    gate.close(state, RunState.STARTING, text, "bot")
    state.alerted.clear()
    state.counts.clear()
    answers.begin_day(state)
    losses.begin_day(state)
    for strategy in state.strategies.values():
        strategy.orders_today = strategy.realised_today = strategy.fees_today = 0
        strategy.repeats.clear()
        strategy.refused_rows.clear()
        if gate.only_sells(strategy):
            gate.switch(state, strategy, gate.ON, "a new day", gate.BY_LIMIT)


def left_open(state: State) -> tuple[TrackedOrder, ...]:
    """Return our own orders that an earlier day has left open."""
    return tuple(
        order
        for order in state.open_orders()
        if order.is_own and order.row.trading_date < state.trading_date
    )


def on_earlier_orders(state: State, event: EarlierOrdersRead) -> None:
    """Close the days before today's with what the order history says about their orders."""
    _end_earlier_days(state, event.reports, is_unread=event.is_unread)


def _end_earlier_days(
    state: State, reports: tuple[OrderReport, ...], *, is_unread: bool = False
) -> None:
    """No order of an earlier day is open here, and no id of one is ever written to again. If the
    history does not show how one ended, its symbol is halted. Those of other accounts are left.
    """
    today = state.earlier_ended_at = state.trading_date
    by_id = {report.order_id: report for report in reports}
    unattended.leave_elsewhere(state)
    earlier_places.match(state, reports)
    for order in left_open(state):
        row = order.row
        where = f"{row.order_id} of an earlier day"
        order.change = None  # its history is all that can show of it, also of another id
        report = state.chains.ended(row.order_id, by_id, state.now)
        is_taken = report is not None and guarded(
            state, where, orders.apply, state, order, report, "detail"
        )
        if not is_taken or order.is_open:  # a row that is not its own is not taken
            text = f"{row.order_id} was open when {row.trading_date} was last looked at"
            if order.shown.is_missing:
                text = f"{row.order_id} of {row.trading_date} was accepted and never listed"
            _halt_for_order(state, row.symbol, f"{text}: compare the holding")
        elif _may_live_on(state, row, order):
            why = f"{row.order_id} was cancelled while it was being changed, on {row.trading_date}"
            then = "it may have gone on under another id: compare the holding"
            _halt_for_order(state, row.symbol, f"{why}: {then}")
    earlier_places.end(state, is_unread=is_unread)
    todays = [key for key, order in state.orders.items() if order.row.trading_date == today]
    state.chains.forget_all_but(todays)
    state.amends = {key: amend for key, amend in state.amends.items() if key in todays}
    for order in state.open_orders():
        if order.row.trading_date < state.trading_date:
            _lapse(state, order)
    # Keep only what may still matter: the broker may give out the ids of earlier days again.
    state.index.forget_ended(before=today)
    # A row of today that could not be read is in no order: it, too, was there before what is sent.
    reads = [read for read in state.set_aside.values() if local_date(read.requested_at) >= today]
    unread = [row.order_id for read in reads for row in read.set_aside if row.order_id]
    state.seen_ids = SeenIds([*state.orders, *unread])


def _halt_for_order(state: State, symbol: str, why: str) -> None:
    """Halt a symbol, or say of a halted one that this order is a reason too: nothing else does."""
    if symbol in state.halted_symbols:
        state.tell_of_halt(symbol, why)
    state.halt_symbol(symbol, why)


def _may_live_on(state: State, before: OrderUpdated, order: TrackedOrder) -> bool:
    """Return whether a change of an order, of which no row showed the result, may have given it
    another id: its only known one has ended as cancelled.
    """
    is_cancelled = order.row.state is OrderState.CANCELLED
    is_changing = before.state is OrderState.PENDING_REPLACE
    return is_changing and is_cancelled and len(state.chains.ids(before.order_id)) == 1


def _lapse(state: State, order: TrackedOrder) -> None:
    """All orders are day orders: the unfilled part lapses at the close (exchange rules)."""
    before, note = order.row, "lapsed at the close"
    row = replace(before, at=state.now, state=OrderState.EXPIRED, note=note)
    orders.record_row(state, row, before.state, "engine")
    order.row, order.poll = row, None
    state.cancels.pop(row.order_id, None)


def on_reconciled(state: State, _event: Reconciled) -> None:
    """Order history, day order book and account are merged: the day may begin, if they agree.

    A strategy is told what became of its orders meanwhile after its `on_start`.
    """
    if state.earlier_ended_at != state.trading_date:  # nothing of an earlier day remains open
        _end_earlier_days(state, ())
    state.is_reconciled = True
    guarded(state, "orders that the journal has never seen", unattended.tell_of_unseen, state)
    _open_or_hold(state)
    for strategy in state.strategies.values():
        for instance in strategy.instances.values():
            if not instance.has_started:
                wake.wake(state, strategy, instance, "on_start", None)
    state.due_hooks.extend(state.early_news)
    state.early_news.clear()


def _open_or_hold(state: State) -> None:
    """Open the gate if journal and broker agree, or a person has accepted the differences."""
    if not state.is_reconciled or RunState.STARTING not in state.gate.causes:
        return
    if names := ", ".join(state.reconciling.breaks):
        text = (
            f"journal and broker do not agree: {names}. Compare them, then: bot reconcile "
            '--accept ID --reason "…"'
        )
        is_news = state.gate.causes[RunState.STARTING].reason != text
        gate.close(state, RunState.STARTING, text, "reconcile")
        if is_news and RunState.HALTED in state.gate.causes:  # nothing else is shown
            state.note(RECONCILE_NOTE, f"the start is held, too: {text}", {"breaks": names})
    elif open_doubts := "; ".join(breaks.doubts(state)):
        text = f"the account is not as expected, it is read again: {open_doubts}"
        gate.close(state, RunState.STARTING, text, "reconcile")
    else:
        gate.lift(state, RunState.STARTING, "reconciled with the broker", "bot")


def on_account(state: State, event: AccountRead) -> None:
    """Compare the account; a day that waits for this may begin now, or end."""
    accounts.on_account(state, event)
    gone_shares.judge(state, event.snapshot.account)
    cancel_requests.stop_after_loss(state, event.snapshot.account)
    _open_or_hold(state)
    _close_day(state, event)


def on_break_accepted(state: State, event: BreakAccepted) -> None:
    """A person accepts a difference; the day begins with the last one."""
    breaks.on_accepted(state, event)
    _open_or_hold(state)


def on_reconcile_asked(state: State, event: ReconcileAsked) -> None:
    """A person wants to see it now: reads are merged and compared as always."""
    state.command(ReadTodaysOrders(f"asked by {event.by}"))
    state.command(ReadAccount(f"asked by {event.by}"))


# ---------------------------------------------------------------------------------------- its end


def on_trading_day_ended(state: State, event: TradingDayEnded) -> None:
    """Nothing trades any more: read orders and account, and compare them one last time.

    The broker does not show an earlier day's orders any more.
    """
    if not state.rulebook.calendar.is_trading_day(event.trading_date):
        return
    if event.trading_date < state.trading_date:
        _tell_not_compared(state, event.trading_date, "")
        return
    state.reconciling.closing_since = state.now
    state.reconciling.look_again_at = None
    state.command(ReadTodaysOrders("the day's end"))
    state.command(ReadAccount("the day's end"))


def _tell_not_compared(state: State, day: date, still_open: str) -> None:
    text = (
        f"{day} was not compared with the broker after its close: no good answer came while the "
        "bot ran. It is compared now, before the new day begins. Nothing to do"
    )
    if still_open:
        text = (
            f"{day} was not compared to the end with the broker after its close: each read showed "
            f"something else ({still_open}). It is compared again now, before the new day begins. "
            "Look at: bot reconcile"
        )
    facts: Numbers = {"day": day.isoformat(), "open": still_open, "did_differ": bool(still_open)}
    state.alert("DAY_NOT_COMPARED", text, facts)


def _close_day(state: State, event: AccountRead) -> None:
    """End the day once both reads have come since the close and leave no doubt."""
    account = event.snapshot.account
    if not ledgers.is_closed(state, account, event.snapshot.at):
        return
    book, ledger = state.set_aside[account], state.ledgers.get(account)
    if book.set_aside:
        return
    differing = closing_rows.differences(state, book)
    if differing is None or (ledger is not None and ledger.doubts):
        return
    state.reconciling.closing_since = state.reconciling.look_again_at = None
    own = [o for o in state.orders.values() if o.is_own]
    today = [o for o in own if o.row.trading_date == state.trading_date]
    for each in differing:
        if each.is_certain:
            breaks.begin(state, each.text, each.order.row.symbol, ours=None, theirs=None)
            del state.reconciling.rows[each.order.row.order_id]
    left = [f"{one.intent.intent_id} is {one.state}" for one in state.pending_intents()]
    left += [f"{o.row.order_id} is shown as {o.row.broker_status}" for o in today if o.is_open]
    left += [each.text for each in differing if not each.is_certain]
    gone = [
        gone_shares.words_of(symbol, shares)
        for each in state.ledgers.values()
        for symbol, shares in each.gone.items()
    ]
    numbers: dict[str, Number] = {
        "orders": len(today),
        "breaks": ", ".join(state.reconciling.breaks),
        "left": ", ".join(left + gone),
        "cash": event.snapshot.cash,
    }
    if state.reconciling.breaks or left or gone:
        held = [f"{name} is not accepted" for name in state.reconciling.breaks]
        text = f"{state.trading_date} ends with open questions: {'; '.join(held + left + gone)}"
        next_day, then = "BROKER", "The next day begins with what the broker says about them"
        if held:
            next_day, then = "HELD", "The bot trades again only when each break is accepted"
        elif not left:
            next_day = "MISSING"
            then = "The next day begins with them still missing (bot status)"
        numbers["next_day"] = next_day
        state.alert("DAY_UNSETTLED", f"{text}. {then}. Look at: bot reconcile", numbers)
    else:
        text = f"{state.trading_date}: journal, day order book, shares and cash agree"
        state.note(RECONCILE_NOTE, text, numbers)
    note_summary(state)


# -------------------------------------------------------------------------------------- its summary


def note_summary(state: State) -> None:
    """Note the result of the day's orders and money, and what is left for tomorrow."""
    if not state.settings.sums_up_days:
        return
    status, balances = status_of(state), balances_of(state)
    orders = dict(status.orders_today)
    listed = ", ".join(f"{count:,} {name}" for name, count in orders.items())
    realised, costs = state.exposure.realised_today()
    unrealised = sum(each.unrealised or 0 for each in status.positions)
    cash = sum(each.cash for each in balances)
    due = [one for each in balances for one in each.due if one.cash]
    held = [f"{each.symbol} {each.shares:,}" for each in status.positions]
    wanted = list(needs_a_person(state, status))
    count = sum(orders.values())
    parts = [
        f"{count:,} order{'s' * (count != 1)}{f': {listed}' if listed else ''}",
        f"realised {realised - costs:+,} VND after fees and tax {costs:,}",
        f"still open {', '.join(held)}, unrealised {unrealised:+,}" if held else "nothing open",
        f"cash {cash:,}",
        *(f"due {one.cash:,} on {one.at.astimezone(EXCHANGE_TZ):%m-%d %H:%M}" for one in due),
        f"needs you: {'; '.join(wanted)}" if wanted else "nothing waits for you",
    ]
    values = [each.shares * each.last for each in status.positions if each.last is not None]
    numbers: dict[str, Number] = {
        "day": state.trading_date.isoformat(),
        **{f"orders {name}": number for name, number in orders.items()},
        "realised": realised,
        "fees_and_tax": costs,
        "net": realised - costs,
        "unrealised": unrealised,
        "open_positions": len(held),
        "open_value": sum(values),
        "cash": cash,
        "due": sum(one.cash for one in due),
        "needs": "; ".join(wanted),
        **{f"{LAST_PRICE}{one.symbol}": one.last for one in status.positions if one.last},
    }
    state.note(DAY_NOTE, " · ".join(parts), numbers)


def needs_a_person(state: State, status: BotStatus) -> Iterator[str]:
    """Yield what does not resolve itself until tomorrow, each with what to do."""
    for words in gate.until_resume(state):
        yield f"{words} (bot resume --reason …)"
    troubles = state.gate.troubles
    yield from (
        f"no order leaves, as {troubles[by]} (bot status)"
        for by in (BY_CLOCK, DISK)
        if by in troubles
    )
    for name in state.reconciling.breaks:
        yield f"{name} is not accepted (bot reconcile)"
    for tracked in state.pending_intents():
        name = tracked.intent.intent_id
        yield f"{name} is {tracked.state} (bot order {name})"
    for order in state.open_orders():
        if order.is_own:
            yield f"{order.row.order_id} is shown as open (bot order {order.row.order_id})"
    for name, words in zip(state.reconciling.rows, closing_rows.in_doubt(state), strict=True):
        yield f"{words} (bot order {name})"
    for ledger in state.ledgers.values():
        for symbol, gone in ledger.gone.items():
            yield f"{gone_shares.words_of(symbol, gone)} (bot status)"
    for symbol in status.halted_symbols:
        yield f"{symbol} is halted (bot resume {symbol} --reason …)"
    for each in status.strategies:
        is_for_today = gate.only_sells(state.strategies[each.name])
        if each.state in {"disabled", "paused"} and not is_for_today:
            yield f"{each.name} is {each.state} (bot resume --strategy {each.name})"
