"""`limits:` as it stands in a strategy file, and in bot.yaml for all strategies together."""

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict

from bot.config.field_types import PartsPerMillion, Whole
from bot.domain.plan import Limits

VND: Final = Whole(1, 1_000_000_000_000, "whole VND")
SHARES: Final = Whole(1, 10_000_000, "a number of shares")


class LimitsSection(BaseModel):
    """Refused before sending, and journalled as refused. What is left out is not limited."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    max_position: Annotated[int | None, SHARES] = None
    """Shares per symbol."""
    max_order_value: Annotated[int | None, VND] = None
    """VND of one order."""
    max_orders_per_day: Annotated[int | None, Whole(1, 10_000, "a number of orders")] = None
    """Orders of one day."""
    max_loss_per_day: Annotated[int | None, VND] = None
    """VND lost in a day; then the strategy pauses."""
    max_price_gap: Annotated[int | None, PartsPerMillion()] = None
    """How far from the last trade a price may be, like 3%."""

    def to_domain(self) -> Limits:
        """Return the limits as the engine takes them."""
        return Limits(
            max_position=self.max_position,
            max_order_value=self.max_order_value,
            max_orders_per_day=self.max_orders_per_day,
            max_loss_per_day=self.max_loss_per_day,
            max_price_gap_ppm=self.max_price_gap,
        )
