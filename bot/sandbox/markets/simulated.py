"""The simulated market of a scenario: recorded days, scripted crowds and order flow, side by side.

The crowds act at fixed instants of market time. What is due at one instant happens in a fixed
order: the steps of the symbols as the scenario lists them, then its standstills, then its deals.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from heapq import heappop, heappush
from typing import Final

from bot.sandbox.markets.crowd import CROWDED, Crowd
from bot.sandbox.markets.flow.symbol import flow_market
from bot.sandbox.markets.replay.market import replay_market
from bot.sandbox.markets.source import MarketAccess, MarketSource, MergedMarket
from bot.sandbox.scenario import Scenario, SymbolScript

STEP: Final = timedelta(seconds=5)
_STEPS_RANK: Final = 0
_STANDSTILL_RANK: Final = 1
_DEAL_RANK: Final = 2

Action = Callable[[datetime], None]


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
    """The crowds of the scripted symbols, and what the scenario makes them do at a time."""

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
        if any(self._rulebook.phase_at(each, at) in CROWDED for each in self._exchanges):
            following = at + STEP
        else:
            # All exchanges rest: go on when the first one wakes.
            changes = (self._rulebook.next_phase_change(each, at) for each in self._exchanges)
            following = min(change.at for change in changes)
        heappush(self._due, (following, _STEPS_RANK, 0, self._step_all))
