"""The simulated market of a scenario: recorded days, scripted crowds and order flow, side by side.

In a scripted market many investors quote around a fair price and trade. In every step the crowd
cancels what no longer fits and refills the levels near its price; now and then somebody trades at
the touch. A scenario can pull the price, thin out a side, freeze the levels, or make somebody trade
at a time. Our own orders are in the same book, with time priority.

The crowds act at fixed instants of market time. What is due at one instant happens in a fixed
order: the steps of the symbols as the scenario lists them, then standstills, then deals.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from heapq import heappop, heappush
from math import pi, sin, sqrt
from random import Random
from typing import Final

from bot.domain.instrument import BOARD_LOT, EXCHANGE_TZ, Phase
from bot.domain.order import Side
from bot.domain.rulebook import Rulebook
from bot.domain.venue import Band
from bot.sandbox.exchange.day import CALL_AUCTIONS, TRADING
from bot.sandbox.markets.flow.market import flow_market
from bot.sandbox.markets.replay.market import replay_market
from bot.sandbox.markets.source import CrowdOrders, Level, MarketAccess, MarketSource, MergedMarket
from bot.sandbox.scenario import Deal, Imbalance, Scenario, Standstill, SymbolScript

STEP: Final = timedelta(seconds=5)
_STEPS_RANK: Final = 0
_STANDSTILL_RANK: Final = 1
_DEAL_RANK: Final = 2

Action = Callable[[datetime], None]
_LEVELS: Final = 4
_AUCTION_LEVELS: Final = 3
_REFRESH_CHANCE: Final = 0.2
_WIDE_SPREAD_CHANCE: Final = 0.15
_MEMORY: Final = 0.97
"""How much of the noise is left one step later; it halves in about two minutes."""
_WAVE_PERIOD_S: Final = (900.0, 1_800.0)
_WAVE_SHARE: Final = 0.6


def simulated_market(scenario: Scenario, access: MarketAccess) -> MarketSource:
    """Return all other investors of a scenario."""
    symbols = scenario.symbols
    replayed = [script for script in symbols if script.replay is not None]
    scripted = [each for each in symbols if each.replay is None and each.flow is None]
    flowing = [script for script in symbols if script.flow is not None]
    makers = ((replay_market, replayed), (ScriptedMarket, scripted), (flow_market, flowing))
    sources: list[MarketSource] = [
        make(scenario, scripts, access) for make, scripts in makers if scripts
    ]
    return sources[0] if len(sources) == 1 else MergedMarket(sources)


class ScriptedMarket:
    """The crowds of the scripted symbols, and their scripted actions."""

    def __init__(
        self, scenario: Scenario, scripts: Sequence[SymbolScript], access: MarketAccess
    ) -> None:
        self._rulebook = access.rulebook
        self._exchanges = sorted({script.exchange for script in scripts})
        self._crowds: list[Crowd] = []
        self._due: list[tuple[datetime, int, int, Action]] = []
        start = scenario.starts_at
        for script in scripts:
            crowd = Crowd(script, scenario, access)
            self._crowds.append(crowd)
            for each in script.standstills:
                if scenario.at(each.until) > start:
                    at = max(scenario.at(each.at), start)
                    self._plan(at, _STANDSTILL_RANK, partial(crowd.freeze, each))
            for deal in script.deals:
                if scenario.at(deal.at) >= start:
                    self._plan(scenario.at(deal.at), _DEAL_RANK, partial(crowd.deal, deal))
        heappush(self._due, (start, _STEPS_RANK, 0, self._step_all))

    def _plan(self, at: datetime, rank: int, action: Action) -> None:
        heappush(self._due, (at, rank, len(self._due), action))

    def next_due(self) -> datetime:
        return self._due[0][0]

    def run_next(self) -> datetime:
        at, _, _, action = heappop(self._due)
        action(at)
        return at

    def _step_all(self, at: datetime) -> None:
        for crowd in self._crowds:
            crowd.step(at)
        if any(self._rulebook.phase_at(each, at) in TRADING for each in self._exchanges):
            following = at + STEP
        else:
            # All exchanges are between sessions: continue when the first one opens.
            changes = (self._rulebook.next_phase_change(each, at) for each in self._exchanges)
            following = min(change.at for change in changes)
        heappush(self._due, (following, _STEPS_RANK, 0, self._step_all))


class FairPrice:
    """The target of a simulated price: a path plus a slow wave plus mean-reverting noise.

    Floats are fine here: this models opinion, not money. The resulting price is on the grid.
    """

    def __init__(
        self, script: SymbolScript, scenario: Scenario, rulebook: Rulebook, band: Band
    ) -> None:
        self._instrument, self._rulebook = script.instrument, rulebook
        self._swing = script.swing_ticks
        self._anchors = [(scenario.starts_at, script.reference)]
        self._anchors += sorted((scenario.at(anchor.at), anchor.price) for anchor in script.path)
        self._random = Random(f"{scenario.seed}|price|{script.symbol}")
        self._period_s = self._random.uniform(*_WAVE_PERIOD_S)
        self._phase = self._random.uniform(0, 2 * pi)
        self._noise = 0.0
        self._band = band

    def begin_day(self, at: datetime, reference: int, band: Band) -> None:
        """Start from another day's reference; the script's path covered the first day only."""
        self._anchors = [(at, reference)]
        self._noise, self._band = 0.0, band

    def step(self, at: datetime) -> int:
        """Return the crowd's bid at `at`; each call advances the noise by one step."""
        before = [anchor for anchor in self._anchors if anchor[0] <= at]
        after = [anchor for anchor in self._anchors if anchor[0] > at]
        if before and after:
            (start, from_price), (end, to_price) = before[-1], after[0]
            base = from_price + (to_price - from_price) * ((at - start) / (end - start))
        else:
            base = float((before[-1:] or after[:1])[0][1])
        angle = 2 * pi * (at - self._anchors[0][0]).total_seconds() / self._period_s + self._phase
        wave = self._swing * _WAVE_SHARE * (sin(angle) - sin(self._phase))
        deviation = self._swing * (1 - _WAVE_SHARE) * sqrt(1 - _MEMORY**2)
        self._noise = _MEMORY * self._noise + self._random.gauss(0.0, deviation)
        tick = self._rulebook.ticks_of(self._instrument).tick_at(round(base))
        wanted = round(base + tick * (wave + self._noise))
        low, high = self._band.floor + 5 * tick, self._band.ceiling - 6 * tick
        inside = max(min(wanted, high), low, self._band.floor)
        return inside - inside % self._rulebook.ticks_of(self._instrument).tick_at(inside)


