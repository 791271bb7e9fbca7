"""Orders and shares that this run has taken over and that nobody looks after: their strategy or
its symbol is gone, or the orders are on an account that the run does not read. Also orders of today
at its start that its journal has never seen: somebody else's, or its own if an older copy of the
journal was put back.
"""

from collections.abc import Collection, Iterator
from typing import Final

from bot.domain.entry import Numbers, OrderUpdated
from bot.domain.order import TERMINAL_STATES, Intent
from bot.domain.plan import StrategyMode
from bot.engine.control_state import Standing
from bot.engine.orders.matching import NOT_OURS
from bot.engine.risk.expected import NONE, expected_at
from bot.engine.risk.gone_shares import traded_shares
from bot.engine.state import State, StrategyState

NAMED_MAX: Final = 3
"""At most this many orders are named; `bot orders` shows all."""


def alerts(state: State) -> Iterator[Standing]:
    """Yield which open orders, or unknown ones, no strategy of this run looks after, as it or its
    symbol is gone; and which are of an account that this run does not read.
    """
    accounts = _accounts(state)
    elsewhere: dict[str, list[str]] = {}
    for account, name in state.reconciling.elsewhere:
        elsewhere.setdefault(account, []).append(name)
    left: dict[str, list[str]] = {}
    dropped: dict[tuple[str, str], list[str]] = {}
    for row, order_name in _open(state):
        is_of_today = row.trading_date == state.trading_date
        name = row.strategy or ""
        strategy = state.strategies.get(name)
        if row.account not in accounts:
            shown = order_name if is_of_today else _dated(row, order_name)
            elsewhere.setdefault(row.account, []).append(shown)
        elif not is_of_today:
            continue  # it is asked for, and ended, before anything else
        elif strategy is None:
            left.setdefault(name, []).append(order_name)
        elif row.symbol not in strategy.instances:
            dropped.setdefault((name, row.symbol), []).append(order_name)
    for account, names in sorted(elsewhere.items()):
        orders, ours = ", ".join(names), ", ".join(sorted(each[-5:] for each in accounts))
        text = (
            f"this run trades on the account …{ours}, and these orders are open on …{account[-5:]}:"
            f" {orders}. The bot does not see their fills and their ends, and can't cancel them: it"
            " reads and writes its own account alone. They stay open in the journal until a run on "
            "that account has asked how they ended. Look after them in the broker's app, or put "
            "broker.account back as it was and start again"
        )
        facts: Numbers = {"account": account[-5:], "trades_on": ours, "orders": orders}
        yield Standing("OTHER_ACCOUNT", text, facts)
    for name, names in sorted(left.items()):
        orders = ", ".join(names)
        held = [
            f"{each.shares:,} {symbol}"
            for (strategy, symbol), each in sorted(state.unloaded.items())
            if strategy == name and each.shares
        ]
        text = (
            f"{name} does not run, and it has open orders: {orders}. The bot follows them to their "
            "end, but no strategy looks after them or sells what they fill (its shares "
            f"now: {', '.join(held) or 'none'}). If {name} was renamed, give it its name back "
            "and start again; if nobody wants an order: bot cancel ID"
        )
        facts = {"strategy": name, "orders": orders, "held": ", ".join(held) or 0}
        yield Standing("STRATEGY_GONE", text, facts)
    for (name, symbol), names in sorted(dropped.items()):
        orders, shares = ", ".join(names), state.position_of(name, symbol).shares
        text = (
            f"{name} does not trade {symbol} any more, and it has open orders in it: {orders}. The "
            "bot follows them to their end, but no strategy looks after them or sells what they "
            f"fill (its shares now: {shares:,}). Put {symbol} back into its file and start "
            "again; if nobody wants an order: bot cancel ID"
        )
        facts = {"strategy": name, "symbol": symbol, "orders": orders, "held": shares}
        yield Standing("SYMBOL_GONE", text, facts)


def dropped(state: State) -> Iterator[Standing]:
    """Yield the shares of a symbol that their strategy does not trade any more, as far as the
    account still has them by our own figures; not those beside an open order, which are told with
    that.
    """
    today = state.trading_date
    told = {(row.strategy, row.symbol) for row, _ in _open(state) if row.trading_date == today}
    for name, strategy in sorted(state.strategies.items()):
        for symbol in sorted(strategy.positions):
            shares, is_told = shares_left(state, strategy, symbol), (name, symbol) in told
            if shares <= 0 or symbol in strategy.instances or is_told:
                continue
            text = (
                f"{name} does not trade {symbol} any more, and it holds {shares:,} of it: no "
                f"strategy looks after them or sells them. Put {symbol} back into its file and "
                "start again; if nobody wants them, sell them in the broker's own app"
            )
            facts: Numbers = {"strategy": name, "symbol": symbol, "held": shares}
            yield Standing("SYMBOL_LEFT", text, facts)


