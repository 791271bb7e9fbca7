"""The simulated market: the crowds of all symbols, stepped at fixed instants of market time.

What is due at one instant happens in a fixed order: the steps of the symbols as the scenario lists
them, then its standstills, then its deals. So the market is a function of scenario, seed and what
we did to it, however often and in whatever slices it is advanced.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from heapq import heappop, heappush
from typing import Final

from bot.domain.rulebook import Rulebook
from bot.sandbox.exchange.venue import Venue
from bot.sandbox.markets.crowd import CROWDED, Crowd, Deliver
from bot.sandbox.scenario import Scenario, SymbolScript

STEP: Final = timedelta(seconds=5)
_STEPS_RANK: Final = 0
_STANDSTILL_RANK: Final = 1
_DEAL_RANK: Final = 2

Doing = Callable[[datetime], None]


class SimulatedMarket:
    """Everything that other investors do in the scripted symbols, in the order of its time."""

    def __init__(
        self,
        scenario: Scenario,
        scripts: Sequence[SymbolScript],
        *,
        rulebook: Rulebook,
        venue: Venue,
        deliver: Deliver,
    ) -> None:
        self._rulebook = rulebook
        self._scripts = tuple(scripts)
        self._exchanges = sorted({script.exchange for script in scripts})
        self._crowds = {
            script.symbol: Crowd(
                script, scenario=scenario, rulebook=rulebook, venue=venue, deliver=deliver
            )
            for script in scripts
        }
        self._due: list[tuple[datetime, int, int, Doing]] = []
        for at, rank, doing in self._scripted(scenario):
            if at >= scenario.starts_at:
                heappush(self._due, (at, rank, len(self._due), doing))
        heappush(self._due, (scenario.starts_at, _STEPS_RANK, 0, self._step_all))

    def next_due(self) -> datetime:
        """When somebody acts next."""
        return self._due[0][0]

    def run_next(self) -> datetime:
        """Let the next thing happen and return when it was."""
        at, _, _, doing = heappop(self._due)
        doing(at)
        return at

    def _step_all(self, at: datetime) -> None:
        for crowd in self._crowds.values():
            crowd.step(at)
        heappush(self._due, (self._next_step(at), _STEPS_RANK, 0, self._step_all))

    def _next_step(self, at: datetime) -> datetime:
        """In the next step, or when the first exchange wakes again while all of them rest."""
        if any(self._rulebook.phase_at(e, at) in CROWDED for e in self._exchanges):
            return at + STEP
        return min(self._rulebook.next_phase_change(e, at).at for e in self._exchanges)

    def _scripted(self, scenario: Scenario) -> Iterator[tuple[datetime, int, Doing]]:
        for script in self._scripts:
            yield from self._scripted_of(script, scenario)

    def _scripted_of(
        self, script: SymbolScript, scenario: Scenario
    ) -> Iterator[tuple[datetime, int, Doing]]:
        crowd = self._crowds[script.symbol]
        for standstill in script.standstills:
            if scenario.at(standstill.until) > scenario.starts_at:
                at = max(scenario.at(standstill.at), scenario.starts_at)
                yield at, _STANDSTILL_RANK, partial(crowd.freeze, standstill)
        for deal in script.deals:
            yield scenario.at(deal.at), _DEAL_RANK, partial(crowd.deal, deal)
