"""What may be spent and sold: the broker's last numbers, our own fills since, and reservations.

The broker's snapshot is the base. A fill after it costs money or shares at once and gives nothing
before it settles (T+2, 13:00 local: VSDC settlement rules). Every order that works, and every
place whose outcome is unknown, is reserved at its full open size and worst price, fee included.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Final

from bot.domain.account import AccountSnapshot, Holding
from bot.domain.entry import AccountSeen, Fill
from bot.domain.errors import CalendarEnds, NoRule
from bot.domain.instrument import Exchange, Instrument
from bot.domain.message import AccountRead
from bot.domain.order import Side
from bot.engine import gate
from bot.engine.risk import ledgers
from bot.engine.state import State
from bot.engine.tracked import Flow, Position, StrategyState, TrackedOrder

NEVER: Final = datetime(9999, 1, 1, tzinfo=UTC)


def on_account(state: State, event: AccountRead) -> None:
    """Take the broker's numbers as the new base and compare the holdings with ours."""
    snapshot = event.snapshot
    state.accounts[snapshot.account] = snapshot
    state.record(AccountSeen(state.now, snapshot))
    state.flows = [flow for flow in state.flows if _still_matters(flow, snapshot)]
    if event.rights is not None:
        state.rights[snapshot.account] = event.rights
    ledgers.reconcile(state, snapshot)
    for symbol in sorted({*snapshot.holdings, *_own_symbols(state, snapshot.account)}):
        if not _is_busy(state, snapshot, symbol):
            _compare(state, snapshot, symbol)


def _still_matters(flow: Flow, snapshot: AccountSnapshot) -> bool:
    is_newer = flow.at > snapshot.at or flow.settles_at > snapshot.at
    return flow.account != snapshot.account or is_newer


# --------------------------------------------------------------------------------------- spending


def cash_free(state: State, account: str) -> int | None:
    """Return VND that a new buy may use, its fee included; None while the account is unread."""
    snapshot = state.accounts.get(account)
    if snapshot is None:
        return None
    flows = [flow for flow in state.flows if flow.account == account]
    spent = sum(flow.cash_out for flow in flows if flow.at > snapshot.at)
    settled = sum(flow.cash_in for flow in flows if _has_settled(state, flow, snapshot))
    return snapshot.cash - spent + settled - _reserved_cash(state, account)


def _has_settled(state: State, flow: Flow, snapshot: AccountSnapshot) -> bool:
    return snapshot.at < flow.settles_at <= state.now


def _reserved_cash(state: State, account: str) -> int:
    amounts = [
        order.open_quantity * worst_price(state, order.row.symbol, order.prices[-1])
        for order in own_open_orders(state, account, Side.BUY)
    ]
    amounts += [
        tracked.intent.quantity
        * worst_price(state, tracked.intent.symbol, tracked.intent.limit_price)
        for tracked in state.pending_intents()
        if tracked.intent.account == account and tracked.intent.side is Side.BUY
    ]
    return sum(amount + state.rulebook.fee(amount) for amount in amounts)


def worst_price(state: State, symbol: str, limit_price: int | None) -> int:
    """Return the most a share can cost: the limit, else the ceiling, the last price, or 0."""
    if limit_price is not None:
        return limit_price
    seen = state.quotes.get(symbol)
    return (seen.quote.ceiling or seen.quote.last) if seen else 0


def own_open_orders(state: State, account: str, side: Side) -> Iterator[TrackedOrder]:
    """The open orders of this bot on one side of one account."""
    for order in state.open_orders():
        if order.is_own and order.row.account == account and order.row.side is side:
            yield order


# ---------------------------------------------------------------------------------------- selling


def sellable_in_account(state: State, account: str, symbol: str) -> int:
    """Return settled, free shares of the whole account, less what our newer sells have taken."""
    snapshot = state.accounts.get(account)
    holding = snapshot.holdings.get(symbol) if snapshot else None
    if snapshot is None:
        return 0
    flows = [f for f in state.flows if f.account == account and f.symbol == symbol]
    sold = sum(flow.shares_out for flow in flows if flow.at > snapshot.at)
    settled = sum(flow.shares_in for flow in flows if _has_settled(state, flow, snapshot))
    base = holding.sellable if holding else 0
    return max(0, base - sold + settled - _newer_sells(state, snapshot, symbol))


def _newer_sells(state: State, snapshot: AccountSnapshot, symbol: str) -> int:
    """Shares in sells that the snapshot, which shows free shares, cannot know of."""
    orders = own_open_orders(state, snapshot.account, Side.SELL)
    working = sum(
        order.open_quantity
        for order in orders
        if order.row.symbol == symbol and _is_newer(state, order, snapshot)
    )
    pending = sum(
        tracked.intent.quantity
        for tracked in state.pending_intents()
        if tracked.intent.account == snapshot.account
        and tracked.intent.symbol == symbol
        and tracked.intent.side is Side.SELL
    )
    return working + pending


def _is_newer(state: State, order: TrackedOrder, snapshot: AccountSnapshot) -> bool:
    tracked = state.intents.get(order.row.intent_id or "")
    return tracked is None or (tracked.sent_at or tracked.intent.created_at) >= snapshot.at


def sellable_of(state: State, name: str, symbol: str) -> int:
    """Return how many of its own shares a strategy can sell now."""
    strategy = state.strategies[name]
    working = sum(
        order.open_quantity
        for order in state.working_orders(name, symbol)
        if order.row.side is Side.SELL
    )
    own = strategy.position(symbol).shares - working
    return max(0, min(own, sellable_in_account(state, strategy.plan.account, symbol)))


