"""Where one exchange stands in its trading day, and when it moves on."""

from datetime import datetime
from typing import Final

from bot.domain.instrument import Exchange, Lot, Phase
from bot.domain.rulebook import Rulebook

AUCTIONS: Final = frozenset({Phase.OPEN, Phase.PRE_CLOSED})
LIMIT_ORDERS_END: Final = frozenset({Phase.PUT_THROUGH, Phase.POST_SESSION, Phase.CLOSED})
"""On entering one of these every limit order lapses and the close is fixed."""


class ExchangeDay:
    """The phase of an exchange and what it allows, looked up once per phase.

    `is_collecting`: orders wait for an uncross, in an auction and in the first part of the
    after-hours phase, which ends in a batch at the close (HSC and FPTS rule pages for HNX).
    """

    def __init__(self, rulebook: Rulebook, exchange: Exchange, at: datetime) -> None:
        self.exchange = exchange
        self.lots = rulebook.venues[exchange].lots
        self._rulebook = rulebook
        self.enter(rulebook.phase_at(exchange, at), at)

    def enter(self, phase: Phase, at: datetime) -> None:
        """Stand in `phase` from `at` on."""
        rulebook, exchange = self._rulebook, self.exchange
        self.phase = phase
        self.is_auction = phase in AUCTIONS
        self.accepted = {lot: rulebook.accepted_types(exchange, phase, lot) for lot in Lot}
        self.is_taking = bool(self.accepted[Lot.EVEN])
        self.may_amend = rulebook.may_amend(exchange, phase)
        self.may_cancel = rulebook.may_cancel(exchange, phase)
        self.boundary = rulebook.next_phase_change(exchange, at)
        uncross = rulebook.next_uncross(exchange, at)
        self.is_collecting = uncross is not None and uncross <= self.boundary.at
        self.due = min(uncross or self.boundary.at, self.boundary.at)

    @property
    def ends_at_due(self) -> bool:
        """Say whether the phase ends at `due`; otherwise a batch falls into the middle of it."""
        return self.due == self.boundary.at

    def stop_collecting(self) -> None:
        """Match orders on arrival for the rest of the phase."""
        self.is_collecting = False
        self.due = self.boundary.at
