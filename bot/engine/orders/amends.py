"""Amendments: the row is read first, then one PUT goes out, then a row says what became of it.

    READING ─► SENT ─► CONFIRMING ─► OVER: the row shows the new value, or can no longer
       └────────────────────────────► OVER: not sent, the row or a limit forbids it

The order is PENDING_REPLACE from the PUT to the verdict and counts with the larger of both values.
An answer is no verdict. A refusal is believed when a row asked for afterwards shows the old value;
after any other answer the old value is believed when the PUT can no longer arrive: its timestamp is
good for 30 s (broker open API, signing), clocks may differ. The code -701111 means that only the
unmatched part was changed: done. One PUT per ask, ever.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from bot.domain.entry import CheckResult, Decision, OrderResultSeen, Transition, Verdict
from bot.domain.message import AmendAnswered, AmendAsked, AmendOrder, ReadOrder
from bot.domain.order import OrderReport, OrderState
from bot.domain.outcome import Accepted, NotSent, Refused
from bot.engine import gate
from bot.engine.gate import guarded
from bot.engine.orders import sends
from bot.engine.orders.ask_checks import judge_amend, refusal_code
from bot.engine.risk.codes import judged
from bot.engine.state import State
from bot.engine.tracked import AmendStage, AmendVerdict, TrackedAmend, TrackedOrder

_AMENDABLE: Final = frozenset({OrderState.ACCEPTED, OrderState.PARTIALLY_FILLED})


def begin(
    state: State, order: TrackedOrder, ask: AmendAsked, checks: tuple[CheckResult, ...]
) -> None:
    """Read the order's row; `ask` has passed its checks."""
    decide(state, ask, order, checks)
    state.amends[ask.order_id] = _tracked(state, order, ask)
    state.command(ReadOrder(ask.order_id, "before amend"))


def refuse(
    state: State, order: TrackedOrder, ask: AmendAsked, checks: tuple[CheckResult, ...]
) -> None:
    """Say why not; what is under way on the order goes on."""
    before = state.amends.get(ask.order_id)
    amend = _tracked(state, order, ask)
    if before is None or before.stage is AmendStage.OVER:
        state.amends[ask.order_id] = amend
    _block(state, amend, order, checks)


def _tracked(state: State, order: TrackedOrder, ask: AmendAsked) -> TrackedAmend:
    amend = TrackedAmend(ask, 0, due=state.now + state.settings.read_patience, since=state.now)
    amend.old = _value(amend, order)
    return amend


def under_way(state: State) -> Iterator[tuple[str, TrackedAmend]]:
    """Every amendment without a verdict, with the id of its order."""
    return ((key, one) for key, one in state.amends.items() if one.stage is not AmendStage.OVER)


def instants(state: State) -> Iterator[datetime]:
    """When an amendment is looked after again."""
    return (amend.due for _, amend in under_way(state))


def advance(state: State) -> None:
    """Take every amendment that is due one step on."""
    for order_id, amend in list(under_way(state)):
        guarded(state, f"the amendment of {order_id}", _advance, state, order_id, amend)


def _advance(state: State, order_id: str, amend: TrackedAmend) -> None:
    order = state.orders.get(order_id)
    if order is None:
        del state.amends[order_id]
    elif not order.is_open:
        _end_with_order(state, amend, order)
    elif amend.due <= state.now:
        _ON_DUE[amend.stage](state, amend, order)


def _give_up_reading(state: State, amend: TrackedAmend, order: TrackedOrder) -> None:
    seconds = round(state.settings.read_patience.total_seconds())
    _block(state, amend, order, (judged("ROW_READ", False, seconds=seconds),))


def _look_again(state: State, amend: TrackedAmend, order: TrackedOrder) -> None:
    """Ask for the row, at growing distances; an answer that never came is waited for no longer."""
    amend.stage = AmendStage.CONFIRMING
    settings, distances = state.settings, state.settings.cancel_backoff
    if amend.hopeless_at is None:
        amend.hopeless_at = state.now + settings.timestamp_life + settings.clock_skew
    amend.due = state.now + distances[min(amend.step, len(distances) - 1)]
    amend.step += 1
    state.command(ReadOrder(order.row.order_id, "after amend"))


