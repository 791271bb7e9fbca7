from dataclasses import replace

import pytest

from bot.domain.order import OrderState
from bot.protocol.status import (
    STATUSES,
    is_final,
    may_amend,
    may_cancel,
    state_of,
    status_code_of,
)
from tests.protocol.samples import REPORT
from tests.rows import every_row

S = OrderState

# The document's own list, its final states, and what it shows of changing and cancelling.
FINAL = {
    "MATCHED_ALL",
    "COMPLETED",
    "CANCELLED",
    "INTERNAL_CANCELLED",
    "CANCEL_BY_STOCK_EVENT",
    "REJECTED",
    "FAILED",
    "EXPIRED",
    "EXPIRED_ACTIVATION_TIME",
    "EXPIRED_AUTHORIZATION",
}
LIVE = {
    "WAITING_TO_SEND",
    "SENDING",
    "WAITING_TO_ACTIVATE",
    "INTERNAL_SENDING",
    "SENDING_TO_CORE",
    "WAIT_FOR_ACCEPTING",
    "ACCEPTING",
    "SENT",
    "ACCEPTED",
    "RECEIVED",
    "FIXING",
    "FIXED",
    "CANCELLING",
    "MATCHED",
    "REJECTING",
}


def row(status: str, executed: int, cancelled: int = 0, remaining: int | None = None, **more):
    return replace(
        REPORT,
        status=status,
        state=state_of(status),
        executed_quantity=executed,
        cancelled_quantity=cancelled,
        remaining_quantity=300 - executed - cancelled if remaining is None else remaining,
        **more,
    )


def test_the_table_holds_the_25_and_no_other():
    assert len(STATUSES) == 25
    assert set(STATUSES) == FINAL | LIVE
    assert all(name == status.name for name, status in STATUSES.items())


@every_row("status", STATUSES)
def test_final_is_what_the_document_calls_final(status):
    assert is_final(status) == (status in FINAL)


@pytest.mark.parametrize("status", ["", "sent", "06", "X", "PARTIAL"])
def test_a_name_outside_the_25_is_unknown_and_never_final(status):
    assert state_of(status) is None
    assert not is_final(status)


# status, (cancel with flag Y, N, none), (amend with flag Y, N, none)
PERMISSIONS = [
    ("SENT", (True, False, True), (True, False, True)),
    ("WAITING_TO_SEND", (True, False, True), (True, False, True)),
    ("SENDING", (True, False, True), (False, False, False)),
    ("RECEIVED", (True, False, False), (True, False, False)),
    ("FIXED", (True, False, False), (True, False, False)),
    ("MATCHED", (True, False, False), (True, False, False)),
    ("X", (True, False, False), (True, False, False)),
    ("REJECTING", (False, False, False), (False, False, False)),
    ("CANCELLED", (False, False, False), (False, False, False)),
    ("MATCHED_ALL", (False, False, False), (False, False, False)),
    ("COMPLETED", (False, False, False), (False, False, False)),
    ("FAILED", (False, False, False), (False, False, False)),
    ("EXPIRED", (False, False, False), (False, False, False)),
]


@every_row(("status", "cancel", "amend"), PERMISSIONS)
def test_the_row_s_flag_decides_unless_the_status_forbids(status, cancel, amend):
    rows = [row(status, 0, may_cancel=flag, may_amend=flag) for flag in (True, False, None)]

    assert tuple(map(may_cancel, rows)) == cancel
    assert tuple(map(may_amend, rows)) == amend


def test_an_order_with_nothing_open_is_neither_cancelled_nor_amended():
    ended = row("SENT", 100, 200, may_cancel=True, may_amend=True)

    assert not may_cancel(ended)
    assert not may_amend(ended)


@every_row("state", list(OrderState))
def test_every_state_has_a_two_digit_code(state):
    assert status_code_of(state) in {"01", "02", "03", "04", "05"}
