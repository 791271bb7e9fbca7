"""The state of each account as frozen values: its worth, comparison, and used limits.

Commands about money show the balances, `bot reconcile` the comparison of journal, day order book
and account, `bot limits` the limits. Nothing here changes anything.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.domain.account import Break
from bot.domain.entry import OrderUpdated
from bot.domain.order import SendState
from bot.domain.rulebook import PPM
from bot.engine.account_state import REFUSALS_MAX, REFUSALS_OF_LATE_MAX
from bot.engine.flows import AccountLedger
from bot.engine.orders import closing_rows, reports
from bot.engine.risk import breaks, losses
from bot.engine.risk.accounts import NEVER, day_result, free_cash, means_of
from bot.engine.risk.expected import expected_at
from bot.engine.risk.lags import read_of
from bot.engine.risk.ledgers import cash_beside, own_shares
from bot.engine.risk.view import bought, invested
from bot.engine.state import State, StrategyState


@dataclass(frozen=True, slots=True)
class HeldShares:
    """Shares of the whole account; `last` is the last trusted price, None if there was none."""

    symbol: str
    total: int
    sellable: int
    receiving: int
    last: int | None
    last_at: datetime | None


@dataclass(frozen=True, slots=True)
class Due:
    """What settles at an instant: sale proceeds and bought shares."""

    at: datetime
    cash: int
    shares: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Balance:
    """One account. `cash` is the last agreed broker figure plus our fills (around a settlement the
    nearest plausible value); `broker_cash` and `broker_net_assets` were read at `read_at`.
    `buying_power` is cash less what open orders may still take, including fees.
    """

    account: str
    read_at: datetime
    cash: int
    broker_cash: int
    broker_net_assets: int
    buying_power: int
    due: tuple[Due, ...]
    held: tuple[HeldShares, ...]


def balances_of(state: State) -> tuple[Balance, ...]:
    """Read the state; nothing changes. An account that has not been read yet has no row; before our
    own figures have begun, the broker's are shown.
    """
    found = []
    for account, seen in sorted(state.accounts.items()):
        ledger = state.ledgers.get(account) or AccountLedger(seen)
        explained = expected_at(ledger, seen.at).explained_cash
        at_read = min(explained, key=lambda each: abs(each - seen.cash))
        balance = Balance(
            account=account,
            read_at=seen.at,
            cash=at_read + state.flows.cash(account, seen.at, state.now),
            broker_cash=seen.cash,
            broker_net_assets=seen.net_asset_value,
            buying_power=free_cash(state, seen),
            due=tuple(due_of(state, ledger)),
            held=tuple(held_of(state, ledger)),
        )
        found.append(balance)
    return tuple(found)


def due_of(state: State, ledger: AccountLedger) -> Iterator[Due]:
    """Yield what settles from now on, earliest first."""
    cash, shares = defaultdict[datetime, int](int), defaultdict[datetime, dict[str, int]](dict)
    for flow in (*ledger.coming, *ledger.flows):
        if flow.settles_at <= state.now or flow.settles_at == NEVER:
            continue
        cash[flow.settles_at] += flow.cash_in
        if flow.shares_in:
            mine = shares[flow.settles_at]
            mine[flow.symbol] = mine.get(flow.symbol, 0) + flow.shares_in
    for at in sorted(cash):
        yield Due(at, cash[at], tuple(sorted(shares[at].items())))


def held_of(state: State, ledger: AccountLedger) -> Iterator[HeldShares]:
    """Yield the shares of the account according to our fills."""
    for symbol, mine in expected_at(ledger, state.now).holdings.items():
        seen = state.quotes.get(symbol)
        if mine.total or mine.receiving:
            yield HeldShares(
                symbol=symbol,
                total=mine.total,
                sellable=mine.sellable,
                receiving=mine.receiving,
                last=seen.quote.last if seen else None,
                last_at=seen.at if seen else None,
            )


# ------------------------------------------------------------------------- compared with the broker


@dataclass(frozen=True, slots=True)
class Compared:
    """One number of an account. `symbol` None: cash, in VND; else all shares of the symbol.

    `own`: what our strategies hold according to the journal. `ours`: what the broker should show.
    """

    account: str
    symbol: str | None
    own: int
    ours: int
    theirs: int

    @property
    def difference(self) -> int:
        """By how much the broker's number is higher."""
        return self.theirs - self.ours


