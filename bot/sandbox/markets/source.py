"""What moves a market that is not us: sources of other people's orders, merged in time."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol


class MarketSource(Protocol):
    """Something that trades by itself in the venue, at instants that it knows beforehand."""

    def next_due(self) -> datetime:
        """When it acts next; that never goes back."""

    def run_next(self) -> datetime:
        """Let it act, and return when that was. The venue has been brought to that instant."""


class MergedMarket:
    """Several sources as one. At one instant they act in the order in which they are given."""

    def __init__(self, sources: Sequence[MarketSource]) -> None:
        self._sources = tuple(sources)

    def next_due(self) -> datetime:
        """When the first of them acts next."""
        return min(source.next_due() for source in self._sources)

    def run_next(self) -> datetime:
        """Let the one act whose turn it is."""
        return min(self._sources, key=lambda source: source.next_due()).run_next()


def merged(sources: Sequence[MarketSource]) -> MarketSource:
    """Return the only source as it is, several as one. There must be at least one."""
    return sources[0] if len(sources) == 1 else MergedMarket(sources)
