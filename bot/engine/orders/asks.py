"""Manual requests about one order: to change it, to cancel it, or to say what became of it.

An amendment changes exactly one field (the exchanges' rule; VNX Decision 17, HOSE Decision 352), a
quantity is the new total. Size and price are judged as if they were new; the limits of position and
money see the order's open part at its new value instead of the old one. The strategy file's times,
and the limits of what may be held and left, apply only to what makes a buy larger or dearer: shares
that have risen beyond a limit must not keep a buy from being reduced.

A verdict says which row an order of unknown outcome is, or that there is none. It ends a question
that the bot cannot settle (REACHED, AMBIGUOUS; FRESH once its horizon is over; accepted under an id
that no row shows) and is journalled with everything known at that time. While the bot can still
find out by itself, no verdict is accepted.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from bot.domain.entry import CheckResult, Decision, OrderResultSeen, OrderUpdated, Verdict
from bot.domain.instrument import PHASE_WORDS
from bot.domain.operations import AmendAsked, CancelAsked, VerdictAsked
from bot.domain.order import (
    Intent,
    OrderReport,
    OrderState,
    OrderType,
    SendState,
    Side,
    type_word,
)
from bot.engine import flatten
from bot.engine.orders import cancel_requests, held, lost_places, matching, orders, unknown, unseen
from bot.engine.orders.order_words import (
    if_absent,
    if_there,
    intent_facts,
    intent_words,
    send_words,
)
from bot.engine.requests import view_of
from bot.engine.risk import account_checks, checks
from bot.engine.risk.accounts import means_of
from bot.engine.risk.codes import judged, or_none
from bot.engine.risk.sizing import OrderRequest
from bot.engine.risk.under_way import worst_price
from bot.engine.state import State, StrategyState
from bot.engine.tracked import AmendStage, TrackedAmend, TrackedIntent, TrackedOrder

_OF_THE_WHOLE: Final = (
    checks.symbol,
    checks.lot,
    checks.OfAccount(account_checks.max_quantity),
    checks.price,
    checks.max_order_value,
    checks.max_loss,
    checks.OfAccount(account_checks.day_loss),
    checks.OfAccount(account_checks.order_rate),
    checks.other_orders,
)
_OF_WHAT_MAY_BE_HELD: Final = (
    checks.max_position,
    checks.capital,
    checks.OfAccount(account_checks.position_value),
    checks.OfAccount(account_checks.gross),
)
_OF_THE_MONEY: Final = (checks.cash, checks.OfAccount(account_checks.min_cash))
_OF_WHAT_IS_MORE: Final = (checks.sellable,)


def on_cancel_asked(state: State, event: CancelAsked) -> None:
    """Request the cancel of one order, or of all; the rest is as with every cancel."""
    refused = objection(state, event)
    order = find_order(state, event.order_id) if event.order_id is not None else None
    if refused is not None:
        _refuse(state, event, refused, order.row if order is not None else None)
    elif event.order_id is None:
        for each in (*state.pending_intents(), *_intents_of(state, *state.open_orders())):
            flatten.leave_out(state, each.intent, event.by)
        held.take_back(state, event)
        cancel_requests.request_all(state, event.reason)
        text, numbers = f"all open orders, asked by {event.by}", {"orders": len(state.cancels)}
        state.note("CANCEL", text, numbers)
    elif order is None:
        tracked = state.intents[event.order_id]
        flatten.leave_out(state, tracked.intent, event.by)
        held.take_back(state, event, tracked)
        cancel_requests.request_on_its_way(state, tracked, event.reason)
        text = f"{tracked.name} is to be cancelled, asked by {event.by}"
        if tracked.state in unknown.OPEN_QUESTIONS:
            text += ": it is not known whether it is at the broker, so as soon as it shows up there"
        state.note("CANCEL", text, symbol=tracked.intent.symbol)
    else:
        row = order.row
        is_again = row.order_id in state.cancels
        for each in _intents_of(state, order):
            flatten.leave_out(state, each.intent, event.by)
        cancel_requests.request(state, order, event.reason)
        text = "is being cancelled already" if is_again else "is to be cancelled"
        state.note("CANCEL", f"{row.order_id} {text}, asked by {event.by}", symbol=row.symbol)


def _intents_of(state: State, *orders: TrackedOrder) -> Iterator[TrackedIntent]:
    """Yield the intents of own orders."""
    for order in orders:
        if (tracked := state.intents.get(order.row.intent_id or "")) is not None:
            yield tracked


def _refuse(
    state: State,
    event: CancelAsked | VerdictAsked,
    refused: CheckResult,
    about: OrderUpdated | Intent | None,
) -> None:
    """Journal that a request is refused, with the check and the order it is about."""
    state.record(
        Decision(
            at=state.now,
            strategy=(about.strategy or "") if about else "",
            symbol=about.symbol if about else "",
            verdict=Verdict.BLOCKED,
            code=refused.code,
            why=event.reason,
            numbers={"by": event.by, **refused.numbers},
            checks=(refused,),
            request_id=about.intent_id if about else None,
            side=about.side if about else None,
        )
    )


def objection(state: State, ask: AmendAsked | CancelAsked | VerdictAsked) -> CheckResult | None:
    """Return why a request would be refused now, None if it would be accepted; nothing changes.

    A cancel of all open orders is always accepted, and that of one that may be, or come to be, at
    the broker, or waits for a token.
    """
    if isinstance(ask, VerdictAsked):
        return next((one for one in _verdict_checks(state, ask) if not one.passed), None)
    if isinstance(ask, AmendAsked):
        last = judge_amend(state, ask)[-1]
    elif ask.order_id is not None and not _is_on_its_way(state, ask.order_id):
        last = _open_order(state, ask.order_id)
    else:
        return None
    return None if last.passed else last


def find_order(state: State, name: str) -> TrackedOrder | None:
    """Find an order by one of the broker's ids or by ours."""
    tracked = state.intents.get(name)
    return state.orders.get((tracked.order_id or "") if tracked else state.chains.first(name))


