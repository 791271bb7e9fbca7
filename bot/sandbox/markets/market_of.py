"""Which market a scenario gets: recorded days, its scripted crowd, its order flow, side by side."""

from collections.abc import Iterator
from typing import TypedDict

from bot.domain.rulebook import Rulebook
from bot.sandbox.exchange.venue import Venue
from bot.sandbox.markets.crowd import Deliver
from bot.sandbox.markets.crowds import SimulatedMarket
from bot.sandbox.markets.flow.market import flow_market
from bot.sandbox.markets.replay.market import replay_market
from bot.sandbox.markets.source import MarketSource, merged
from bot.sandbox.scenario import Scenario


class _Places(TypedDict):
    rulebook: Rulebook
    venue: Venue
    deliver: Deliver


def market_of(
    scenario: Scenario, *, rulebook: Rulebook, venue: Venue, deliver: Deliver
) -> MarketSource:
    """Return all other investors of a scenario; what the venue answers them goes to `deliver`."""
    return merged(list(_sources(scenario, rulebook=rulebook, venue=venue, deliver=deliver)))


def _sources(
    scenario: Scenario, *, rulebook: Rulebook, venue: Venue, deliver: Deliver
) -> Iterator[MarketSource]:
    symbols, places = scenario.symbols, _Places(rulebook=rulebook, venue=venue, deliver=deliver)
    replayed = [script for script in symbols if script.replay is not None]
    flowing = [script for script in symbols if script.flow is not None]
    scripted = [each for each in symbols if each.replay is None and each.flow is None]
    if replayed:
        yield replay_market(scenario, replayed, **places)
    if scripted:
        yield SimulatedMarket(scenario, scripted, **places)
    if flowing:
        yield flow_market(scenario, flowing, **places)
