"""Journal, day order book and account beside one another, as one frozen value: `bot reconcile`."""

from dataclasses import dataclass
from datetime import datetime

from bot.domain.account import Break, Holding
from bot.domain.entry import OrderUpdated
from bot.engine.risk import breaks
from bot.engine.risk.ledgers import expected_at, own_shares
from bot.engine.state import State


@dataclass(frozen=True, slots=True)
class Compared:
    """One number of an account. `symbol` None: cash, in VND; else all shares of the symbol.

    `own`: what our strategies hold of it by the journal. `ours`: what the broker should show.
    """

    account: str
    symbol: str | None
    own: int
    ours: int
    theirs: int

    @property
    def difference(self) -> int:
        """By how much the broker's number is higher."""
        return self.theirs - self.ours


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What was compared, when, and what does not fit; `doubts` wait for a second read."""

    book_read_at: datetime | None
    account_read_at: datetime | None
    numbers: tuple[Compared, ...]
    breaks: tuple[Break, ...]
    doubts: tuple[str, ...]
    unsettled: tuple[str, ...]
    """Places without a known outcome, in words."""
    external: tuple[OrderUpdated, ...]
    """Orders of today that were made elsewhere: they count, and are never touched."""


def reconciliation_of(state: State) -> Reconciliation:
    """Read the state; nothing changes."""
    numbers = list[Compared]()
    for account, ledger in sorted(state.ledgers.items()):
        seen = state.accounts.get(account)
        if seen is None:
            continue
        expected, own = expected_at(ledger, seen.at), own_shares(state, account)
        cash = min(expected.explained_cash, key=lambda each: abs(each - seen.cash))
        numbers.append(Compared(account, None, 0, cash, seen.cash))
        for symbol in sorted({*expected.holdings, *seen.holdings}):
            ours = expected.holdings.get(symbol)
            theirs = seen.holdings.get(symbol, Holding(symbol, 0, 0, 0, 0))
            total = ours.total if ours else 0
            numbers.append(Compared(account, symbol, own.get(symbol, 0), total, theirs.total))
    books = [read.requested_at for read in state.set_aside.values()]
    rows = [order.row for order in state.orders.values() if not order.is_own]
    return Reconciliation(
        book_read_at=max(books, default=None),
        account_read_at=max((seen.at for seen in state.accounts.values()), default=None),
        numbers=tuple(numbers),
        breaks=tuple(state.reconciling.breaks.values()),
        doubts=tuple(breaks.doubts(state)),
        unsettled=tuple(f"{o.intent.intent_id} {o.state}" for o in state.pending_intents()),
        external=tuple(row for row in rows if row.trading_date == state.trading_date),
    )
