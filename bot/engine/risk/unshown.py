"""Tells of own fills that the account shows, and no row of their order.

While an order works, its fills may be in the account before its rows show them, so a difference of
at most its size is no break. But rows that stand still would hide fills for as long: shares that
were bought are not sold then, and nobody would know why. So a symbol whose shares are off by the
same in each read for minutes is an alert, unless a corporate action may bring them. Nothing is
corrected by it: only a row says what was paid. Cash is left out, as what it shows of an order
differs from broker to broker.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from bot.domain.account import AccountSnapshot
from bot.domain.entry import Numbers
from bot.domain.local_time import clock_of
from bot.domain.order import Side
from bot.engine.control_state import Standing
from bot.engine.flows import AccountLedger, Lack, Unshown
from bot.engine.risk import rights
from bot.engine.risk.expected import NONE, Expected
from bot.engine.state import State
from bot.engine.tracked import TrackedOrder

LASTS: Final = timedelta(minutes=3)
"""For so long each read has to show it: no node lags as far behind."""


def follow(
    state: State,
    ledger: AccountLedger,
    snapshot: AccountSnapshot,
    expected: Expected,
    lack: Lack | None,
) -> None:
    """Note which symbols a read shows otherwise than our fills, as far as open orders explain."""
    account, before = snapshot.account, ledger.unshown
    ledger.unshown = {}
    own = {each.row.symbol for each in state.open_orders() if each.is_own}
    old = lack.shares if lack is not None else {}
    for symbol in sorted(own - old.keys()):
        ours, found = expected.holdings.get(symbol, NONE).total, snapshot.held(symbol).total
        is_explained = _explaining(state, account, symbol, found - ours)
        if not is_explained or rights.left(state, account, symbol):
            continue
        seen = before.get(symbol)
        is_same = seen is not None and (seen.ours, seen.found) == (ours, found)
        since = seen.since if seen is not None and is_same else snapshot.at
        ledger.unshown[symbol] = Unshown(ours, found, since, snapshot.at)
        if told := _standing(state, account, symbol, ledger.unshown[symbol]):
            about = f"{symbol} {since.isoformat()}"
            state.alert(told.code, told.text, told.facts, about=about, symbol=symbol)


def alerts(state: State) -> Iterator[Standing]:
    """Yield the symbols in which fills seem to be missing in the rows."""
    for account, ledger in state.ledgers.items():
        for symbol, seen in ledger.unshown.items():
            if told := _standing(state, account, symbol, seen):
                yield told


def _explaining(state: State, account: str, symbol: str, off: int) -> Sequence[TrackedOrder]:
    """Return our open orders that would explain a difference of shares if they had traded."""
    side = Side.BUY if off > 0 else Side.SELL
    found = [
        each
        for each in state.index.open_in.of(symbol)
        if each.is_own and each.row.account == account and each.row.side is side
    ]
    return found if 0 < abs(off) <= sum(each.open_quantity for each in found) else ()


def _standing(state: State, account: str, symbol: str, seen: Unshown) -> Standing | None:
    """Say what is missing once it has lasted, and a day order book of since then does not show it;
    None before, and once the orders have ended.
    """
    off, read = seen.found - seen.ours, state.set_aside.get(account)
    orders = _explaining(state, account, symbol, off)
    is_listed_since = read is not None and read.requested_at - seen.since >= state.settings.book_lag
    if seen.seen_at - seen.since < LASTS or not orders or not is_listed_since:
        return None
    more = "more" if off > 0 else "fewer"
    rows = [(each.name, each.row) for each in orders]
    words = "; ".join(
        f"{name} ({row.order_id}), {row.executed_quantity:,} of {row.quantity:,} executed"
        for name, row in rows
    )
    text = (
        f"since {clock_of(seen.since)} each read of the account has shown {abs(off):,} {symbol}"
        f" {more} than the fills that the bot knows, and no row shows why: {words}. The bot goes by"
        " the rows: what is open in them counts as open, and what it may have bought is not sold."
        " Look in the broker's app whether more has traded; if so, ask the broker"
    )
    facts: Numbers = {
        "account": account[-5:],
        "symbol": symbol,
        "since": seen.since.isoformat(),
        "off": f"{off:+,}",
        "orders": ", ".join(each.row.order_id for each in orders),
    }
    return Standing("FILLS_UNSHOWN", text, facts)
