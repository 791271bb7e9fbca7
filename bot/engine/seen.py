"""What the market has shown last: quote and depth of a symbol, and the phase of an exchange."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from bot.domain.instrument import Phase
from bot.domain.order import OrderType
from bot.domain.quote import Depth, Quote

LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class QuoteSeen:
    """The last quote that was believed and when it was asked for."""

    at: datetime
    quote: Quote


@dataclass(frozen=True, slots=True)
class DepthSeen:
    """The last depth that was believed and when it was asked for."""

    at: datetime
    depth: Depth


@dataclass(frozen=True, slots=True)
class PhaseSeen:
    """The last known phase of an exchange. `available` None: the broker has not said.

    `since` is when it began, by the timetable where that agrees.
    """

    phase: Phase
    available: frozenset[OrderType] | None
    since: datetime = LONG_AGO
