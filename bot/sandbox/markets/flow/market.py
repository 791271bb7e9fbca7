"""The order flow of all symbols that have one."""

from collections.abc import Sequence

from bot.domain.rulebook import Rulebook
from bot.sandbox.exchange.venue import Venue
from bot.sandbox.markets.flow.placer import Deliver
from bot.sandbox.markets.flow.symbol import FlowSymbol
from bot.sandbox.markets.participants import Participants
from bot.sandbox.scenario import Scenario, SymbolScript


def flow_market(
    scenario: Scenario,
    scripts: Sequence[SymbolScript],
    *,
    rulebook: Rulebook,
    venue: Venue,
    deliver: Deliver,
) -> Participants:
    """Return the other investors of `scripts`, in the order in which the scenario lists them."""
    seed = scenario.seed
    symbols = [
        FlowSymbol(script, seed=seed, rulebook=rulebook, venue=venue, deliver=deliver)
        for script in scripts
    ]
    return Participants(symbols, start=scenario.starts_at)
