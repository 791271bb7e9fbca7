"""Notices shares that strategies count and their account does not have (I19, order-safety.md).

A strategy's position is what its own fills made it. If its shares are sold in the broker's app, the
account is as it should be, with that sale counted as an external order or accepted as a break, and
yet the strategy holds what nobody can sell any more. The symbol is halted, once for each time that
more are missing, and the alert stands until the account has as many as the strategies count.

Our own fills move both figures at once, and the broker's last read must agree, so neither a read of
before a fill nor an outside order that the account does not show yet is a reason. A symbol waits
while a break, a place or a sale of ours may still explain it. What a strategy holds of a symbol
that it does not trade any more is no reason either: it requests no order for it.
"""

from collections.abc import Iterable

from bot.domain.entry import RECONCILE_NOTE, Numbers
from bot.domain.order import Side
from bot.engine.control_state import Standing
from bot.engine.risk.expected import expected_at
from bot.engine.state import State


def judge(state: State, account: str) -> None:
    """Compare what strategies count with what the account has, by our own figures and its last
    read.
    """
    ledger, seen = state.ledgers.get(account), state.accounts.get(account)
    if ledger is None or seen is None:
        return
    ours, own, told = (
        expected_at(ledger, seen.at).holdings,
        traded_shares(state, account),
        ledger.gone,
    )
    for symbol in sorted({*own, *told} - _unclear(state)):
        known = ours[symbol].total if symbol in ours else 0
        gone = own.get(symbol, 0) - max(known, seen.held(symbol).total)
        before = told.pop(symbol, 0)
        if gone > 0:
            told[symbol] = gone
        elif before:
            text = f"the account has as many {symbol} again as the strategies count"
            state.note(RECONCILE_NOTE, text, symbol=symbol)
        if gone > before:
            alert = _standing(state, account, symbol)
            state.alert(alert.code, alert.text, alert.facts, symbol=symbol)
            if state.settings.halt_on_drift:
                state.halt_symbol(symbol, f"{gone:,} shares that strategies count are gone")


def traded_shares(state: State, account: str) -> dict[str, int]:
    """Return what an account's strategies hold of the symbols that they trade, by symbol."""
    own: dict[str, int] = {}
    for strategy in state.strategies.values():
        for symbol in strategy.instances if strategy.plan.account == account else ():
            own[symbol] = own.get(symbol, 0) + strategy.position(symbol).shares
    return own


def _unclear(state: State) -> set[str | None]:
    """Return the symbols in which our own trades, or a difference, are not fully known yet."""
    found: set[str | None] = {each.symbol for each in state.reconciling.breaks.values()}
    found |= {one.intent.symbol for one in state.pending_intents()}
    open_sales = (one.row for one in state.open_orders() if one.row.side is Side.SELL)
    return found | {row.symbol for row in open_sales if row.intent_id is not None}


def words_of(symbol: str, gone: int) -> str:
    """Say how many shares are gone."""
    return f"{gone:,} {symbol} that strategies count are gone"


def alerts(state: State) -> Iterable[Standing]:
    """Yield the symbols of which strategies count more than their account has."""
    for account, ledger in state.ledgers.items():
        for symbol in ledger.gone:
            yield _standing(state, account, symbol)


def _standing(state: State, account: str, symbol: str) -> Standing:
    gone = state.ledgers[account].gone[symbol]
    held = traded_shares(state, account).get(symbol, 0)
    counting = [
        strategy.plan.name
        for strategy in state.strategies.values()
        if strategy.plan.account == account
        and symbol in strategy.instances
        and strategy.position(symbol).shares
    ]
    rows = (each.row for each in state.index.external.of(account))
    sold = [
        row.order_id
        for row in rows
        if (row.symbol, row.side) == (symbol, Side.SELL) and row.executed_quantity
    ]
    names, orders = ", ".join(counting), ", ".join(sold)
    by = f" (see {orders})" if orders else ""
    text = (
        f"{names}: {held:,} {symbol} by the bot's fills, but the account …{account[-5:]} has "
        f"{held - gone:,}: {gone:,} were sold or moved outside the bot{by}, or a corporate action "
        f"took them. They stay in the position of {names}, in limits and results, as only own fills"
        " change it; no order of the bot can sell them. Buy them back in the broker's app, or give "
        "the strategy another name in its file and start again: it then begins without shares"
    )
    facts: Numbers = {
        "account": account[-5:],
        "symbol": symbol,
        "strategy": names,
        "held": held,
        "found": held - gone,
        "gone": gone,
        "orders": orders,
    }
    return Standing("SHARES_GONE", text, facts)
