"""Watches every answer for fields that came, went or were renamed, and tells each of them once.

An unknown field is ignored when an answer is read, an optional one may be missing: neither is a
failure. But a change of the API shows here first, and a person should see it before it becomes one.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Final

from bot.broker.field_names import TABLES
from bot.protocol.drift import Drift, drift_of
from bot.protocol.envelope import Payload
from bot.protocol.fidelity import FIDELITY
from bot.protocol.redact import redact

KNOWN_MAX: Final = 1_000
"""Fields remembered; a payload of endless new names costs no more than this."""
ADDED_MAX: Final = 50
"""New fields of one answer that are told: each is compared with every one that went."""
NAME_CHARACTERS_MAX: Final = 100
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
    """Remembers what has drifted, each call and field once, oldest first."""

    def __init__(self, on_drift: OnDrift | None = None) -> None:
        self._on_drift = on_drift
        self._seen: dict[tuple[str, str], Drifted] = {}

    @property
    def seen(self) -> tuple[Drifted, ...]:
        """Everything that has drifted so far."""
        return tuple(self._seen.values())

    def note(self, found: tuple[Drifted, ...]) -> None:
        """Remember what differs in an answer, and tell what is new."""
        news = tuple(each for each in found if (each.call, each.field) not in self._seen)
        if not news or len(self._seen) + len(news) > KNOWN_MAX:
            return
        self._seen.update({(each.call, each.field): each for each in news})
        if self._on_drift is not None:
            self._on_drift(news)


def drifted_in(payload: Payload) -> tuple[Drifted, ...]:
    """Return what differs in one payload from the table of its call; nothing without a table.

    The paper broker's own field is none of the document's, and no drift.
    """
    table = TABLES.get(payload.call)
    if table is None:
        return ()
    drift = drift_of(table, payload)
    seldom = _SELDOM.get(payload.call, ())
    gone = tuple(name for name in drift.gone if not (seldom and name.startswith(seldom)))
    added = tuple(name for name in drift.added if not name.endswith(FIDELITY))[:ADDED_MAX]
    return tuple(_told(payload.call, Drift(added, gone)))


def _told(call: str, drift: Drift) -> Iterator[Drifted]:
    gone = list(drift.gone)
    for added in drift.added:
        old = _old_name(added, gone)
        if old is None:
            yield Drifted(call, Change.ADDED, _shown(added))
        else:
            gone.remove(old)
            yield Drifted(call, Change.RENAMED, _shown(added), was=old)
    yield from (Drifted(call, Change.GONE, name) for name in gone)


def _old_name(added: str, gone: list[str]) -> str | None:
    """Guess which field that went is the one that came: in the same place, and much like it."""
    place = added.rpartition(".")[0]
    alike = {name: _likeness(added, name) for name in gone if name.rpartition(".")[0] == place}
    best = max(alike, key=lambda name: alike[name], default=None)
    return best if best is not None and alike[best] >= _LIKENESS_MIN else None


def _likeness(one: str, other: str) -> float:
    first, second = (name.replace("_", "").lower() for name in (one, other))
    return SequenceMatcher(None, first, second).ratio()


def _shown(name: str) -> str:
    return redact(name)[:NAME_CHARACTERS_MAX]
