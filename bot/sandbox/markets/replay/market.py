"""Plays recorded days into the venue, each trade at the second at which it happened.

Each day begins on the reference that the recording has for it, given to the venue an hour before
the first phase. A call auction clears at the recorded price because the recorded volume comes from
both sides at that price; modelled orders at better prices are cancelled before. A day or symbol
that is not recorded has no trades. Randomness (seconds within a minute, the split of a bar's
volume, depth) is drawn from seed, symbol and date.

Files hold no depth: five levels a side are modelled, each of about `level_volume`, the best of them
next to the last price. For a recorded trade, better-priced modelled orders are removed, enough
volume is placed at its price, and an aggressor takes it; so if nobody else has an order, the tape
shows just that trade. An order of ours waiting at that price is filled in its turn and a
better-priced one first, and less of the recorded trade is left. A level that we have taken is
restored with the next trade.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from random import Random
from typing import Final

from bot.domain.instrument import BOARD_LOT, EXCHANGE_TZ, Exchange, Phase
from bot.domain.order import Side
from bot.domain.rulebook import Rulebook
from bot.domain.venue import TickTable
from bot.sandbox.exchange.day import PriceGrid
from bot.sandbox.markets.flow.day import DAY_S, LOCAL_OFFSET_S, FlowSpan, spans_from
from bot.sandbox.markets.replay.data import Print, following, prints_of
from bot.sandbox.markets.source import (
    OTHER,
    CrowdOrders,
    DayByDay,
    Level,
    MarketAccess,
    Participant,
    Participants,
)
from bot.sandbox.scenario import Scenario, SymbolScript

_BEFORE_OPENING: Final = timedelta(hours=1)
_AUCTION_ORDERS: Final = 4
_PROGRESS: Final = Phase.PROGRESS


def replay_market(
    scenario: Scenario, scripts: Sequence[SymbolScript], access: MarketAccess
) -> Participants:
    """Return the other investors of the replayed symbols of a scenario."""
    participants: list[Participant] = [_References(scenario, scripts, access)]
    participants += [ReplaySymbol(script, scenario, access) for script in scripts]
    return Participants(participants)


class _References(Participant):
    """Sets the recorded references in the venue each morning."""

    def __init__(
        self, scenario: Scenario, scripts: Sequence[SymbolScript], access: MarketAccess
    ) -> None:
        super().__init__()
        self._recording, self._scripts = scenario.recording, tuple(scripts)
        self._opening = scenario.starts_at
        self._rulebook, self._venue = access.rulebook, access.venue
        self._now = datetime(1970, 1, 1, tzinfo=UTC)

    def move_to(self, at: datetime) -> None:
        self._now = at

    def _next_day(self) -> int:
        exchanges = {script.exchange for script in self._scripts}
        local = self._opening.astimezone(EXCHANGE_TZ)
        evening = local.replace(hour=23, minute=0, second=0, microsecond=0).astimezone(UTC)
        changes = (self._rulebook.next_phase_change(each, evening) for each in exchanges)
        self._opening = min(change.at for change in changes)
        return self._at((int((self._opening - _BEFORE_OPENING).timestamp())), self._begin_day)

    def _begin_day(self) -> int:
        day = self._opening.astimezone(EXCHANGE_TZ).date()
        listings = []
        for script in self._scripts:
            recorded = self._recording.days.get(script.symbol, {}).get(day)
            if recorded is not None:
                listing = self._venue.next_listing(script.symbol)
                listings.append(replace(listing, reference=recorded.reference))
        if listings:
            self._venue.start_day(self._now, listings)
        return self._next_day()


class ReplaySymbol(DayByDay):
    def __init__(self, script: SymbolScript, scenario: Scenario, access: MarketAccess) -> None:
        super().__init__(script, scenario, access)
        self._recording = scenario.recording
        self._made: Sequence[Print] = ()
        self._midnight, self._random = 0, Random(0)
        self._placer = ReplayPlacer(script.symbol, script.level_volume, access)

    def move_to(self, at: datetime) -> None:
        self._placer.move_to(at)

    def _begin_day(self, day: date, spans: Sequence[FlowSpan]) -> bool:
        script = self._script
        recorded = self._recording.days.get(script.symbol, {}).get(day)
        if recorded is None:
            return False
        self._random = Random(f"{self._seed}|replay|{script.symbol}|{day}")
        self._placer.begin_day(self._access.grid(script.instrument), self._random)
        self._midnight = (spans[0].start + LOCAL_OFFSET_S) // DAY_S * DAY_S - LOCAL_OFFSET_S
        whole = day_spans(self._rulebook, script.exchange, day)
        self._made = prints_of(recorded, whole, self._random, self._snap)
        return True

    def _play(self, span: FlowSpan) -> int:
        """Schedule the trades of a phase, or the orders of its auction."""
        midnight = self._midnight
        within = _within(self._made, span, midnight)
        if span.phase is not _PROGRESS:
            self._todo = deque(self._gathered(within, span) if within else ())
            return self._work_off()
        self._todo = deque(
            (midnight + each.second, partial(self._placer.trade, each)) for each in within
        )
        coming = _within(self._made, following(span, self._spans), midnight)
        if coming and coming[0].aggressor is None:
            # Before a closing auction, cancel what would trade in it at better prices.
            self._todo.append((span.end - 1, partial(self._placer.clear, coming[0].price)))
        return self._work_off()

    def _snap(self, price: float) -> int:
        return self._rulebook.ticks_of(self._script.instrument).down(round(price) + 1)

    def _gathered(
        self, made: Sequence[Print], span: FlowSpan
    ) -> Iterator[tuple[int, Callable[[], None]]]:
        """Enter the auction's volume from both sides at its price, in a few orders."""
        quantity = sum(each.quantity for each in made)
        part = quantity // _AUCTION_ORDERS // BOARD_LOT * BOARD_LOT
        parts = [part] * (_AUCTION_ORDERS - 1) if part else []
        parts.append(quantity - sum(parts))
        coming = [
            (self._random.randrange(span.start, span.end), side, each)
            for side in (Side.BUY, Side.SELL)
            for each in parts
        ]
        for second, side, each in sorted(coming):
            yield second, partial(self._placer.gather, side, made[0].price, each)


