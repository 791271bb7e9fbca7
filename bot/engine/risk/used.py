"""What is used of every limit now, of what it allows: for `bot limits`. Nothing changes."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from bot.domain.order import SendState
from bot.engine.risk import losses
from bot.engine.risk.accounts import day_result, means_of
from bot.engine.risk.use import bought, invested
from bot.engine.state import State
from bot.engine.tracked import StrategyState
from bot.engine.usage import REFUSALS_MAX, REFUSALS_OF_LATE_MAX

PPM: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class LimitUse:
    """One limit. `scope` is account, strategy or symbol and `of` its name; `key` is its setting.

    `used` is None where it is about one order alone, or is not known; `allowed` None: no limit. Of
    `min_cash` the used is what is there, and the allowed is the least; `max_gross_of_nav` is in ppm
    while the net asset value is not known.
    """

    scope: str
    of: str
    key: str
    used: int | None
    allowed: int | None
    unit: str


def used(state: State) -> tuple[LimitUse, ...]:
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
    nav = snapshot.net_asset_value if snapshot is not None else None
    gap, age_max = limits.max_price_gap_ppm, limits.max_account_age
    gross_max, unit = _part(nav, limits.max_gross_nav_ppm), "VND"
    gross = None if snapshot is None else worth.value + bought(state, account)
    if nav is None and limits.max_gross_nav_ppm is not None:  # a part of what is not known
        gross_max, unit = limits.max_gross_nav_ppm, "ppm"
    is_known = snapshot is not None or not any(state.exposure.unmarked())
    loss = max(0, worth.loss) if is_known else None
    age = None if snapshot is None else round((now - snapshot.at).total_seconds())
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
    nav = snapshot.net_asset_value if snapshot is not None else None
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
