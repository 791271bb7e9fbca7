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
from bot.engine import gate
from bot.engine.orders import cancels, set_aside
from bot.engine.risk.accounts import (
    NEVER,
    cash_free,
    day_result,
    sellable_in_account,
    sellable_of,
    settlement_of,
    worst_price,
)
from bot.engine.risk.checks import Opposite, View, judge
from bot.engine.risk.sizing import OrderRequest, Unsized, request_of
from bot.engine.state import State
from bot.engine.tracked import Instance, StrategyState, TrackedIntent
from bot.strategy import Request, RequestKind

_ONE_AT_A_TIME: Final = frozenset({RequestKind.BUY, RequestKind.CLOSE})


def consider(
    state: State, strategy: StrategyState, instance: Instance, request: Request, *, why: str
) -> None:
    """Take one wish as far as it goes."""
    if request.kind is RequestKind.SKIP:
        note_skip(state, strategy, instance.symbol, "SKIP", why)
    elif request.kind is RequestKind.CANCEL:
        _consider_cancel(state, strategy, instance.symbol, why)
    else:
        _consider_order(state, strategy, instance, request, why)


def _consider_cancel(state: State, strategy: StrategyState, symbol: str, why: str) -> None:
    orders = state.working_orders(strategy.plan.name, symbol)
    for order in orders:
        cancels.request(state, order, why)
    if not orders:
        note_skip(state, strategy, symbol, "NOTHING_TO_CANCEL", why)


def _consider_order(
    state: State, strategy: StrategyState, instance: Instance, request: Request, why: str
) -> None:
    state.counts["signals"] += 1
    if not state.gate.is_open:
        state.gate.missed += state.gate.lacks_token
        code, reason = gate.refusal(state)
        numbers: Numbers = {"state": state.gate.state, "reason": reason}
        _block(state, strategy, instance.symbol, code, why, numbers, request)
        return
    if (objection := gate.objection(strategy, _side_of(request))) is not None:
        numbers = {"state": strategy.state, "reason": objection}
        _block(state, strategy, instance.symbol, strategy.state.upper(), why, numbers, request)
        return
    if instance.symbol not in state.instruments:
        _block(state, strategy, instance.symbol, "SYMBOL", why, {"exchange": None}, request)
        return
    skipped = _reason_to_skip(state, strategy, instance.symbol, request)
    if skipped is not None:
        code, text = skipped
        note_skip(state, strategy, instance.symbol, code, f"{text} ({request.kind}: {why})")
        return
    order_request = request_of(state, strategy, instance, request, why)
    if isinstance(order_request, Unsized):
        _block(
            state,
            strategy,
            instance.symbol,
            order_request.code,
            why,
            order_request.numbers,
            request,
        )
    else:
        submit(state, strategy, order_request)


def note_skip(state: State, strategy: StrategyState, symbol: str, code: str, why: str) -> None:
    """Journal a reasoned no."""
    state.counts["skips"] += 1
    saw = what_was_seen(state, symbol)
    state.record(
        Decision(state.now, strategy.plan.name, symbol, Verdict.SKIPPED, code, why, saw=saw)
    )


def _block(
    state: State,
    strategy: StrategyState,
    symbol: str,
    code: str,
    why: str,
    numbers: Numbers,
    request: Request,
) -> None:
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
            saw=what_was_seen(state, symbol),
            side=_side_of(request),
            quantity=request.quantity,
        )
    )


def _side_of(request: Request) -> Side:
    return Side.BUY if request.kind is RequestKind.BUY else Side.SELL


def _reason_to_skip(
    state: State, strategy: StrategyState, symbol: str, request: Request
) -> tuple[str, str] | None:
    if request.kind in _ONE_AT_A_TIME and _is_working(state, strategy.plan.name, symbol):
        return "ORDER_WORKING", "order working"
    if request.limit is None:
        return (
            "NO_PRICE",
            f"no {'ask' if request.kind is RequestKind.BUY else 'bid'} to price against",
        )
    if request.kind is RequestKind.CLOSE and not sellable_of(state, strategy.plan.name, symbol):
        return "NOT_SETTLED", _not_settled(state, strategy, symbol)
    return None


def _is_working(state: State, strategy: str, symbol: str) -> bool:
    is_pending = any(
        tracked.intent.strategy == strategy and tracked.intent.symbol == symbol
        for tracked in state.intents.values()
        if tracked.reserves_in_full or tracked.state is SendState.HELD
    )
    return is_pending or bool(state.working_orders(strategy, symbol))


