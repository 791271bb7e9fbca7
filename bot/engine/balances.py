"""What an account is worth, as one frozen value: our own numbers and the broker's beside them."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from bot.engine.risk.accounts import NEVER, free_cash
from bot.engine.risk.ledgers import expected_at
from bot.engine.state import State
from bot.engine.tracked import AccountLedger


@dataclass(frozen=True, slots=True)
class HeldShares:
    """Shares of the whole account; `last` is the price that was believed last, None: none was."""

    symbol: str
    total: int
    sellable: int
    receiving: int
    last: int | None
    last_at: datetime | None


@dataclass(frozen=True, slots=True)
class Due:
    """What settles at an instant: money of sales, and shares that were bought."""

    at: datetime
    cash: int
    shares: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Balance:
    """One account. `cash` is what our fills make of the broker's numbers that agreed last, the
    nearest of what may be shown around a settlement; `broker_cash` and `broker_net_assets` were
    read at `read_at`. `buying_power` is cash less what open orders may still take, fees with it.
    """

    account: str
    read_at: datetime
    cash: int
    broker_cash: int
    broker_net_assets: int
    buying_power: int
    due: tuple[Due, ...]
    held: tuple[HeldShares, ...]


def balances_of(state: State) -> tuple[Balance, ...]:
    """Read the state; nothing changes. An account that has not been read yet has no row; before our
    own numbers have begun they are the broker's.
    """
    found = []
    for account, seen in sorted(state.accounts.items()):
        ledger = state.ledgers.get(account) or AccountLedger(seen)
        explained = expected_at(ledger, seen.at).explained_cash
        at_read = min(explained, key=lambda each: abs(each - seen.cash))
        balance = Balance(
            account=account,
            read_at=seen.at,
            cash=at_read + state.flows.cash(account, seen.at, state.now),
            broker_cash=seen.cash,
            broker_net_assets=seen.net_asset_value,
            buying_power=free_cash(state, seen),
            due=tuple(due_of(state, ledger)),
            held=tuple(held_of(state, ledger)),
        )
        found.append(balance)
    return tuple(found)


def due_of(state: State, ledger: AccountLedger) -> Iterator[Due]:
    """Yield what settles from now on, the earliest first."""
    cash, shares = defaultdict[datetime, int](int), defaultdict[datetime, dict[str, int]](dict)
    for flow in (*ledger.coming, *ledger.flows):
        if flow.settles_at <= state.now or flow.settles_at == NEVER:
            continue
        cash[flow.settles_at] += flow.cash_in
        if flow.shares_in:
            mine = shares[flow.settles_at]
            mine[flow.symbol] = mine.get(flow.symbol, 0) + flow.shares_in
    for at in sorted(cash):
        yield Due(at, cash[at], tuple(sorted(shares[at].items())))


def held_of(state: State, ledger: AccountLedger) -> Iterator[HeldShares]:
    """Yield the shares of the account as our fills make them."""
    for symbol, mine in expected_at(ledger, state.now).holdings.items():
        seen = state.quotes.get(symbol)
        if mine.total or mine.receiving:
            yield HeldShares(
                symbol=symbol,
                total=mine.total,
                sellable=mine.sellable,
                receiving=mine.receiving,
                last=seen.quote.last if seen else None,
                last_at=seen.at if seen else None,
            )
