"""Watches every answer for added, missing and renamed fields, and reports each of them once.

An unknown field is ignored when an answer is read, an optional one may be missing: neither is a
failure. But a change of the API shows here first, and should be seen before it becomes one.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Final

from bot.broker.drift import TABLES, drift_of, shape_of
from bot.protocol.envelope import Payload
from bot.protocol.fields import FIDELITY
from bot.protocol.secret import redact

KNOWN_MAX: Final = 1_000
"""Fields remembered; a payload of endless new names costs no more than this."""
ADDED_MAX: Final = 50
"""New fields of one answer that are reported: each is compared with every missing one."""
NAME_CHARACTERS_MAX: Final = 100
SHAPES_MAX: Final = 256
"""Sets of names of which it is remembered what drifted in them."""
SHAPE_CHARACTERS_MAX: Final = 8_192
"""Of the names of one set that is remembered: the longest table has a quarter of it."""
_LIKENESS_MIN: Final = 0.6
_SELDOM: Final[Mapping[str, tuple[str, ...]]] = {
    # The screener sends the fields that were chosen, the order's row a strategy mainly in detail.
    "screener": ("items[].",),
    "todays_orders": ("[].strategy_id",),
    # KRX only, says the document.
    "index_realtime": tuple(
        f"[].{name}"
        for name in ("advancesArr", "declinesArr", "nochangesArr", "ceilings", "floors")
    ),
    # Indicators have keys of their own, a yield-only bond has no prices, gold has its own price.
    "stock_technicals": ("indicators[].",),
    "bond_history": ("series[].",),
    "earlier_financial_data": ("[].values[].",),
}
"""Beginnings of names that are missing in good answers."""


class Change(StrEnum):
    """What became of a field."""

    ADDED = "added"
    GONE = "gone"
    RENAMED = "renamed"


@dataclass(frozen=True, slots=True)
class Drifted:
    """A field that differs from the document: `field` with the way to it, `was` its old name."""

    call: str
    change: Change
    field: str
    was: str = ""

    def __str__(self) -> str:
        renamed = f" (was {self.was})" if self.was else ""
        return f"{self.call} {self.field} {self.change}{renamed}"


OnDrift = Callable[[tuple[Drifted, ...]], None]
"""Gets what one answer brought that was not known before."""


class DriftWatch:
    """Remembers what has drifted, each call and field once, oldest first.

    Answers of one shape are looked into once: what drifts is in their names alone.
    """

    def __init__(self, on_drift: OnDrift | None = None) -> None:
        self._on_drift = on_drift
        self._seen: dict[tuple[str, str], Drifted] = {}
        self._of_shape: dict[tuple[str, Hashable], tuple[Drifted, ...]] = {}

    @property
    def seen(self) -> tuple[Drifted, ...]:
        """Everything that has drifted so far."""
        return tuple(self._seen.values())

    def found_in(self, payload: Payload) -> tuple[Drifted, ...]:
        """Return what `drifted_in` does."""
        shape = (payload.call, shape_of(payload.value))
        found = self._of_shape.get(shape)
        if found is None:
            found = drifted_in(payload)
            if len(repr(shape)) <= SHAPE_CHARACTERS_MAX:
                if len(self._of_shape) >= SHAPES_MAX:
                    self._of_shape.clear()
                self._of_shape[shape] = found
        return found

    def note(self, found: tuple[Drifted, ...]) -> None:
        """Remember what differs in an answer, and report what is new."""
        if not found:
            return
        news = tuple(each for each in found if (each.call, each.field) not in self._seen)
        if not news or len(self._seen) + len(news) > KNOWN_MAX:
            return
        self._seen.update({(each.call, each.field): each for each in news})
        if self._on_drift is not None:
            self._on_drift(news)


def drifted_in(payload: Payload) -> tuple[Drifted, ...]:
    """Return what differs in one payload from the table of its call; nothing without a table.

    The paper broker's own field isn't in the document, and is no drift.
    """
    table = TABLES.get(payload.call)
    if table is None:
        return ()
    drift = drift_of(table, payload)
    if not drift.added and not drift.gone:
        return ()
    seldom = _SELDOM.get(payload.call, ())
    gone = tuple(name for name in drift.gone if not (seldom and name.startswith(seldom)))
    added = tuple(name for name in drift.added if not name.endswith(FIDELITY))[:ADDED_MAX]
    return tuple(_named(payload.call, added, list(gone)))


def _named(call: str, added: Iterable[str], gone: list[str]) -> Iterator[Drifted]:
    """A new field is a renamed one when a missing field in the same place is much like it."""
    for name in added:
        shown, place = redact(name)[:NAME_CHARACTERS_MAX], name.rpartition(".")[0]
        alike = {old: _likeness(name, old) for old in gone if old.rpartition(".")[0] == place}
        best = max(alike, key=lambda old: alike[old], default="")
        if best and alike[best] >= _LIKENESS_MIN:
            gone.remove(best)
            yield Drifted(call, Change.RENAMED, shown, was=best)
        else:
            yield Drifted(call, Change.ADDED, shown)
    yield from (Drifted(call, Change.GONE, name) for name in gone)


def _likeness(one: str, other: str) -> float:
    first, second = (name.replace("_", "").lower() for name in (one, other))
    return SequenceMatcher(None, first, second).ratio()
