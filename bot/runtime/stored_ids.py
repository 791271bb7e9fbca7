"""Which ids of the day order book a new attempt has to store: those that no stored one has.

After a restart the ids known before a send tell which rows cannot be its order. Everything known
then stands in the rows of `attempts` up to its own that this run has written on that day
(`bot/journal/reading/recovering_writes.py`), so the cost of an attempt does not grow with the day.
Only what is committed counts as stored: what a failed commit should have stored, the next attempt
stores.
"""

from datetime import date, datetime

from bot.domain.local_time import local_date
from bot.engine.index import KnownIds


class StoredIds:
    """How many of the ids of a day are in the journal, by this run."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._day: date | None = None
        self._count = 0

    def missing(self, known: KnownIds, at: datetime) -> tuple[str, ...]:
        """Return what an attempt of that time has to store; on a new day all that is known."""
        return known.after(self._count if self._is_same(known, at) else 0)

    def add(self, known: KnownIds, at: datetime) -> None:
        """The attempt of that time is committed."""
        if not self._is_same(known, at):
            self._places, self._day, self._count = known.places, local_date(at), 0
        self._count = max(self._count, known.count)

    def _is_same(self, known: KnownIds, at: datetime) -> bool:
        return known.places is self._places and local_date(at) == self._day
