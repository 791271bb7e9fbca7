"""How the broker's 25 statuses follow one another: every pair, as a table.

Its document names the statuses and shows few of their moves (broker open API 0.2.0-preview.3, order
state machine), so this is our reading: polls skip steps, nodes lag, and what the document does not
order may come in any order. Quantities decide before any of it.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Move(StrEnum):
    """EXPECTED: a step of an order's life, or several. TOLERATED: in no order that is documented.

    CORRECTION: back to where the order had been, as an old row shows it, and as a broker does that
    corrects a mistake. IMPOSSIBLE: no order goes this way, nor did it ever come the other.
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
"""A row for each status before, a letter for each after, in the order of the rows."""

_ROWS: Final = dict(line.split() for line in _TABLE.strip().splitlines())

STATUS_MOVES: Final[Mapping[tuple[str, str], Move]] = MappingProxyType(
    {
        (before, after): Move(letter)
        for before, letters in _ROWS.items()
        for after, letter in zip(_ROWS, letters, strict=True)
    }
)

ENDS: Final = frozenset(tuple(_ROWS)[tuple(_ROWS).index("MATCHED_ALL") :])
"""Those that no order goes on from."""


def move_of(before: str, after: str) -> Move:
    """Return what a move is. A status outside the 25 may come before and after any."""
    known = before in _ROWS and after in _ROWS
    return STATUS_MOVES[before, after] if known else Move.TOLERATED
