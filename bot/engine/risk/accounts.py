"""What may be spent and sold: the broker's last figures, our own fills since, and reservations.

The broker's snapshot is the base. A later fill costs money or shares at once and brings nothing
before it settles (T+2, 13:00 local: VSDC settlement rules), nor, if the snapshot may contain it
already, before the next one. Every working order, also one made elsewhere, and every place of
unknown outcome, is reserved at its full open size and worst price, fee included. Cash that is more
than twice of what our own fills explain counts once a second read agrees.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Final

from bot.domain.account import AccountSnapshot
from bot.domain.entry import HOLDS_NOTE, LAST_PRICE, AccountSeen, Fill, Number, OrderUpdated
from bot.domain.errors import CalendarEnds, NoRule
from bot.domain.instrument import Exchange, Instrument
from bot.domain.local_time import local_date
from bot.domain.message import AccountRead, ReadAccount
from bot.domain.order import Side
from bot.domain.recovery import Recovery
from bot.engine import gate
from bot.engine.flows import AccountLedger, Flow, NetAssets, is_near
from bot.engine.risk import breaks, ended_sales, lags, ledgers
from bot.engine.risk.expected import expected_at
from bot.engine.risk.shared_symbol import note_unsettled, settled_of_others
from bot.engine.risk.under_way import (
    at_market,
    refused_sales,
    reserved_twice,
    unpriced,
    worst_price,
)
from bot.engine.state import Position, State, StrategyState
from bot.engine.tracked import TrackedIntent, TrackedOrder

NEVER: Final = datetime(9999, 1, 1, tzinfo=UTC)
SHOWN_WITHIN: Final = timedelta(seconds=60)
"""So long after a settlement the account is read because of it; then its polls show it."""


@dataclass(frozen=True, slots=True)
class Means:
    """What a strategy may use in a symbol, computed once for each of its decisions.

    `cash`: VND that a new buy may use, its fee included; None while the account is unread.
    `sellable`: own shares in no own sell, be it answered or not, as far as the account has settled
    ones that no other strategy holds. `exposure`: own shares, what own orders may still buy, and
    the account's external open buys. `orders`: everybody's open orders in the symbol, `pending`:
    places there without an answer yet. `is_working`: an own order works in the symbol, or is on its
    way or held.
    """

    cash: int | None
    sellable: int
    exposure: int
    orders: tuple[TrackedOrder, ...]
    pending: tuple[TrackedIntent, ...]
    is_working: bool


def means_of(
    state: State, strategy: StrategyState, symbol: str, account: str | None = None
) -> Means:
    """Return what a strategy may use now; another order of any strategy outdates it.

    `account` overrides the strategy's own: that of an order placed before it changed.
    """
    name, account = strategy.plan.name, account or strategy.plan.account
    snapshot, exposure = state.accounts.get(account), strategy.position(symbol).shares
    orders = tuple(state.index.open_in.of(symbol))
    pending = tuple(state.index.pending_in.of(symbol))
    sellable, is_working = exposure - refused_sales(state, name, symbol), False
    for order in orders:
        row = order.row
        is_working |= row.strategy == name and order.holds_sales(state.now)
        if row.side is Side.SELL and row.strategy == name:
            sellable -= order.open_quantity
        elif row.side is Side.BUY and row.account == account and row.strategy in {name, None}:
            exposure += order.open_quantity
    for tracked in pending:
        intent = tracked.intent
        if intent.strategy == name:
            is_working = True
            if intent.side is Side.BUY:
                exposure += intent.quantity
            else:
                sellable -= intent.quantity
    for tracked in state.index.held.of(True):
        intent = tracked.intent
        is_working = is_working or (intent.strategy, intent.symbol) == (name, symbol)
    free = _free_shares(state, snapshot, symbol, orders, pending) if snapshot else 0
    settled = sellable - strategy.unsettled(symbol, state.now)
    if settled < min(sellable, free):
        left = free - settled_of_others(state, strategy, account, symbol, orders, pending)
        free = max(settled, left)
    return Means(
        cash=free_cash(state, snapshot) if snapshot else None,
        sellable=max(0, min(sellable, free)),
        exposure=exposure,
        orders=orders,
        pending=pending,
        is_working=is_working,
    )


def free_cash(state: State, snapshot: AccountSnapshot) -> int:
    """Return the account's money that no order can still take, fees included: 0 while nobody knows
    what one may take.
    """
    account, index, ledger = snapshot.account, state.index, state.ledgers.get(snapshot.account)
    cash = snapshot.cash
    if unpriced(state, account) is not None:
        return 0
    if ledger is not None:
        cash -= ledger.held + (ledger.lack.cash if ledger.lack is not None else 0)
        if (None, "cash") in ledger.doubts:
            later = sum(flow.cash_out for flow in ledger.flows if flow.at > snapshot.at)
            own = expected_at(ledger, snapshot.at).cash + later
            cash = cash if is_near(cash, own) else min(cash, own)
    cash += state.flows.cash(account, snapshot.at, state.now)
    elsewhere = index.reserved_elsewhere.of(account)
    cash -= index.reserved.of(account) + elsewhere
    cash += reserved_twice(state, account) if elsewhere else 0
    for symbol, quantity in at_market(state, account, elsewhere=True):
        amount = quantity * worst_price(state, symbol, None)
        cash -= amount + state.rulebook.fee(amount)
    return cash


def _free_shares(
    state: State,
    snapshot: AccountSnapshot,
    symbol: str,
    orders: Iterable[TrackedOrder],
    pending: Iterable[TrackedIntent],
) -> int:
    """The whole account's, less sells that the snapshot, which shows free shares, cannot know
    about.
    """
    account, holding = snapshot.account, snapshot.holdings.get(symbol)
    shares = holding.sellable if holding else 0
    shares += state.flows.shares(account, symbol, snapshot.at, state.now)
    for order in orders:
        row = order.row
        if order.is_own and row.account == account and row.side is Side.SELL:
            tracked = state.intents.get(row.intent_id or "")
            if tracked is None or (tracked.sent_at or tracked.intent.created_at) >= snapshot.at:
                shares -= order.open_quantity
    for tracked in pending:
        if tracked.intent.account == account and tracked.intent.side is Side.SELL:
            shares -= tracked.intent.quantity
    return shares


# ------------------------------------------------------------------------------------------ fills


def add_flow(state: State, fill: Fill, trading_date: date) -> None:
    """Record what a fill of a day moves until the broker's own figures contain it."""
    flow = flow_of(state, fill, trading_date)
    _add(state, flow)
    note_unsettled(state, fill.strategy, flow)