def shares_left(state: State, strategy: StrategyState, symbol: str) -> int:
    """Return what a strategy holds of a symbol; of one that it does not trade any more only what
    the account has beside the shares of those that do.
    """
    shares = strategy.position(symbol).shares
    if symbol in strategy.instances:
        return shares
    return min(shares, _beside(state, symbol, unknown=shares))


def left_out(state: State, broken: Collection[str]) -> Iterator[Standing]:
    """Yield the shares of strategies that this run does not have, as far as the account still has
    them by our own figures; not those of `broken` ones or of ones with open orders, which are told
    with that. A start tells them: `bot status` always has a row of them.
    """
    today = state.trading_date
    told = {row.strategy for row, _ in _open(state) if row.trading_date == today} | {*broken}
    held: dict[str, list[str]] = {}
    for (name, symbol), position in sorted(state.unloaded.items()):
        beside = _beside(state, symbol, unknown=position.shares)
        shares = min(position.shares, beside)
        if shares > 0 and name not in told:
            held.setdefault(name, []).append(f"{shares:,} {symbol}")
    for name, each in held.items():
        listed = ", ".join(each)
        text = (
            f"{name} does not run, and it holds {listed}: no strategy looks after its shares or "
            f"sells them, not even a flatten. If {name} was renamed, give it its name back and "
            "start again; if nobody wants them, sell them in the broker's own app"
        )
        yield Standing("SHARES_LEFT", text, {"strategy": name, "held": listed})


def _beside(state: State, symbol: str, *, unknown: int) -> int:
    """Return how many shares the accounts have beside those of the strategies that trade a symbol;
    `unknown` before any figures have agreed.
    """
    found = [
        expected_at(state.ledgers[account], state.now).holdings.get(symbol, NONE).total
        - traded_shares(state, account).get(symbol, 0)
        for account in _accounts(state) & state.ledgers.keys()
    ]
    return sum(found) if found else unknown


def tell_of_unseen(state: State) -> None:
    """Tell, once in a run, which orders of today the day order book shows that the journal did not
    know at the start, in symbols in which this run sends orders. Those that have ended without a
    fill do not matter. Nothing is held back: mostly they are the owner's own, from the app.
    """
    known, state.reconciling.known_at_start = state.reconciling.known_at_start, None
    if known is None:
        return
    traded = {
        (strategy.plan.account, symbol)
        for strategy in state.strategies.values()
        if strategy.plan.mode is StrategyMode.TRADE
        for symbol in strategy.instances
    }
    found = [
        f"{row.order_id} {row.side} {row.quantity:,} {row.symbol}"
        for row in (order.row for order in state.orders.values() if order.row.note == NOT_OURS)
        if row.order_id not in known
        and (row.account, row.symbol) in traded
        and (row.executed_quantity or row.state not in TERMINAL_STATES)
    ]
    if not found:
        return
    orders = ", ".join([*found[:NAMED_MAX], *["…"] * (len(found) > NAMED_MAX)])
    text = (
        f"the journal has never seen these orders of today: {orders}. They count as somebody "
        "else's: no strategy knows of them. If they are yours, from the app, there is nothing to "
        "do. If the journal was restored, or another bot trades here: bot halt; end that bot, "
        "cancel in the app what nobody wants, bot strategy disable NAME for each that has done its "
        'part today; then: bot resume --reason "…"'
    )
    state.alert("ORDERS_UNKNOWN_HERE", text, {"orders": orders, "count": len(found)})


def leave_elsewhere(state: State) -> None:
    """Forget what an earlier day has left open on an account that this run does not read: nothing
    that this run asks shows how it ended. No row ends it, so a run on that account asks.
    """
    accounts = _accounts(state)
    for order in [*state.open_orders()]:
        shown = order.row
        is_left = shown.account not in accounts and shown.trading_date < state.trading_date
        if is_left and not order.is_own:  # that it may be a lost place stands in its note
            state.index.forget_order(shown.order_id)
    for row, name in [*_open(state)]:
        if row.account in accounts or row.trading_date >= state.trading_date:
            continue
        state.reconciling.elsewhere.append((row.account, _dated(row, name)))
        if isinstance(row, Intent):
            state.index.forget_intent(row.intent_id)
        else:
            state.index.forget_order(row.order_id)
            state.cancels.pop(row.order_id, None)


def _accounts(state: State) -> frozenset[str]:
    return frozenset(strategy.plan.account for strategy in state.strategies.values())


def _dated(row: OrderUpdated | Intent, name: str) -> str:
    return f"{name} of {row.trading_date}"


def _open(state: State) -> Iterator[tuple[OrderUpdated | Intent, str]]:
    """Yield our orders that may be open, with their names."""
    for order in state.open_orders():
        if order.is_own:
            yield order.row, order.name
    for tracked in state.pending_intents():
        yield tracked.intent, tracked.intent.intent_id
