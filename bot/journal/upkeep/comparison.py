"""Compares stored heads with the journal while it is read from end to end.

An untampered journal contains every head ever stored, at its place. One that was truncated, changed
and rehashed, or replaced by an older copy does not.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from bot.journal.database.tables import SEALED
from bot.journal.writing.batch import Head
from bot.journal.writing.heads import Heads, KeptHeads, heads_of

SEALS: Final = tuple(f"{table.name}.seals" for table in SEALED)


@dataclass(frozen=True, slots=True)
class Witness:
    """Heads that were stored, and when, in words."""

    who: str
    heads: Heads


class Comparison:
    """What heads say the journal must contain; `differences` says where it does not.

    `kept` are lines of a file or printed ones, `runs` what each run found at its beginning, by
    number.
    """

    def __init__(self, kept: Sequence[KeptHeads], runs: Mapping[int, str]) -> None:
        self.differences: list[str] = []
        self._kept = kept
        self._found: dict[int, Witness] = {}
        for run, text in runs.items():
            # Tampered heads in a run's row are skipped: the run's seal reveals it.
            with suppress(ValueError, TypeError, AttributeError):
                heads = heads_of(json.loads(text))
                self._found[run] = Witness(f"the heads that run {run} found", heads)
        lines = [Witness(str(each), each.heads) for each in kept]
        self._witnesses = [*lines, *self._found.values()]
        self._places: dict[str, dict[int, dict[Head, str]]] = {}
        for witness in self._witnesses:
            for name, head in witness.heads.items():
                if head.last_seq and name not in SEALS:
                    place = self._places.setdefault(name, {}).setdefault(head.last_seq, {})
                    place.setdefault(head, witness.who)
        self._reported: set[str] = set()

    def see_row(self, name: str, here: Head) -> None:
        """Compare the row that a chain has reached with the stored heads."""
        for kept, who in self._places.get(name, {}).pop(here.last_seq, {}).items():
            if kept == here:
                continue
            if kept.row_count != here.row_count:
                what = f"{here.row_count:,} rows up to here, {kept.row_count:,} in {who}"
            else:
                what = f"not as in {who}: this row, or one before it, was changed and hashed again"
            self._report(name, f"{name} {here.last_seq}: {what}")

    def see_anchor(self, name: str, anchor: Head) -> None:
        """Compare where a chain begins now; what was before can no longer be checked."""
        self._places[name] = {
            seq: heads
            for seq, heads in self._places.get(name, {}).items()
            if seq >= anchor.last_seq
        }
        self.see_row(name, anchor)

    def see_end(self, name: str) -> None:
        """Report stored heads of a chain that has ended without reaching them."""
        if lacking := self._places.get(name):
            seq = max(lacking)
            head, who = next(iter(lacking[seq].items()))
            there = f"{name} {seq} is not there, the last of {head.row_count:,} rows in {who}"
            self._report(name, f"{there}: the end was cut off, or this is an older copy")

    def see_heads(self, now: Heads) -> None:
        """Compare what has no place in a chain: sums of seals, and what each run left behind."""
        for name in SEALS:
            table, known = name.removesuffix(".seals"), dict[int, Witness]()
            for witness in [*self._witnesses, Witness("what is there now", now)]:
                head = witness.heads.get(name)
                if head is None:
                    continue
                first = known.setdefault(head.last_seq, witness)
                if first.heads[name] != head:  # two sums that were set equally often must be equal
                    between = f"{first.who} and {witness.who}"
                    text = f"{table}: rows were changed and sealed again between {between}"
                    self._report(name, text)
                if name in now and head.last_seq > now[name].last_seq:
                    text = f"{table}: there were more changes by {witness.who}"
                    self._report(name, f"{text}: this is an older copy")
        for each in filter(lambda line: line.is_last, self._kept):
            after = min((run for run in self._found if run > each.run), default=None)
            then = now if after is None else self._found[after].heads
            changed = sorted(name for name in each.heads if each.heads[name] != then.get(name))
            if changed and self._reported.isdisjoint(changed):
                when = "is now" if after is None else f"was when run {after} began"
                text = f"{', '.join(changed)}: what {when} is not what run {each.run} left behind"
                self._report(changed[0], text)

    def _report(self, name: str, text: str) -> None:
        """Report only the first difference of a chain or a sum; others would repeat it."""
        if name not in self._reported:
            self._reported.add(name)
            self.differences.append(text)
