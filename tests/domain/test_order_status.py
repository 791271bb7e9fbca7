"""What each status of the broker may become, and which state of ours it shows."""

from dataclasses import replace
from itertools import product

import pytest

from bot.domain.order import TERMINAL_STATES, OrderState
from bot.domain.order_status import ENDS, STATUS_MOVES, Move, move_of, settled, shown_state
from bot.protocol.status import STATUSES, state_of
from tests.protocol.samples import REPORT
from tests.rows import every_row

S = OrderState

NAMELESS = [
    # said, executed, remaining, cancelled -> state, of 500 ordered
    (S.ACCEPTED, 0, 500, 0, S.ACCEPTED),
    (S.SUBMITTED, 0, 500, 0, S.ACCEPTED),
    (None, 0, 500, 0, S.ACCEPTED),
    (S.ACCEPTED, 200, 300, 0, S.PARTIALLY_FILLED),
    (S.ACCEPTED, 500, 0, 0, S.FILLED),
    (None, 500, 0, 0, S.PARTIALLY_FILLED),
    (None, 200, 0, 300, S.PARTIALLY_FILLED),
    (None, 0, 0, 500, S.ACCEPTED),
    (S.FILLED, 200, 300, 0, S.PARTIALLY_FILLED),
    (S.FILLED, 0, 500, 0, S.ACCEPTED),
    (S.FILLED, 500, 0, 0, S.FILLED),
    (S.PARTIALLY_FILLED, 0, 500, 0, S.ACCEPTED),
    (S.ACCEPTED, 200, 0, 300, S.CANCELLED),
    (S.ACCEPTED, 0, 0, 500, S.CANCELLED),
    (S.ACCEPTED, 0, 500, 500, S.ACCEPTED),
    (S.FILLED, 200, 0, 300, S.CANCELLED),
    (S.ACCEPTED, 200, 0, 0, S.PARTIALLY_FILLED),
    (S.CANCELLED, 0, 0, 500, S.CANCELLED),
    (S.CANCELLED, 200, 0, 300, S.CANCELLED),
    (S.EXPIRED, 200, 0, 300, S.EXPIRED),
    (S.REJECTED, 0, 500, 0, S.REJECTED),
    (S.REJECTED, 500, 0, 0, S.REJECTED),
    (S.PENDING_CANCEL, 0, 500, 0, S.PENDING_CANCEL),
    (S.PENDING_CANCEL, 500, 0, 0, S.FILLED),
    (S.PENDING_REPLACE, 200, 300, 0, S.PENDING_REPLACE),
]


@every_row(("said", "executed", "remaining", "cancelled", "state"), NAMELESS)
def test_quantities_outrank_the_status(said, executed, remaining, cancelled, state):
    found = settled(said, quantity=500, executed=executed, remaining=remaining, cancelled=cancelled)

    assert found is state


def row(status: str, executed: int, cancelled: int = 0, remaining: int | None = None):
    return replace(
        REPORT,
        status=status,
        state=state_of(status),
        executed_quantity=executed,
        cancelled_quantity=cancelled,
        remaining_quantity=300 - executed - cancelled if remaining is None else remaining,
    )


SETTLED = [
    # a working order, whatever its name
    (row("SENT", 0), S.ACCEPTED),
    (row("WAITING_TO_SEND", 0), S.ACCEPTED),
    (row("SENT", 100), S.PARTIALLY_FILLED),
    (row("MATCHED", 100), S.PARTIALLY_FILLED),
    (row("MATCHED", 0), S.ACCEPTED),
    (row("FIXING", 100), S.PENDING_REPLACE),
    (row("FIXED", 100), S.PARTIALLY_FILLED),
    (row("CANCELLING", 0), S.PENDING_CANCEL),
    (row("REJECTING", 0), S.ACCEPTED),
    # all executed
    (row("SENT", 300), S.FILLED),
    (row("MATCHED", 300), S.FILLED),
    (row("MATCHED_ALL", 300), S.FILLED),
    (row("COMPLETED", 300), S.FILLED),
    (row("CANCELLED", 300), S.FILLED),
    (row("EXPIRED", 300), S.FILLED),
    (row("CANCELLING", 300), S.FILLED),
    # the rest was cancelled or killed under an unchanged name
    (row("SENT", 100, 200), S.CANCELLED),
    (row("MATCHED", 100, 200), S.CANCELLED),
    (row("SENT", 0, 300), S.CANCELLED),
    (row("SENT", 100, 0, 0), S.PARTIALLY_FILLED),
    (row("COMPLETED", 100, 200), S.CANCELLED),
    (row("COMPLETED", 0), S.ACCEPTED),
    # ended by name
    (row("CANCELLED", 100, 200), S.CANCELLED),
    (row("INTERNAL_CANCELLED", 0), S.CANCELLED),
    (row("EXPIRED", 0), S.EXPIRED),
    (row("EXPIRED", 100), S.EXPIRED),
    (row("REJECTED", 0), S.REJECTED),
    (row("FAILED", 0), S.REJECTED),
    (row("MATCHED_ALL", 200), S.PARTIALLY_FILLED),
    # nothing has happened yet, and a quantity is not filled in
    (row("SENT", 0, 0, 0), S.ACCEPTED),
    # a name that we do not know is never the end
    (row("X", 0), S.ACCEPTED),
    (row("X", 100), S.PARTIALLY_FILLED),
    (row("X", 300), S.PARTIALLY_FILLED),
    (row("X", 0, 300), S.ACCEPTED),
    # more than ordered is for the engine to halt on; nothing is open
    (row("SENT", 400, 0, -100), S.FILLED),
]