def _is_on_its_way(state: State, name: str) -> bool:
    """Return whether it is on its way, waits for a token, or is of unknown outcome: then it may
    show up yet, today.
    """
    tracked = state.intents.get(name)
    if tracked is None or not (tracked.reserves_in_full or tracked.state is SendState.HELD):
        return False
    return tracked.intent.trading_date == state.trading_date


def _open_order(state: State, name: str) -> CheckResult:
    """Check that it is an own order of today that has not ended."""
    order, tracked = find_order(state, name), state.intents.get(name)
    if order is None:
        now_is = _now_is(state, tracked) if tracked else "no open order"
        return judged("OPEN_ORDER", False, order_id=name, state=now_is)
    row = order.row
    if not order.is_own:
        return judged("OPEN_ORDER", False, order_id=row.order_id, state="not an order of this bot")
    is_todays = row.trading_date == state.trading_date
    now_is = str(row.state) if is_todays else f"of {row.trading_date.isoformat()}"
    is_ok = order.is_open and is_todays
    words = f"{row.order_id} is {now_is}"
    return judged("OPEN_ORDER", is_ok, words, order_id=row.order_id, state=now_is)


def _now_is(state: State, tracked: TrackedIntent) -> str:
    """Return what an order is of which no row is known, and what to do if it may be open."""
    if not unknown.is_for_a_person(state, tracked):
        may_be = tracked.state in {SendState.UNKNOWN, SendState.SENDING}
        return f"{send_words(state, tracked)}{_MAY_BE_THERE if may_be else ''}"
    then = f"Then say which it was: {if_there(tracked.intent)}; {if_absent(tracked.intent)}"
    return f"of unknown outcome{_MAY_BE_THERE}. {then}"


# --------------------------------------------------------------------------------------- amendments


def judge_amend(
    state: State, ask: AmendAsked, begun: TrackedAmend | None = None
) -> tuple[CheckResult, ...]:
    """Try the checks in order; the last result is the refusal, if there is one.

    `begun` is the amendment itself when it is judged a second time.
    """
    results = []
    for result in _amend_checks(state, ask, begun):
        results.append(result)
        if not result.passed:
            break
    return tuple(results)


