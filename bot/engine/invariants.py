"""The invariants of the engine's own state: each event's effects are checked with it, everything
periodically.

What an event decided is checked before its commands leave the engine, at a cost proportional to
what it decided. What only a complete check can find, such as an index that has lost an order, is
checked at most every `WHOLE_EVERY`, after an event for which no strategy waits.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import islice
from typing import Any, Final, ParamSpec

from bot.domain.entry import IntentMoved, OrderUpdated
from bot.domain.errors import require
from bot.domain.instrument import BOARD_LOT
from bot.domain.message import (
    AccountRead,
    AmendOrder,
    CancelOrder,
    Command,
    PlaceAnswered,
    Record,
    TimePassed,
)
from bot.domain.order import (
    REOPENED_NOTE,
    SEND_MOVES,
    TERMINAL_STATES,
    UNRESOLVED_SENDS,
    Intent,
    OrderResult,
    SendState,
    Side,
    is_echo,
)
from bot.domain.outcome import Accepted, Refused
from bot.engine.account_state import SECOND
from bot.engine.gate import guarded
from bot.engine.index import fingerprint_of
from bot.engine.risk.expected import expected_at
from bot.engine.state import State, StrategyState
from bot.engine.tracked import TrackedIntent, TrackedOrder

WHOLE_EVERY: Final = timedelta(seconds=30)
DUMPED_MAX: Final = 200
"""How many lines of the state are kept with a report."""

P = ParamSpec("P")


def of_answer(state: State, event: PlaceAnswered) -> None:
    """Before an answer is processed (I4, I13). An exception here leaves its order unknown."""
    outcome, name = event.outcome, event.intent_id
    if isinstance(outcome, Accepted | Refused) and outcome.result is not None:
        _require_new(state, name, outcome.result)
    if isinstance(outcome, Accepted):
        _require_echo(state, name, outcome.result)


def of_approved(state: State, strategy: StrategyState, intent: Intent) -> None:
    """Before an approved order is commanded to be sent (I2, I9, I10, I11). An exception here holds
    it back: then nobody sends it, and it is ended (`orders/sends.py`).
    """
    state.checked.held_back.append(intent.intent_id)
    _require_leave(state, strategy, intent)
    state.checked.held_back.pop()


def of_decided(state: State, commands: Sequence[Command]) -> list[Command]:
    """Check what an event decided (I5 to I7, I11, I12); return the commands that may leave the
    engine.

    Records always may: what happened is recorded. A command that breaks an invariant is held back.
    """
    kept = []
    for command in commands:
        about = command.entry if isinstance(command, Record) else command
        check = _OF_COMMANDS.get(type(about))
        holds = check is None or _holds(state, check, state, about)
        if holds or isinstance(command, Record):
            kept.append(command)
    return kept


def of_all(state: State, event: AccountRead | TimePassed) -> None:
    """Check a portfolio against each account read (I19), and everything now and then (I3, I8, I20):
    that looks at all orders of the day, also those that have ended.
    """
    if isinstance(event, AccountRead):
        _holds(state, _require_portfolio, state, event)
    if state.now - state.checked.looked_at < WHOLE_EVERY:
        return
    state.checked.looked_at = state.now
    orders = [order for order in state.orders.values() if order.row.state not in TERMINAL_STATES]
    waiting = [one for one in state.intents.values() if one.state in _PENDING]
    for check in (_require_one_order, _require_reserved, _require_apart):
        _holds(state, check, state, orders, waiting)
    for key in [key for key in state.checked.executed if key[1] not in state.orders]:
        del state.checked.executed[key]


def dump(state: State) -> str:
    """Return the state in at most `DUMPED_MAX` lines, what is under way first; without accounts or
    secrets.
    """
    return "\n".join(islice(_dump(state), DUMPED_MAX))


def _holds(state: State, check: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> bool:
    return guarded(state, "the invariants", check, *args, **kwargs)


# --------------------------------------------------------------------------------- what is decided


def _require_new(state: State, intent_id: str, result: OrderResult) -> None:
    """An order of ours would be lost if another one took its id."""
    order = state.orders.get(state.chains.first(result.order_id))
    if order is not None and order.row.trading_date == state.trading_date:
        found = f"the answer to {intent_id} has {result.order_id}, which is {order.name}'s"
        require(order.row.intent_id in {None, intent_id}, "I4", found)


def _require_echo(state: State, intent_id: str, result: OrderResult) -> None:
    tracked = state.intents.get(intent_id)
    if tracked is None:
        return
    intent = tracked.intent
    is_type = is_echo(intent.exchange, intent.order_type, result.order_type)
    for name, sent, echo in (
        ("account", intent.account, result.account),
        ("symbol", intent.symbol, result.symbol),
        ("side", intent.side, result.side),
        ("quantity", intent.quantity, result.quantity),
        ("limit price", intent.limit_price, result.limit_price),
        ("date", intent.trading_date, result.transaction_date),
        ("order type", intent.order_type, intent.order_type if is_type else result.order_type),
    ):
        found = f"the answer to {intent_id} has {name} {echo}, sent was {sent}"
        require(sent == echo, "I13", found if name != "account" else f"{intent_id}: account")


def _require_leave(state: State, strategy: StrategyState, intent: Intent) -> None:
    name, gate, limits = intent.intent_id, state.gate, strategy.limits
    number = int(name.rpartition("-")[2])
    require(number > state.checked.last_number, "I2", f"{name} is to be sent again")
    state.checked.last_number = number
    is_awake = not gate.is_asleep or state.passes_halt(name)
    is_free = is_awake and intent.symbol not in state.halted_symbols
    require(is_free, "I11", f"{name} in {intent.symbol} leaves while the bot is {gate.state}")
    fingerprint = fingerprint_of(intent)
    waiting = state.index.pending_in.of(intent.symbol)
    equal = [one.name for one in waiting if fingerprint_of(one.intent) == fingerprint]
    require(equal == [name], "I10", f"{', '.join(equal)} are equal")
    is_buy = intent.side is Side.BUY
    if is_buy and (most := limits.max_orders_per_day) is not None:
        count = strategy.orders_today
        require(count <= most, "I9", f"{name} is order {count:,} of {most:,} today")
    if is_buy and (most := limits.max_position) is not None:
        shares = strategy.position(intent.symbol).shares
        shares += sum(
            one.intent.quantity
            for one in waiting
            if one.intent.side is Side.BUY and one.intent.strategy == intent.strategy
        )
        require(shares <= most, "I9", f"{name} makes {shares:,} shares of {most:,}")
    if state.has_account_limits:
        _require_account(state, intent, waiting)


def _require_account(state: State, intent: Intent, waiting: Sequence[TrackedIntent]) -> None:
    """Shared limits hold for any strategy's order; summed here from what works and waits."""
    name, limits, is_buy = intent.intent_id, state.settings.account_limits, intent.side is Side.BUY
    account, price, sent = intent.account, intent.limit_price or 0, state.checked.sent
    sent.append((state.now, intent.side))
    second = sum(at > state.now - SECOND and side is intent.side for at, side in sent)
    works = [one for one in state.open_orders() if one.is_own and one.row.account == account]
    count = len(works) + sum(one.intent.account == account for one in state.pending_intents())
    bought = [
        (one.open_quantity, one.prices[-1] or 0)
        for one in works
        if one.row.symbol == intent.symbol and one.row.side is Side.BUY
    ]
    bought += [
        (one.intent.quantity, one.intent.limit_price or 0)
        for one in waiting
        if one.intent.account == account and one.intent.side is Side.BUY
    ]
    value = state.exposure.value_of(account, intent.symbol)
    value += sum(quantity * each for quantity, each in bought)
    is_lot = not is_buy and intent.quantity <= BOARD_LOT
    for what, found, most, is_free in (
        ("is worth VND", intent.quantity * price, limits.max_order_value, is_lot),
        ("has shares", intent.quantity, limits.max_order_quantity, is_lot),
        ("makes open orders", count, limits.max_open_orders, intent.closes_position),
        ("is order of its second", second, limits.max_orders_per_second, False),
        (
            "is order of the day",
            state.usage.of(account).orders_today,
            limits.max_orders_per_day,
            not is_buy,
        ),
        ("makes VND of its symbol", value, limits.max_position_value, not is_buy),
    ):
        is_within = is_free or most is None or found <= most
        require(is_within, "I9", f"{name} {what}: {found:,}, at most {most or 0:,}")


