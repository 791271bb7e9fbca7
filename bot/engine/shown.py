"""What the broker has shown of one order, and how far its newest row can be believed."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

ROWS_REMEMBERED: Final = 32
"""Different rows of one order; an order shows five to ten in its life."""

Figures = tuple[str, int, int | None, int, int]
"""What a row says: status, quantity, price, executed and cancelled shares."""


@dataclass(slots=True)
class Shown:
    """The memory that rows of one order are judged by.

    `totals` are the quantities that the order may have: what was ordered, and what our own
    amendments asked for. `doubt` says why its newest row is not taken for its own, empty while
    there is none: until a row belongs to it again nothing is bought in its symbol. `doubted` is the
    quantity that such a row shows and that a person may say is right, 0 for none.

    `rows` are the different rows that were taken, `taken_at` is when the newest came. `old_since`
    is since when every newer row goes back behind it, None while none does; `back` is the first of
    those that had not been seen before, with when it was asked for.

    `listed_at` is when the newest day order book with it was asked for, or the first without it;
    `is_missing` says that this is long ago. `absent_looks` counts how often in a row its id was not
    known.
    """

    totals: set[int] = field(default_factory=set)
    doubt: str = ""
    doubted: int = 0
    rows: tuple[Figures, ...] = ()
    taken_at: datetime | None = None
    old_since: datetime | None = None
    back: tuple[Figures, datetime] | None = None
    listed_at: datetime | None = None
    is_missing: bool = False
    absent_looks: int = 0

    def remember(self, figures: Figures) -> None:
        """Keep what a row says that is taken; of too many the oldest is forgotten."""
        if figures not in self.rows:
            self.rows = (*self.rows, figures)[-ROWS_REMEMBERED:]