def _not_settled(state: State, strategy: StrategyState, symbol: str) -> str:
    """Say until when: the first settlement of a buy of this run, else of a buy of today."""
    account, instrument = strategy.plan.account, state.instruments.get(symbol)
    ahead = [
        flow.settles_at
        for flow in state.flows
        if (flow.account, flow.symbol) == (account, symbol) and flow.shares_in
        if flow.settles_at > state.now
    ]
    if instrument is None:
        return "not settled"
    until = min(ahead, default=settlement_of(state, instrument, state.trading_date))
    if until == NEVER:
        return "not settled"
    return f"not settled until {until.astimezone(EXCHANGE_TZ):%Y-%m-%d %H:%M}"


# ------------------------------------------------------------------------------------- the checks


def submit(state: State, strategy: StrategyState, request: OrderRequest) -> Intent | None:
    """Check a request and send it, or journal why not; return the intent that was sent."""
    view = view_of(state, strategy, request)
    checks = judge(request, view, strategy.limits)
    intent = _intent_of(state, request)
    if not checks[-1].passed:
        _deny(state, strategy, request, intent, checks)
        return None
    if strategy.plan.mode is StrategyMode.WATCH:
        state.counts["watched"] += 1
        state.record(_decision(state, request, Verdict.WATCHED, "WATCH", checks, None))
        return None
    _approve(state, strategy, request, intent, checks)
    return intent


def _approve(
    state: State,
    strategy: StrategyState,
    request: OrderRequest,
    intent: Intent,
    checks: tuple[CheckResult, ...],
) -> None:
    state.next_intent_number += 1
    state.counts["orders"] += 1
    strategy.orders_today += 1
    state.intents[intent.intent_id] = TrackedIntent(intent, SendState.READY)
    state.record(_decision(state, request, Verdict.PASSED, "OK", checks, intent.intent_id))
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
    state.command(PlaceOrder(intent))


def _deny(
    state: State,
    strategy: StrategyState,
    request: OrderRequest,
    intent: Intent,
    checks: tuple[CheckResult, ...],
) -> None:
    """Keep a refused order as a row of its own, so that it can be looked up like any other."""
    state.next_intent_number += 1
    state.counts["blocks"] += 1
    state.counts["denied"] += 1
    code = checks[-1].code
    state.record(_decision(state, request, Verdict.BLOCKED, code, checks, intent.intent_id))
    state.record(IntentRecorded(state.now, intent, SendState.DENIED, checks[-1].text))
    if code == "MAX_LOSS":
        gate.switch(state, strategy, gate.PAUSED, checks[-1].text, gate.BY_LIMIT)


def _decision(
    state: State,
    request: OrderRequest,
    verdict: Verdict,
    code: str,
    checks: tuple[CheckResult, ...],
    intent_id: str | None,
) -> Decision:
    return Decision(
        at=state.now,
        strategy=request.strategy,
        symbol=request.symbol,
        verdict=verdict,
        code=code,
        why=request.why,
        numbers=checks[-1].numbers if verdict is Verdict.BLOCKED else {},
        saw=what_was_seen(state, request.symbol),
        checks=checks,
        request_id=intent_id,
        side=request.side,
        quantity=request.quantity,
        order_type=request.order_type,
        price=request.limit_price,
    )