@dataclass(frozen=True, slots=True)
class GoneShares:
    """How many shares of a symbol strategies count that their account does not have."""

    account: str
    symbol: str
    shares: int


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What was compared, when, and what does not match; `doubts` await a second read."""

    book_read_at: datetime | None
    account_read_at: datetime | None
    numbers: tuple[Compared, ...]
    breaks: tuple[Break, ...]
    doubts: tuple[str, ...]
    unsettled: tuple[str, ...]
    """Places without a known outcome, in words."""
    external: tuple[OrderUpdated, ...]
    """Today's external orders: they count, and are never touched."""
    not_listed: tuple[OrderUpdated, ...]
    """Open orders, ours and external ones, that the day order book has not shown for long."""
    gone: tuple[GoneShares, ...]
    rows: tuple[str, ...]
    """Orders, in words, that the ended day's order book shows otherwise than the journal."""


def reconciliation_of(state: State) -> Reconciliation:
    """Read the state; nothing changes."""
    numbers = list[Compared]()
    for account, ledger in sorted(state.ledgers.items()):
        seen = state.accounts.get(account)
        if seen is None:
            continue
        expected, own = expected_at(ledger, seen.at), own_shares(state, account)
        cash = cash_beside(state, ledger, expected, seen)
        numbers.append(Compared(account, None, 0, cash, seen.cash))
        for symbol in sorted({*expected.holdings, *seen.holdings}):
            ours = expected.holdings.get(symbol)
            theirs = seen.held(symbol)
            total = ours.total if ours else 0
            numbers.append(Compared(account, symbol, own.get(symbol, 0), total, theirs.total))
    books = [read.requested_at for read in state.set_aside.values()]
    rows = [order.row for order in state.orders.values() if not order.is_own]
    return Reconciliation(
        book_read_at=max(books, default=None),
        account_read_at=max((seen.at for seen in state.accounts.values()), default=None),
        numbers=tuple(numbers),
        breaks=tuple(state.reconciling.breaks.values()),
        doubts=tuple(breaks.doubts(state)),
        unsettled=tuple(f"{o.intent.intent_id} {o.state}" for o in state.pending_intents()),
        external=tuple(row for row in rows if row.trading_date == state.trading_date),
        not_listed=tuple(order.row for order in reports.not_listed(state)),
        gone=tuple(
            GoneShares(account, symbol, shares)
            for account, ledger in sorted(state.ledgers.items())
            for symbol, shares in sorted(ledger.gone.items())
        ),
        rows=tuple(closing_rows.in_doubt(state)),
    )


# ------------------------------------------------------------------------------------ limits in use


@dataclass(frozen=True, slots=True)
class LimitUse:
    """One limit. `scope` is account, strategy or symbol and `of` its name; `key` is its setting.

    `used` is None if the limit is about single orders, or the value is not known; `allowed` None:
    no limit. For `min_cash`, used is the present cash and allowed the minimum; `max_gross_of_nav`
    is in ppm while the net asset value is not known.
    """

    scope: str
    of: str
    key: str
    used: int | None
    allowed: int | None
    unit: str


def limits_used(state: State) -> tuple[LimitUse, ...]:
    """Return every limit of the accounts, strategies and symbols that this bot trades."""
    found = []
    for account in sorted({one.plan.account for one in state.strategies.values()}):
        found += [*_of_account(state, account), *_of_symbols(state, account)]
    for strategy in state.strategies.values():
        found += _of_strategy(state, strategy)
    return tuple(found)


