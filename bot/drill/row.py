"""What an exercise came to: a row of the table."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """`did` is what the bot did, `problems` everything that broke a promise: none is a pass."""

    name: str
    broken: str
    did: str
    problems: Sequence[str]
    seconds: float

    @property
    def is_passed(self) -> bool:
        """Whether every promise was kept."""
        return not self.problems
