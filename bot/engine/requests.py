"""From a request to an intent, or to a reason why not. Every request ends here in a decision.

request ─► gate open? ─► no open order of ours? ─► price and size ─► checks ─► intent READY
             BLOCKED              SKIPPED               BLOCKED         BLOCKED
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from bot.domain.entry import (
    Decision,
    IntentRecorded,
    Numbers,
    RunState,
    Transition,
    Verdict,
)
from bot.domain.instrument import BOARD_LOT, EXCHANGE_TZ, Instrument, Phase
from bot.domain.local_time import clock_of
from bot.domain.message import PlaceOrder
from bot.domain.order import Intent, OrderState, SendState, Side
from bot.domain.plan import StrategyMode
from bot.engine import belief, ex_dates, gate, invariants, two_factor
from bot.engine.findings import AUCTIONS
from bot.engine.orders import cancel_requests, doubts
from bot.engine.risk import ended_sales, sizing
from bot.engine.risk.accounts import (
    NEVER,
    Means,
    day_result,
    pause_after_loss,
)
from bot.engine.risk.checks import judge
from bot.engine.risk.sizing import SIDES, OrderRequest, request_of
from bot.engine.risk.under_way import unpriced, worst_price
from bot.engine.risk.view import Opposite, View, invested, use_of
from bot.engine.state import State, StrategyState
from bot.engine.tracked import TrackedIntent
from bot.strategy import Request, RequestKind

NEAR_AUCTION: Final = timedelta(seconds=60)
"""How long before an auction no order is sent against an own one of any price."""


def consider(
    state: State, strategy: StrategyState, symbol: str, request: Request, means: Means, *, why: str
) -> None:
    """Process one request as far as it gets."""
    if request.kind is RequestKind.SKIP:
        note_skip(state, strategy, symbol, "SKIP", why)
    elif request.kind is RequestKind.CANCEL and state.gate.flattening is not None:
        note_skip(state, strategy, symbol, "FLATTENING", f"what is sold after a halt stays ({why})")
    elif request.kind is RequestKind.CANCEL:
        name = strategy.plan.name
        orders = state.working_orders(name, symbol)
        is_any = bool(orders) | cancel_requests.request_pending(state, name, symbol, why)
        has_waited = give_up_close(state, strategy, symbol, f"its strategy cancels: {why}")
        for order in orders:
            if cancel_requests.is_in_doubt(state, order):
                doubt = f"{order.row.order_id} may be somebody else's ({why})"
                note_skip(state, strategy, symbol, "IN_DOUBT", doubt)
            else:
                cancel_requests.request(state, order, why)
        is_taken_back = two_factor.take_back(state, name, symbol, None, why)
        if not (is_any or has_waited or is_taken_back):
            note_skip(state, strategy, symbol, "NOTHING_TO_CANCEL", why)
    else:
        _consider_order(state, strategy, symbol, request, means, why)


def _consider_order(
    state: State, strategy: StrategyState, symbol: str, request: Request, means: Means, why: str
) -> None:
    state.counts["signals"] += 1
    if request.kind is not RequestKind.CLOSE:
        text = f"its strategy wants to {request.kind} instead: {why}"
        give_up_close(state, strategy, symbol, text)
    side = SIDES[request.kind]
    two_factor.take_back(state, strategy.plan.name, symbol, side, why)
    numbers: Numbers
    if state.gate.causes:
        state.gate.missed += state.gate.lacks_token
        code, reason = gate.refusal(state)
        numbers = {"state": state.gate.state, "reason": reason}
    elif (halted := gate.scope_objection(state, strategy.plan.account, side)) is not None:
        code, numbers = halted[0], {"state": halted[0], "reason": halted[1]}
    elif (objection := gate.strategy_objection(strategy, side)) is not None:
        code, numbers = strategy.state.upper(), {"state": strategy.state, "reason": objection}
    elif symbol not in state.instruments:
        code, numbers = "SYMBOL", {"exchange": None}
    elif (doubt := belief.objection(state, symbol, side)) is not None:
        code, numbers = "HELD_DATA", {"reason": doubt[0], **doubt[1]}
    elif side is Side.BUY and (unsure := ex_dates.doubt_of(state, strategy.plan, symbol)):
        note_skip(state, strategy, symbol, "WARMING", f"{unsure} ({request.kind}: {why})")
        return
    elif (skipped := reason_to_skip(state, strategy, symbol, request, means)) is not None:
        skip_code, text = skipped
        if skip_code == "ORDER_WORKING":
            two_factor.want_again(state, strategy.plan.name, symbol, side)
        note_skip(state, strategy, symbol, skip_code, f"{text} ({request.kind}: {why})")
        return
    elif request.kind is RequestKind.CLOSE and (
        due := sizing.sales_open_at(state, strategy.plan.account)
    ):
        sizing.keep_waiting(state, strategy, symbol, request, why, due)
        text = f"sales of this account go out again at {clock_of(due)}; it waits until then"
        note_skip(state, strategy, symbol, "EXIT_WAITS", f"{text}, a restart forgets it ({why})")
        return
    else:
        order = request_of(state, strategy, symbol, request, means, why)
        if isinstance(order, OrderRequest):
            submit(state, strategy, sizing.piece_of(state, strategy, order), means)
            return
        code, numbers = order.code, order.numbers
    state.counts["blocks"] += 1
    state.record(
        Decision(
            at=state.now,
            strategy=strategy.plan.name,
            symbol=symbol,
            verdict=Verdict.BLOCKED,
            code=code,
            why=why,
            numbers=numbers,
            saw=_what_was_seen(state, symbol),
            side=side,
            quantity=request.quantity,
        )
    )


def give_up_close(state: State, strategy: StrategyState, symbol: str, why: str) -> bool:
    """Journal that a close waits no longer for its turn; return whether there was one."""
    waiting = state.waiting_closes.pop((strategy.plan.name, symbol), None)
    if waiting is not None:
        text = f"given up: {why} ({waiting.why})"
        note_skip(state, strategy, symbol, "EXIT_WAITS", text)
    return waiting is not None


def note_skip(
    state: State,
    strategy: StrategyState,
    symbol: str,
    code: str,
    why: str,
    reads: Mapping[str, float] | None = None,
) -> None:
    """Journal a skip with its reason and what the hook has read, or (None) what the
    market showed.
    """
    state.counts["skips"] += 1
    numbers = {name: round(value, 4) for name, value in (reads or {}).items()}
    saw = _what_was_seen(state, symbol) if reads is None else {}
    name = strategy.plan.name
    state.record(Decision(state.now, name, symbol, Verdict.SKIPPED, code, why, numbers, saw))


def reason_to_skip(
    state: State, strategy: StrategyState, symbol: str, request: Request, means: Means
) -> tuple[str, str] | None:
    """Return code and words of why nothing is ordered now although nothing is wrong."""
    if request.kind is not RequestKind.SELL and means.is_working:
        return "ORDER_WORKING", "order working"
    if request.limit is None:
        side = "ask" if request.kind is RequestKind.BUY else "bid"
        return "NO_PRICE", f"no {side} to price against"
    if request.kind is not RequestKind.CLOSE or means.sellable:
        return None
    if ended_sales.is_lacking(state, strategy.plan.account, symbol):
        return "NOT_SETTLED", "blocked by a sale that has just ended: the account is read again"
    # Until the first settlement of a buy of this run, else of the strategy's buys of before.
    own = (at for at in strategy.coming.get(symbol, ()) if at > state.now)
    until = state.flows.next_delivery(strategy.plan.account, symbol, state.now)
    if (until := until or min(own, default=None)) is None:
        return "NOT_SETTLED", f"the account has no {symbol} that could be sold, and none is due"
    when = "" if until == NEVER else f" until {until.astimezone(EXCHANGE_TZ):%Y-%m-%d %H:%M}"
    return "NOT_SETTLED", f"not settled{when}"


# ------------------------------------------------------------------------------------- the checks


def submit(
    state: State, strategy: StrategyState, request: OrderRequest, means: Means
) -> Intent | None:
    """Check an order and send it, or journal why not; return the intent if it was sent.

    The first refusal by a limit of its side and code since the last order in the symbol gets its
    own row: later ones are decisions without a number, which the journal folds.
    """
    intent = _intent_of(state, request)
    oldest = state.now - state.settings.duplicate_window
    twin = state.index.twin_of(intent, oldest)
    view = view_of(state, strategy, request, means, twin)
    checks = judge(request, view, strategy.limits)
    verdict, code, last, has_row = Verdict.PASSED, "OK", checks[-1], True
    if not last.passed:
        verdict, code = Verdict.BLOCKED, last.code
        rows, kind = strategy.refused_rows.setdefault(request.symbol, set()), (request.side, code)
        has_row = kind not in rows or request.follows is not None
        rows.add(kind)
        if code == "DUPLICATE":
            two_factor.want_again(state, request.strategy, request.symbol, request.side, twin)
    elif strategy.plan.mode is StrategyMode.WATCH:
        verdict, code, has_row = Verdict.WATCHED, "WATCH", False
    state.record(
        Decision(
            at=state.now,
            strategy=request.strategy,
            symbol=request.symbol,
            verdict=verdict,
            code=code,
            why=request.why,
            numbers=last.numbers if verdict is Verdict.BLOCKED else {},
            saw=_what_was_seen(state, request.symbol),
            checks=checks,
            request_id=intent.intent_id if has_row else None,
            side=request.side,
            quantity=request.quantity,
            order_type=request.order_type,
            price=request.limit_price,
        )
    )
    if verdict is Verdict.PASSED:
        _approve(state, strategy, intent, means)
        return intent
    if verdict is Verdict.WATCHED:
        state.counts["watched"] += 1
    else:
        state.counts["blocks"] += 1
        if has_row:  # it can be looked up like any other order
            state.next_intent_number += 1
            state.counts["denied"] += 1
            state.record(IntentRecorded(state.now, intent, SendState.DENIED, last.text))
        if last.code == "DAY_LOSS":
            cancel_requests.stop_after_loss(state, request.account)
        if last.code == "MAX_LOSS":
            pause_after_loss(state, strategy)
    return None


def next_id(state: State) -> str:
    """Return the number of the next intent."""
    return f"L-{state.next_intent_number:04d}"


def twin_of(state: State, request: OrderRequest) -> str | None:
    """Return the order because of which an equal one is refused now, if any."""
    oldest = state.now - state.settings.duplicate_window
    return state.index.twin_of(_intent_of(state, request), oldest)


def _approve(state: State, strategy: StrategyState, intent: Intent, means: Means) -> None:
    state.next_intent_number += 1
    state.counts["orders"] += 1
    strategy.orders_today += 1
    strategy.refused_rows.pop(intent.symbol, None)
    if intent.side is Side.BUY:
        price = worst_price(state, intent.symbol, intent.limit_price)
        strategy.recent_buys.append(intent.quantity * price)
    state.usage.of(intent.account).orders_today += 1
    state.index.track_intent(TrackedIntent(intent, SendState.READY))
    state.record(IntentRecorded(state.now, intent, SendState.READY))
    state.record(
        Transition(
            at=state.now,
            intent_id=intent.intent_id,
            order_id=None,
            from_state=None,
            to_state=OrderState.INITIALIZED,
            broker_status=None,
            source="engine",
        )
    )
    invariants.of_approved(state, strategy, intent)
    state.command(PlaceOrder(intent))
    left = means.sellable - intent.quantity
    if intent.closes_position and left >= BOARD_LOT:
        numbers: Numbers = {"intent_id": intent.intent_id, "left": left}
        sold = f"{intent.intent_id} sells {intent.quantity:,} of {means.sellable:,} {intent.symbol}"
        text = f"{sold}: one order may be of no more. {sizing.when_the_rest(state, intent)}"
        state.note("EXIT", text, numbers, symbol=intent.symbol)


def _intent_of(state: State, request: OrderRequest) -> Intent:
    number, now = state.next_intent_number, state.now
    instant = (  # 20261119T022001.250000: strftime takes as long as everything else here
        f"{now.year}{now.month:02}{now.day:02}"
        f"T{now.hour:02}{now.minute:02}{now.second:02}.{now.microsecond:06}"
    )
    return Intent(
        intent_id=next_id(state),
        signal_id=f"{request.strategy}:{request.symbol}:{instant}:{number}",
        strategy=request.strategy,
        account=request.account,
        trading_date=state.trading_date,
        symbol=request.symbol,
        exchange=state.instruments[request.symbol].exchange,
        side=request.side,
        quantity=request.quantity,
        order_type=request.order_type,
        limit_price=request.limit_price,
        why=request.why,
        created_at=state.now,
        ttl_at=state.now + state.settings.signal_ttl,
        expire_after=request.expire_after,
        follows=request.follows,
        closes_position=request.closes_position,
    )


def _what_was_seen(state: State, symbol: str) -> Numbers:
    """Return the quote and the top of the depth at the time of a decision."""
    saw: dict[str, int | float | str | bool | None] = {}
    quote, depth = state.quotes.get(symbol), state.depths.get(symbol)
    if quote is not None:
        saw["last"], saw["quote_at"] = quote.quote.last, quote.at.isoformat()
        saw["floor"], saw["ceiling"] = quote.quote.floor, quote.quote.ceiling
    if depth is not None:
        saw["bid"], saw["ask"] = depth.depth.bid, depth.depth.ask
        saw["bid_volume"] = sum([level.volume for level in depth.depth.bids])
        saw["ask_volume"] = sum([level.volume for level in depth.depth.asks])
    return saw


# --------------------------------------------------------------------------------------- the view


def view_of(
    state: State,
    strategy: StrategyState,
    request: OrderRequest,
    means: Means,
    twin: str | None = None,
) -> View:
    """Gather what the checks of one order may look at; `twin` is an equal order, if any."""
    settings, limits = state.settings, strategy.limits
    symbol, account = request.symbol, request.account
    instrument, quote = state.instruments.get(symbol), state.quotes.get(symbol)
    seen = state.phase_of(instrument.exchange) if instrument else None
    pending = state.pending_intents()
    lost_in = [each.intent.account for each in pending if each.state is SendState.UNKNOWN]
    doubt = belief.doubt(state, symbol)
    opposites = []  # everything that works, or may work, on the other side of the symbol
    for order in means.orders:
        if order.row.side is not request.side and order.holds_sales(state.now):
            opposites += [Opposite(order.name, price) for price in order.prices]
    for tracked in means.pending:
        if tracked.intent.side is not request.side:
            opposites.append(Opposite(tracked.intent.intent_id, tracked.intent.limit_price))
    return View(
        at=state.now,
        rulebook=state.rulebook,
        state=state.gate.state,
        is_gate_open=all(
            request.is_flattening and each is RunState.HALTED for each in state.gate.causes
        ),
        instrument=instrument,
        symbol_halt=state.halted_symbols.get(symbol)
        or doubts.reason_not_to_buy(state, account, symbol, request.side),
        held_data=belief.objection(state, symbol, request.side) if doubt else None,
        phase=seen.phase if seen else Phase.CLOSED,
        available=seen.available if seen else None,
        when=strategy.plan.when,
        quote=quote.quote if quote else None,
        # An exit allowed while data is held uses the last trusted quote, however old.
        quote_age=state.now - quote.at if quote and not doubt else timedelta(0),
        quote_age_max=settings.max_quote_age,
        price=worst_price(state, symbol, request.limit_price),
        position=means.exposure,
        orders_today=strategy.orders_today,
        loss_today=0 if limits.max_loss_per_day is None else -day_result(state, strategy),
        cash_free=means.cash,
        unpriced=unpriced(state, account),
        sellable=means.sellable,
        twin=twin,
        opposites=tuple(opposites),
        unknown_in_account=lost_in.count(account),
        unknown_in_account_max=settings.max_unknown_per_account,
        unknown=len(lost_in),
        unknown_max=settings.max_unknown,
        account=use_of(state, request, means),
        is_auction_near=bool(opposites) and _is_auction_near(state, instrument),
        recent_buys=strategy.recent_buys,
        invested=0 if limits.capital is None else invested(state, strategy),
        shared_limits=strategy.shared_limits,
        at_default=settings.at_default,
    )


def _is_auction_near(state: State, instrument: Instrument | None) -> bool:
    """Return whether both sides of a symbol would be in one auction, though none can match yet."""
    soon = state.now + NEAR_AUCTION
    return instrument is not None and (
        state.rulebook.phase_at(instrument.exchange, soon) in AUCTIONS
    )
