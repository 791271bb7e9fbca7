"""The order flow of one symbol, day after day, and of all symbols that have one.

Investors come by exponential gaps whose rate follows the half hours of a
real day; an auction gathers its orders beforehand. Each day has a random stream of its own and the
band that the exchange gives it, so a market left running is never off its band.
"""

from collections import deque
from collections.abc import Sequence
from datetime import date, datetime
from functools import partial
from random import Random
from typing import Final

from bot.domain.instrument import Phase
from bot.sandbox.markets.day_by_day import DayByDay
from bot.sandbox.markets.flow.auction import Gathered, gathered, late_orders
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
from bot.sandbox.markets.flow.investors import Investors, crowdedness
from bot.sandbox.markets.flow.placer import OrderPlacer
from bot.sandbox.markets.source import MarketAccess, Participants
from bot.sandbox.scenario import Scenario, SymbolScript

_HALF_HOUR_S: Final = 1_800
_HALF_HOURS: Final = (18, 19, 20, 21, 22, 26, 27, 28, 29)
_SHARES: Final = (13.4, 12.0, 9.8, 8.6, 7.6, 13.0, 13.3, 18.6, 11.6)
_SHAPE: Final = dict(zip(_HALF_HOURS, _SHARES, strict=True))
"""Percent of the volume by half hour of the local day; 18 is 09:00. Source: minute bars of 23
stocks on the three exchanges, July 2024 to June 2025."""
_SHAPE_TOTAL: Final = 96.3
"""The sum to 14:30; UPCOM trades on."""


def flow_market(
    scenario: Scenario, scripts: Sequence[SymbolScript], access: MarketAccess
) -> Participants:
    """Return the other investors of `scripts`, in the order in which the scenario lists them."""
    return Participants([FlowSymbol(script, scenario, access) for script in scripts])


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
        """Draw the day on the reference and the band that the exchange has for it."""
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
        """Let investors come one after another until the phase ends."""
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
        """Let the orders of an auction, or of the after-hours phase, come one after another."""
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
