"""What a row of the day order book says about its order's state, and which of the broker's 25
statuses may follow which.

Fills are read from quantities, never from a name: a working, partly filled order commonly shows
SENT, and a cancelled or killed remainder keeps SENT with nothing open. Source: broker open API
0.2.0-preview.3, order state machine (states; reading fills safely).

That document names the statuses but shows few of their moves, so the table of moves is our reading
of it: polls skip steps, nodes lag, and statuses without a documented order may come in any order.
Quantities always take precedence.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from bot.domain.order import OrderReport, OrderState

_S = OrderState
_ENDED_EARLY: Final = frozenset({_S.CANCELLED, _S.REJECTED, _S.EXPIRED})
_PENDING: Final = frozenset({_S.PENDING_REPLACE, _S.PENDING_CANCEL})


def settled(
    said: OrderState | None, *, quantity: int, executed: int, remaining: int, cancelled: int
) -> OrderState:
    """Return the state by quantities first, then by the broker's status (None: none of the 25).

    A status alone never makes an order filled: a row that says *matched* with shares still open is
    open, and a row whose ordered quantity is zero ends nothing. A cancelled or killed remainder
    keeps its status with nothing open. Statuses that mean *on its way* are live; an unknown status
    is live whatever the quantities say, and never final.
    """
    if said is not None:
        if executed >= quantity > 0 and said is not _S.REJECTED:
            return _S.FILLED
        if said in _ENDED_EARLY:
            return said
        if remaining <= 0 and executed + cancelled >= quantity > 0:
            return _S.CANCELLED
        if said in _PENDING:
            return said
    return _S.PARTIALLY_FILLED if executed > 0 else _S.ACCEPTED


def shown_state(report: OrderReport) -> OrderState:
    """Return the state that a row shows on its own."""
    return settled(
        report.state,
        quantity=report.quantity,
        executed=report.executed_quantity,
        remaining=report.remaining_quantity,
        cancelled=report.cancelled_quantity,
    )


class Move(StrEnum):
    """EXPECTED: a step of an order's life, or several. TOLERATED: no order is documented.

    CORRECTION: back to an earlier status, as an old row shows it or as a broker does to correct a
    mistake. IMPOSSIBLE: no order moves this way, and none has moved the opposite way.
    """

    EXPECTED = "e"
    TOLERATED = "t"
    CORRECTION = "c"
    IMPOSSIBLE = "x"


_TABLE: Final = """
WAITING_TO_SEND         eeeeeeeeeeeeeeeeeeeeeeete
SENDING                 teeeeeeeeeeeeeeeeeeeeeete
WAITING_TO_ACTIVATE     tteeeeeeeeeeeeeeeeeeeeeee
INTERNAL_SENDING        ttteeeeeeeeeeeeeeeeeeeete
SENDING_TO_CORE         tttteeeeeeeeeeeeeeeeeeete
WAIT_FOR_ACCEPTING      ttttteeeeeeeeeeeeeeeeeete
ACCEPTING               tttttteeeeeeeeeeeeeeeeete
SENT                    cccccccetteeeeeeeeeeeeett
ACCEPTED                cccccccteteeeeeeeeeeeeett
RECEIVED                ccccccctteeeeeeeeeeeeeett
FIXING                  etttttteeeeeeeteeeeettett
FIXED                   etttttteeeeeeeteeeeettett
CANCELLING              tttttttttttteeteeeeettett
MATCHED                 cccccccttteeeexeeeeexxett
REJECTING               cccccccccccctxexxttteettt
MATCHED_ALL             ccccccccccccccxeexxxxxxxx
COMPLETED               ccccccccccccccxtetttxxttt
CANCELLED               cccccccccccccccxtettxxttt
INTERNAL_CANCELLED      cccccccccccccccxttetxxttt
CANCEL_BY_STOCK_EVENT   cccccccccccccccxtttexxttt
REJECTED                cccccccccccccxcxxxxxetxxx
FAILED                  cccccccccccccxcxxxxxtexxx
EXPIRED                 cccccccccccccccxttttxxett
EXPIRED_ACTIVATION_TIME cccccccccccccccxttttxxtet
EXPIRED_AUTHORIZATION   cccccccccccccccxttttxxtte
"""
"""One row for each status before, one letter for each status after, in the order of the rows."""

_ROWS: Final = dict(line.split() for line in _TABLE.strip().splitlines())

STATUS_MOVES: Final[Mapping[tuple[str, str], Move]] = MappingProxyType(
    {
        (before, after): Move(letter)
        for before, letters in _ROWS.items()
        for after, letter in zip(_ROWS, letters, strict=True)
    }
)

ENDS: Final = frozenset(tuple(_ROWS)[tuple(_ROWS).index("MATCHED_ALL") :])
"""Final statuses, which no order leaves."""


def move_of(before: str, after: str) -> Move:
    """Return the kind of a move. A status outside the 25 may come before and after any other."""
    known = before in _ROWS and after in _ROWS
    return STATUS_MOVES[before, after] if known else Move.TOLERATED
