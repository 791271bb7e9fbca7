"""By how much the account's figures may have moved already by what is under way.

An open order may have been filled, a place of unknown outcome may be at the broker, and figures of
a lagging node may lack our newest fills. Each moves cash and shares by no more than its own size;
a corporate action by no more than it is worth. What differs by more, nothing of ours explains.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bot.domain.account import AccountSnapshot
from bot.domain.order import SendState, Side
from bot.domain.recovery import MAY_BE
from bot.engine.flows import AccountLedger, Flow
from bot.engine.risk import rights
from bot.engine.state import State
from bot.engine.tracked import TrackedOrder


@dataclass(frozen=True, slots=True)
class Room:
    """By how much a number may be below and above what our fills have made it."""

    less: int = 0
    more: int = 0


def worst_price(state: State, symbol: str, limit_price: int | None) -> int:
    """Return the most a share can cost: the limit, else the ceiling, the last price, or 0. A quoted
    ceiling may be too low, so that of the rules counts where it is known: the usual one, as a
    special one may be far above what the exchange has set.
    """
    if limit_price is not None:
        return limit_price
    seen = state.quotes.get(symbol)
    if seen is None:
        return 0
    quoted = seen.quote.ceiling or seen.quote.last
    known, listed = state.beliefs.get(symbol), state.instruments.get(symbol)
    if listed is None or known is None or known.frame is None:
        return quoted
    return max(quoted, state.rulebook.band(listed, known.frame.reference).ceiling)


def at_market(state: State, account: str, *, elsewhere: bool = False) -> Iterator[tuple[str, int]]:
    """Yield symbol and open shares of each own buy that has no limit, and of those placed
    `elsewhere`.
    """
    for order in state.index.orders_at_market.of(account):
        if order.is_own or elsewhere:
            yield order.row.symbol, order.open_quantity
    for one in state.index.intents_at_market.of(account):
        yield one.intent.symbol, one.intent.quantity


def unpriced(state: State, account: str) -> tuple[str, str] | None:
    """Return the name and symbol of an open buy without a limit, also one made elsewhere, of which
    no quote shows what it may cost; None if there is none.
    """
    orders, intents = state.index.orders_at_market, state.index.intents_at_market
    buys = [(order.name, order.row.symbol) for order in orders.of(account)]
    buys += [(one.name, one.intent.symbol) for one in intents.of(account)]
    return next((buy for buy in buys if not worst_price(state, buy[1], None)), None)


def reserved_twice(state: State, account: str) -> int:
    """Return what is reserved for a buy in question and once more for an open row that may be it,
    fees included.
    """
    asked = {
        one.intent.intent_id: _cost(state, one.intent.quantity, one.intent.limit_price)
        for one in state.pending_intents()
        if one.state is SendState.AMBIGUOUS
        and one.intent.account == account
        and one.intent.side is Side.BUY
    }
    twice = 0
    for order in state.index.external.of(account) if asked else ():
        names = order.row.note.removeprefix(MAY_BE).split(", ") if order.is_open else ()
        if (name := next((name for name in names if name in asked), None)) is not None:
            twice += min(asked.pop(name), _cost(state, order.open_quantity, order.prices[-1]))
    return twice


def _cost(state: State, quantity: int, price: int | None) -> int:
    amount = quantity * (price or 0)
    return amount + state.rulebook.fee(amount)


def room_of_cash(state: State, ledger: AccountLedger, snapshot: AccountSnapshot) -> Room | None:
    """Return the room of an account's cash; None if a buy at the market has no known ceiling."""
    account, less = snapshot.account, state.index.reserved.of(snapshot.account)
    for symbol, quantity in at_market(state, account):
        price = worst_price(state, symbol, None)
        if not price:
            return None
        less += quantity * price + state.rulebook.fee(quantity * price)
    more = sum(flow.cash_out for flow in _newest(state, ledger, snapshot))
    return Room(less, more + sum(rights.left(state, account, None)))


def room_of_shares(
    state: State, ledger: AccountLedger, snapshot: AccountSnapshot, symbol: str
) -> Room:
    """Return the room of all the shares of a symbol, in shares."""
    sides = [
        (order.row.side, order.open_quantity)
        for order in state.index.open_in.of(symbol)
        if order.is_own and order.row.account == snapshot.account
    ]
    sides += [
        (one.intent.side, one.intent.quantity)
        for one in state.index.pending_in.of(symbol)
        if one.intent.account == snapshot.account
    ]
    newest = [each for each in _newest(state, ledger, snapshot) if each.symbol == symbol]
    brought = rights.left(state, snapshot.account, symbol)
    less = sum(quantity for side, quantity in sides if side is Side.SELL)
    more = sum(quantity for side, quantity in sides if side is Side.BUY)
    return Room(
        less + sum(flow.shares_in for flow in newest) - sum(min(0, each) for each in brought),
        more + sum(flow.shares_out for flow in newest) + sum(max(0, each) for each in brought),
    )


def _newest(state: State, ledger: AccountLedger, snapshot: AccountSnapshot) -> Iterator[Flow]:
    """Yield the fills that a lagging node's figures need not contain."""
    since = snapshot.at - state.settings.book_lag
    return (flow for flow in (*ledger.past, *ledger.flows) if flow.at > since)


def refused_at_work(state: State, symbol: str) -> Iterator[TrackedOrder]:
    """Yield our orders of a symbol that no row has shown ended, only the place's own answer, while
    one that shows them at work is looked at again.
    """
    for order in state.orders.values() if state.index.looks else ():
        is_refused = order.is_own and not order.is_open and not order.shown.rows
        if is_refused and order.row.symbol == symbol and order.look is not None:
            yield order


def refused_sales(state: State, strategy: str, symbol: str) -> int:
    """Return the shares that such sales of a strategy may still sell."""
    rows = (each.row for each in refused_at_work(state, symbol))
    sales = (each for each in rows if (each.strategy, each.side) == (strategy, Side.SELL))
    return sum(each.quantity - each.executed_quantity for each in sales)
