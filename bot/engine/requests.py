"""From a wish to an intent, or to a reasoned no. Every wish ends here in a decision.

wish ─► gate open? ─► nothing of ours working? ─► request (price, size) ─► checks ─► intent READY
          BLOCKED              SKIPPED                 BLOCKED             BLOCKED
"""

from datetime import timedelta
from typing import Final

from bot.domain.entry import CheckResult, Decision, IntentRecorded, Numbers, Transition, Verdict
from bot.domain.instrument import EXCHANGE_TZ, Phase
from bot.domain.message import PlaceOrder
from bot.domain.order import Intent, OrderState, SendState, Side
from bot.domain.plan import StrategyMode
from bot.engine import gatekeeping, switches
from bot.engine.orders import cancels, set_aside
from bot.engine.risk.accounts import (
    NEVER,
    cash_free,
    sellable_in_account,
    sellable_of,
    settlement_of,
    worst_price,
)
from bot.engine.risk.checks import Opposite, View, judge, tighter
from bot.engine.risk.profit import day_result
from bot.engine.risk.sizing import Request, Unsized, request_of
from bot.engine.state import Book
from bot.engine.tracks import IntentTrack, Runner, Seat
from bot.strategy import Wish, WishKind

_ONE_AT_A_TIME: Final = frozenset({WishKind.BUY, WishKind.CLOSE})


def consider(book: Book, runner: Runner, seat: Seat, wish: Wish, *, why: str) -> None:
    """Take one wish as far as it goes."""
    if wish.kind is WishKind.SKIP:
        note_skip(book, runner, seat.symbol, "SKIP", why)
    elif wish.kind is WishKind.CANCEL:
        _consider_cancel(book, runner, seat.symbol, why)
    else:
        _consider_order(book, runner, seat, wish, why)


def _consider_cancel(book: Book, runner: Runner, symbol: str, why: str) -> None:
    orders = book.working_orders(runner.plan.name, symbol)
    for order in orders:
        cancels.request(book, order, why)
    if not orders:
        note_skip(book, runner, symbol, "NOTHING_TO_CANCEL", why)


def _consider_order(book: Book, runner: Runner, seat: Seat, wish: Wish, why: str) -> None:
    book.counts["signals"] += 1
    if not book.gate.is_open:
        _block_at_gate(book, runner, seat.symbol, wish, why)
        return
    if (objection := switches.objection(runner, _side_of(wish))) is not None:
        numbers: Numbers = {"state": runner.state, "reason": objection}
        _block(book, runner, seat.symbol, runner.state.upper(), why, numbers, wish)
        return
    if seat.symbol not in book.instruments:
        _block(book, runner, seat.symbol, "SYMBOL", why, {"exchange": None}, wish)
        return
    skipped = _reason_to_skip(book, runner, seat.symbol, wish)
    if skipped is not None:
        code, text = skipped
        note_skip(book, runner, seat.symbol, code, f"{text} ({wish.kind}: {why})")
        return
    request = request_of(book, runner, seat, wish, why)
    if isinstance(request, Unsized):
        _block(book, runner, seat.symbol, request.code, why, request.numbers, wish)
    else:
        submit(book, runner, request)


def note_skip(book: Book, runner: Runner, symbol: str, code: str, why: str) -> None:
    """Journal a reasoned no."""
    book.counts["skips"] += 1
    saw = what_was_seen(book, symbol)
    book.record(Decision(book.now, runner.plan.name, symbol, Verdict.SKIPPED, code, why, saw=saw))


def _block_at_gate(book: Book, runner: Runner, symbol: str, wish: Wish, why: str) -> None:
    code, reason = gatekeeping.refusal(book)
    if book.gate.lacks_token:
        book.gate.missed += 1
    numbers: Numbers = {"state": book.gate.state, "reason": reason}
    _block(book, runner, symbol, code, why, numbers, wish)


def _block(
    book: Book, runner: Runner, symbol: str, code: str, why: str, numbers: Numbers, wish: Wish
) -> None:
    book.counts["blocks"] += 1
    book.record(
        Decision(
            at=book.now,
            strategy=runner.plan.name,
            symbol=symbol,
            verdict=Verdict.BLOCKED,
            code=code,
            why=why,
            numbers=numbers,
            saw=what_was_seen(book, symbol),
            side=_side_of(wish),
            quantity=wish.quantity,
        )
    )


def _side_of(wish: Wish) -> Side:
    return Side.BUY if wish.kind is WishKind.BUY else Side.SELL


def _reason_to_skip(book: Book, runner: Runner, symbol: str, wish: Wish) -> tuple[str, str] | None:
    if wish.kind in _ONE_AT_A_TIME and _is_working(book, runner.plan.name, symbol):
        return "ORDER_WORKING", "order working"
    if wish.limit is None:
        return "NO_PRICE", f"no {'ask' if wish.kind is WishKind.BUY else 'bid'} to price against"
    if wish.kind is WishKind.CLOSE and not sellable_of(book, runner.plan.name, symbol):
        return "NOT_SETTLED", _not_settled(book, runner, symbol)
    return None