class Crowd:
    def __init__(self, script: SymbolScript, scenario: Scenario, access: MarketAccess) -> None:
        self._script, self._scenario, self._access = script, scenario, access
        self._rulebook, self._venue = access.rulebook, access.venue
        self._ticks = self._rulebook.ticks_of(script.instrument)
        self._orders = CrowdOrders(script.symbol, access)
        self._resting: dict[tuple[str, ...], Level] = {}
        """What waits, by the ids of its orders: several where one would be too large."""
        self._day = scenario.starts_at.astimezone(EXCHANGE_TZ).date()
        self._band = access.band(script.symbol)
        self._price = FairPrice(script, scenario, self._rulebook, self._band)
        self._random = Random(f"{scenario.seed}|crowd|{script.symbol}")

    def step(self, at: datetime) -> None:
        """Act once, as the phase allows: quote and trade, gather for an auction, or nothing."""
        day = at.astimezone(EXCHANGE_TZ).date()
        if day != self._day:
            # The new day has its own reference: shares may have gone ex overnight.
            self._day, self._band = day, self._access.band(self._script.symbol)
            reference = self._venue.board(self._script.symbol).reference
            self._price.begin_day(at, reference, self._band)
        bid = self._price.step(at)
        phase = self._rulebook.phase_at(self._script.exchange, at)
        if phase in CALL_AUCTIONS:
            self._gather(bid, at)
        elif phase is Phase.PROGRESS and not any(
            self._is_within(each, at) for each in self._script.standstills
        ):
            self._quote(bid, at)
            self._trade(at)

    def freeze(self, standstill: Standstill, at: datetime) -> None:
        """Keep only the levels of a standstill."""
        self._forget_ended()
        for order_ids in list(self._resting):
            self._cancel(order_ids, at)
        for side, levels in ((Side.BUY, standstill.bids), (Side.SELL, standstill.asks)):
            for price, volume in levels:
                self._rest((side, price), volume, at)

    def deal(self, deal: Deal, at: datetime) -> None:
        """Trade as scripted; an unfilled rest is cancelled at once."""
        self._strike(Side.BUY if deal.do == "take" else Side.SELL, deal.price, deal.volume, at)

    def _is_within(self, moment: Standstill | Imbalance, at: datetime) -> bool:
        return self._scenario.at(moment.at) <= at < self._scenario.at(moment.until)

    def _gather(self, bid: int, at: datetime) -> None:
        """Enter orders into an auction: around the price, and some crossing ones on either side."""
        for side in (Side.BUY, Side.SELL):
            for distance in range(_AUCTION_LEVELS):
                price = self._ticks.up(bid) if side is Side.BUY else bid
                for _ in range(distance):
                    price = self._ticks.down(price) if side is Side.BUY else self._ticks.up(price)
                if self._band.holds(price):
                    self._rest((side, price), self._volume(side, distance, at), at)

    def _quote(self, bid: int, at: datetime) -> None:
        """Refresh the levels around `bid`: some orders stay, others are replaced."""
        ask = self._ticks.up(bid)
        if self._random.random() < _WIDE_SPREAD_CHANCE:
            ask = self._ticks.up(ask)
        wanted = self._levels(Side.BUY, bid, self._ticks.down)
        wanted |= self._levels(Side.SELL, ask, self._ticks.up)
        self._forget_ended()
        kept: set[Level] = set()
        for order_ids, level in list(self._resting.items()):
            if level in wanted and level not in kept and self._random.random() >= _REFRESH_CHANCE:
                kept.add(level)
            else:
                self._cancel(order_ids, at)
        for level, distance in wanted.items():
            if level not in kept:
                self._rest(level, self._volume(level[0], distance, at), at)

    def _levels(self, side: Side, price: int, step: Callable[[int], int]) -> dict[Level, int]:
        """Return the wanted levels of a side, each with its distance from the touch."""
        levels: dict[Level, int] = {}
        while len(levels) < _LEVELS and self._band.holds(price):
            levels[side, price] = len(levels)
            price = step(price)
        return levels

    def _volume(self, side: Side, distance: int, at: datetime) -> int:
        typical = self._script.level_volume * (0.5 + self._random.random()) * (1 + 0.2 * distance)
        for imbalance in self._script.imbalances:
            if self._is_within(imbalance, at):
                typical *= imbalance.bids if side is Side.BUY else imbalance.asks
        return max(BOARD_LOT, round(typical / BOARD_LOT) * BOARD_LOT)

    def _trade(self, at: datetime) -> None:
        """Occasionally let somebody trade at the touch."""
        if self._random.random() >= self._script.trade_chance:
            return
        side = self._random.choice((Side.BUY, Side.SELL))
        depth = self._venue.depth(self._script.symbol)
        touch = depth.ask if side is Side.BUY else depth.bid
        volume = BOARD_LOT * self._random.randint(
            1, max(1, self._script.level_volume // (3 * BOARD_LOT))
        )
        if touch is not None:
            self._strike(side, touch, volume, at)

    def _strike(self, side: Side, price: int, volume: int, at: datetime) -> None:
        for order_id in self._orders.submit_in_pieces((side, price), volume, at):
            self._orders.cancel(order_id, at)

    def _rest(self, level: Level, volume: int, at: datetime) -> None:
        self._resting[tuple(self._orders.submit_in_pieces(level, volume, at))] = level

    def _cancel(self, order_ids: tuple[str, ...], at: datetime) -> None:
        del self._resting[order_ids]
        for order_id in order_ids:
            self._orders.cancel(order_id, at)

    def _forget_ended(self) -> None:
        live = self._venue.is_live
        self._resting = {ids: level for ids, level in self._resting.items() if any(map(live, ids))}