@every_row(
    ("report", "state"),
    SETTLED,
)
def test_quantities_decide_before_the_name(report, state):
    assert shown_state(report) is state


@every_row("said", [S.ACCEPTED, S.FILLED, S.PENDING_CANCEL, None])
def test_a_row_that_orders_nothing_ends_nothing(said):
    assert settled(said, quantity=0, executed=0, remaining=0, cancelled=0) not in TERMINAL_STATES
    assert settled(said, quantity=0, executed=0, remaining=0, cancelled=300) not in TERMINAL_STATES


FORWARD = {Move.EXPECTED, Move.TOLERATED}


def test_the_table_has_every_pair_of_the_25_and_no_other():
    assert set(STATUS_MOVES) == set(product(STATUSES, STATUSES))
    assert len(STATUS_MOVES) == 625
    assert set(STATUS_MOVES.values()) == set(Move)


@every_row("status", STATUSES)
def test_to_stay_is_expected(status):
    assert move_of(status, status) is Move.EXPECTED


def test_an_old_row_is_never_impossible():
    """What goes back over a legal move is a correction: a lagging node alarms nobody."""
    back = {
        STATUS_MOVES[after, before] for (before, after), m in STATUS_MOVES.items() if m in FORWARD
    }

    assert Move.IMPOSSIBLE not in back


def test_a_correction_goes_back_over_a_legal_move():
    ways = [pair for pair, move in STATUS_MOVES.items() if move is Move.CORRECTION]

    assert all(STATUS_MOVES[after, before] in FORWARD for before, after in ways)


def test_no_end_is_left_but_by_a_correction():
    left = {
        move
        for (before, after), move in STATUS_MOVES.items()
        if before in ENDS - {after} and after not in ENDS
    }

    assert left == {Move.CORRECTION, Move.IMPOSSIBLE}


def test_the_ends_are_those_whose_state_is_one():
    assert {name for name, status in STATUSES.items() if status.state in TERMINAL_STATES} == ENDS


def test_every_open_status_but_a_refusal_may_be_filled_and_cancelled():
    for before in set(STATUSES) - ENDS - {"REJECTING"}:
        assert {move_of(before, after) for after in ("MATCHED_ALL", "CANCELLED")} == {Move.EXPECTED}


MOVES = [
    ("SENT", "MATCHED", Move.EXPECTED),
    ("MATCHED", "SENT", Move.TOLERATED),
    ("CANCELLING", "SENT", Move.TOLERATED),
    ("SENT", "WAITING_TO_SEND", Move.CORRECTION),
    ("CANCELLED", "SENT", Move.CORRECTION),
    ("MATCHED_ALL", "SENT", Move.CORRECTION),
    ("MATCHED_ALL", "COMPLETED", Move.EXPECTED),
    ("MATCHED", "REJECTED", Move.IMPOSSIBLE),
    ("REJECTED", "MATCHED_ALL", Move.IMPOSSIBLE),
    ("CANCELLED", "MATCHED_ALL", Move.IMPOSSIBLE),
    ("MATCHED_ALL", "EXPIRED", Move.IMPOSSIBLE),
]


@every_row(("before", "after", "move"), MOVES)
def test_some_moves_by_name(before, after, move):
    assert move_of(before, after) is move


@pytest.mark.parametrize(("before", "after"), [("", "SENT"), ("SENT", "DREAMING"), ("X", "Y")])
def test_a_status_that_nobody_knows_comes_before_and_after_any(before, after):
    assert move_of(before, after) is Move.TOLERATED
