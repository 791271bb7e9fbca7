"""What the broker has shown of one order, and how far its newest row can be believed."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Shown:
    """The memory that rows of one order are judged by.

    `totals` are the quantities that the order may have: what was ordered, and what our own
    amendments asked for. `doubt` says why its newest row is not taken for its own, empty while
    there is none: until a row belongs to it again nothing is bought in its symbol.
    """

    totals: set[int] = field(default_factory=set)
    doubt: str = ""