def _amend_checks(
    state: State, ask: AmendAsked, begun: TrackedAmend | None
) -> Iterator[CheckResult]:
    """Yield one check after the other; each relies on the earlier ones having passed."""
    is_on = state.settings.amend_enabled
    allow_amend = "true" if is_on else "false"
    words = f"risk.allow_amend is {allow_amend}"
    yield judged("AMEND_ENABLED", is_on, words, allow_amend=allow_amend)
    price, quantity = ask.limit_price, ask.quantity
    is_one = (price is None) is not (quantity is None) and (price or quantity or 0) > 0
    words = f"one field at a time: price {or_none(price)}, quantity {or_none(quantity)}"
    yield judged("ONE_FIELD", is_one, words, price=price, quantity=quantity)
    order, found = find_order(state, ask.order_id), _open_order(state, ask.order_id)
    strategy = state.strategies.get(order.row.strategy or "") if order else None
    if not found.passed or order is None or strategy is None:
        owner = "of a strategy that does not run"
        is_of_none = judged("OPEN_ORDER", False, order_id=ask.order_id, state=owner)
        yield is_of_none if found.passed else found
        return
    yield found
    row, rulebook = order.row, state.rulebook
    is_limit = row.order_type == OrderType.LO and row.price is not None
    words = f"order type {type_word(row.order_type)}"
    yield judged("LIMIT_ORDER", is_limit, words, order_type=row.order_type)
    field, old = ("quantity", row.quantity) if quantity else ("price", row.price)
    new = quantity or price
    words = f"{field} {or_none(old)} to {or_none(new)}"
    yield judged("CHANGE", new != old, words, field=field, old=old, new=new)
    command = "cancel" if row.order_id in state.cancels else None
    amend = state.amends.get(row.order_id)
    if amend is not None and amend is not begun and amend.stage is not AmendStage.OVER:
        command = command or "amend"
    yield judged("ONE_COMMAND", command is None, "other command on it: none", command=command)
    now_is = state.gate.state
    yield judged("GATE", not state.gate.causes, f"{now_is}", state=now_is)
    assert row.exchange is not None, "an own order has its intent's exchange"
    phase = state.phase_of(row.exchange).phase
    is_ok = rulebook.may_amend(row.exchange, phase)
    words = f"changes in {row.exchange} {PHASE_WORDS[phase]}"
    yield judged("AMEND_PHASE", is_ok, words, exchange=row.exchange, phase=phase)
    if quantity is not None:
        executed = row.executed_quantity
        is_above = quantity > executed
        words = f"quantity {quantity:,}, executed {executed:,}"
        yield judged("ABOVE_EXECUTED", is_above, words, quantity=quantity, executed=executed)
        # Even and odd lots never turn into each other; LOT refuses a quantity of no lot.
        sizes = rulebook.venues[row.exchange].lots
        old_lot, lot = sizes.lot_of(row.quantity), sizes.lot_of(quantity)
        if lot is not None:
            words = f"lot {or_none(old_lot)} to {lot}"
            yield judged("SAME_LOT", old_lot is lot, words, old=old_lot, new=lot)
    yield from _risk_checks(state, ask, order, strategy)


def _risk_checks(
    state: State, ask: AmendAsked, order: TrackedOrder, strategy: StrategyState
) -> Iterator[CheckResult]:
    """Judge the whole order, then its open part without the old one, then a sale's additional
    shares.
    """
    row, open_now = order.row, order.open_quantity
    assert row.price is not None, "only orders with a price are amended"
    price = ask.limit_price or row.price
    whole = OrderRequest(
        strategy=strategy.plan.name,
        account=row.account,
        symbol=row.symbol,
        side=row.side,
        quantity=ask.quantity or row.quantity,
        order_type=OrderType.LO,
        limit_price=price,
        why=ask.reason,
    )
    means = means_of(state, strategy, whole.symbol, whole.account)
    limits, view = strategy.limits, view_of(state, strategy, whole, means)
    is_more = whole.quantity > row.quantity or price > row.price
    if is_more:
        yield from checks.judge(whole, view, limits, (checks.phase,))
    yield from checks.judge(whole, view, limits, _OF_THE_WHOLE)
    open_after = whole.quantity - row.executed_quantity
    freed = view
    if row.side is Side.BUY and view.cash_free is not None:
        # The order's own reservation is taken out: from cash, fee included, from positions, and
        # from the capital in use.
        amount = open_now * worst_price(state, row.symbol, row.price)
        used = view.account
        if used is not None:
            value, gross = used.position_value - amount, used.gross - amount
            used = replace(used, position_value=value, gross=gross)
        freed = replace(
            view,
            position=view.position - open_now,
            invested=view.invested - amount,
            cash_free=view.cash_free + amount + state.rulebook.fee(amount),
            account=used,
            unpriced=view.unpriced if is_more else None,
        )
    open_part = replace(whole, quantity=open_after)
    if is_more:
        yield from checks.judge(open_part, freed, limits, _OF_WHAT_MAY_BE_HELD)
    yield from checks.judge(open_part, freed, limits, _OF_THE_MONEY if is_more else (checks.cash,))
    what_is_more = replace(whole, quantity=open_after - open_now)
    yield from checks.judge(what_is_more, view, limits, _OF_WHAT_IS_MORE)


# ----------------------------------------------------------------------------------------- verdicts

_MAY_BE_THERE: Final = "; it may be at the broker: look in the broker's app, and cancel it there"


