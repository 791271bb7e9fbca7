"""Recorded days played into the venue: what was recorded, at the second at which it happened.

Each day begins on the reference that the recording has for it, given to the venue an hour before
the first phase. The clearing price of a call auction is the recorded one because the recorded
volume comes from both sides at that price; what the model has waiting at better prices is taken
back before. A day, or a symbol, that is not recorded has no trades. Randomness (seconds within a
minute, the split of a bar's volume, depth) is drawn from seed, symbol and date.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Final

from bot.domain.instrument import EXCHANGE_TZ, Exchange, Phase
from bot.domain.order import Side
from bot.domain.rulebook import Rulebook
from bot.sandbox.markets.flow.day import DAY_S, LOCAL_OFFSET_S, FlowSpan, days_from, spans_from
from bot.sandbox.markets.replay.data import Print, Recording
from bot.sandbox.markets.replay.path import following, prints_of
from bot.sandbox.markets.replay.placer import ReplayPlacer
from bot.sandbox.markets.source import LOT, MarketAccess, Participant, Participants
from bot.sandbox.scenario import Scenario, SymbolScript

_BEFORE_OPENING: Final = timedelta(hours=1)
_AUCTION_ORDERS: Final = 4
_PROGRESS: Final = Phase.PROGRESS


def replay_market(
    scenario: Scenario, scripts: Sequence[SymbolScript], access: MarketAccess
) -> Participants:
    """Return the other investors of the replayed symbols of a scenario."""
    participants: list[Participant] = [_References(scenario.recording, scripts, access)]
    participants += [ReplaySymbol(script, scenario, access) for script in scripts]
    return Participants(participants, start=scenario.starts_at)


class _References:
    """Gives the venue each morning the references that the recording has."""

    def __init__(
        self, recording: Recording, scripts: Sequence[SymbolScript], access: MarketAccess
    ) -> None:
        self._recording, self._scripts = recording, scripts
        self._rulebook, self._venue = access.rulebook, access.venue
        self._at = datetime(1970, 1, 1, tzinfo=UTC)

    def move_to(self, at: datetime) -> None:
        self._at = at

    def instants(self, at: datetime) -> Iterator[int]:
        exchanges = {script.exchange for script in self._scripts}
        while True:
            local = at.astimezone(EXCHANGE_TZ)
            evening = local.replace(hour=23, minute=0, second=0, microsecond=0).astimezone(UTC)
            at = min(self._rulebook.next_phase_change(each, evening).at for each in exchanges)
            yield int((at - _BEFORE_OPENING).timestamp())
            day = at.astimezone(EXCHANGE_TZ).date()
            listings = []
            for script in self._scripts:
                recorded = self._recording.days.get(script.symbol, {}).get(day)
                if recorded is not None:
                    listing = self._venue.next_listing(script.symbol)
                    listings.append(replace(listing, reference=recorded.reference))
            if listings:
                self._venue.start_day(self._at, listings)


class ReplaySymbol:
    def __init__(self, script: SymbolScript, scenario: Scenario, access: MarketAccess) -> None:
        self._script, self._seed, self._access = script, scenario.seed, access
        self._days = scenario.recording.days.get(script.symbol, {})
        self._rulebook = access.rulebook
        self._placer = ReplayPlacer(script.symbol, script.level_volume, access)

    def move_to(self, at: datetime) -> None:
        self._placer.move_to(at)

    def instants(self, at: datetime) -> Iterator[int]:
        for start, spans in days_from(self._rulebook, self._script.exchange, at):
            yield int(start.timestamp())
            day = start.astimezone(EXCHANGE_TZ).date()
            if spans and day in self._days:
                yield from self._day(day, spans)

    def _day(self, day: date, spans: Sequence[FlowSpan]) -> Iterator[int]:
        script = self._script
        random = Random(f"{self._seed}|replay|{script.symbol}|{day}")
        self._placer.begin_day(self._access.grid(script.instrument), random)
        midnight = (spans[0].start + LOCAL_OFFSET_S) // DAY_S * DAY_S - LOCAL_OFFSET_S
        whole = day_spans(self._rulebook, script.exchange, day)
        made = prints_of(self._days[day], whole, random, self._snap)
        for span in spans:
            yield span.start
            within = _within(made, span, midnight)
            if span.phase is _PROGRESS:
                for each in within:
                    yield midnight + each.second
                    self._placer.trade(each)
            elif within:
                yield from self._gather(within, span, random)
            coming = _within(made, following(span, spans), midnight)
            if span.phase is _PROGRESS and coming and coming[0].aggressor is None:
                # Before a closing auction, take back what would trade in it at better prices.
                yield span.end - 1
                self._placer.clear(coming[0].price)

    def _snap(self, price: float) -> int:
        return self._rulebook.ticks_of(self._script.instrument).down(round(price) + 1)

    def _gather(self, made: Sequence[Print], span: FlowSpan, random: Random) -> Iterator[int]:
        """Let the auction's volume come from both sides at its price, in a few orders."""
        quantity = sum(each.quantity for each in made)
        part = quantity // _AUCTION_ORDERS // LOT * LOT
        parts = [part] * (_AUCTION_ORDERS - 1) if part else []
        parts.append(quantity - sum(parts))
        coming = [
            (random.randrange(span.start, span.end), side, each)
            for side in (Side.BUY, Side.SELL)
            for each in parts
        ]
        for second, side, each in sorted(coming):
            yield second
            self._placer.gather(side, made[0].price, each)


def _within(made: Sequence[Print], span: FlowSpan | None, midnight: int) -> list[Print]:
    """Return what trades in a phase: continuously, or in the auction that ends it."""
    if span is None:
        return []
    low, high = span.start - midnight, span.end - midnight
    if span.phase is _PROGRESS:
        return [each for each in made if each.aggressor and low <= each.second < high]
    return [each for each in made if each.aggressor is None and each.second == high]


def day_spans(rulebook: Rulebook, exchange: Exchange, day: date) -> tuple[FlowSpan, ...]:
    """Return the phases of a trading day in seconds of its local day; none when it is closed."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=EXCHANGE_TZ)
    start = int(midnight.timestamp())
    opening = rulebook.next_phase_change(exchange, midnight.astimezone(UTC)).at
    if opening.astimezone(EXCHANGE_TZ).date() != day:
        return ()
    return tuple(
        FlowSpan(span.phase, span.start - start, span.end - start)
        for span in spans_from(rulebook, exchange, opening)
    )