def add_external(state: State, before: OrderUpdated | None, row: OrderUpdated) -> None:
    """Record what an external order has moved since its previous row."""
    executed, amount = (before.executed_quantity, before.executed_amount) if before else (0, 0)
    quantity, amount = row.executed_quantity - executed, row.executed_amount - amount
    if row.intent_id is not None or quantity <= 0:
        return
    _add(state, _flow(state, row, quantity, amount))


def take_back_external(state: State, row: OrderUpdated) -> None:
    """Reverse what an order has moved that counted as external and is ours: from here on its own
    fills count.
    """
    if row.intent_id is not None or not row.executed_quantity:
        return
    flow = _flow(state, row, row.executed_quantity, row.executed_amount)
    back = replace(
        flow,
        at=state.now,
        cash_out=-flow.cash_out,
        cash_in=-flow.cash_in,
        shares_out=-flow.shares_out,
        shares_in=-flow.shares_in,
    )
    _add(state, back)


def _add(state: State, flow: Flow) -> None:
    state.flows.add(flow)
    if flow.settles_at != NEVER:
        found = state.reconciling
        found.settled_at = min(found.settled_at or NEVER, flow.settles_at)
    snapshot = state.accounts.get(flow.account)
    if snapshot is None or flow.at > snapshot.at:  # else the broker's figures contain it
        state.exposure.move(flow.account, flow.symbol, flow.shares_in - flow.shares_out)
    # Before the first base the fill waits: the broker's figures will contain it.
    ledger = state.ledgers.get(flow.account)
    (state.early_flows if ledger is None else ledger.flows).append(flow)