def on_verdict_asked(state: State, event: VerdictAsked) -> None:
    """End the question as the person says, or change nothing and say why not."""
    refused, tracked = objection(state, event), state.intents.get(event.intent_id)
    if refused is not None or tracked is None:
        assert refused is not None, "what is not known is refused"
        _refuse(state, event, refused, tracked.intent if tracked is not None else None)
        return
    rows = matching.candidates(state, tracked)
    told = event.order_id or "never placed"
    facts = {**intent_facts(tracked, rows), **unseen.facts(state, tracked)}
    facts |= {"verdict": told, "reason": event.reason, "by": event.by}
    seen = [state.orders[row_id].row for row_id in rows]
    facts |= {f"row {row.order_id}": f"{row.state} {row.executed_quantity:,}" for row in seen}
    text = f"{intent_words(tracked.intent)}: {told}, says {event.by}: {event.reason}"
    state.note("VERDICT", text, facts, symbol=tracked.intent.symbol)
    said = f"{event.by} says: {event.reason}"
    row = lost_places.whole_row(state, tracked, event.order_id)
    own = state.orders.get(tracked.order_id or "")
    if row is not None and own is not None:
        _name_again(state, own, row)
    else:
        unknown.end_as_said(state, tracked, row, said)


def _name_again(state: State, own: TrackedOrder, report: OrderReport) -> None:
    """An accepted order is in the day order book under another id than its answer gave: it
    continues under both.
    """
    report = claim_as(state, own, report)
    state.chains.name_again(own, report, state.now)
    orders.apply(state, own, report, "book")
    own.shown.is_missing, own.shown.listed_at = False, report.requested_at


def claim_as(state: State, own: TrackedOrder, report: OrderReport) -> OrderReport:
    """A row is an order of ours under a later id. What counted as an external order is over; a
    restart does not count it either.
    """
    other = state.orders.get(report.order_id)
    report = orders.claim(state, report)
    if other is not None:
        note = f"is {own.row.intent_id}, accepted as {own.row.order_id}"
        to = OrderState.EXPIRED if other.is_open else other.row.state
        orders.record_row(
            state, replace(other.row, at=state.now, state=to, note=note), other.row.state, "engine"
        )
    seen = OrderResultSeen(state.now, "book", report.order_id, own.row.intent_id, None, report.raw)
    state.record(seen)
    unknown.journal_later(state, report.order_id, own.row.intent_id)
    return report


def _verdict_checks(state: State, ask: VerdictAsked) -> Iterator[CheckResult]:
    yield judged("VERDICT_REASON", bool(ask.reason.strip()), intent_id=ask.intent_id)
    tracked = state.intents.get(ask.intent_id)
    now_is = "no order of today" if tracked is None else send_words(state, tracked)
    is_open = tracked is not None and unknown.is_for_a_person(state, tracked)
    if tracked is not None and matching.is_unseen(state, tracked):
        is_open = ask.order_id is not None
        now_is = f"accepted by the broker as {tracked.order_id}, which no row has shown yet"
    yield judged("VERDICT_OPEN", is_open, intent_id=ask.intent_id, state=now_is)
    if tracked is None:
        return
    if ask.order_id is None:
        for like in matching.uncounted(state, tracked):
            yield judged("VERDICT_LIKENESS", False, order_id=like, intent_id=ask.intent_id)
        return
    row, order_id = matching.listed_row(state, tracked, ask.order_id), ask.order_id
    yield judged("VERDICT_ROW", row is not None, order_id=order_id, why="not in today's order book")
    whole, first = lost_places.whole_row(state, tracked, order_id), state.chains.first(order_id)
    why = "one of several ids of its order, and the row of an earlier one was not read yet"
    yield judged("VERDICT_ROW", whole is not None, order_id=order_id, why=why)
    order = state.orders.get(first)
    is_free = order is None or not order.is_own
    yield judged("VERDICT_ROW", is_free, order_id=order_id, why="another order of this bot")
    is_later = all(each not in tracked.known_ids for each in state.chains.ids(first))
    why = f"older than {ask.intent_id}: it was there before that was sent"
    yield judged("VERDICT_ROW", is_later, order_id=order_id, why=why)
    intent = tracked.intent
    asked = intent.side, intent.quantity, intent.symbol, intent.account, intent.trading_date
    shown = [(r.side, r.quantity, r.symbol, r.account, r.trading_date) for r in (row, whole) if r]
    why = f"{row.side} {row.quantity:,} {row.symbol}, not {intent_words(intent)}" if row else ""
    yield judged("VERDICT_ROW", asked in shown, order_id=order_id, why=why)