_ON_DUE: Final[Mapping[AmendStage, Callable[[State, TrackedAmend, TrackedOrder], None]]] = {
    AmendStage.READING: _give_up_reading,
    AmendStage.SENT: _look_again,
    AmendStage.CONFIRMING: _look_again,
}


def _end_with_order(state: State, amend: TrackedAmend, order: TrackedOrder) -> None:
    """The order has ended: with the new value, or before it came."""
    is_done = amend.stage is not AmendStage.READING and _value(amend, order) == amend.new
    verdict = AmendVerdict.DONE if is_done else AmendVerdict.ENDED
    _end(state, amend, order, verdict, f"the order ended: {order.row.state}")


# --------------------------------------------------------------------------------------------- rows


def on_row(state: State, order_id: str, report: OrderReport) -> None:
    """The detail row has been merged: send what waited for it, or read the verdict from it."""
    amend, order = state.amends.get(order_id), state.orders.get(order_id)
    look = _ON_ROW.get(amend.stage) if amend is not None else None
    if amend is None or order is None or look is None or not order.is_open:
        return
    if report.requested_at >= amend.since:
        look(state, amend, order, report)
    elif amend.stage is AmendStage.READING:
        state.command(ReadOrder(order_id, "before amend"))


def _send(state: State, amend: TrackedAmend, order: TrackedOrder, report: OrderReport) -> None:
    """Judge the ask again by the fresh row, then send its PUT."""
    checks = judge_amend(state, amend.ask, amend)
    if checks[-1].passed:
        checks = (*checks, _row_allows(report))
    if not checks[-1].passed:
        _block(state, amend, order, checks)
        return
    row, ask = order.row, amend.ask
    assert row.intent_id is not None, "only own orders are amended"
    amend.stage, amend.old, order.change = AmendStage.SENT, _value(amend, order), amend
    amend.due = state.now + 2 * state.settings.read_patience
    _move(state, order, OrderState.PENDING_REPLACE, _told(amend))
    state.command(
        AmendOrder(
            order_id=row.order_id,
            intent_id=row.intent_id,
            account=row.account,
            limit_price=ask.limit_price,
            quantity=ask.quantity,
            reason=ask.reason,
        )
    )


def _row_allows(report: OrderReport) -> CheckResult:
    """The row says that it may be changed; one that says nothing is taken as a no."""
    is_ok = report.may_amend is True and report.state in _AMENDABLE
    return judged("ROW_ALLOWS", is_ok, status=report.status, allowed=str(report.may_amend))


def _read_verdict(
    state: State, amend: TrackedAmend, order: TrackedOrder, report: OrderReport
) -> None:
    """Compare the row's value with the new one and the old one."""
    value = _value(amend, order)
    if report.state is OrderState.PENDING_REPLACE:
        return
    if value == amend.new:
        _end(state, amend, order, AmendVerdict.DONE, "done")
    elif value != amend.old:
        _end(state, amend, order, AmendVerdict.DIFFERS, f"the row shows {value:,}")
    elif amend.is_refused:
        _end(state, amend, order, AmendVerdict.REFUSED, "refused")
    elif amend.hopeless_at is not None and report.requested_at >= amend.hopeless_at:
        _end(state, amend, order, AmendVerdict.NOT_DONE, "not done, and can't arrive any more")


_ON_ROW: Final[
    Mapping[AmendStage, Callable[[State, TrackedAmend, TrackedOrder, OrderReport], None]]
] = {
    AmendStage.READING: _send,
    AmendStage.CONFIRMING: _read_verdict,
}


# ------------------------------------------------------------------------------------------ answers


def on_amend_answered(state: State, event: AmendAnswered) -> None:
    """Note the answer and look at the row: an amendment is what the row shows."""
    if event.finished is not None:
        state.record(event.finished)
    _take_answer(state, event)
    amend, order = state.amends.get(event.order_id), state.orders.get(event.order_id)
    if amend is None or order is None or amend.stage is AmendStage.OVER:
        state.command(ReadOrder(event.order_id, "after amend"))
        return
    amend.since, amend.hopeless_at, amend.step = state.now, None, 0
    amend.is_refused = isinstance(event.outcome, Refused | NotSent)
    amend.keeps_id = isinstance(event.outcome, Accepted)
    amend.code = _code(event)
    _look_again(state, amend, order)