def _flow(state: State, row: OrderUpdated, quantity: int, amount: int) -> Flow:
    """Return what an external order moves, by our own rules for fees and taxes."""
    rules, before, is_buy = state.rulebook, row.executed_amount - amount, row.side is Side.BUY
    fee = rules.fee(row.executed_amount) - rules.fee(before)
    tax = 0 if is_buy else rules.sale_tax(row.executed_amount) - rules.sale_tax(before)
    return Flow(
        at=row.at,
        account=row.account,
        symbol=row.symbol,
        cash_out=amount + fee if is_buy else 0,
        cash_in=0 if is_buy else amount - fee - tax,
        shares_out=0 if is_buy else quantity,
        shares_in=quantity if is_buy else 0,
        settles_at=settlement_of(state, row.symbol, row.trading_date),
    )


def restore(state: State, base: AccountSnapshot, recovery: Recovery) -> None:
    """Continue from an earlier run's agreed figures: fills since then move them. They contain part
    of their day's external orders, and earlier days' whole. The newest row of one is all that the
    journal keeps: it shows more once it has traded on, or is of the night.
    """
    ledger = state.ledgers[base.account] = AccountLedger(base)
    flows = [flow for flow in state.early_flows if flow.account == base.account]
    rows = [order.row for order in state.orders.values() if not order.is_own]
    for row in dict.fromkeys((*rows, *recovery.traded_elsewhere)):
        if row.executed_quantity and row.account == base.account:
            day, whole = local_date(base.at), (row.executed_quantity, row.executed_amount)
            part = recovery.in_bases.get(row.order_id) if day == row.trading_date else None
            shares, amount = whole if day > row.trading_date else part or (0, 0)
            if shares:
                flows.append(replace(_flow(state, row, shares, amount), at=base.at))
            if row.executed_quantity > shares:
                more = row.executed_quantity - shares, row.executed_amount - amount
                flows.append(_flow(state, row, *more))
    ledger.flows = [flow for flow in flows if flow.at > base.at]
    ledger.coming = [flow for flow in flows if flow.at <= base.at < flow.settles_at]
    state.flows.restore((*ledger.coming, *ledger.flows))
    state.reconciling.settled_at = state.now


def flow_of(state: State, fill: Fill, trading_date: date) -> Flow:
    """Return what a fill of a day moves, and when; also one in a symbol that nothing trades now."""
    is_buy = fill.side is Side.BUY
    return Flow(
        at=fill.at,
        account=fill.account,
        symbol=fill.symbol,
        cash_out=fill.amount + fill.fee if is_buy else 0,
        cash_in=0 if is_buy else fill.amount - fill.fee - fill.tax,
        shares_out=0 if is_buy else fill.quantity,
        shares_in=fill.quantity if is_buy else 0,
        settles_at=settlement_of(state, fill.symbol, trading_date),
    )


def settlement_of(state: State, symbol: str, trading_date: date) -> datetime:
    """Return when a trade of a day settles; beyond the calendar: only when the broker says so.

    A symbol that no loaded strategy trades counts as a share: it settles by its kind, wherever it
    is listed.
    """
    instrument = state.instruments.get(symbol) or Instrument(symbol, Exchange.HOSE)
    try:
        return state.rulebook.settles_at(instrument, trading_date)
    except (CalendarEnds, NoRule):
        return NEVER


def look_at_settled(state: State) -> None:
    """Read the account as soon as something has settled, and again until its figures are of after
    that: they may have contained it before.
    """
    now, settlements = state.now, {NEVER}
    for account, ledger in state.ledgers.items():
        seen = state.accounts.get(account, ledger.base)
        every = (flow.settles_at for flow in (*ledger.coming, *ledger.flows))
        settlements |= {at for at in every if at > seen.at}
    if any(at <= now < at + SHOWN_WITHIN for at in settlements):
        state.command(ReadAccount("a settlement"))
        settlements.add(now + breaks.ASK_AGAIN)
    following = min(at for at in settlements if at > now)
    state.reconciling.settled_at = following if following != NEVER else None


# ------------------------------------------------------------------------------- profit and loss


def unrealised(state: State, symbol: str, position: Position) -> int:
    """Return value at the last price less cost; 0 while there is no quote."""
    seen = state.quotes.get(symbol)
    return position.shares * seen.quote.last - position.cost if seen else 0


