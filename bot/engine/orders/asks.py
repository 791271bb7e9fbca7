"""What is asked of one order by hand: to change it or to cancel it. Each ask ends in a decision."""

from dataclasses import replace

from bot.domain.entry import CheckResult, Decision, Verdict
from bot.domain.message import AmendAsked, CancelAsked
from bot.engine.orders import amends, cancels
from bot.engine.orders.ask_checks import find_order, judge_amend, judge_cancel
from bot.engine.state import Book


def on_amend_asked(book: Book, event: AmendAsked) -> None:
    """Check the ask; begin with it, or say why not."""
    order = find_order(book, event.order_id)
    checks = judge_amend(book, event)
    if order is None:
        amends.decide(book, event, None, checks)
        return
    named = replace(event, order_id=order.row.order_id)
    take = amends.begin if checks[-1].passed else amends.refuse
    take(book, order, named, checks)


def on_cancel_asked(book: Book, event: CancelAsked) -> None:
    """Want the order cancelled, or all; the rest is as with every cancel."""
    refused = judge_cancel(book, event)
    if refused is not None:
        _refuse(book, event, refused)
    elif event.order_id is None:
        cancels.request_all(book, event.reason)
        book.note("CANCEL", f"all open orders, asked by {event.by}", {"orders": len(book.cancels)})
    else:
        _request(book, event, event.order_id)


def _request(book: Book, event: CancelAsked, name: str) -> None:
    order = find_order(book, name)
    assert order is not None, "OPEN_ORDER is checked before"
    row = order.row
    is_again = row.order_id in book.cancels
    cancels.request(book, order, event.reason)
    text = "is being cancelled already" if is_again else "is to be cancelled"
    book.note("CANCEL", f"{row.order_id} {text}, asked by {event.by}", symbol=row.symbol)


def _refuse(book: Book, event: CancelAsked, refused: CheckResult) -> None:
    order = find_order(book, event.order_id or "")
    row = order.row if order is not None else None
    book.record(
        Decision(
            at=book.now,
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


def objection(book: Book, ask: AmendAsked | CancelAsked) -> CheckResult | None:
    """Return why an ask would be refused now, None when it would be taken; nothing changes."""
    if isinstance(ask, CancelAsked):
        return judge_cancel(book, ask)
    last = judge_amend(book, ask)[-1]
    return None if last.passed else last