def _take_answer(state: State, event: AmendAnswered) -> None:
    outcome = event.outcome
    if isinstance(outcome, Accepted):
        sends.taken(state, event.order_id, outcome, "amend")
    if not isinstance(outcome, Refused):
        return
    intent_id = event.finished.intent_id if event.finished else None
    if outcome.needs_two_factor:
        gate.close_for_two_factor(state, outcome.code, outcome.reason, intent_id)
    if outcome.result is not None:
        raw = outcome.result.raw
        state.record(OrderResultSeen(state.now, "amend", event.order_id, intent_id, None, raw))


def _code(event: AmendAnswered) -> str:
    match event.outcome:
        case Accepted(result):
            return result.code or ""
        case Refused(code, reason):
            return f"{code} {reason}".strip()
        case other:
            return other.reason


# ------------------------------------------------------------------------------------------ the end


def _end(
    state: State, amend: TrackedAmend, order: TrackedOrder, verdict: AmendVerdict, text: str
) -> None:
    """Say what became of it, and let the order work on."""
    code = f" ({amend.code})" if amend.code else ""
    amend.stage, amend.verdict, amend.text = AmendStage.OVER, verdict, f"{text}{code}"
    order.change = None
    state.counts[f"amend_{verdict.lower()}"] += 1
    if order.row.state is OrderState.PENDING_REPLACE:
        is_partly = order.row.executed_quantity > 0
        to = OrderState.PARTIALLY_FILLED if is_partly else OrderState.ACCEPTED
        _move(state, order, to, f"{_told(amend)}: {amend.text}")
    if order.poll is not None:
        order.poll.restart(state.now, state.settings.poll_backoff)
    if verdict is not AmendVerdict.DONE or code:
        _note(state, amend, order)


def _note(state: State, amend: TrackedAmend, order: TrackedOrder) -> None:
    """Tell what the order's own row does not."""
    kind = "ALERT" if amend.verdict is AmendVerdict.DIFFERS else "AMEND"
    text = f"{order.row.order_id} {_told(amend)}: {amend.text}"
    numbers = {"old": amend.old, "new": amend.new, "verdict": amend.verdict, "code": amend.code}
    state.note(kind, text, numbers, symbol=order.row.symbol)


def _block(
    state: State, amend: TrackedAmend, order: TrackedOrder, checks: tuple[CheckResult, ...]
) -> None:
    """Nothing was sent: a fresh row, or what happened meanwhile, forbids it."""
    amend.stage, amend.verdict = AmendStage.OVER, AmendVerdict.BLOCKED
    amend.code, amend.text = refusal_code(state, checks[-1]), checks[-1].text
    decide(state, amend.ask, order, checks)


def decide(
    state: State, ask: AmendAsked, order: TrackedOrder | None, checks: tuple[CheckResult, ...]
) -> None:
    """Journal whether an ask is taken, with the numbers of the check that refused it."""
    row, last = order.row if order else None, checks[-1]
    state.counts["amends_asked" if last.passed else "amends_blocked"] += 1
    state.record(
        Decision(
            at=state.now,
            strategy=(row.strategy or "") if row else "",
            symbol=row.symbol if row else "",
            verdict=Verdict.PASSED if last.passed else Verdict.BLOCKED,
            code="AMEND" if last.passed else refusal_code(state, last),
            why=ask.reason,
            numbers={
                "by": ask.by,
                "order_id": ask.order_id,
                "price": ask.limit_price,
                "quantity": ask.quantity,
                **({} if last.passed else last.numbers),
            },
            checks=checks,
            request_id=row.intent_id if row else None,
            side=row.side if row else None,
            quantity=ask.quantity or (row.quantity if row else None),
            order_type=row.order_type if row else None,
            price=ask.limit_price or (row.price if row else None),
        )
    )


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


def _value(amend: TrackedAmend, order: TrackedOrder) -> int:
    """The present value of the field that is amended."""
    return (order.row.price or 0) if amend.is_of_price else order.row.quantity


def _told(amend: TrackedAmend) -> str:
    field = "price" if amend.is_of_price else "quantity"
    return f"{field} {amend.old:,} to {amend.new:,}"
