"""What our fills have made of an account's base: cash, and shares by settlement, at an instant."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from bot.domain.account import AccountSnapshot
from bot.domain.local_time import local_date
from bot.engine.flows import AccountLedger

DELIVERY_LASTS: Final = timedelta(hours=2)
"""Before the time of a settlement: brokers deliver between 11:00 and 13:00
(`domain/rules/market.yaml`).
"""


@dataclass(frozen=True, slots=True)
class Expected:
    """The result of our fills on the base at an instant. `explained_cash` are other permitted
    values of the cash: `sooner` may already have come, `held_back` not have been taken yet. Of
    `arriving` a piece may have come: brokers are delivering it by now.
    """

    cash: int
    explained_cash: frozenset[int]
    sooner: int
    holdings: dict[str, "Shares"]
    held_back: int = 0
    arriving: int = 0

    def with_a_piece(self, found: int) -> "Expected":
        """Return it with a cash that is permitted, too, if a piece of what arrives explains it."""
        whole = (self.cash, self.cash + self.held_back)
        if not any(0 < found - each < self.arriving for each in whole):
            return self
        return replace(self, explained_cash=self.explained_cash | {found})

    def is_a_piece_beside_held(self, found: int) -> bool:
        """Return whether a cash may be a piece of what arrives, and all that is held for buys."""
        is_whole = found in self.explained_cash
        return not is_whole and 0 < found - self.cash - self.held_back < self.arriving


@dataclass(frozen=True, slots=True)
class Shares:
    """`sellable` is the minimum, `sellable_max` includes what may have come sooner. `undated` of
    before the base may come at any time; 0 while what settles later today could be it.
    """

    total: int
    sellable: int
    sellable_max: int
    receiving: int
    undated: int = 0


NONE: Final = Shares(0, 0, 0, 0)


def expected_at(ledger: AccountLedger, at: datetime) -> Expected:
    """Return the result of our fills on the base at an instant."""
    base, today = ledger.base, local_date(at)
    spent = come = sooner = arriving = held_back = 0
    moved = {symbol: _Moved() for symbol in base.holdings}
    for flow in (*ledger.coming, *ledger.flows):
        own = moved.setdefault(flow.symbol, _Moved())
        if flow.settles_at <= at:
            come += flow.cash_in
            own.come += flow.shares_in
        elif local_date(flow.settles_at) == today:
            sooner += flow.cash_in
            arriving += flow.cash_in if flow.settles_at - at <= DELIVERY_LASTS else 0
            own.sooner += flow.shares_in
    for flow in ledger.coming:
        moved[flow.symbol].awaited += flow.shares_in
    for flow in ledger.flows:
        own = moved[flow.symbol]
        spent += flow.cash_out
        held_back += flow.cash_out if local_date(flow.at) == today else 0
        own.sold += flow.shares_out
        own.bought += flow.shares_in
    cash = base.cash - spent + come
    explained = {cash, cash + sooner, cash + held_back, cash + sooner + held_back}
    shares = {symbol: _shares(base, symbol, moved[symbol]) for symbol in sorted(moved)}
    return Expected(cash, frozenset(explained), sooner, shares, held_back, arriving)


@dataclass(slots=True)
class _Moved:
    """Shares of a symbol that fills have moved since the base, and those `awaited` since before it.

    Of both, `come` are there by now, and `sooner` may be: they come later today.
    """

    sold: int = 0
    bought: int = 0
    come: int = 0
    sooner: int = 0
    awaited: int = 0


def _shares(snapshot: AccountSnapshot, symbol: str, moved: _Moved) -> Shares:
    base = snapshot.held(symbol)
    undated = max(0, base.receiving - moved.awaited)
    sellable = base.sellable - moved.sold + moved.come
    return Shares(
        total=base.total - moved.sold + moved.bought,
        sellable=sellable,
        sellable_max=sellable + moved.sooner + undated,
        receiving=base.receiving + moved.bought - moved.come,
        undated=0 if moved.sooner else undated,
    )
