"""Names what corporate actions have done to an account, as far as the broker's rights call tells.

A dividend in cash arrives less the tax that is withheld; new shares count from the ex-date on. A
right explains one difference only.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from bot.domain.account import ShareholderRight
from bot.engine.state import State

AROUND_PAYMENT: Final = timedelta(days=7)
"""How far from its stated day a dividend may arrive."""


def explanation(state: State, account: str, symbol: str | None, difference: int) -> str:
    """Return what a difference in cash (symbol None) or shares comes from; empty: not known."""
    for right in state.rights.get(account, ()):
        key = (right.number, symbol is None)
        if key not in state.explained_rights and difference in _worth(state, right, symbol):
            state.explained_rights.add(key)
            return _text(right, symbol, difference)
    return ""


def _worth(state: State, right: ShareholderRight, symbol: str | None) -> Iterator[int]:
    """Yield what the right may have brought: VND net and gross, or shares of the symbol."""
    if symbol is None and right.dividend and _is_of_these_days(state, right):
        yield right.dividend - state.rulebook.dividend_tax(right.dividend)
        yield right.dividend
    elif symbol == right.symbol and right.shares:
        yield right.shares


def _is_of_these_days(state: State, right: ShareholderRight) -> bool:
    """An old dividend of the same amount explains nothing of today."""
    return right.paid_on is None or abs(right.paid_on - state.trading_date) <= AROUND_PAYMENT


def _text(right: ShareholderRight, symbol: str | None, difference: int) -> str:
    kind = right.kind.lower().replace("_", " ")
    if symbol is not None:
        return f"{kind} {right.symbol} {right.ratio}: {difference:+,} shares"
    per_share = right.dividend // right.owned if right.owned else 0
    taxed = "after tax" if difference < right.dividend else "before tax"
    return f"{kind} {right.symbol} {per_share:,} VND/share: {difference:+,} {taxed}"
