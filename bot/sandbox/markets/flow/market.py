"""The order flow of one symbol, day after day, and of all symbols that have one.

Investors arrive at exponential intervals whose rate follows the half hours of a real day. Each day
has its own random stream and the band set by the exchange, so a market left running stays within
its band.

A call auction collects its orders beforehand. About a third of the volume meant to trade comes
without a price (ATO, ATC), the rest priced to trade at the fair price; as much again waits on
either side and only fills the book. At a locked price only a few sellers (or buyers) are left on
the thin side.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from random import Random
from typing import Final

from bot.domain.instrument import Phase
from bot.domain.order import OrderType, Side
from bot.sandbox.exchange.book import SIGN
from bot.sandbox.markets.flow.day import (
    DAY_S,
    LOCAL_OFFSET_S,
    PATH_STARTS,
    DayDraw,
    FlowScript,
    FlowSpan,
    draw_day,
    market_day,
)
from bot.sandbox.markets.flow.investors import Investors, OrderPlacer, crowdedness, whole_lots
from bot.sandbox.markets.source import DayByDay, MarketAccess, Participants
from bot.sandbox.scenario import Scenario, SymbolScript

_HALF_HOUR_S: Final = 1_800
_HALF_HOURS: Final = (18, 19, 20, 21, 22, 26, 27, 28, 29)
_SHARES: Final = (13.4, 12.0, 9.8, 8.6, 7.6, 13.0, 13.3, 18.6, 11.6)
_SHAPE: Final = dict(zip(_HALF_HOURS, _SHARES, strict=True))
"""Percent of the volume by half hour of the local day; 18 is 09:00. Source: minute bars of 23
stocks on the three exchanges, July 2024 to June 2025."""
_SHAPE_TOTAL: Final = 96.3
"""The sum up to 14:30; UPCOM trades on after that."""
_AUCTION_SHARE: Final = {Phase.OPEN: 0.018, Phase.PRE_CLOSED: 0.055}
"""Share of the day's volume. Source: minute bars of HOSE and HNX, July 2024 to June 2025."""
_LATE_SHARE: Final = 0.008
_UNPRICED: Final = {Phase.OPEN: OrderType.ATO, Phase.PRE_CLOSED: OrderType.ATC}
_UNPRICED_CHANCE: Final = 0.33
_CROSSING: Final = 9
_OUTSIDE: Final = 6
_LATE: Final = 5
_SWAY: Final = 0.35
"""By how much one side of an auction may exceed the other."""
_CROSSING_TICKS: Final = 2
_LOCKED_SHARE: Final = 0.3
"""What the thin side brings to an auction at a locked price, as a share of its volume."""
_QUEUE_TIMES: Final = 6


def flow_market(
    scenario: Scenario, scripts: Sequence[SymbolScript], access: MarketAccess
) -> Participants:
    """Return the other investors of `scripts`, in the order in which the scenario lists them."""
    return Participants([FlowSymbol(script, scenario, access) for script in scripts])


@dataclass(frozen=True, slots=True)
class Gathered:
    """An order for an auction. `tick` is None if it has no price."""

    second: int
    side: Side
    order_type: OrderType
    tick: int | None
    quantity: int


def gathered(
    span: FlowSpan, *, fair: int, volume: int, lock: int, random: Random
) -> list[Gathered]:
    """Return the orders of an auction by time.

    `fair` is the tick of the fair price, `volume` the day's volume, `lock` 1 or -1 while the price
    is locked at the upper or lower end of the band.
    """
    meant = volume * _AUCTION_SHARE[span.phase]
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
            # Against a locked price there are only offers without a price.
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


class FlowSymbol(DayByDay):
    def __init__(self, script: SymbolScript, scenario: Scenario, access: MarketAccess) -> None:
        super().__init__(script, scenario, access)
        self._clock, self._days = 0.0, 0
        self._venue = access.venue
        self._placer = OrderPlacer(script.symbol, access)
        self._crowd = crowdedness(script.level_volume)

    def move_to(self, at: datetime) -> None:
        self._placer.move_to(at)

    def _begin_day(self, day: date, _: Sequence[FlowSpan]) -> bool:
        """Draw the day on the exchange's reference and band."""
        script = self._script
        self._random = random = Random(f"{self._seed}|flow|{script.symbol}|{day}")
        prices = self._access.grid(script.instrument).prices
        self._placer.begin_day(prices)
        self._draw: DayDraw = draw_day(
            script.flow or FlowScript(),
            self._days,
            exchange=script.exchange,
            market=market_day(self._seed, day),
            level_volume=script.level_volume,
            reference=self._venue.board(script.symbol).reference,
            prices=prices,
            random=random,
        )
        self._investors = Investors(self._crowd, self._draw, self._placer, random)
        self._days += 1
        return True

    def _play(self, span: FlowSpan) -> int:
        return self._trade(span) if span.phase is Phase.PROGRESS else self._gather(span)

    def _trade(self, span: FlowSpan) -> int:
        """Let investors act one after another until the phase ends."""
        start = _of_day(span.start)
        if start == PATH_STARTS:
            self._investors.stray()
        if not self._investors.lock(start):
            self._investors.fill_book(start)
        self._clock = float(span.start)
        return self._await_investor(span)

    def _await_investor(self, span: FlowSpan) -> int:
        share = _SHAPE[_of_day(int(self._clock)) // _HALF_HOUR_S]
        rate_per_s = self._crowd.events * share / (_SHAPE_TOTAL * _HALF_HOUR_S)
        self._clock += self._random.expovariate(rate_per_s)
        if self._clock >= span.end:
            return self._next_span()
        return self._at(int(self._clock), partial(self._admit_investor, span))

    def _admit_investor(self, span: FlowSpan) -> int:
        self._investors.act(_of_day(int(self._clock)))
        return self._await_investor(span)

    def _gather(self, span: FlowSpan) -> int:
        """Place the orders of an auction, or of the after-hours phase, one after another."""
        volume, random = self._draw.volume, self._random
        if span.phase in {Phase.OPEN, Phase.PRE_CLOSED}:
            second = _of_day(span.end - 1)
            fair, lock = round(self._investors.fair(second)), self._investors.lock(second)
            orders = gathered(span, fair=fair, volume=volume, lock=lock, random=random)
        elif (
            span.phase is Phase.POST_SESSION
            and self._venue.board(self._script.symbol).close is not None
        ):
            orders = late_orders(span, volume=volume, random=random)
        else:
            orders = []
        self._todo = deque((order.second, partial(self._give, order)) for order in orders)
        return self._work_off()

    def _give(self, order: Gathered) -> None:
        if order.tick is None:
            self._placer.give_unpriced(order.side, order.quantity, order.order_type)
        else:
            self._placer.give(order.side, order.tick, order.quantity)


def _of_day(second: int) -> int:
    """Return the second of the exchange's local day."""
    return (second + LOCAL_OFFSET_S) % DAY_S