def _intent_of(state: State, request: OrderRequest) -> Intent:
    instrument = state.instruments.get(request.symbol)
    number = state.next_intent_number
    assert instrument is not None, "a strategy's symbols are known before it is woken"
    return Intent(
        intent_id=f"L-{number:04d}",
        signal_id=f"{request.strategy}:{request.symbol}:{state.now:%Y%m%dT%H%M%S.%f}:{number}",
        strategy=request.strategy,
        account=request.account,
        trading_date=state.trading_date,
        symbol=request.symbol,
        exchange=instrument.exchange,
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


def what_was_seen(state: State, symbol: str) -> Numbers:
    """Return the quote and the top of the depth as they were at a decision."""
    saw: dict[str, int | float | str | bool | None] = {}
    quote, depth = state.quotes.get(symbol), state.depths.get(symbol)
    if quote is not None:
        saw["last"], saw["quote_at"] = quote.quote.last, quote.at.isoformat()
        saw["floor"], saw["ceiling"] = quote.quote.floor, quote.quote.ceiling
    if depth is not None:
        saw["bid"], saw["ask"] = depth.depth.bid, depth.depth.ask
        saw["bid_volume"] = sum(level.volume for level in depth.depth.bids)
        saw["ask_volume"] = sum(level.volume for level in depth.depth.asks)
    return saw


# --------------------------------------------------------------------------------------- the view


def view_of(state: State, strategy: StrategyState, request: OrderRequest) -> View:
    """Read from the book what the checks of one request may look at."""
    settings, symbol, account = state.settings, request.symbol, request.account
    instrument, quote = state.instruments.get(symbol), state.quotes.get(symbol)
    seen = state.phase_of(instrument.exchange) if instrument else None
    return View(
        at=state.now,
        rulebook=state.rulebook,
        state=state.gate.state,
        is_gate_open=state.gate.is_open,
        instrument=instrument,
        symbol_halt=state.halted_symbols.get(symbol)
        or set_aside.hold(state, account, symbol, request.side),
        phase=seen.phase if seen else Phase.CLOSED,
        available=seen.available if seen else None,
        when=strategy.plan.when,
        quote=quote.quote if quote else None,
        quote_age=state.now - quote.at if quote else timedelta(0),
        quote_age_max=settings.max_quote_age,
        price=worst_price(state, symbol, request.limit_price),
        position=_exposure(state, strategy, symbol),
        orders_today=strategy.orders_today,
        loss_today=-day_result(state, strategy),
        cash_free=cash_free(state, account),
        sellable=_sellable(state, strategy, request),
        twin=_twin(state, _intent_of(state, request)) if instrument else None,
        opposites=_opposites(state, request),
        unknown_in_account=sum(t.intent.account == account for t in _unfenced(state)),
        unknown_in_account_max=settings.max_unknown_per_account,
        unknown=sum(t.is_unresolved and t.state is not SendState.SENDING for t in _tracks(state)),
        unknown_max=settings.max_unknown,
    )


def _tracks(state: State) -> list[TrackedIntent]:
    return list(state.intents.values())


def _unfenced(state: State) -> list[TrackedIntent]:
    return [tracked for tracked in _tracks(state) if tracked.state is SendState.UNKNOWN]


def _exposure(state: State, strategy: StrategyState, symbol: str) -> int:
    """Own shares, what own orders may still buy, and open buys of the account that are nobody's."""
    name, account = strategy.plan.name, strategy.plan.account
    working = sum(
        order.open_quantity
        for order in state.open_orders()
        if order.row.symbol == symbol and order.row.side is Side.BUY
        if order.row.account == account and order.row.strategy in {name, None}
    )
    pending = sum(
        tracked.intent.quantity
        for tracked in state.pending_intents()
        if tracked.intent.strategy == name
        and tracked.intent.symbol == symbol
        and tracked.intent.side is Side.BUY
    )
    return strategy.position(symbol).shares + working + pending


def _sellable(state: State, strategy: StrategyState, request: OrderRequest) -> int:
    """Never more than the strategy's own, whatever the account holds."""
    own = sellable_of(state, strategy.plan.name, request.symbol)
    return min(own, sellable_in_account(state, request.account, request.symbol))


def _twin(state: State, intent: Intent) -> str | None:
    """Return an equal order that is open, unresolved or younger than the window."""
    oldest = state.now - state.settings.duplicate_window
    harmless = {SendState.DENIED, SendState.EXPIRED_LOCAL, SendState.NOT_SENT}
    for tracked in state.intents.values():
        if tracked.intent.fingerprint != intent.fingerprint or tracked.state in harmless:
            continue
        if tracked.intent.intent_id == intent.follows:
            continue
        order = state.orders.get(tracked.order_id or "")
        is_live = tracked.reserves_in_full or (order is not None and order.is_open)
        if is_live or tracked.intent.created_at > oldest:
            return tracked.intent.intent_id
    return None


def _opposites(state: State, request: OrderRequest) -> tuple[Opposite, ...]:
    """Everything of the same owner that works, or may work, on the other side of the symbol."""
    orders = [
        Opposite(order.row.intent_id or order.row.order_id, price)
        for order in state.open_orders()
        if order.row.symbol == request.symbol and order.row.side is not request.side
        for price in order.prices
    ]
    pending = [
        Opposite(tracked.intent.intent_id, tracked.intent.limit_price)
        for tracked in state.pending_intents()
        if tracked.intent.symbol == request.symbol and tracked.intent.side is not request.side
    ]
    return (*orders, *pending)
