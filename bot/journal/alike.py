"""What decisions with one reason have in common: their number, and what their figures range over.

Only the edges are kept of them: a million decisions take no more room than ten.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from itertools import chain
from typing import Final, NamedTuple

from bot.domain.entry import Numbers

FIGURE: Final = re.compile(r"([-+]?[0-9][0-9.,:]*)")


class Reason(NamedTuple):
    """A reason taken apart: the words around its figures, one more than there are figures."""

    words: tuple[str, ...]
    figures: tuple[str, ...]


def apart(why: str) -> Reason:
    """Take a reason apart. Those with equal words have as many figures."""
    parts = FIGURE.split(why)
    return Reason(tuple(parts[::2]), tuple(parts[1::2]))


class Alike:
    """Decisions with one reason, as far as they have come."""

    def __init__(self, first_at: datetime) -> None:
        self.first_at = self.last_at = first_at
        self.count = 0
        self.ranges: dict[str, tuple[float, float]] = {}
        """The least and the most of each figure that has a name."""
        self._said = Reason(("",), ())
        self._figures: list[_Span] = []

    def add(self, at: datetime, numbers: Numbers, said: Reason) -> None:
        """Count one more. Its reason has the words of the others, with figures of its own."""
        if at > self.last_at:
            self.last_at = at
        elif at < self.first_at:
            self.first_at = at
        self.count += 1
        if said != self._said:
            self._said = said
            if not self._figures:
                self._figures = [_Span() for _ in said.figures]
            for span, figure in zip(self._figures, said.figures, strict=True):
                span.add(figure)
        ranges = self.ranges
        for name, value in numbers.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                least, most = ranges.get(name, (value, value))
                if name not in ranges or not least <= value <= most:
                    ranges[name] = (min(least, value), max(most, value))

    @property
    def why(self) -> str:
        """The words that all have, each figure as the range it spans: `gap 0.05 to 0.40%`."""
        return self._filled(span.told() for span in self._figures)

    def whys(self) -> tuple[str, str]:
        """The same with each figure at its least, and with each at its most."""
        edges = [span.edges() for span in self._figures]
        return self._filled(least for least, _ in edges), self._filled(most for _, most in edges)

    def _filled(self, figures: Iterable[str]) -> str:
        first, *others = self._said.words
        return first + "".join(chain.from_iterable(zip(figures, others, strict=True)))


class _Span:
    """The least and the most of a figure; what is no number, such as a time of day, has none."""

    def __init__(self) -> None:
        self._last = ""
        self._least: tuple[float, str] | None = None
        self._most: tuple[float, str] | None = None
        self._is_number = True

    def add(self, figure: str) -> None:
        if figure == self._last:
            return
        self._last = figure
        try:
            value = float(figure.rstrip(".,:").replace(",", ""))
        except ValueError:
            self._is_number = False
            return
        if self._least is None or value < self._least[0]:
            self._least = (value, figure)
        if self._most is None or value >= self._most[0]:
            self._most = (value, figure)

    def edges(self) -> tuple[str, str]:
        """As they were written; what is no number is both times as it was last."""
        if not self._is_number or self._least is None or self._most is None:
            return self._last, self._last
        return self._least[1], self._most[1]

    def told(self) -> str:
        """`131,660 to 133,060`; what is no number is shown as it was last."""
        if not self._is_number or self._least is None or self._most is None:
            return self._last
        least, most = self._least[1].rstrip(".,:"), self._most[1]
        return most if least == most.rstrip(".,:") else f"{least} to {most}"