def _is_working(book: Book, strategy: str, symbol: str) -> bool:
    is_pending = any(
        track.intent.strategy == strategy and track.intent.symbol == symbol
        for track in book.intents.values()
        if track.reserves_in_full or track.state is SendState.HELD
    )
    return is_pending or bool(book.working_orders(strategy, symbol))


def _not_settled(book: Book, runner: Runner, symbol: str) -> str:
    """Say until when: the first settlement of a buy of this run, else of a buy of today."""
    account, instrument = runner.plan.account, book.instruments.get(symbol)
    ahead = [
        flow.settles_at
        for flow in book.flows
        if (flow.account, flow.symbol) == (account, symbol) and flow.shares_in
        if flow.settles_at > book.now
    ]
    if instrument is None:
        return "not settled"
    until = min(ahead, default=settlement_of(book, instrument, book.trading_date))
    if until == NEVER:
        return "not settled"
    return f"not settled until {until.astimezone(EXCHANGE_TZ):%Y-%m-%d %H:%M}"


# ------------------------------------------------------------------------------------- the checks


def submit(book: Book, runner: Runner, request: Request) -> Intent | None:
    """Check a request and send it, or journal why not; return the intent that was sent."""
    view = view_of(book, runner, request)
    checks = judge(request, view, tighter(runner.plan.limits, book.settings.limits))
    intent = _intent_of(book, request)
    if not checks[-1].passed:
        _deny(book, runner, request, intent, checks)
        return None
    if runner.plan.mode is StrategyMode.WATCH:
        book.counts["watched"] += 1
        book.record(_decision(book, request, Verdict.WATCHED, "WATCH", checks, None))
        return None
    _approve(book, runner, request, intent, checks)
    return intent


def _approve(
    book: Book, runner: Runner, request: Request, intent: Intent, checks: tuple[CheckResult, ...]
) -> None:
    book.next_intent_number += 1
    book.counts["orders"] += 1
    runner.orders_today += 1
    book.intents[intent.intent_id] = IntentTrack(intent, SendState.READY)
    book.record(_decision(book, request, Verdict.PASSED, "OK", checks, intent.intent_id))
    book.record(IntentRecorded(book.now, intent, SendState.READY))
    book.record(
        Transition(
            at=book.now,
            intent_id=intent.intent_id,
            order_id=None,
            from_state=None,
            to_state=OrderState.INITIALIZED,
            broker_status=None,
            source="engine",
        )
    )
    book.command(PlaceOrder(intent))


def _deny(
    book: Book, runner: Runner, request: Request, intent: Intent, checks: tuple[CheckResult, ...]
) -> None:
    """Keep a refused order as a row of its own, so that it can be looked up like any other."""
    book.next_intent_number += 1
    book.counts["blocks"] += 1
    book.counts["denied"] += 1
    code = checks[-1].code
    book.record(_decision(book, request, Verdict.BLOCKED, code, checks, intent.intent_id))
    book.record(IntentRecorded(book.now, intent, SendState.DENIED, checks[-1].text))
    if code == "MAX_LOSS":
        switches.switch(book, runner, switches.PAUSED, checks[-1].text, switches.BY_LIMIT)


def _decision(
    book: Book,
    request: Request,
    verdict: Verdict,
    code: str,
    checks: tuple[CheckResult, ...],
    intent_id: str | None,
) -> Decision:
    return Decision(
        at=book.now,
        strategy=request.strategy,
        symbol=request.symbol,
        verdict=verdict,
        code=code,
        why=request.why,
        numbers=checks[-1].numbers if verdict is Verdict.BLOCKED else {},
        saw=what_was_seen(book, request.symbol),
        checks=checks,
        request_id=intent_id,
        side=request.side,
        quantity=request.quantity,
        order_type=request.order_type,
        price=request.limit_price,
    )


def _intent_of(book: Book, request: Request) -> Intent:
    instrument = book.instruments.get(request.symbol)
    number = book.next_intent_number
    assert instrument is not None, "a strategy's symbols are known before it is woken"
    return Intent(
        intent_id=f"L-{number:04d}",
        signal_id=f"{request.strategy}:{request.symbol}:{book.now:%Y%m%dT%H%M%S.%f}:{number}",
        strategy=request.strategy,
        account=request.account,
        trading_date=book.trading_date,
        symbol=request.symbol,
        exchange=instrument.exchange,
        side=request.side,
        quantity=request.quantity,
        order_type=request.order_type,
        limit_price=request.limit_price,
        why=request.why,
        created_at=book.now,
        ttl_at=book.now + book.settings.signal_ttl,
        expire_after=request.expire_after,
        follows=request.follows,
        closes_position=request.closes_position,
    )


