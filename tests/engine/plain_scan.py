"""The expected answers of the engine's index, computed by looking at every order and intent.

Deliberately slow and plain: it shares no code with the index except the fields of the objects.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from bot.domain.order import (
    TERMINAL_STATES,
    UNRESOLVED_SENDS,
    OrderState,
    SendState,
    Side,
)
from bot.engine.state import State
from bot.engine.tracked import AmendStage, TrackedIntent, TrackedOrder

_DEAD = {
    SendState.REFUSED,
    SendState.NOT_PLACED,
    SendState.NOT_SENT,
    SendState.HELD,
    SendState.EXPIRED_LOCAL,
    SendState.EOD_ABSENT,
}
_HARMLESS = {SendState.DENIED, SendState.EXPIRED_LOCAL, SendState.NOT_SENT}


def differences(state: State) -> list[str]:
    """Return every answer of the index that a plain scan does not give."""
    return [
        f"{what}: the index says {found!r}, a scan {wanted!r}"
        for what, found, wanted in _answers(state)
        if found != wanted
    ]


def require_equal(state: State) -> None:
    """Raise with every difference."""
    found = differences(state)
    assert not found, "\n".join(found)


def _answers(state: State) -> Iterator[tuple[str, Any, Any]]:
    index, now = state.index, state.now
    orders, intents = list(state.orders.values()), list(state.intents.values())
    working = [order for order in orders if order.row.state not in TERMINAL_STATES]
    pending = [one for one in intents if _is_pending(one)]
    held = [one for one in intents if one.state is SendState.HELD]
    dead = [one for one in intents if one.state in _DEAD]
    yield "numbers", sorted(each.number for each in orders), [each.number for each in orders]
    yield "open orders", _ids(state.open_orders()), _ids(working)
    yield "pending intents", _ids(state.pending_intents()), _ids(pending)
    under_way = [one for one in state.amends.values() if one.stage is not AmendStage.OVER]
    under_way.sort(key=lambda one: one.number)
    yield "amendments", _ids(index.amending.of(True)), _ids(under_way)
    yield "held intents", _ids(index.held.of(True)), _ids(held)
    symbols = {each.row.symbol for each in orders} | {each.intent.symbol for each in intents}
    for symbol in symbols:
        here = [order for order in working if order.row.symbol == symbol]
        yield f"open in {symbol}", _ids(index.open_in.of(symbol)), _ids(here)
        waiting = [one for one in pending if one.intent.symbol == symbol]
        yield f"pending in {symbol}", _ids(index.pending_in.of(symbol)), _ids(waiting)
    looks = {_look(one) for one in intents}
    for look in looks:
        like = [one for one in dead if _look(one) == look]
        yield f"not placed {look}", _ids(index.not_placed.of(look)), _ids(like)
    for what, groups in (("not placed", index.not_placed), ("alike", index._alike)):
        kept = [one.name for things in groups.all().values() for one in things]
        yield f"{what} and forgotten", [name for name in kept if name not in state.intents], []
    accounts = {each.row.account for each in orders} | {each.intent.account for each in intents}
    accounts.update(index.reserved._sums, index.working._sums, index.bought._sums)  # also forgotten
    accounts.update(index.intents_at_market.all())
    for account in accounts:
        yield from _money(state, account, working, pending)
    yield from _dues(state, working, intents)
    yield from _worth(state)
    oldest = now - state.settings.duplicate_window
    alike: dict[str, list[TrackedIntent]] = {}
    for one in intents:
        alike.setdefault(one.intent.fingerprint, []).append(one)
    for equal in alike.values():
        for one in equal:
            found, wanted = index.twin_of(one.intent, oldest), _twin(state, one, equal, oldest)
            yield f"twin of {one.name}", found, wanted


def _money(
    state: State, account: str, working: list[TrackedOrder], pending: list[TrackedIntent]
) -> Iterator[tuple[str, Any, Any]]:
    """Return the money of every own buy that works, or whose outcome is not known."""
    everybodys = [
        order for order in working if order.row.account == account and order.row.side is Side.BUY
    ]
    bought = [order for order in everybodys if order.row.intent_id is not None]
    asked = [
        one for one in pending if one.intent.account == account and one.intent.side is Side.BUY
    ]
    amounts = [
        order.open_quantity * max(price for price in order.prices if price is not None)
        for order in bought
        if order.prices != (None,)
    ]
    amounts += [
        one.intent.quantity * one.intent.limit_price
        for one in asked
        if one.intent.limit_price is not None
    ]
    wanted = sum(amount + state.rulebook.fee(amount) for amount in amounts)
    yield f"reserved in {account}", state.index.reserved.of(account), wanted
    elsewhere = sum(
        amount + state.rulebook.fee(amount)
        for order in everybodys
        if order.row.intent_id is None and order.prices != (None,)
        for amount in [
            order.open_quantity * max(price for price in order.prices if price is not None)
        ]
    )
    found_elsewhere = state.index.reserved_elsewhere.of(account)
    yield f"reserved elsewhere in {account}", found_elsewhere, elsewhere
    mine = [order for order in working if order.row.intent_id and order.row.account == account]
    waiting = [one for one in pending if one.intent.account == account]
    yield f"working in {account}", state.index.working.of(account), len(mine) + len(waiting)
    priced = [
        order.open_quantity * max(price for price in order.prices if price is not None)
        for order in everybodys
        if order.prices != (None,)
    ]
    priced += [
        one.intent.quantity * one.intent.limit_price
        for one in asked
        if one.intent.limit_price is not None
    ]
    yield f"bought in {account}", state.index.bought.of(account), sum(priced)
    unpriced = [order for order in everybodys if order.prices == (None,)]
    found = state.index.orders_at_market.of(account)
    yield f"orders at market in {account}", _ids(found), _ids(unpriced)
    waiting = [one for one in asked if one.intent.limit_price is None]
    yield (
        f"intents at market in {account}",
        _ids(state.index.intents_at_market.of(account)),
        _ids(waiting),
    )


def _worth(state: State) -> Iterator[tuple[str, Any, Any]]:
    """Return what accounts hold and have won or lost, summed position by position."""
    for account, snapshot in state.accounts.items():
        worth = state.exposure.of(account)
        ledger = state.ledgers.get(account)
        flows = state.early_flows if ledger is None else ledger.flows
        moved = [flow for flow in flows if flow.account == account and flow.at > snapshot.at]
        held = Counter({name: one.total for name, one in snapshot.holdings.items()})
        for flow in moved:
            held[flow.symbol] += flow.shares_in - flow.shares_out
        if ledger is not None and ledger.lack is not None:
            held.update(ledger.lack.shares)  # fills of before the read that it does not show yet
        yield f"held in {account}", +Counter(worth.held), +held
        prices = {name: one.cost_price for name, one in snapshot.holdings.items()}
        prices |= {name: seen.quote.last for name, seen in state.quotes.items()}
        value = sum(shares * prices.get(name, 0) for name, shares in held.items())
        yield f"value of {account}", worth.value, value
        mine = [one for one in state.strategies.values() if one.plan.account == account]
        todays = [
            order.row
            for order in state.orders.values()
            if order.row.intent_id
            and order.row.account == account
            and order.row.trading_date == state.trading_date
        ]
        fees = sum(row.fee + row.tax for row in todays)
        yield f"fees of {account}", worth.fees, fees
        yield f"fees of strategies of {account}", sum(one.fees_today for one in mine), fees
        names = {row.symbol for row in todays} | {name for one in mine for name in one.positions}
        results = [_day(state, name, mine, todays) for name in names]
        yield f"result of {account}", worth.result, sum(results)


def _day(state: State, symbol: str, mine: list[Any], todays: list[Any]) -> int:
    """What today has brought in a symbol, from positions and the order rows of today."""
    spent = 0
    shares: int = sum(one.position(symbol).shares for one in mine)
    begun = shares
    for row in todays:
        sign = 1 if row.side is Side.BUY else -1
        if row.symbol == symbol:
            begun -= sign * row.executed_quantity
            spent += sign * row.executed_amount
    moved, begun = shares - begun, max(0, begun)
    shares = begun + moved
    if shares < 0:  # what was sold beyond its own shares was there at the start
        begun, shares = begun - shares, 0
    if not shares and not begun:
        return -spent
    if (mark := state.exposure.mark_of(symbol)) is None:
        return 0
    return shares * mark.price - begun * mark.reference - spent


def _dues(
    state: State, working: list[TrackedOrder], intents: list[TrackedIntent]
) -> Iterator[tuple[str, Any, Any]]:
    """Return what is due by now, and the first instant after it, for polls and for orders that
    expire.
    """
    index, now = state.index, state.now
    of_intents = [one for one in intents if one.poll is not None and one.order_id is None]
    expiring = [order for order in working if order.expires_at is not None]
    for what, deadlines, dues in (
        ("polls of orders", index.order_polls, [(o, o.poll.due) for o in working if o.poll]),
        ("polls of intents", index.intent_polls, [(i, i.poll.due) for i in of_intents if i.poll]),
        ("expiries", index.expiries, [(o, o.expires_at) for o in expiring if o.expires_at]),
    ):
        ahead = [due for _, due in dues if due > now]
        yield f"next of {what}", deadlines.next_after(now), min(ahead, default=None)
        ripe = [each for each, due in dues if due <= now]
        yield f"due {what}", _ids(deadlines.ripe(now)), _ids(ripe)


def _twin(
    state: State, asking: TrackedIntent, equal: list[TrackedIntent], oldest: datetime
) -> str | None:
    """Find an equal order as a request's checks do, among all with the same fingerprint."""
    followed, first = set[str](), asking.intent
    while first.follows is not None and first.follows in state.intents:
        followed.add(first.follows)
        first = state.intents[first.follows].intent
    for one in equal:
        if one.state in _HARMLESS or one.intent.intent_id in followed:
            continue
        order = state.orders.get(one.order_id or "")
        is_open = order is not None and order.row.state not in TERMINAL_STATES
        is_filled = order is not None and order.row.state is OrderState.FILLED
        both_close = asking.intent.closes_position and one.intent.closes_position
        if both_close and is_filled and not _is_pending(one):
            continue
        if _is_pending(one) or is_open or one.intent.created_at > oldest:
            return one.intent.intent_id
    return None


def _is_pending(one: TrackedIntent) -> bool:
    return one.state in UNRESOLVED_SENDS | {SendState.READY}


def _look(one: TrackedIntent) -> Any:
    intent = one.intent
    return intent.account, intent.trading_date, intent.symbol, intent.side, intent.quantity


def _ids(things: Any) -> list[str]:
    return [each.name for each in things]
