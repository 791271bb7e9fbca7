"""What all strategies of an account share: how much of it may be used, how fast, at what loss.

Beside them each strategy has limits of its own (`plan.Limits`); the tightest one holds.
"""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class AccountLimits:
    """An order beyond one is refused; None: no limit. Money is VND, quantities are shares.

    `max_price_gap_ppm` is from the last trade, `max_reference_gap_ppm` from the day's reference: of
    the limit, or of the worst level of the depth for an order without one. `max_orders_per_minute`
    and `_per_second` are of market time; changes and cancels count, and no cancel is ever kept
    back. `…_nav_ppm` are parts of the net asset value, of a read no older than `max_account_age`. A
    flip is a fill on the other side than the one before it. `last_entry`: how long before a phase
    that takes no orders the last one may be. `symbols` None: those of the strategies.
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
"""Nothing is limited: what the engine does unless it is told otherwise."""
