"""The checked content of one strategy file, and the limits that all strategies of an account share.

An order has to keep both sets of limits, so the tighter one applies. Times are local to the
exchange (`EXCHANGE_TZ`); money is whole VND; quantities are shares.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import time, timedelta
from enum import StrEnum

from bot.domain.instrument import Phase
from bot.domain.order import OrderType

ParameterValue = int | float | str | bool


class StrategyMode(StrEnum):
    """TRADE sends orders; WATCH decides and journals but never orders."""

    TRADE = "trade"
    WATCH = "watch"


class SizeUnit(StrEnum):
    """How an order's size is stated: shares, VND to spend, or percent of the cash."""

    SHARES = "shares"
    CASH = "cash"
    PERCENT = "percent"


class PriceBasis(StrEnum):
    """The price that a limit order starts from."""

    BID = "bid"
    ASK = "ask"
    LAST = "last"
    MID = "mid"


@dataclass(frozen=True, slots=True)
class Wake:
    """What wakes the strategy. None: this does not wake it. Intervals are market time."""

    bar: timedelta | None = None
    quote: timedelta | None = None
    depth: timedelta | None = None
    timers: tuple[time, ...] = ()
    on_phase: bool = False


@dataclass(frozen=True, slots=True)
class When:
    """When during the day orders may be made. Empty `phases` means any phase that takes orders."""

    phases: frozenset[Phase] = frozenset()
    start: time | None = None
    end: time | None = None


@dataclass(frozen=True, slots=True)
class OrderPlan:
    """How an order is made when the strategy gives no size or price. `ticks` shifts the basis."""

    size_unit: SizeUnit = SizeUnit.SHARES
    size: int = 100
    order_type: OrderType = OrderType.LO
    basis: PriceBasis = PriceBasis.LAST
    ticks: int = 0
    expire_after: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """An order that exceeds one is refused; None: no limit. The price gap is from the last trade.

    `max_repeats`: fills on one side of a symbol after which the strategy is disabled.
    `max_times_median`: a buy may be worth this many times the median of the last buys. `capital`:
    VND in its shares of all symbols, including what its open buys may add.
    """

    max_position: int | None = None
    max_order_value: int | None = None
    max_orders_per_day: int | None = None
    max_loss_per_day: int | None = None
    max_price_gap_ppm: int | None = None
    max_repeats: int | None = None
    max_times_median: int | None = None
    capital: int | None = None


@dataclass(frozen=True, slots=True)
class StrategyPlan:
    """The checked content of one strategy file. `hold_2fa` is None for `on_2fa: drop`; `account` is
    the extended id of the bot's sub-account, empty until the broker has named it.
    """

    name: str
    use: str
    symbols: tuple[str, ...]
    account: str
    mode: StrategyMode
    parameters: Mapping[str, ParameterValue]
    wake: Wake
    when: When
    order: OrderPlan
    limits: Limits
    hold_2fa: timedelta | None = timedelta(seconds=120)
    source: str = ""
    """The file as it may be shown, and the hash of its text."""
    source_sha256: str = ""


@dataclass(frozen=True, slots=True)
class AccountLimits:
    """An order that exceeds one is refused; None: no limit. Money is VND, quantities are shares.

    `max_price_gap_ppm` is from the last trade, `max_reference_gap_ppm` from the day's reference: of
    it applies to the limit price, or to the worst depth level for an order without one.
    `max_orders_per_minute` and `_per_second` are of market time; changes and cancels count, but no
    cancel is ever held back. `…_nav_ppm` are shares of the net asset value, read no longer ago than
    `max_account_age`. A flip is a fill on the opposite side to the previous one. `last_entry`:
    entries end this long before a phase that takes no orders. `symbols` None: those of the
    strategies.
    """

    max_order_value: int | None = None
    max_order_quantity: int | None = None
    max_price_gap_ppm: int | None = None
    max_reference_gap_ppm: int | None = None
    max_open_orders: int | None = None
    max_open_orders_per_symbol: int | None = None
    max_orders_per_second: int | None = None
    max_orders_per_minute: int | None = None
    max_orders_per_day: int | None = None
    max_position_value: int | None = None
    max_position_nav_ppm: int | None = None
    max_gross_nav_ppm: int | None = None
    max_loss_per_day: int | None = None
    max_loss_nav_ppm: int | None = None
    min_cash: int | None = None
    max_flips_per_symbol: int | None = None
    max_auction_share_ppm: int | None = None
    max_account_age: timedelta | None = None
    last_entry: timedelta | None = None
    symbols: frozenset[str] | None = None


NONE = AccountLimits()
"""No limits; what the engine uses by default."""
