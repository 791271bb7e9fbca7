"""Which market a scenario gets."""

from bot.domain.rulebook import Rulebook
from bot.sandbox.crowd import Deliver
from bot.sandbox.exchange.venue import Venue
from bot.sandbox.market import SimulatedMarket
from bot.sandbox.market_source import MarketSource, merged
from bot.sandbox.scenario import Scenario


def market_of(
    scenario: Scenario, *, rulebook: Rulebook, venue: Venue, deliver: Deliver
) -> MarketSource:
    """Return all other investors of a scenario; what the venue answers them goes to `deliver`."""
    scripted = SimulatedMarket(
        scenario, scenario.symbols, rulebook=rulebook, venue=venue, deliver=deliver
    )
    return merged([scripted])
