"""`limits:` of a strategy file, and of bot.yaml for all strategies together.

Its own module, for both files' models use it and neither knows the other.
"""

from typing import Annotated, Final

from pydantic import ConfigDict

from bot.config.field_types import parts_per_million, whole
from bot.config.model_check import Section
from bot.domain.plan import Limits

VND: Final = whole(1, 1_000_000_000_000, "whole VND")
SHARES: Final = whole(1, 10_000_000, "a number of shares")


class LimitsSection(Section):
    """An order beyond a limit is refused before it is sent. What is left out is not limited."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    max_position: Annotated[int | None, SHARES] = None
    """Shares per symbol."""
    max_order_value: Annotated[int | None, VND] = None
    """VND of one order."""
    max_orders_per_day: Annotated[int | None, whole(1, 10_000, "a number of orders")] = None
    """Orders of one day."""
    max_loss_per_day: Annotated[int | None, VND] = None
    """VND lost in a day, at which the strategy pauses."""
    max_price_gap: Annotated[int | None, parts_per_million] = None
    """How far from the last trade a price may be, like 3%."""

    def to_domain(self) -> Limits:
        """Return the limits as the engine takes them."""
        same = self.model_dump(exclude={"max_price_gap"})
        return Limits(**same, max_price_gap_ppm=self.max_price_gap)
