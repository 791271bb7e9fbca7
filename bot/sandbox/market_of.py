"""Which market a scenario gets: its scripted crowd, its order flow, or both side by side."""

from collections.abc import Iterator

from bot.domain.rulebook import Rulebook
from bot.sandbox.crowd import Deliver
from bot.sandbox.exchange.venue import Venue
from bot.sandbox.flow import FlowMarket
from bot.sandbox.market import SimulatedMarket
from bot.sandbox.market_source import MarketSource, merged
from bot.sandbox.scenario import Scenario


def market_of(
    scenario: Scenario, *, rulebook: Rulebook, venue: Venue, deliver: Deliver
) -> MarketSource:
    """Return all other investors of a scenario; what the venue answers them goes to `deliver`."""
    return merged(list(_sources(scenario, rulebook=rulebook, venue=venue, deliver=deliver)))


def _sources(
    scenario: Scenario, *, rulebook: Rulebook, venue: Venue, deliver: Deliver
) -> Iterator[MarketSource]:
    scripted = [script for script in scenario.symbols if script.flow is None]
    flowing = [script for script in scenario.symbols if script.flow is not None]
    if scripted:
        yield SimulatedMarket(scenario, scripted, rulebook=rulebook, venue=venue, deliver=deliver)
    if flowing:
        yield FlowMarket(scenario, flowing, rulebook=rulebook, venue=venue, deliver=deliver)
