from itertools import product

import pytest

from bot.domain.order import TERMINAL_STATES
from bot.domain.status_moves import ENDS, STATUS_MOVES, Move, move_of
from bot.protocol.status import STATUSES
from tests.rows import every_row

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
