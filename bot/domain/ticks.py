"""Tick sizes: the price grid of an instrument, in whole VND."""

from dataclasses import dataclass

from bot.domain.errors import RuleDataError
from bot.domain.rule_data import RuleData


@dataclass(frozen=True, slots=True)
class TickTable:
    """Price zones, ascending: `(below, tick)`, the last `below` None; limits are on both grids."""

    zones: tuple[tuple[int | None, int], ...]

    @classmethod
    def from_data(cls, data: RuleData) -> "TickTable":
        """Read a list of `{below, tick}`. Raises RuleDataError when it is no ascending grid."""
        table = cls(tuple((r["below"].integer_or_none(), r["tick"].integer()) for r in data.rows()))
        if not table._is_grid():
            raise RuleDataError(data.place, "ascending zones on a common grid", table.zones)
        return table

    def tick_at(self, price: int) -> int:
        """Return the tick of the zone that holds `price`; a limit belongs to the zone above it."""
        for below, tick in self.zones:
            if below is None or price < below:
                return tick
        raise AssertionError("the last zone has no end")

    def is_on_grid(self, price: int) -> bool:
        """Return whether an order may carry `price`."""
        return price > 0 and price % self.tick_at(price) == 0

    def up(self, price: int) -> int:
        """Return the next grid price above `price`; p + tick(p) when p is on the grid."""
        tick = self.tick_at(price)
        return (price // tick + 1) * tick

    def down(self, price: int) -> int:
        """Return the next grid price below `price`, 0 at its end; p - tick(p - 1) on the grid."""
        tick = self.tick_at(price - 1)
        return (price - 1) // tick * tick

    def _is_grid(self) -> bool:
        *limits, last = (below for below, _ in self.zones)
        ticks = [tick for _, tick in self.zones]
        inner = [limit for limit in limits if limit is not None]
        if last is not None or len(inner) != len(limits) or min(ticks) < 1:
            return False
        pairs = zip(inner, ticks, ticks[1:], strict=False)
        return inner == sorted(set(inner)) and all(b % t == 0 == b % u for b, t, u in pairs)
