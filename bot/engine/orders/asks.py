"""What is asked of one order by hand: to change it or to cancel it. Each ask ends in a decision."""

from dataclasses import replace

from bot.domain.entry import CheckResult, Decision, Verdict
from bot.domain.message import AmendAsked, CancelAsked
from bot.engine.orders import amends, cancels
from bot.engine.orders.ask_checks import find_order, judge_amend, judge_cancel
from bot.engine.state import State


def on_amend_asked(state: State, event: AmendAsked) -> None:
    """Check the ask; begin with it, or say why not."""
    order = find_order(state, event.order_id)
    checks = judge_amend(state, event)
    if order is None:
        amends.decide(state, event, None, checks)
        return
    named = replace(event, order_id=order.row.order_id)
    take = amends.begin if checks[-1].passed else amends.refuse
    take(state, order, named, checks)


def on_cancel_asked(state: State, event: CancelAsked) -> None:
    """Want the order cancelled, or all; the rest is as with every cancel."""
    refused = judge_cancel(state, event)
    if refused is not None:
        _refuse(state, event, refused)
    elif event.order_id is None:
        cancels.request_all(state, event.reason)
        state.note(
            "CANCEL", f"all open orders, asked by {event.by}", {"orders": len(state.cancels)}
        )
    else:
        _request(state, event, event.order_id)


def _request(state: State, event: CancelAsked, name: str) -> None:
    order = find_order(state, name)
    assert order is not None, "OPEN_ORDER is checked before"
    row = order.row
    is_again = row.order_id in state.cancels
    cancels.request(state, order, event.reason)
    text = "is being cancelled already" if is_again else "is to be cancelled"
    state.note("CANCEL", f"{row.order_id} {text}, asked by {event.by}", symbol=row.symbol)


def _refuse(state: State, event: CancelAsked, refused: CheckResult) -> None:
    order = find_order(state, event.order_id or "")
    row = order.row if order is not None else None
    state.record(
        Decision(
            at=state.now,
            strategy=(row.strategy or "") if row else "",
            symbol=row.symbol if row else "",
            verdict=Verdict.BLOCKED,
            code=refused.code,
            why=event.reason,
            numbers={"by": event.by, **refused.numbers},
            checks=(refused,),
            request_id=row.intent_id if row else None,
            side=row.side if row else None,
        )
    )


def objection(state: State, ask: AmendAsked | CancelAsked) -> CheckResult | None:
    """Return why an ask would be refused now, None when it would be taken; nothing changes."""
    if isinstance(ask, CancelAsked):
        return judge_cancel(state, ask)
    last = judge_amend(state, ask)[-1]
    return None if last.passed else last