def _require_move(_state: State, moved: IntentMoved) -> None:
    name = moved.intent_id
    is_proved = moved.to_state is not SendState.NOT_PLACED or moved.proof is not None
    require(is_proved, "I5", f"{name} is NOT_PLACED without one")
    is_legal = moved.to_state in SEND_MOVES[moved.from_state]
    require(is_legal, "I6", f"{name} went from {moved.from_state} to {moved.to_state}")


def _require_executed(state: State, row: OrderUpdated) -> None:
    key = (row.trading_date, row.order_id)
    before, executed = state.checked.executed.get(key, 0), row.executed_quantity
    state.checked.executed[key] = max(before, executed)
    found = f"{row.order_id} has {executed:,} of {row.quantity:,}, and had {before:,}"
    require(before <= executed <= row.quantity, "I7", found)


def _require_today(state: State, command: CancelOrder | AmendOrder) -> None:
    order = state.orders.get(state.chains.first(command.order_id))
    if order is not None:
        day = order.row.trading_date
        found = f"{command.order_id} is of {day}, today is {state.trading_date}"
        require(day == state.trading_date, "I12", found)


def _require_amend(state: State, command: AmendOrder) -> None:
    _require_today(state, command)
    found = f"{command.order_id} is to be amended while the bot is {state.gate.state}"
    require(not state.gate.is_asleep, "I11", found)


