"""The life of one symbol of the order flow, day after day.

It is a generator: it yields the second at which something happens next, and what stands after the
`yield` happens then. Investors come by exponential gaps whose rate follows the half hours of a real
day; an auction gathers its orders beforehand. Each day has a random stream of its own and the band
that the exchange gives it, so a market left running is never off its band.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from random import Random
from typing import Final

from bot.domain.bands import Band
from bot.domain.instrument import EXCHANGE_TZ, Phase
from bot.domain.rulebook import Rulebook
from bot.sandbox.exchange.grid import price_grid
from bot.sandbox.exchange.venue import Venue
from bot.sandbox.markets.flow.auction import Gathered, gathered, late_orders
from bot.sandbox.markets.flow.day import (
    DAY_S,
    LOCAL_OFFSET_S,
    DayDraw,
    FlowSpan,
    draw_day,
    spans_from,
)
from bot.sandbox.markets.flow.factor import PATH_STARTS, market_day
from bot.sandbox.markets.flow.investors import Investors, crowdedness
from bot.sandbox.markets.flow.placer import Deliver, OrderPlacer
from bot.sandbox.markets.flow.script import FlowScript
from bot.sandbox.scenario import SymbolScript

_HALF_HOUR_S: Final = 1_800
_HALF_HOURS: Final = (18, 19, 20, 21, 22, 26, 27, 28, 29)
_SHARES: Final = (13.4, 12.0, 9.8, 8.6, 7.6, 13.0, 13.3, 18.6, 11.6)
_SHAPE: Final = dict(zip(_HALF_HOURS, _SHARES, strict=True))
"""Percent of the volume by half hour of the local day; 18 is 09:00. Source: minute bars of 23
stocks on the three exchanges, July 2024 to June 2025."""
_SHAPE_TOTAL: Final = 96.3
"""The sum to 14:30; UPCOM trades on."""
_KEPT_MAX: Final = 60


class FlowSymbol:
    """One symbol. `instants` is its life; `move_to` says what time it is before each step of it."""

    def __init__(
        self, script: SymbolScript, *, seed: int, rulebook: Rulebook, venue: Venue, deliver: Deliver
    ) -> None:
        self._script, self._seed = script, seed
        self._rulebook, self._venue = rulebook, venue
        self._placer = OrderPlacer(script.symbol, venue=venue, deliver=deliver, kept_max=_KEPT_MAX)
        self._crowd = crowdedness(script.level_volume)
        self._days = 0
        self._in_phase: Final[Mapping[Phase, Callable[[FlowSpan], Iterator[int]]]] = {
            Phase.OPEN: self._gather,
            Phase.PROGRESS: self._trade,
            Phase.PRE_CLOSED: self._gather,
            Phase.POST_SESSION: self._gather_late,
        }

    def move_to(self, at: datetime) -> None:
        """Let the next step happen at that instant."""
        self._placer.move_to(at)

    def instants(self, at: datetime) -> Iterator[int]:
        """Yield the seconds since 1970 at which it acts, from `at` on, without end."""
        while True:
            yield int(at.timestamp())
            yield from self._day(at)
            at = self._rulebook.next_phase_change(self._script.exchange, self._closed_at(at)).at

    def _closed_at(self, at: datetime) -> datetime:
        spans = list(spans_from(self._rulebook, self._script.exchange, at))
        return datetime.fromtimestamp(spans[-1].end, UTC) if spans else at

    def _day(self, at: datetime) -> Iterator[int]:
        spans = tuple(spans_from(self._rulebook, self._script.exchange, at))
        if not spans:
            return
        self._begin(at)
        for span in spans:
            yield span.start
            if span.phase in self._in_phase:
                yield from self._in_phase[span.phase](span)

    def _begin(self, at: datetime) -> None:
        """Draw the day on the reference and the band that the exchange has for it."""
        script, board = self._script, self._venue.board(self._script.symbol)
        day = at.astimezone(EXCHANGE_TZ).date()
        random = Random(f"{self._seed}|flow|{script.symbol}|{day}")
        band = Band(board.ceiling, board.floor)
        prices = price_grid(self._rulebook, script.instrument, band).prices
        self._placer.begin_day(prices)
        self._draw: DayDraw = draw_day(
            script.flow or FlowScript(),
            self._days,
            exchange=script.exchange,
            market=market_day(self._seed, day),
            level_volume=script.level_volume,
            reference=board.reference,
            prices=prices,
            random=random,
        )
        self._random = random
        self._investors = Investors(self._crowd, self._draw, self._placer, random)
        self._days += 1

    # ----------------------------------------------------------------------------- phases

    def _trade(self, span: FlowSpan) -> Iterator[int]:
        if _of_day(span.start) == PATH_STARTS:
            self._investors.stray()
        if not self._investors.lock(_of_day(span.start)):
            self._investors.fill_book(_of_day(span.start))
        clock = float(span.start)
        while True:
            clock += self._random.expovariate(self._rate(clock))
            if clock >= span.end:
                return
            yield int(clock)
            self._investors.act(_of_day(int(clock)))

    def _rate(self, clock: float) -> float:
        """Return how many come in a second."""
        share = _SHAPE[_of_day(int(clock)) // _HALF_HOUR_S]
        return self._crowd.events * share / (_SHAPE_TOTAL * _HALF_HOUR_S)

    def _gather(self, span: FlowSpan) -> Iterator[int]:
        second = _of_day(span.end - 1)
        orders = gathered(
            span,
            fair=round(self._investors.fair(second)),
            volume=self._draw.volume,
            lock=self._investors.lock(second),
            random=self._random,
        )
        yield from self._give(orders)

    def _gather_late(self, span: FlowSpan) -> Iterator[int]:
        if self._venue.board(self._script.symbol).close is not None:
            orders = late_orders(span, volume=self._draw.volume, random=self._random)
            yield from self._give(orders)

    def _give(self, orders: list[Gathered]) -> Iterator[int]:
        for order in orders:
            yield order.second
            if order.tick is None:
                self._placer.give_unpriced(order.side, order.quantity, order.order_type)
            else:
                self._placer.give(order.side, order.tick, order.quantity)


def _of_day(second: int) -> int:
    """Return the second of the exchange's local day."""
    return (second + LOCAL_OFFSET_S) % DAY_S
