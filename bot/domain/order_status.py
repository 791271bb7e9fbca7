"""What a row of the broker's day order book says of its order's state.

Fills are read from quantities, never from a name: a working, partly filled order commonly shows
SENT, and a cancelled or killed remainder keeps SENT with nothing open. Source: broker open API
0.2.0-preview.3, order state machine (states; reading fills safely).
"""

from typing import Final

from bot.domain.order import OrderReport, OrderState

_S = OrderState
_ENDED_EARLY: Final = frozenset({_S.CANCELLED, _S.REJECTED, _S.EXPIRED})
_PENDING: Final = frozenset({_S.PENDING_REPLACE, _S.PENDING_CANCEL})


def settled(
    said: OrderState | None, *, quantity: int, executed: int, remaining: int, cancelled: int
) -> OrderState:
    """Return the state by quantities first, then by the broker's word (None: none of the 25).

    A status of its own never makes an order filled: a row that says *matched* with shares still
    open is open, and one that orders nothing ends nothing. A cancelled or killed remainder keeps
    its status with nothing open. Statuses that mean *on its way* are live; one that nobody knows is
    live whatever the quantities say, and never final.
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
    """Return the state that a row shows by itself."""
    return settled(
        report.state,
        quantity=report.quantity,
        executed=report.executed_quantity,
        remaining=report.remaining_quantity,
        cancelled=report.cancelled_quantity,
    )