def what_was_seen(book: Book, symbol: str) -> Numbers:
    """Return the quote and the top of the depth as they were at a decision."""
    saw: dict[str, int | float | str | bool | None] = {}
    quote, depth = book.quotes.get(symbol), book.depths.get(symbol)
    if quote is not None:
        saw["last"], saw["quote_at"] = quote.quote.last, quote.at.isoformat()
        saw["floor"], saw["ceiling"] = quote.quote.floor, quote.quote.ceiling
    if depth is not None:
        saw["bid"], saw["ask"] = depth.depth.bid, depth.depth.ask
        saw["bid_volume"] = sum(level.volume for level in depth.depth.bids)
        saw["ask_volume"] = sum(level.volume for level in depth.depth.asks)
    return saw


# --------------------------------------------------------------------------------------- the view


def view_of(book: Book, runner: Runner, request: Request) -> View:
    """Read from the book what the checks of one request may look at."""
    settings, symbol, account = book.settings, request.symbol, request.account
    instrument, quote = book.instruments.get(symbol), book.quotes.get(symbol)
    seen = book.phase_of(instrument.exchange) if instrument else None
    return View(
        at=book.now,
        rulebook=book.rulebook,
        state=book.gate.state,
        is_gate_open=book.gate.is_open,
        instrument=instrument,
        symbol_halt=book.halted_symbols.get(symbol)
        or set_aside.hold(book, account, symbol, request.side),
        phase=seen.phase if seen else Phase.CLOSED,
        available=seen.available if seen else None,
        when=runner.plan.when,
        quote=quote.quote if quote else None,
        quote_age=book.now - quote.at if quote else timedelta(0),
        quote_age_max=settings.max_quote_age,
        price=worst_price(book, symbol, request.limit_price),
        position=_exposure(book, runner, symbol),
        orders_today=runner.orders_today,
        loss_today=-day_result(book, runner),
        cash_free=cash_free(book, account),
        sellable=_sellable(book, runner, request),
        twin=_twin(book, _intent_of(book, request)) if instrument else None,
        opposites=_opposites(book, request),
        unknown_in_account=sum(t.intent.account == account for t in _unfenced(book)),
        unknown_in_account_max=settings.max_unknown_per_account,
        unknown=sum(t.is_unresolved and t.state is not SendState.SENDING for t in _tracks(book)),
        unknown_max=settings.max_unknown,
    )


def _tracks(book: Book) -> list[IntentTrack]:
    return list(book.intents.values())


def _unfenced(book: Book) -> list[IntentTrack]:
    return [track for track in _tracks(book) if track.state is SendState.UNKNOWN]


def _exposure(book: Book, runner: Runner, symbol: str) -> int:
    """Own shares, what own orders may still buy, and open buys of the account that are nobody's."""
    name, account = runner.plan.name, runner.plan.account
    working = sum(
        order.open_quantity
        for order in book.open_orders()
        if order.row.symbol == symbol and order.row.side is Side.BUY
        if order.row.account == account and order.row.strategy in {name, None}
    )
    pending = sum(
        track.intent.quantity
        for track in book.pending_intents()
        if track.intent.strategy == name
        and track.intent.symbol == symbol
        and track.intent.side is Side.BUY
    )
    return runner.position(symbol).shares + working + pending


def _sellable(book: Book, runner: Runner, request: Request) -> int:
    """Never more than the strategy's own, whatever the account holds."""
    own = sellable_of(book, runner.plan.name, request.symbol)
    return min(own, sellable_in_account(book, request.account, request.symbol))


def _twin(book: Book, intent: Intent) -> str | None:
    """Return an equal order that is open, unresolved or younger than the window."""
    oldest = book.now - book.settings.duplicate_window
    harmless = {SendState.DENIED, SendState.EXPIRED_LOCAL, SendState.NOT_SENT}
    for track in book.intents.values():
        if track.intent.fingerprint != intent.fingerprint or track.state in harmless:
            continue
        if track.intent.intent_id == intent.follows:
            continue
        order = book.orders.get(track.order_id or "")
        is_live = track.reserves_in_full or (order is not None and order.is_open)
        if is_live or track.intent.created_at > oldest:
            return track.intent.intent_id
    return None


def _opposites(book: Book, request: Request) -> tuple[Opposite, ...]:
    """Everything of the same owner that works, or may work, on the other side of the symbol."""
    orders = [
        Opposite(order.row.intent_id or order.row.order_id, price)
        for order in book.open_orders()
        if order.row.symbol == request.symbol and order.row.side is not request.side
        for price in order.prices
    ]
    pending = [
        Opposite(track.intent.intent_id, track.intent.limit_price)
        for track in book.pending_intents()
        if track.intent.symbol == request.symbol and track.intent.side is not request.side
    ]
    return (*orders, *pending)
