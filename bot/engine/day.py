"""A new trading day: counters start again, and what the old day left open has ended."""

from dataclasses import replace

from bot.domain.entry import OrderUpdated, Transition
from bot.domain.message import TradingDayStarted
from bot.domain.order import OrderState
from bot.engine import switches
from bot.engine.orders import held, unknown
from bot.engine.state import Book
from bot.engine.tracks import OrderTrack


def on_trading_day(book: Book, event: TradingDayStarted) -> None:
    """Close the old day's questions and orders, and begin to count anew."""
    if event.trading_date == book.trading_date:
        return
    held.expire_held(book, at_once="the day ended")
    book.trading_date = event.trading_date
    end_earlier_days(book)
    _forget(book)
    _count_anew(book)


def end_earlier_days(book: Book) -> None:
    """Close what a day before today's has left open: today's day book knows nothing of it."""
    unknown.end_day(book, book.trading_date)
    for order in list(book.open_orders()):
        if order.row.trading_date < book.trading_date:
            _lapse(book, order)


def _lapse(book: Book, order: OrderTrack) -> None:
    """All orders are day orders: what is unfilled lapses at the close (exchange rules)."""
    row: OrderUpdated = replace(
        order.row, at=book.now, state=OrderState.EXPIRED, note="lapsed at the close"
    )
    book.record(
        Transition(
            at=book.now,
            intent_id=row.intent_id,
            order_id=row.order_id,
            from_state=order.row.state,
            to_state=row.state,
            broker_status=row.broker_status,
            source="engine",
            executed_quantity=row.executed_quantity,
            note=row.note,
        )
    )
    book.record(row)
    order.row, order.poll = row, None
    book.cancels.pop(row.order_id, None)


def _forget(book: Book) -> None:
    """Keep only what may still matter: the day book of today knows no older row."""
    book.orders = {key: order for key, order in book.orders.items() if order.is_open}
    book.intents = {key: track for key, track in book.intents.items() if track.reserves_in_full}
    book.seen_ids = set(book.orders)
    book.alerted.clear()


def _count_anew(book: Book) -> None:
    book.counts.clear()
    for runner in book.runners.values():
        runner.orders_today = runner.realised_today = runner.fees_today = 0
        if runner.state == switches.PAUSED and runner.state_by == switches.BY_LIMIT:
            switches.switch(book, runner, switches.ON, "a new day", switches.BY_LIMIT)
