"""Corporate actions: which of those that the broker's rights call names explain a difference.

A cash dividend arrives less the withheld tax, or gross; new shares count from the ex-date on. Each
right explains one difference in cash and one in shares. Several may come between two reads: then
their sum is explained.
"""

from collections.abc import Sequence
from datetime import timedelta
from itertools import combinations
from typing import Final

from bot.domain.account import ShareholderRight
from bot.engine.state import State

AROUND_PAYMENT: Final = timedelta(days=7)
"""How far from its stated day a dividend may arrive."""
ADDED_MAX: Final = 3
"""So many rights are added up at most: the sums of more could explain anything."""
ADDED_OF_MAX: Final = 12
"""If more than these could have come, none are added up."""


def explanation(state: State, account: str, symbol: str | None, difference: int) -> str:
    """Return what explains a difference in cash (symbol None) or shares; empty if unknown. From
    then on it explains nothing else.
    """
    found = behind(state, account, symbol, difference)
    state.explained_rights.update((right.number, symbol) for right in found)
    if symbol is None:
        is_taxed = difference < sum(right.dividend for right in found)
        return "; ".join(_dividend(state, right, is_taxed=is_taxed) for right in found)
    return "; ".join(f"{_name(each)} {each.ratio}: {each.shares:+,} shares" for each in found)


def _dividend(state: State, right: ShareholderRight, *, is_taxed: bool) -> str:
    per_share = right.dividend // right.owned if right.owned else 0
    came = right.dividend - (state.rulebook.dividend_tax(right.dividend) if is_taxed else 0)
    when = "after tax" if is_taxed else "before tax"
    return f"{_name(right)} {per_share:,} VND/share: {came:+,} {when}"


def _name(right: ShareholderRight) -> str:
    return f"{right.kind.lower().replace('_', ' ')} {right.symbol}"


def behind(
    state: State, account: str, symbol: str | None, difference: int
) -> Sequence[ShareholderRight]:
    """Return the fewest rights that bring exactly this much cash (symbol None) or so many shares.

    An old dividend of the same amount explains nothing today.
    """
    rights = _left(state, account, symbol)
    most = ADDED_MAX if len(rights) <= ADDED_OF_MAX else 1
    for count in range(1, most + 1):
        for some in combinations(rights, count):
            if difference in _worth(state, some, symbol):
                return some
    return ()


def left(state: State, account: str, symbol: str | None) -> Sequence[int]:
    """Return what each right that explains nothing yet may bring: VND before tax (symbol None) or
    shares.
    """
    rights = _left(state, account, symbol)
    return [each.dividend if symbol is None else each.shares for each in rights]


def _left(state: State, account: str, symbol: str | None) -> Sequence[ShareholderRight]:
    known, day = state.explained_rights, state.trading_date
    rights = [each for each in state.rights.get(account, ()) if (each.number, symbol) not in known]
    if symbol is not None:
        return [each for each in rights if each.symbol == symbol and each.shares]
    dates = ((each, each.paid_on or day) for each in rights if each.dividend)
    return [each for each, paid_on in dates if abs(paid_on - day) <= AROUND_PAYMENT]


def _worth(state: State, rights: Sequence[ShareholderRight], symbol: str | None) -> tuple[int, ...]:
    """Return what rights bring in all: all dividends less the tax, or all gross."""
    if symbol is not None:
        return (sum(right.shares for right in rights),)
    gross = sum(right.dividend for right in rights)
    return gross - sum(state.rulebook.dividend_tax(right.dividend) for right in rights), gross
