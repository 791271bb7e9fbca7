"""A strategy's own shares and what they cost, by average cost, in whole VND."""

from bot.domain.order import Side
from bot.engine.tracked import Position


def take(position: Position, side: Side, quantity: int, amount: int) -> int:
    """Put a fill into a position; return what a sale has realised before fee and tax, 0 for a buy.

    The cost of the shares sold is their share of the whole cost, rounded down; what rounding leaves
    stays with the rest, and the last share takes all that is left.
    """
    if side is Side.BUY:
        position.shares += quantity
        position.cost += amount
        return 0
    known = min(quantity, position.shares)
    cost = position.cost * known // position.shares if known > 0 else 0
    position.shares -= quantity
    position.cost -= cost
    return amount - cost