def _within(made: Sequence[Print], span: FlowSpan | None, midnight: int) -> list[Print]:
    """Return the trades within a phase: continuous ones, or those of the auction that ends it."""
    if span is None:
        return []
    low, high = span.start - midnight, span.end - midnight
    if span.phase is _PROGRESS:
        return [each for each in made if each.aggressor and low <= each.second < high]
    return [each for each in made if each.aggressor is None and each.second == high]


def day_spans(rulebook: Rulebook, exchange: Exchange, day: date) -> tuple[FlowSpan, ...]:
    """Return the phases of a trading day in seconds of its local day; empty on a closed day."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=EXCHANGE_TZ)
    start = int(midnight.timestamp())
    opening = rulebook.next_phase_change(exchange, midnight.astimezone(UTC)).at
    if opening.astimezone(EXCHANGE_TZ).date() != day:
        return ()
    return tuple(
        FlowSpan(span.phase, span.start - start, span.end - start)
        for span in spans_from(rulebook, exchange, opening)
    )


_LEVELS: Final = 5
_SPREAD: Final = 0.6
"""Standard deviation of the logarithm of a modelled level's volume."""
_NO_PRICES: Final = PriceGrid(TickTable(((None, 1),)), (), frozenset(), 0, 0)


class ReplayPlacer:
    def __init__(self, symbol: str, level_volume: int, access: MarketAccess) -> None:
        self._level_volume, self._venue = level_volume, access.venue
        self._orders = CrowdOrders(symbol, access)
        self._resting: dict[Level, list[str]] = {}
        self._at = datetime(1970, 1, 1, tzinfo=UTC)
        self._grid = _NO_PRICES
        self._random = Random(0)

    def move_to(self, at: datetime) -> None:
        self._at = at

    def begin_day(self, grid: PriceGrid, random: Random) -> None:
        """Take the prices of a new day; earlier orders have lapsed."""
        self._grid, self._random = grid, random
        self._resting.clear()

    def trade(self, made: Print) -> None:
        """Make a recorded trade happen between two others, or with us if we come first."""
        price = made.price
        # At the end of the band only the opposite side can be the aggressor.
        if price >= self._grid.ceiling:
            taking = Side.SELL
        else:
            taking = Side.BUY if price <= self._grid.floor else made.aggressor or Side.BUY
        waiting = OTHER[taking]
        self.clear(price, but=waiting)
        self._have((waiting, price), made.quantity)
        self._take_back(self._orders.submit_in_pieces((taking, price), made.quantity, self._at))
        # Model the depth: the `waiting` side has its best level at the price, the other one tick
        # away.
        for side, step in ((Side.BUY, self._grid.down), (Side.SELL, self._grid.up)):
            at = price
            for number in range(_LEVELS + 1):
                if number or side is waiting:
                    self._have((side, at), 1)
                following = step(at)
                if following == at:
                    break
                at = following

    def gather(self, side: Side, price: int, quantity: int) -> None:
        self._orders.submit_in_pieces((side, price), quantity, self._at)

    def clear(self, price: int, but: Side | None = None) -> None:
        """Cancel modelled orders that would trade at `price`; `but` may stay exactly at it."""
        for level in list(self._resting):
            side, at = level
            crosses = at > price if side is Side.BUY else at < price
            if crosses or (at == price and side is not but):
                self._take_back(self._resting.pop(level))

    def _have(self, level: Level, least: int) -> None:
        """Make sure that at least this much modelled volume waits there; an empty level is
        refilled.
        """
        orders = map(self._venue.order, self._resting.get(level, ()))
        live = [order for order in orders if order is not None]
        if live:
            self._resting[level] = [order.order_id for order in live]
        else:
            self._resting.pop(level, None)
        waiting = sum(order.remaining for order in live)
        if waiting < least:
            spread = self._random.lognormvariate(-_SPREAD * _SPREAD / 2, _SPREAD)
            usual = max(BOARD_LOT, round(self._level_volume * spread / BOARD_LOT) * BOARD_LOT)
            wanted = least - waiting if least > 1 else usual
            given = self._orders.submit_in_pieces(level, wanted, self._at)
            self._resting.setdefault(level, []).extend(given)

    def _take_back(self, order_ids: list[str]) -> None:
        for order_id in order_ids:
            self._orders.cancel(order_id, self._at)