_OF_COMMANDS: Final[Mapping[type, Callable[[State, Any], None]]] = {
    IntentMoved: _require_move,
    OrderUpdated: _require_executed,
    CancelOrder: _require_today,
    AmendOrder: _require_amend,
}


# -------------------------------------------------------------------------------------- everything

_PENDING: Final = UNRESOLVED_SENDS | {SendState.READY}


def _require_one_order(
    _state: State, orders: Sequence[TrackedOrder], _waiting: Sequence[TrackedIntent]
) -> None:
    counts = Counter(order.row.intent_id for order in orders if order.row.intent_id)
    for name, count in counts.items():
        require(count == 1, "I3", f"{name} has {count}")


def _require_reserved(
    state: State, orders: Sequence[TrackedOrder], waiting: Sequence[TrackedIntent]
) -> None:
    filed = {order.name for order in state.open_orders()}
    lost = {order.name for order in orders} ^ filed
    lost |= {one.name for one in waiting} ^ {one.name for one in state.pending_intents()}
    require(not lost, "I8", f"the index differs in {', '.join(sorted(lost))}")
    wanted: Counter[str] = Counter()
    for order in orders:
        price = order.prices[-1]
        if order.is_own and order.row.side is Side.BUY and price is not None:
            amount = order.open_quantity * price
            wanted[order.row.account] += amount + state.rulebook.fee(amount)
    for one in waiting:
        intent = one.intent
        if intent.side is Side.BUY and intent.limit_price is not None:
            amount = intent.quantity * intent.limit_price
            wanted[intent.account] += amount + state.rulebook.fee(amount)
    for account, amount in wanted.items():
        reserved = state.index.reserved.of(account)
        require(reserved == amount, "I8", f"{reserved:,} VND are reserved of {amount:,}")


