"""The orders that gather for one call auction of the order flow, and after hours.

Of what is meant to trade, about a third comes without a price (ATO, ATC), the rest priced to trade
at the fair price; as much again waits on either side and only fills the book. Where the
price is locked at the band's end the side that nobody offers is left with a few sellers, or buyers.
"""

from dataclasses import dataclass
from random import Random
from typing import Final

from bot.domain.instrument import BOARD_LOT, Phase
from bot.domain.order import OrderType, Side
from bot.sandbox.exchange.book import SIGN
from bot.sandbox.markets.flow.day import FlowSpan

_SHARE: Final = {Phase.OPEN: 0.018, Phase.PRE_CLOSED: 0.055}
"""Of the day's volume. Source: minute bars of HOSE and HNX, July 2024 to June 2025."""
_LATE_SHARE: Final = 0.008
_UNPRICED: Final = {Phase.OPEN: OrderType.ATO, Phase.PRE_CLOSED: OrderType.ATC}
_UNPRICED_CHANCE: Final = 0.33
_CROSSING: Final = 9
_OUTSIDE: Final = 6
_LATE: Final = 5
_SWAY: Final = 0.35
"""How much more, or less, than the other one side may bring."""
_CROSSING_TICKS: Final = 2
_LOCKED_SHARE: Final = 0.3
"""Of a locked price's auction volume, what the thin side brings."""
_QUEUE_TIMES: Final = 6


@dataclass(frozen=True, slots=True)
class Gathered:
    """An order of an auction. `tick` is None for one without a price."""

    second: int
    side: Side
    order_type: OrderType
    tick: int | None
    quantity: int


def gathered(
    span: FlowSpan, *, fair: int, volume: int, lock: int, random: Random
) -> list[Gathered]:
    """Return the orders of an auction by time.

    `fair` is the tick at which the price is wanted, `volume` the day's, `lock` 1 or -1 while the
    price is held at the band's upper or lower end.
    """
    meant = volume * _SHARE[span.phase]
    orders: list[Gathered] = []
    for side, sign in SIGN.items():
        if lock:
            weight = _QUEUE_TIMES if sign == lock else _LOCKED_SHARE
        else:
            weight = random.uniform(1 - _SWAY, 1 + _SWAY) + _SWAY / 2
        for number in range(_CROSSING + _OUTSIDE):
            crosses = number < _CROSSING
            is_unpriced = crosses and random.random() < _UNPRICED_CHANCE
            away = -random.randint(0, _CROSSING_TICKS) if crosses else random.randint(1, 5)
            order = Gathered(
                random.randrange(span.start, span.end),
                side,
                _UNPRICED[span.phase] if is_unpriced else OrderType.LO,
                None if is_unpriced else fair - sign * away,
                whole_lots(meant * weight / _CROSSING * random.lognormvariate(-0.32, 0.8)),
            )
            # Nobody offers against a locked price, except without a price of their own.
            if lock in (0, sign) or order.tick is None:
                orders.append(order)
    return sorted(orders, key=lambda order: order.second)


def late_orders(span: FlowSpan, *, volume: int, random: Random) -> list[Gathered]:
    """Return the orders of the after-hours phase at the close (PLO), by time."""
    share = volume * _LATE_SHARE / _LATE
    orders = [
        Gathered(
            random.randrange(span.start, span.end),
            side,
            OrderType.PLO,
            tick=None,
            quantity=whole_lots(share * random.lognormvariate(-0.32, 0.8)),
        )
        for side in SIGN
        for _ in range(_LATE)
    ]
    return sorted(orders, key=lambda order: order.second)


def whole_lots(quantity: float) -> int:
    """Return the nearest whole number of lots, one at least."""
    return max(BOARD_LOT, round(quantity / BOARD_LOT) * BOARD_LOT)
