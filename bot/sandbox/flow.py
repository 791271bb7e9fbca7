"""The order flow of all its symbols, merged in time.

Somebody acts at whole seconds of market time; within one, the symbols as the scenario lists them.
So the market is a function of scenario, seed and what we did to it, in whatever slices it is
advanced.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from heapq import heapify, heapreplace

from bot.domain.rulebook import Rulebook
from bot.sandbox.exchange.venue import Venue
from bot.sandbox.flow_hand import Deliver
from bot.sandbox.flow_symbol import FlowSymbol
from bot.sandbox.scenario import Scenario, SymbolScript


class FlowMarket:
    """The other investors of the symbols that have a flow."""

    def __init__(
        self,
        scenario: Scenario,
        scripts: Sequence[SymbolScript],
        *,
        rulebook: Rulebook,
        venue: Venue,
        deliver: Deliver,
    ) -> None:
        self._symbols = [
            FlowSymbol(script, seed=scenario.seed, rulebook=rulebook, venue=venue, deliver=deliver)
            for script in scripts
        ]
        self._lives = [symbol.instants(scenario.starts_at) for symbol in self._symbols]
        self._due = [(next(life), rank) for rank, life in enumerate(self._lives)]
        heapify(self._due)

    def next_due(self) -> datetime:
        """When somebody acts next."""
        return datetime.fromtimestamp(self._due[0][0], UTC)

    def run_next(self) -> datetime:
        """Let all that happens in that second happen, and return when it was."""
        second = self._due[0][0]
        at = datetime.fromtimestamp(second, UTC)
        while self._due[0][0] <= second:
            rank = self._due[0][1]
            self._symbols[rank].move_to(at)
            heapreplace(self._due, (next(self._lives[rank]), rank))
        return at
