"""Sales that have ended while the account's figures still hold their unsold shares back.

The broker frees them at once. The figures that count may have been requested while the sale worked:
then the account is read again, until its figures are of after the end.
"""

from bot.domain.message import ReadAccount
from bot.domain.order import Side
from bot.engine.flows import EndedSale
from bot.engine.settings import LONG_AGO
from bot.engine.state import State
from bot.engine.tracked import TrackedOrder


def note(state: State, order: TrackedOrder) -> None:
    """An order of ours has just ended: if it leaves shares unsold that the figures lack, read the
    account.
    """
    row = order.row
    if row.side is not Side.SELL or row.intent_id is None or row.executed_quantity >= row.quantity:
        return
    sent = state.intents.get(row.intent_id)
    sent_at = LONG_AGO if sent is None else sent.sent_at or sent.intent.created_at
    state.reconciling.ended_sales.append(EndedSale(row.account, row.symbol, sent_at, state.now))
    if is_lacking(state, row.account, row.symbol):
        state.command(ReadAccount(f"{order.name} has ended, its shares are free"))


def is_lacking(state: State, account: str, symbol: str) -> bool:
    """Return whether the account's figures lack shares of a symbol that a sale has freed."""
    seen = state.accounts.get(account)
    mine = (each for each in state.reconciling.ended_sales if each.account == account)
    return seen is not None and any(each.symbol == symbol and each.is_in(seen.at) for each in mine)


def follow(state: State, account: str) -> None:
    """Figures of an account count now: forget what they contain, and read it again for the rest."""
    asked_at, found = state.accounts[account].at, state.reconciling
    found.ended_sales = [
        each for each in found.ended_sales if each.account != account or asked_at < each.ended_at
    ]
    if any(each.account == account and each.is_in(asked_at) for each in found.ended_sales):
        state.command(ReadAccount("a sale has ended, its shares are free"))
