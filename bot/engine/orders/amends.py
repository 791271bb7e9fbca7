"""Amendments: the row is read first, then one PUT is sent, then a row shows its effect.

    READING ─► SENT ─► CONFIRMING ─► OVER: the row shows the new value, or can no longer
       └────────────────────────────► OVER: not sent, the row or a limit forbids it

The order is PENDING_REPLACE from the PUT to the verdict and counts with the larger of both values.
An answer is not a verdict. A refusal is accepted once a row requested afterwards shows the old
value; after any other answer the old value is accepted once no row can be from before the PUT: its
timestamp is valid for 30 s (broker open API, signing), clocks may differ, and a node may lag. The
code -701111 means that only the unmatched part was changed: done. At most one PUT per request.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Final

from bot.domain.entry import CheckResult, Decision, Numbers, OrderResultSeen, Transition, Verdict
from bot.domain.message import AmendAnswered, AmendOrder, BurnNonce, NonceBurnt, ReadOrder
from bot.domain.operations import AmendAsked
from bot.domain.order import OrderReport, OrderState
from bot.domain.order_status import shown_state
from bot.domain.outcome import Accepted, NotSent, Refused, Resolution, Unknown
from bot.domain.recovery import StoredAmend
from bot.engine import gate, two_factor
from bot.engine.control_state import Standing
from bot.engine.gate import guarded
from bot.engine.orders import answers, cancels, matching, sends, unknown, unseen
from bot.engine.orders.asks import find_order, judge_amend
from bot.engine.orders.order_words import row_facts, row_words
from bot.engine.risk.codes import judged
from bot.engine.settings import LAG_MAX, UnknownPolicy
from bot.engine.state import State
from bot.engine.tracked import AmendStage, AmendVerdict, TrackedAmend, TrackedOrder

_AMENDABLE: Final = frozenset({OrderState.ACCEPTED, OrderState.PARTIALLY_FILLED})


def on_amend_asked(state: State, event: AmendAsked) -> None:
    """Check the request; read the order's row first, or say why not. An amendment under way
    continues.
    """
    order, checks = find_order(state, event.order_id), judge_amend(state, event)
    if order is None:
        _decide(state, event, None, checks)
        return
    order_id = order.row.order_id
    ask, before = replace(event, order_id=order_id), state.amends.get(order_id)
    due = state.now + state.settings.read_patience
    amend = TrackedAmend(ask, _value(ask, order), due=due, since=state.now)
    if checks[-1].passed:
        _decide(state, ask, order, checks)
        state.amends[order_id] = amend
        state.index.track_amend(amend)
        state.command(ReadOrder(order_id, "before amend"))
        return
    if before is None or before.stage is AmendStage.OVER:
        state.amends[order_id] = amend
    _block(state, amend, order, checks)


# ------------------------------------------------------------------------------------ step by step


def advance(state: State) -> None:
    """Advance every amendment that is due by one step."""
    for amend in state.index.amending.of(True):
        guarded(state, f"the amendment of {amend.name}", _advance, state, amend)


def _advance(state: State, amend: TrackedAmend) -> None:
    order = state.orders.get(amend.name)
    if order is None:
        amend.stage = AmendStage.OVER
    elif not order.is_open:
        is_done = amend.stage is not AmendStage.READING and _value(amend.ask, order) == amend.new
        verdict = AmendVerdict.DONE if is_done else AmendVerdict.ENDED
        _end(state, amend, order, verdict, f"the order ended: {order.row.state}")
    elif amend.due <= state.now and amend.stage is AmendStage.READING:
        seconds = round(state.settings.read_patience.total_seconds())
        _block(state, amend, order, (judged("ROW_READ", False, seconds=seconds),))
    elif amend.due <= state.now:
        _look_again(state, amend, order)


def _look_again(state: State, amend: TrackedAmend, order: TrackedOrder) -> None:
    """Request the row, at growing intervals; an answer that never came is no longer awaited."""
    amend.stage, amend.step = AmendStage.CONFIRMING, amend.step + 1
    if amend.hopeless_at is None:
        _set_hopeless(state, amend, state.now)
    pauses = state.settings.cancel_backoff
    amend.due = state.now + pauses[min(amend.step, len(pauses)) - 1]
    state.command(ReadOrder(order.row.order_id, "after amend"))
    unseen.read_named(state, amend)


def _set_hopeless(state: State, amend: TrackedAmend, since: datetime) -> None:
    settings = state.settings
    arrived = since + settings.timestamp_life + settings.clock_max_offset
    amend.hopeless_at = arrived + LAG_MAX
    amend.renamed_until = arrived + settings.book_lag


def on_row(state: State, order_id: str, report: OrderReport) -> None:
    """The detail row has been merged: send what waited for it, or read the verdict from it."""
    amend, order = state.amends.get(order_id), state.orders.get(order_id)
    if amend is None or order is None or not order.is_open:
        return
    is_new, value = report.requested_at >= amend.since, _value(amend.ask, order)
    if amend.stage is AmendStage.READING:
        if is_new:
            _send(state, amend, order, report)
        else:
            state.command(ReadOrder(order_id, "before amend"))
        return
    is_pending = report.state is OrderState.PENDING_REPLACE
    if amend.stage is not AmendStage.CONFIRMING or not is_new or is_pending:
        return
    if value == amend.new:
        now_is = state.chains.current(order_id)
        text = "done" if now_is == order_id else f"done, and its id is now {now_is}"
        _end(state, amend, order, AmendVerdict.DONE, text)
    elif value != amend.old:
        _end(state, amend, order, AmendVerdict.DIFFERS, f"the row shows {value:,}")
    elif amend.is_refused:
        _end(state, amend, order, AmendVerdict.REFUSED, "refused")
    elif shown_state(report) is OrderState.CANCELLED and order.may_be_renamed:
        return  # an amendment may leave the old id: its effect is in the row of the new one
    elif amend.hopeless_at is not None and report.requested_at >= amend.hopeless_at:
        _end(state, amend, order, AmendVerdict.NOT_DONE, "not done, and can't arrive any more")


def _send(state: State, amend: TrackedAmend, order: TrackedOrder, report: OrderReport) -> None:
    """Judge the request again by the fresh row, then send its PUT."""
    checks = judge_amend(state, amend.ask, amend)
    if checks[-1].passed:
        # A row that does not say whether it may be changed counts as forbidding it.
        status, allowed = report.status, report.may_amend
        is_ok = allowed is True and report.state in _AMENDABLE
        words = f"the broker's row: {status}, may be changed {allowed}"
        checks = (*checks, judged("ROW_ALLOWS", is_ok, words, status=status, allowed=str(allowed)))
    if not checks[-1].passed:
        _block(state, amend, order, checks)
        return
    row, ask = order.row, amend.ask
    assert row.intent_id is not None, "only own orders are amended"
    amend.stage, amend.old, order.change = AmendStage.SENT, _value(ask, order), amend
    amend.due = state.now + 2 * state.settings.read_patience
    read = state.set_aside.get(row.account)
    amend.unread_before = read.set_aside if read is not None else ()
    _move(state, order, OrderState.PENDING_REPLACE, _words(amend))
    state.command(
        AmendOrder(
            order_id=row.order_id,
            intent_id=row.intent_id,
            account=row.account,
            limit_price=ask.limit_price,
            quantity=ask.quantity,
            reason=ask.reason,
            asked_at=ask.at,
        )
    )


def reason_not_to_send(state: State, intent_id: str) -> str | None:
    """Return why a requested amendment must not be sent after all; None if it may.

    Whatever closes the gate to an order closes it to an amendment; so do a missing token, since an
    amendment is not held until one comes, a cancel of its order since, and a phase without changes.
    """
    tracked = state.intents.get(intent_id)
    if tracked is None:
        return f"{intent_id} is not known"
    cancel = state.cancels.get(tracked.order_id or "")
    wanted = f"its order is being cancelled: {cancel.reason}" if cancel is not None else None
    intent = tracked.intent
    return sends.reason_not_to_send(state, intent) or wanted or sends.no_change_now(state, intent)


def on_amend_answered(state: State, event: AmendAnswered) -> None:
    """Record the answer and read the row, which shows what the amendment did."""
    if event.finished is not None:
        state.record(event.finished)
    answers.note_redirect(state, event.finished)
    order_id, outcome = event.order_id, event.outcome
    intent_id = event.finished.intent_id if event.finished else None
    if isinstance(outcome, Accepted):
        cancels.note_taken(state, order_id, outcome, "amend")
    elif isinstance(outcome, Refused):
        if outcome.needs_two_factor:
            two_factor.close_for_two_factor(state, outcome, event.at, intent_id)
        if outcome.result is not None:
            raw = outcome.result.raw
            state.record(OrderResultSeen(state.now, "amend", order_id, intent_id, None, raw))
    amend, order = state.amends.get(order_id), state.orders.get(order_id)
    is_over = amend is None or amend.stage is AmendStage.OVER
    if amend is None or order is None or is_over or event.asked_at not in {None, amend.ask.at}:
        state.command(ReadOrder(order_id, "after amend"))  # it may be late, of one before
        return
    amend.since, amend.step = state.now, 0
    _set_hopeless(state, amend, state.now)
    amend.is_refused = isinstance(outcome, Refused | NotSent)
    match outcome:
        case Accepted(result):
            amend.code = result.code or ""
        case Refused(code, reason):
            amend.code = f"{code} {reason}".strip()
        case other:
            amend.code, amend.is_unanswered = other.reason, isinstance(other, Unknown)
            unseen.note_named(state, amend, order, other)
            if isinstance(other, Unknown) and event.finished is not None:
                amend.attempt_id = event.finished.attempt_id
                state.command(BurnNonce(amend.attempt_id))
    _look_again(state, amend, order)


def on_nonce_burnt(state: State, event: NonceBurnt) -> None:
    """The nonce of a lost PUT was tried: if unused, it can no longer arrive, and the next row shows
    the result. Nonces of places are handled elsewhere.
    """
    amend = _named(state, event.intent_id)
    if amend is None:
        unknown.on_nonce_burnt(state, event)
        return
    is_trusted = state.settings.unknown_policy is UnknownPolicy.FENCE
    is_trusted &= gate.NONCES not in state.halted_scopes
    order = state.orders.get(amend.name)
    if amend.stage is AmendStage.CONFIRMING and order is not None:
        text = f"{amend.name} {_words(amend)}: {event.detail}"
        state.note("AMEND", text, {"resolution": event.resolution}, symbol=order.row.symbol)
        if event.resolution is Resolution.FRESH and is_trusted:
            amend.hopeless_at, amend.keeps_id = state.now, True
            _look_again(state, amend, order)


def is_asked_after(state: State, attempt_id: str) -> bool:
    """Return whether the nonce result of a PUT matters; for an unknown one it may."""
    amend = _named(state, attempt_id)
    return amend is None or amend.stage is not AmendStage.OVER


def _named(state: State, attempt_id: str) -> TrackedAmend | None:
    return next((one for one in state.amends.values() if one.attempt_id == attempt_id), None)


def take_over(state: State, stored: StoredAmend) -> None:
    """Follow an amendment of an earlier run to its verdict: its PUT may have been sent, or
    answered, and no row has shown the effect yet.
    """
    order = state.orders.get(stored.order_id)
    if order is None or not order.is_open:
        return
    at, limit_price, quantity = stored.attempt.at, stored.limit_price, stored.quantity
    ask = AmendAsked(at, stored.order_id, limit_price, quantity, stored.by, stored.reason)
    old = _value(ask, order) if stored.old is None else stored.old
    amend = TrackedAmend(ask, old, due=state.now, since=state.now, stage=AmendStage.CONFIRMING)
    amend.is_refused = stored.outcome in {"REFUSED", "NOT_SENT"}
    amend.attempt_id = stored.attempt.attempt_id
    _set_hopeless(state, amend, at)
    if stored.outcome in {None, "UNKNOWN"}:
        state.command(BurnNonce(amend.attempt_id))
    state.amends[stored.order_id] = order.change = amend
    state.index.track_amend(amend)


# --------------------------------------------------------------------------------------- the end


def _end(
    state: State, amend: TrackedAmend, order: TrackedOrder, verdict: AmendVerdict, text: str
) -> None:
    """Record the result, and let the order work on."""
    is_settled = amend.is_unanswered and verdict is AmendVerdict.DONE  # what no answer proved
    code, row = f" ({amend.code})" if amend.code and not is_settled else "", order.row
    amend.stage, amend.verdict, amend.text = AmendStage.OVER, verdict, f"{text}{code}"
    if amend.is_of_price and verdict is AmendVerdict.DONE:
        order.asked = (amend.new,)
    elif amend.is_of_price and verdict is AmendVerdict.DIFFERS:  # either may be what counts
        order.asked = tuple(sorted({*order.asked, amend.new}))
    order.change = None
    state.counts[f"amend_{verdict.lower()}"] += 1
    if row.state is OrderState.PENDING_REPLACE:
        is_partly = row.executed_quantity > 0
        to = OrderState.PARTIALLY_FILLED if is_partly else OrderState.ACCEPTED
        _move(state, order, to, f"{_words(amend)}: {amend.text}")
    if order.poll is not None:
        order.poll = state.first_poll()
    if verdict is not AmendVerdict.ENDED:
        matching.settle_successors(state, order)
    if verdict is AmendVerdict.DONE and not amend.code:
        return  # the order's own row says everything
    change: Numbers = {"old": amend.old, "new": amend.new, "verdict": verdict, "code": amend.code}
    if verdict is AmendVerdict.DIFFERS:
        said = f"its change ({_words(amend)}) ended with neither value: {amend.text}"
        said = f"{row_words(row)}: {said}"
        text = f"{said}. The bot goes on with what the row shows. Compare it with the broker's app"
        facts = {**row_facts(row), **change, "field": _field(amend), "found": amend.text}
        state.alert("AMEND_DIFFERS", text, facts, symbol=row.symbol)
        return
    state.note("AMEND", f"{row.order_id} {_words(amend)}: {amend.text}", change, symbol=row.symbol)


def alerts(state: State) -> Iterator[Standing]:
    """Yield which amendments are overdue without a verdict, and which orders work under two ids."""
    for amend in state.index.amending.of(True):
        order, late_from = state.orders.get(amend.name), amend.hopeless_at
        if order and late_from and state.now > late_from + state.settings.read_patience:
            text = (
                f"{row_words(order.row)}: no row says what became of its change"
                f" ({_words(amend)}). The larger of the two values counts, and the bot keeps"
                " asking. Look in the broker's app"
            )
            facts = {**row_facts(order.row), "field": _field(amend)}
            facts |= {"old": amend.old, "new": amend.new}
            yield Standing("AMEND_OPEN", text, facts)
    for order in state.open_orders():
        if order.also_open:
            ids = ", ".join(state.chains.ids(order.row.order_id))
            text = (
                f"{row_words(order.row)} is open under two of its ids ({ids}): both count, with"
                f" {order.open_quantity:,} open. In the broker's app, cancel the one that should be"
                " gone"
            )
            facts = {**row_facts(order.row), "ids": ids, "open": order.open_quantity}
            yield Standing("AMEND_TWO_IDS", text, facts)


def _block(
    state: State, amend: TrackedAmend, order: TrackedOrder, checks: tuple[CheckResult, ...]
) -> None:
    """Nothing was sent: a fresh row, or something that happened meanwhile, forbids it."""
    amend.stage, amend.verdict = AmendStage.OVER, AmendVerdict.BLOCKED
    amend.code, amend.text = _code_of(state, checks[-1]), checks[-1].text
    _decide(state, amend.ask, order, checks)


def _decide(
    state: State, ask: AmendAsked, order: TrackedOrder | None, checks: tuple[CheckResult, ...]
) -> None:
    """Journal whether a request is accepted, with the numbers of the check that refused it."""
    row, last = order.row if order else None, checks[-1]
    price, quantity = ask.limit_price, ask.quantity
    numbers = {"by": ask.by, "order_id": ask.order_id, "price": price, "quantity": quantity}
    if row is not None and last.passed:
        numbers["old"] = row.price if quantity is None else row.quantity
    state.counts["amends_asked" if last.passed else "amends_blocked"] += 1
    state.record(
        Decision(
            at=state.now,
            strategy=(row.strategy or "") if row else "",
            symbol=row.symbol if row else "",
            verdict=Verdict.PASSED if last.passed else Verdict.BLOCKED,
            code="AMEND" if last.passed else _code_of(state, last),
            why=ask.reason,
            numbers=numbers if last.passed else {**numbers, **last.numbers},
            checks=checks,
            request_id=row.intent_id if row else None,
            side=row.side if row else None,
            quantity=quantity or (row.quantity if row else None),
            order_type=row.order_type if row else None,
            price=price or (row.price if row else None),
        )
    )


def _code_of(state: State, check: CheckResult) -> str:
    """Return the code of a refused request: the check's, or the closed gate's."""
    return gate.refusal(state)[0] if check.code == "GATE" else check.code


def _move(state: State, order: TrackedOrder, to: OrderState, note: str) -> None:
    row = order.row
    order.row = replace(row, at=state.now, state=to)
    state.record(
        Transition(
            at=state.now,
            intent_id=row.intent_id,
            order_id=row.order_id,
            from_state=row.state,
            to_state=to,
            broker_status=row.broker_status,
            source="amend",
            executed_quantity=row.executed_quantity,
            note=f"amend {note}",
        )
    )
    state.record(order.row)


def _value(ask: AmendAsked, order: TrackedOrder) -> int:
    """The present value of the field to amend; the price of an order without one counts as zero."""
    return order.row.quantity if ask.limit_price is None else order.row.price or 0


def _words(amend: TrackedAmend) -> str:
    return f"{_field(amend)} {amend.old:,} to {amend.new:,}"


def _field(amend: TrackedAmend) -> str:
    return "price" if amend.is_of_price else "quantity"
