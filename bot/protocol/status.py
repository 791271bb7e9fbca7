"""The broker's 25 order statuses: what each means to us, and what it permits.

Their moves are undocumented, so a name alone decides little: `domain/order_status.py` combines it
with the quantities. Source: broker open API 0.2.0-preview.3, order state machine. That MATCHED may
be partial comes from the older API.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from bot.domain.order import TERMINAL_STATES, OrderReport, OrderState
from bot.domain.order_status import shown_state

_S = OrderState


@dataclass(frozen=True, slots=True)
class Status:
    """One of the 25. The permissions are True or False where the source shows them.

    None: not documented; the row's own flag decides, and without a flag it is not permitted.
    """

    name: str
    state: OrderState
    may_amend: bool | None
    may_cancel: bool | None


STATUSES: Final[Mapping[str, Status]] = MappingProxyType(
    {
        name: Status(name, state, may_amend, may_cancel)
        for name, state, may_amend, may_cancel in (
            # at the broker
            ("WAITING_TO_SEND", _S.ACCEPTED, True, True),
            ("SENDING", _S.ACCEPTED, False, True),
            ("WAITING_TO_ACTIVATE", _S.ACCEPTED, None, None),
            ("INTERNAL_SENDING", _S.ACCEPTED, None, None),
            ("SENDING_TO_CORE", _S.ACCEPTED, None, None),
            ("WAIT_FOR_ACCEPTING", _S.ACCEPTED, None, None),
            ("ACCEPTING", _S.ACCEPTED, None, None),
            # on the exchange
            ("SENT", _S.ACCEPTED, True, True),
            ("ACCEPTED", _S.ACCEPTED, None, None),
            ("RECEIVED", _S.ACCEPTED, None, None),
            # being changed
            ("FIXING", _S.PENDING_REPLACE, None, None),
            ("FIXED", _S.ACCEPTED, None, None),
            ("CANCELLING", _S.PENDING_CANCEL, None, None),
            # matched, perhaps in part: then the row's flags say what may be done
            ("MATCHED", _S.PARTIALLY_FILLED, None, None),
            ("MATCHED_ALL", _S.FILLED, False, False),
            ("COMPLETED", _S.FILLED, False, False),
            # ended
            ("CANCELLED", _S.CANCELLED, False, False),
            ("INTERNAL_CANCELLED", _S.CANCELLED, False, False),
            ("CANCEL_BY_STOCK_EVENT", _S.CANCELLED, False, False),
            ("REJECTED", _S.REJECTED, False, False),
            ("FAILED", _S.REJECTED, False, False),
            ("EXPIRED", _S.EXPIRED, False, False),
            ("EXPIRED_ACTIVATION_TIME", _S.EXPIRED, False, False),
            ("EXPIRED_AUTHORIZATION", _S.EXPIRED, False, False),
            ("REJECTING", _S.ACCEPTED, False, False),
        )
    }
)
"""All 25 by name. REJECTING is not REJECTED yet."""

STATUS_OF_CODE: Final[Mapping[str, str]] = MappingProxyType(
    {"01": "SENT", "02": "SENT", "03": "MATCHED_ALL", "04": "CANCELLED", "05": "REJECTED"}
)
"""The two-digit `status_code`, used only when `status` is empty. 02: working, partly filled."""

_CODE_OF_STATE: Final[Mapping[OrderState, str]] = MappingProxyType(
    {
        _S.PARTIALLY_FILLED: "02",
        _S.FILLED: "03",
        _S.CANCELLED: "04",
        _S.EXPIRED: "04",
        _S.REJECTED: "05",
    }
)

REJECTED_STATUSES: Final = frozenset({"REJECTED", "FAILED"})
"""The statuses of an order that was refused inside an HTTP 200."""


def state_of(status: str) -> OrderState | None:
    """Return our reading of a status name; None, for one outside the 25, is never final."""
    known = STATUSES.get(status)
    return known.state if known else None


def is_final(status: str) -> bool:
    """Return whether no move leaves a status; an unknown one is never final."""
    return status in STATUSES and STATUSES[status].state in TERMINAL_STATES


def may_cancel(report: OrderReport) -> bool:
    """Return whether the unmatched part may be cancelled.

    A documented prohibition holds; otherwise the row's flag decides; without a flag only a status
    documented to allow it does.
    """
    return _permitted(report, "may_cancel")


def may_amend(report: OrderReport) -> bool:
    """Return whether price or quantity may be changed, by the same rule as `may_cancel`."""
    return _permitted(report, "may_amend")


def _permitted(report: OrderReport, permission: Literal["may_cancel", "may_amend"]) -> bool:
    known = STATUSES.get(report.status)
    shown: bool | None = getattr(known, permission) if known else None
    if shown_state(report) in TERMINAL_STATES or shown is False:
        return False
    flag: bool | None = getattr(report, permission)
    return flag if flag is not None else shown is True


def status_code_of(state: OrderState) -> str:
    """Return the two-digit `status_code` that a row carries for an order in `state`."""
    return _CODE_OF_STATE.get(state, "01")