def day_result(state: State, strategy: StrategyState) -> int:
    """Return today's result after fees and taxes, as far as today's prices are known.

    Shares of an earlier day count from today's reference.
    """
    mark_of, days = state.exposure.mark_of, strategy.days.items()
    results = [day.result(mark_of(symbol)) or 0 for symbol, day in days]
    return sum(results) - strategy.fees_today


def note_holdings(state: State, exchange: Exchange | None = None) -> None:
    """Name the shares that strategies still hold, all of them or those of one exchange, and whose
    they are where that strategy does not run.
    """
    found, numbers = [], dict[str, Number]()
    for strategy in state.strategies.values():
        for symbol, position in sorted(strategy.positions.items()):
            instrument = state.instruments.get(symbol)
            traded_on = instrument.exchange if instrument else None
            if position.shares and exchange in {None, traded_on}:
                worth = "no price"
                if seen := state.quotes.get(symbol):
                    worth = f"unrealised {unrealised(state, symbol, position):+,}"
                    numbers[f"{LAST_PRICE}{symbol}"] = seen.quote.last
                found.append(f"{symbol} {position.shares:,}, {worth}")
    for (name, symbol), position in sorted(state.unloaded.items()):
        instrument = state.instruments.get(symbol)
        traded_on = instrument.exchange if instrument else None
        if position.shares and exchange in {None, traded_on}:
            found.append(f"{symbol} {position.shares:,} of {name}, which does not run")
    if found:
        text = f"still open: {' · '.join(found)}"
        state.note(HOLDS_NOTE, text, {"positions": len(found), **numbers})


def pause_after_loss(state: State, strategy: StrategyState) -> None:
    """Pause a strategy whose loss of today has reached its limit."""
    limit, loss = strategy.limits.max_loss_per_day, -day_result(state, strategy)
    if limit is not None and loss >= limit and strategy.state == gate.ON:
        gate.let_only_sell(state, strategy, f"day loss {loss:,} VND of {limit:,}")


# ------------------------------------------------------------------------------------ reconciling


def on_account(state: State, event: AccountRead) -> None:
    """Compare the broker's figures with ours, and use them as the new base of what may be used.

    Deviating shares count only once a second read agrees: an account shown empty once is not flat.
    An answer requested before the one that counts is late: its fills nothing else would report.
    """
    snapshot, before = event.snapshot, state.accounts.get(event.snapshot.account)
    if before is not None and snapshot.at < before.at:
        return
    state.record(AccountSeen(state.now, snapshot))
    if event.rights is not None:
        state.rights[snapshot.account] = event.rights
    worth, known = max(0, snapshot.net_asset_value), state.reconciling.net_assets
    seen, ledger = known.get(snapshot.account), state.ledgers.get(snapshot.account)
    known[snapshot.account] = seen.followed_by(worth) if seen else NetAssets.first(worth, ledger)
    certain = ledgers.reconcile(state, snapshot)
    breaks.judge(state, snapshot, certain)
    ledger = state.ledgers.get(snapshot.account)
    is_doubtful = ledger is not None and any(symbol for symbol, _ in ledger.doubts)
    lack = ledgers.lack_at(ledger, snapshot) if ledger is not None else None
    if ledger is not None and certain:
        ledger.old = None  # the break stands instead
    elif ledger is not None:
        lags.follow(state, ledger, snapshot, lack)
    if before is None or not is_doubtful:
        state.accounts[snapshot.account] = snapshot
        ended_sales.follow(state, snapshot.account)
        if ledger is not None:
            ledger.lack, ledger.held = lack, ledgers.held_at(state, ledger, snapshot, lack)
        lacking = ledger.undelivered if ledger is not None else ()
        state.flows.forget(snapshot.account, snapshot.at, lacking)
        held = {symbol: holding.total for symbol, holding in snapshot.holdings.items()}
        for symbol, shares in state.flows.held(snapshot.account, snapshot.at, state.now).items():
            held[symbol] = held.get(symbol, 0) + shares
        for symbol, shares in lack.shares.items() if lack is not None else ():
            held[symbol] = held.get(symbol, 0) + shares
        cost = {symbol: holding.cost_price for symbol, holding in snapshot.holdings.items()}
        state.exposure.hold(snapshot.account, held, cost)
    breaks.look_again(state)