def add_flow(state: State, fill: Fill) -> None:
    """Remember what a fill moves until the broker's own numbers contain it."""
    flow = flow_of(state, fill, state.trading_date)
    if flow is not None:
        state.flows.append(flow)
        ledgers.add(state, flow)


def flow_of(state: State, fill: Fill, trading_date: date) -> Flow | None:
    """Return what a fill of a day moves, and when; None for a symbol that is not known."""
    instrument = state.instruments.get(fill.symbol)
    if instrument is None:
        return None
    is_buy = fill.side is Side.BUY
    return Flow(
        at=fill.at,
        account=fill.account,
        symbol=fill.symbol,
        cash_out=fill.amount + fill.fee if is_buy else 0,
        cash_in=0 if is_buy else fill.amount - fill.fee - fill.tax,
        shares_out=0 if is_buy else fill.quantity,
        shares_in=fill.quantity if is_buy else 0,
        settles_at=settlement_of(state, instrument, trading_date),
    )


def settlement_of(state: State, instrument: Instrument, trading_date: date) -> datetime:
    """Return when a trade of a day settles; beyond the calendar: only when the broker says so."""
    try:
        return state.rulebook.settles_at(instrument, trading_date)
    except (CalendarEnds, NoRule):
        return NEVER


# ------------------------------------------------------------------------------- profit and loss


def unrealised(state: State, symbol: str, position: Position) -> int:
    """Return value at the last price less cost; 0 while there is no quote."""
    seen = state.quotes.get(symbol)
    return position.shares * seen.quote.last - position.cost if seen else 0


def day_result(state: State, strategy: StrategyState) -> int:
    """Return what today has brought: realised and unrealised, less fees and taxes.

    What is unrealised counts from its cost, also for shares of an earlier day.
    """
    open_result = sum(unrealised(state, s, position) for s, position in strategy.positions.items())
    return strategy.realised_today + open_result - strategy.fees_today


def note_holdings(state: State, exchange: Exchange | None = None) -> None:
    """Name the shares that strategies still hold, all of them or those of one exchange."""
    found = [
        f"{symbol} {position.shares:,}, unrealised {unrealised(state, symbol, position):+,}"
        for strategy in state.strategies.values()
        for symbol, position in sorted(strategy.positions.items())
        if position.shares and exchange in {None, _exchange_of(state, symbol)}
    ]
    if found:
        state.note("HOLDS", f"still open: {' · '.join(found)}", {"positions": len(found)})


def _exchange_of(state: State, symbol: str) -> Exchange | None:
    instrument = state.instruments.get(symbol)
    return instrument.exchange if instrument else None


def pause_after_loss(state: State, strategy: StrategyState) -> None:
    """Pause a strategy whose loss of today has reached its limit."""
    limit, loss = strategy.limits.max_loss_per_day, -day_result(state, strategy)
    if limit is not None and loss >= limit and strategy.state == gate.ON:
        reason = f"day loss {loss:,} of {limit:,}"
        gate.switch(state, strategy, gate.PAUSED, reason, gate.BY_LIMIT)


# -------------------------------------------------------------------------------------- reconcile


def _own_shares(state: State, account: str, symbol: str) -> int:
    strategies = (
        strategy for strategy in state.strategies.values() if strategy.plan.account == account
    )
    return sum(r.positions[symbol].shares for r in strategies if symbol in r.positions)


def _own_symbols(state: State, account: str) -> set[str]:
    strategies = (
        strategy for strategy in state.strategies.values() if strategy.plan.account == account
    )
    return {symbol for strategy in strategies for symbol in strategy.positions}


def _is_busy(state: State, snapshot: AccountSnapshot, symbol: str) -> bool:
    """True when holding and own shares may differ because an order is just being filled."""
    is_working = any(order.is_own and order.row.symbol == symbol for order in state.open_orders())
    is_pending = any(tracked.intent.symbol == symbol for tracked in state.pending_intents())
    is_newer = any(flow.symbol == symbol and flow.at > snapshot.at for flow in state.flows)
    return is_working or is_pending or is_newer


def _compare(state: State, snapshot: AccountSnapshot, symbol: str) -> None:
    """Note a holding that is not ours plus the owner's own; two equal reads make it certain."""
    key = (snapshot.account, symbol)
    holding = snapshot.holdings.get(symbol, Holding(symbol, 0, 0, 0, 0))
    external = holding.total - _own_shares(state, snapshot.account, symbol)
    known = state.external_shares.get(key)
    if known is None and external >= 0:
        state.external_shares[key] = external
    elif external == known:
        state.drift.pop(key, None)
    elif known is None or state.drift.get(key) == external:
        _note_drift(state, key, known or 0, external)
    else:
        state.drift[key] = external


def _note_drift(state: State, key: tuple[str, str], known: int, external: int) -> None:
    """Note it, and take no order where a share count changed that a strategy relies on.

    New shares of a stock dividend belong to no strategy: its own position stays what its fills
    made it, so it never sells them; but price and indicators have jumped, so an operator decides.
    """
    account, symbol = key
    numbers = {"expected_external": known, "found_external": external}
    named = ledgers.explanation(state, account, symbol, external - known)
    text = named or f"{symbol}: {external - known:+,} shares that no order here explains"
    state.note("RECONCILE", text, numbers, symbol=symbol)
    state.external_shares[account, symbol] = external
    state.drift.pop(key, None)
    settings = state.settings
    is_changed_under_us = bool(named) and _own_shares(state, account, symbol) > 0
    does_halt = settings.halt_on_drift_of_external if known else settings.halt_on_drift
    if does_halt or is_changed_under_us:
        state.halt_symbol(symbol, text)
