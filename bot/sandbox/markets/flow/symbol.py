"""The order flow of one symbol, day after day, and of all symbols that have one.

`instants` is a generator: it yields the second at which something happens next, and what follows
the `yield` happens then. Investors come by exponential gaps whose rate follows the half hours of a
real day; an auction gathers its orders beforehand. Each day has a random stream of its own and the
band that the exchange gives it, so a market left running is never off its band.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from random import Random
from typing import Final

from bot.domain.instrument import EXCHANGE_TZ, Phase
from bot.sandbox.markets.flow.auction import gathered, late_orders
from bot.sandbox.markets.flow.day import (
    DAY_S,
    LOCAL_OFFSET_S,
    PATH_STARTS,
    DayDraw,
    FlowScript,
    FlowSpan,
    days_from,
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
    symbols = [FlowSymbol(script, scenario.seed, access) for script in scripts]
    return Participants(symbols, start=scenario.starts_at)


class FlowSymbol:
    def __init__(self, script: SymbolScript, seed: int, access: MarketAccess) -> None:
        self._script, self._seed, self._access = script, seed, access
        self._rulebook, self._venue = access.rulebook, access.venue
        self._placer = OrderPlacer(script.symbol, access)
        self._crowd = crowdedness(script.level_volume)
        self._days = 0

    def move_to(self, at: datetime) -> None:
        self._placer.move_to(at)

    def instants(self, at: datetime) -> Iterator[int]:
        for start, spans in days_from(self._rulebook, self._script.exchange, at):
            yield int(start.timestamp())
            if spans:
                self._begin_day(start)
            for span in spans:
                yield span.start
                if span.phase is Phase.PROGRESS:
                    yield from self._trade(span)
                else:
                    yield from self._gather(span)

    def _begin_day(self, at: datetime) -> None:
        """Draw the day on the reference and the band that the exchange has for it."""
        script = self._script
        day = at.astimezone(EXCHANGE_TZ).date()
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

    def _trade(self, span: FlowSpan) -> Iterator[int]:
        """Let investors come one after another until the phase ends."""
        start = _of_day(span.start)
        if start == PATH_STARTS:
            self._investors.stray()
        if not self._investors.lock(start):
            self._investors.fill_book(start)
        clock = float(span.start)
        while True:
            share = _SHAPE[_of_day(int(clock)) // _HALF_HOUR_S]
            rate_per_s = self._crowd.events * share / (_SHAPE_TOTAL * _HALF_HOUR_S)
            clock += self._random.expovariate(rate_per_s)
            if clock >= span.end:
                return
            yield int(clock)
            self._investors.act(_of_day(int(clock)))

    def _gather(self, span: FlowSpan) -> Iterator[int]:
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
        for order in orders:
            yield order.second
            if order.tick is None:
                self._placer.give_unpriced(order.side, order.quantity, order.order_type)
            else:
                self._placer.give(order.side, order.tick, order.quantity)


def _of_day(second: int) -> int:
    """Return the second of the exchange's local day."""
    return (second + LOCAL_OFFSET_S) % DAY_S
