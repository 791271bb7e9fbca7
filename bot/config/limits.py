"""`limits:` of a strategy file, and in bot.yaml those of every strategy and of an account.

Its own module, for both files' models use it and neither knows the other.
"""

from typing import Annotated, Final

from pydantic import ConfigDict

from bot.config.field_types import parts_per_million, texts, whole
from bot.config.model_check import Section
from bot.domain.limits import AccountLimits
from bot.domain.plan import Limits

VND: Final = whole(1, 1_000_000_000_000, "whole VND")
SHARES: Final = whole(1, 10_000_000, "a number of shares")
ORDERS: Final = whole(1, 10_000, "a number of orders")


class LimitsSection(Section):
    """An order beyond a limit is refused before it is sent. What is left out is not limited."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    max_position: Annotated[int | None, SHARES] = None
    """Shares per symbol."""
    max_order_value: Annotated[int | None, VND] = None
    """VND of one order."""
    max_orders_per_day: Annotated[int | None, ORDERS] = None
    """Orders of one day."""
    max_loss_per_day: Annotated[int | None, VND] = None
    """VND lost in a day, at which the strategy pauses."""
    max_price_gap: Annotated[int | None, parts_per_million] = None
    """How far from the last trade a price may be, like 3%."""

    def to_domain(self) -> Limits:
        """Return the limits as the engine takes them."""
        same = self.model_dump(exclude={"max_price_gap"})
        return Limits(**same, max_price_gap_ppm=self.max_price_gap)


class EveryStrategySection(LimitsSection):
    """Limits that each strategy has beside its own: the tighter one holds, null: no limit."""

    max_orders_per_day: Annotated[int, ORDERS] | None = 30
    """Orders of one strategy in one day."""


class AccountSection(Section):
    """Limits that all strategies share: what they do together stays within them, null: no limit."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    max_order_value: Annotated[int, VND] | None = 20_000_000
    """VND of one order (R01)."""
    max_order_quantity: Annotated[int, SHARES] | None = 5_000
    """Shares of one order (R02)."""
    max_price_gap: Annotated[int, parts_per_million] | None = 20_000
    """How far from the last trade a limit, or the worst level that a market order meets, may be,
    like 2% (R03).
    """
    max_open_orders: Annotated[int, ORDERS] | None = 10
    """Orders of this bot that are open at once (R06)."""
    max_open_orders_per_symbol: Annotated[int, ORDERS] | None = 3
    """The same in one symbol."""
    max_orders_per_second: Annotated[int, ORDERS] | None = 1
    """Orders and changes within a second of market time; cancels count and always go out (R07)."""
    max_orders_per_minute: Annotated[int, ORDERS] | None = 6
    """The same within a minute."""
    max_orders_per_day: Annotated[int, ORDERS] | None = 60
    """Orders of all strategies in one day (R08)."""
    symbols: Annotated[tuple[str, ...], texts] | None = None
    """The only symbols that may be traded; left out: those of the strategies (R22)."""

    def to_domain(self) -> AccountLimits:
        """Return the limits as the engine takes them."""
        same = self.model_dump(exclude={"max_price_gap", "symbols"})
        symbols = None if self.symbols is None else frozenset(self.symbols)
        return AccountLimits(**same, max_price_gap_ppm=self.max_price_gap, symbols=symbols)