def _of_account(state: State, account: str) -> Iterator[LimitUse]:
    limits, usage, worth = (
        state.settings.account_limits,
        state.usage.of(account),
        state.exposure.of(account),
    )
    snapshot, now = state.accounts.get(account), state.now
    nav = losses.nav_of(state, account)
    gap, age_max = limits.max_price_gap_ppm, limits.max_account_age
    gross_max, unit = _part(nav, limits.max_gross_nav_ppm), "VND"
    gross = None if snapshot is None else worth.value + bought(state, account)
    if nav is None and limits.max_gross_nav_ppm is not None:  # a share of something unknown
        gross_max, unit = limits.max_gross_nav_ppm, "ppm"
    is_known = snapshot is not None or not any(state.exposure.unmarked())
    loss = max(0, worth.loss) if is_known else None
    read_at = read_of(state, account)
    age = None if read_at is None else round((now - read_at).total_seconds())
    cash = None
    for strategy in state.strategies.values():
        if strategy.plan.account == account and cash is None:
            cash = means_of(state, strategy, strategy.plan.symbols[0]).cash
    settings, pending = state.settings, state.pending_intents()
    unknown = sum(
        each.state is SendState.UNKNOWN and each.intent.account == account for each in pending
    )
    minute, second = usage.last_minute.count(now), usage.last_second.count(now)
    sales = usage.sales_of_minute.count(now)
    rows: tuple[tuple[str, int | None, int | None, str], ...] = (
        ("max_loss_per_day", loss, losses.limit_of(state, account), "VND"),
        ("max_gross_of_nav", gross, gross_max, unit),
        ("min_cash", cash, limits.min_cash, "VND"),
        ("max_orders_per_day", usage.orders_today, limits.max_orders_per_day, "orders"),
        ("max_orders_per_minute", minute, limits.max_orders_per_minute, "orders"),
        ("max_orders_per_second", second, limits.max_orders_per_second, "orders"),
        ("max_sales_per_minute", sales, limits.max_orders_per_minute, "sales"),
        ("max_open_orders", state.index.working.of(account), limits.max_open_orders, "orders"),
        ("max_order_value", None, limits.max_order_value, "VND"),
        ("max_order_quantity", None, limits.max_order_quantity, "shares"),
        ("max_price_gap", None, gap, "ppm"),
        ("max_reference_gap", None, limits.max_reference_gap_ppm, "ppm"),
        ("max_auction_share", None, limits.max_auction_share_ppm, "ppm"),
        ("max_account_age_s", age, _seconds(age_max), "s"),
        ("last_entry_s", None, _seconds(limits.last_entry), "s"),
        ("max_unknown", unknown, settings.max_unknown_per_account, "orders"),
        ("max_quote_age_s", None, _seconds(settings.max_quote_age), "s"),
        ("signal_ttl_s", None, _seconds(settings.signal_ttl), "s"),
        ("duplicate_window_s", None, _seconds(settings.duplicate_window), "s"),
        ("clock.max_offset_s", None, _seconds(settings.clock_max_offset), "s"),
    )
    for key, amount, allowed, unit in rows:
        yield LimitUse("account", account, key, amount, allowed, unit)


def _of_symbols(state: State, account: str) -> Iterator[LimitUse]:
    limits, usage, snapshot = (
        state.settings.account_limits,
        state.usage.of(account),
        state.accounts.get(account),
    )
    nav = losses.nav_of(state, account)
    values = (limits.max_position_value, _part(nav, limits.max_position_nav_ppm))
    most = min((each for each in values if each is not None), default=None)
    mine = [one for one in state.strategies.values() if one.plan.account == account]
    for symbol in sorted({symbol for one in mine for symbol in one.plan.symbols}):
        value = None if snapshot is None else state.exposure.value_of(account, symbol)
        here = [one for one in state.index.open_in.of(symbol) if one.is_own]
        pending = state.index.pending_in.of(symbol)
        working, flips = len(here) + len(pending), usage.flips[symbol]
        open_max, flips_max = limits.max_open_orders_per_symbol, limits.max_flips_per_symbol
        yield LimitUse("symbol", symbol, "max_position_value", value, most, "VND")
        yield LimitUse("symbol", symbol, "max_open_orders_per_symbol", working, open_max, "orders")
        yield LimitUse("symbol", symbol, "max_flips_per_symbol", flips, flips_max, "changes")


def _of_strategy(state: State, strategy: StrategyState) -> Iterator[LimitUse]:
    name, limits = strategy.plan.name, strategy.limits
    results = (day.result(state.exposure.mark_of(of)) for of, day in strategy.days.items())
    is_known = strategy.plan.account in state.accounts or None not in results
    loss = max(0, -day_result(state, strategy)) if is_known else None
    repeats = max(strategy.repeats.values(), default=0)
    of_late = strategy.refused_of_late.count(state.now)
    held = max((each.shares for each in strategy.positions.values()), default=0)
    rows = (
        ("max_orders_per_day", strategy.orders_today, limits.max_orders_per_day, "orders"),
        ("max_loss_per_day", loss, limits.max_loss_per_day, "VND"),
        ("capital", invested(state, strategy), limits.capital, "VND"),
        ("max_position", held, limits.max_position, "shares"),
        ("max_repeats", repeats, limits.max_repeats, "orders"),
        ("refused_in_a_row", strategy.refusals, REFUSALS_MAX, "orders"),
        ("refused_in_10_minutes", of_late, REFUSALS_OF_LATE_MAX, "orders"),
        ("max_times_median", None, limits.max_times_median, "times"),
        ("max_order_value", None, limits.max_order_value, "VND"),
        ("max_price_gap", None, limits.max_price_gap_ppm, "ppm"),
    )
    for key, amount, allowed, unit in rows:
        yield LimitUse("strategy", name, key, amount, allowed, unit)


def _part(nav: int | None, ppm: int | None) -> int | None:
    return None if nav is None or ppm is None else max(0, nav) * ppm // PPM


def _seconds(length: timedelta | None) -> int | None:
    return None if length is None else round(length.total_seconds())
