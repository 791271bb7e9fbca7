"""Corporate actions: which of those that the broker's rights call names explain a difference.

A cash dividend arrives less the withheld tax, or gross; new shares count from the ex-date on. Each
right explains one difference in cash and one in shares.
"""

from datetime import timedelta
from typing import Final

from bot.domain.account import ShareholderRight
from bot.engine.state import State

AROUND_PAYMENT: Final = timedelta(days=7)
"""How far from its stated day a dividend may arrive."""


def explanation(state: State, account: str, symbol: str | None, difference: int) -> str:
    """Return what explains a difference in cash (symbol None) or shares; empty if unknown. From
    then on it explains nothing else.
    """
    right = behind(state, account, symbol, difference)
    if right is None:
        return ""
    state.explained_rights.add((right.number, symbol))
    kind = right.kind.lower().replace("_", " ")
    if symbol is not None:
        return f"{kind} {right.symbol} {right.ratio}: {difference:+,} shares"
    per_share = right.dividend // right.owned if right.owned else 0
    taxed = "after tax" if difference < right.dividend else "before tax"
    return f"{kind} {right.symbol} {per_share:,} VND/share: {difference:+,} {taxed}"


def behind(
    state: State, account: str, symbol: str | None, difference: int
) -> ShareholderRight | None:
    """Return the right that brings exactly this much cash (symbol None) or so many shares.

    An old dividend of the same amount explains nothing today.
    """
    for right in state.rights.get(account, ()):
        worth: tuple[int, ...] = ()
        is_recent = (
            right.paid_on is None or abs(right.paid_on - state.trading_date) <= AROUND_PAYMENT
        )
        if symbol is None and right.dividend and is_recent:
            tax = state.rulebook.dividend_tax(right.dividend)
            worth = (right.dividend - tax, right.dividend)
        elif symbol == right.symbol and right.shares:
            worth = (right.shares,)
        if difference in worth and (right.number, symbol) not in state.explained_rights:
            return right
    return None