def _require_apart(
    state: State, orders: Sequence[TrackedOrder], waiting: Sequence[TrackedIntent]
) -> None:
    found: dict[tuple[str, Side], list[tuple[float, str]]] = {}
    for order in orders:
        # Of one under change nobody knows which price it has. One that works on after its end, or
        # whose new id no list showed for long, may meet an exit that was let out meanwhile.
        is_one = len(order.asked) < 2 and not order.may_be_renamed
        is_one = is_one and len(state.chains.ids(order.row.order_id)) == 1
        if order.is_own and is_one and not order.row.note.startswith(REOPENED_NOTE):
            prices = found.setdefault((order.row.symbol, order.row.side), [])
            # What its rows show is the broker's doing: another price there is told as that.
            prices += [(_limit(each, order.row.side), order.name) for each in order.prices_given]
    for one in waiting:
        intent = one.intent
        prices = found.setdefault((intent.symbol, intent.side), [])
        prices.append((_limit(intent.limit_price, intent.side), one.name))
    for (symbol, side), prices in found.items():
        others = found.get((symbol, Side.SELL), ())
        if side is Side.BUY and others:
            (bid, buyer), (ask, seller) = max(prices), min(others)
            require(
                bid < ask, "I20", f"{buyer} buys {symbol} at {bid:,}, {seller} sells at {ask:,}"
            )


def _limit(price: int | None, side: Side) -> float:
    """The worst price that an order accepts; unlimited at the market."""
    if price is None:
        return math.inf if side is Side.BUY else -math.inf
    return price


def _require_portfolio(state: State, event: AccountRead) -> None:
    """Symbols still moved by orders, or that a second read may explain, are left for the next
    check.
    """
    snapshot = event.snapshot
    ledger, newest = state.ledgers.get(snapshot.account), state.accounts.get(snapshot.account)
    if ledger is None or (newest is not None and snapshot.at < newest.at):
        return
    known = {symbol for symbol, _ in ledger.doubts}
    known |= {each.symbol for each in state.reconciling.breaks.values()}
    known |= {order.row.symbol for order in state.open_orders() if order.is_own}
    known |= {one.intent.symbol for one in state.pending_intents()}
    known |= state.flows.symbols_since(snapshot.at) | state.halted_symbols.keys()
    ours, theirs = expected_at(ledger, snapshot.at).holdings, snapshot.holdings
    for symbol in {*ours, *theirs} - known:
        here, there = ours.get(symbol), theirs.get(symbol)
        expected, total = here.total if here else 0, there.total if there else 0
        found = f"{symbol} has {total:,} shares, {expected:,} are known"
        require(expected == total, "I19", found)


def _dump(state: State) -> Iterator[str]:
    yield f"state at {state.now.isoformat()}, day {state.trading_date}, gate {state.gate.state}"
    yield f"counts {dict(state.counts)}"
    yield f"halted {state.halted_symbols}"
    for one in state.pending_intents():
        intent = one.intent
        what = f"{intent.side} {intent.quantity} {intent.symbol} at {intent.limit_price}"
        yield f"intent {one.name} {one.state} {what} order {one.order_id}"
    for order in state.open_orders():
        row = order.row
        what = (
            f"{row.side} {row.quantity} {row.symbol} at {row.price}, {row.executed_quantity} done"
        )
        yield f"order {row.order_id} of {row.intent_id} {row.state} ({row.broker_status}) {what}"
    for cancel in state.cancels.values():
        yield f"cancel {cancel.order_id} {cancel.stage} tries {cancel.tries} due {cancel.due}"
    for amend in state.amends.values():
        yield f"amend {amend.name} {amend.stage} {amend.old} to {amend.new}"
    for strategy in state.strategies.values():
        held = {symbol: one.shares for symbol, one in strategy.positions.items() if one.shares}
        yield f"strategy {strategy.plan.name} {strategy.state} today {strategy.orders_today} {held}"
