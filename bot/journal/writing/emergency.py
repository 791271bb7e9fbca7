"""Stores what must not wait for an unresponsive database, as fsynced lines in a file beside it.

A halt takes effect whatever the database does, and its cancels are sent once their attempts are
here (order safety: nothing is sent before it is on disk). A cancel that waits for its time is kept
too: it is to go out whatever happens meanwhile. The broker's answers are kept too, with
everything that follows for their orders: if the database missed an acceptance, the next start has
to know it without asking. So are the notes from which a start goes on with a flatten and with the
breaks. Orders are never sent on the strength of this file: they need the
journal's own checks. When the journal accepts writes again it gets the same entries in order, and
the file is removed. After a kill the next start writes what the journal lacks.

A full disk must not prevent this, so space is reserved at the start of a run: `emergency.spare` is
a megabyte of zeros, and becomes the file when there is something to store.
"""

import itertools
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from bot.domain.entry import (
    FLATTEN_NOTE,
    AttemptFinished,
    AttemptStarted,
    Decision,
    Entry,
    Fill,
    IntentMoved,
    Note,
    OrderResultSeen,
    OrderUpdated,
    StateChanged,
    StrategySwitched,
    Transition,
)
from bot.journal.database import tables
from bot.journal.database.encoding import Plain, instant_text, plain
from bot.journal.database.statements import given
from bot.journal.writing import rows
from bot.journal.writing.batch import Batch
from bot.journal.writing.emergency_lines import entries_of, line_of, must_survive
from bot.journal.writing.sends import begins_again

FILE: Final = "emergency.jsonl"
"""The name of the file, in a bot's state directory."""
SPARE: Final = "emergency.spare"
"""The file's name while there is nothing to store: the reserved space."""
UNREAD: Final = "emergency.jsonl.unread"
"""Beside it: the lines that could not be read, for a person."""
SPARE_BYTES: Final = 1_048_576
BYTES_MAX: Final = 4_194_304
"""Some thousands of cancels; beyond this size the file accepts no more. Unreadable lines take the
place of earlier ones there.
"""
TURN_S: Final = 1.0
"""How long work on the file waits for what its disk still holds up. Less than any caller waits, so
none of it begins after its caller has given up.
"""
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Kept:
    """The contents of a file, oldest first. `unreadable` counts lines that are damaged,
    truncated, or no entries.
    """

    entries: tuple[Entry, ...]
    unreadable: int


class EmergencyJournal:
    """Stores entries that must survive, in a bot's state directory. It has one writer, whose
    threads take turns: one that hangs, and was given up, must not remove what is kept meanwhile.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self.unread = folder / UNREAD
        self._spare = folder / SPARE
        self._end: int | None = None
        """Where the last line ends; None if not determined yet."""
        self._turn = threading.RLock()

    def reserve(self) -> None:
        """Reserve the space that a full disk would not give. Old contents are discarded: they have
        been taken over. Raises OSError.
        """
        with self._in_turn():
            self.forget()
            with suppress(FileNotFoundError):
                if self._spare.stat().st_size == SPARE_BYTES:
                    return
            descriptor = os.open(self._spare, _FLAGS | os.O_TRUNC, 0o600)
            try:
                _write(descriptor, bytes(SPARE_BYTES), 0)
                os.fsync(descriptor)
            except OSError:
                self._spare.unlink()
                raise
            finally:
                os.close(descriptor)
            _sync_folder(self._spare.parent)

    def keep(self, entries: Iterable[Entry]) -> None:
        """Add entries, all or none; they survive a power cut once this returns. Blocks for as long
        as the disk takes. Raises OSError; then nothing that relies on them may be done.
        """
        lasting = [entry for entry in entries if must_survive(entry)]
        data = f"\n{line_of(lasting)}".encode()  # the previous line may be truncated
        with self._in_turn():
            if not self.path.exists():
                self._end = 0
                with suppress(FileNotFoundError):
                    self._spare.rename(self.path)
            descriptor = os.open(self.path, _FLAGS, 0o600)
            try:
                if self._end is None:
                    self._end = len(self.path.read_bytes().rstrip(b"\0"))
                if self._end + len(data) > BYTES_MAX:
                    raise OSError(f"{self.path} holds {BYTES_MAX:,} bytes, and takes no more")
                _write(descriptor, data, self._end)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            self._end += len(data)
            _sync_folder(self.path.parent)  # also if the first line failed before its name was safe

    def read(self) -> Kept:
        """Return the contents of the file; empty if there is none. Raises OSError."""
        found = [_parsed(line) for line in self._lines()]
        readable = [entries for entries in found if entries is not None]
        entries = tuple(itertools.chain.from_iterable(readable))
        return Kept(entries, len(found) - len(readable))

    def set_aside(self) -> None:
        """Copy the unreadable lines to where they stay when the file is removed. Raises OSError."""
        with self._in_turn():
            lines = [line for line in self._lines() if _parsed(line) is None]
            data = b"".join(b"\n%s\n" % line for line in lines)
            descriptor = os.open(self.unread, _FLAGS, 0o600)
            try:
                end = os.fstat(descriptor).st_size
                if end + len(data) > BYTES_MAX:
                    os.ftruncate(descriptor, 0)
                    end = 0
                _write(descriptor, data, end)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            _sync_folder(self.unread.parent)

    def _lines(self) -> list[bytes]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        # Text in an entry may contain other line separators.
        return [line for line in data.replace(b"\0", b"").split(b"\n") if line]

    def forget(self) -> None:
        """Remove the file, as the journal has all of it; keep its space if it had some reserved."""
        with self._in_turn():
            with suppress(FileNotFoundError):
                if self.path.stat().st_size != SPARE_BYTES:
                    self.path.unlink()
                else:
                    descriptor = os.open(self.path, _FLAGS, 0o600)
                    try:
                        _write(descriptor, bytes(SPARE_BYTES), 0)
                        os.fsync(descriptor)
                    finally:
                        os.close(descriptor)
                    self.path.rename(self._spare)
                _sync_folder(self.path.parent)
            self._end = None

    @contextmanager
    def _in_turn(self) -> Iterator[None]:
        if not self._turn.acquire(timeout=TURN_S):
            raise OSError(f"the disk of {self.path} has not finished an earlier change")
        try:
            yield
        finally:
            self._turn.release()


def take_over(batch: Batch, entries: Sequence[Entry]) -> int:
    """Store the entries that the journal lacks, in order; return how many there were.

    Lines were written before or alongside the journal, so both may have an entry. Consequences of
    an attempt or intent that never reached the journal are skipped, and so is a move of an intent
    that has since moved elsewhere: their orders are found in the day order book. Another bot may
    have gone on in between, so nothing lets a scope trade that was stopped later.
    """
    count = 0
    for entry in entries:
        asked, values = _question(entry)
        stored = batch.connection.rows(asked, values)
        is_lost = isinstance(entry, AttemptFinished) and not stored
        if is_lost or (stored and stored[0][0] is not None) or not _has_its_intent(batch, entry):
            continue
        if asked is _CHANGED and begins_again(batch.connection.rows, values):
            continue
        if isinstance(entry, OrderUpdated | Fill) and not _is_reached(batch, entry, entries):
            continue
        batch.store([_numbered(batch, entry) if isinstance(entry, Fill) else entry])
        count += 1
    return count


def _numbered(batch: Batch, fill: Fill) -> Fill:
    """Return a fill under a number of its own: another bot may have given its to another."""
    if not batch.connection.rows(_NUMBERED, {"fill": fill.fill_id}):
        return fill
    [[last]] = batch.connection.rows(_LAST_NUMBER, {})
    return replace(fill, fill_id=f"F-{int(str(last).removeprefix('F-')) + 1:04}")


def _is_reached(batch: Batch, entry: OrderUpdated | Fill, entries: Sequence[Entry]) -> bool:
    """Return whether the fills stored and kept add up to what an order of ours has executed then:
    else a row would hide the rest for good, which the broker's next one shows.
    """
    if entry.intent_id is None:
        return True
    [[executed]] = batch.connection.rows(_EXECUTED, {"its_intent": entry.intent_id})
    counted = int(executed or 0)
    for fill in entries:
        if isinstance(fill, Fill) and fill.intent_id == entry.intent_id:
            begins = fill.order_executed - fill.quantity
            counted = fill.order_executed if begins == counted else counted
    wanted = entry.order_executed if isinstance(entry, Fill) else entry.executed_quantity
    return wanted <= counted


def _has_its_intent(batch: Batch, entry: Entry) -> bool:
    """Return whether the entry's intent is stored, and is in the state from which the
    move begins.
    """
    intent_id = getattr(entry, "intent_id", None)
    if intent_id is None:
        return True
    intent = batch.find_intent(intent_id)
    if intent is None or not isinstance(entry, IntentMoved):
        return intent is not None
    return intent["state"] in {entry.from_state, entry.to_state}


_ATTEMPTS: Final = tables.attempts
_DECISIONS: Final = tables.decisions
_HALTS: Final = tables.halts
_NOTES: Final = tables.notes
_ORDERS: Final = tables.orders
_FILLS: Final = tables.fills
_RESULTS: Final = tables.order_results
_TRANSITIONS: Final = tables.transitions
_ITS_ATTEMPT: Final = _ATTEMPTS.c.attempt_id == given("attempt")
_STARTED: Final = sa.select(_ATTEMPTS.c.seq).where(_ITS_ATTEMPT)
_FINISHED: Final = sa.select(_ATTEMPTS.c.outcome).where(_ITS_ATTEMPT)
_CHANGED: Final = sa.select(_HALTS.c.seq).where(
    _HALTS.c.at == given("at"),
    _HALTS.c.scope == given("its_scope"),
    _HALTS.c.to_state == given("its_state"),
)
_NOTED: Final = sa.select(_NOTES.c.seq).where(
    _NOTES.c.kind == given("its_kind"),
    sa.or_(
        sa.and_(_NOTES.c.at == given("at"), _NOTES.c.numbers == given("its_numbers")),
        # Another bot may have gone on with the flatten, or ended it.
        sa.and_(_NOTES.c.at > given("same_at"), _NOTES.c.kind == FLATTEN_NOTE),
    ),
)
_DECIDED: Final = sa.select(_DECISIONS.c.seq).where(
    _DECISIONS.c.at == given("at"),
    _DECISIONS.c.code == given("its_code"),
    _DECISIONS.c.request_id.is_not_distinct_from(given("its_request")),
)
# Another bot may have counted the same shares in other portions, and under other numbers.
_FILLED: Final = sa.select(_FILLS.c.seq).where(
    _FILLS.c.intent_id == given("its_intent"), _FILLS.c.order_executed > given("executed_before")
)
_EXECUTED: Final = sa.select(sa.func.max(_FILLS.c.order_executed)).where(
    _FILLS.c.intent_id == given("its_intent")
)
_NUMBERED: Final = sa.select(_FILLS.c.seq).where(_FILLS.c.fill_id == given("fill"))
_LAST_NUMBER: Final = (
    sa.select(_FILLS.c.fill_id)
    .order_by(sa.func.length(_FILLS.c.fill_id).desc(), _FILLS.c.fill_id.desc())
    .limit(1)
)
_SEEN: Final = sa.select(_RESULTS.c.seq).where(
    _RESULTS.c.at == given("at"),
    _RESULTS.c.order_id == given("its_order"),
    _RESULTS.c.source == given("its_source"),
)
_UPDATED: Final = sa.select(_ORDERS.c.seq).where(
    _ORDERS.c.order_id == given("its_order"),
    _ORDERS.c.account == given("its_account"),
    _ORDERS.c.trading_date == given("its_day"),
    sa.or_(
        # By the time alone a clock that ran ahead would hide a fill, or bring back what was before.
        _ORDERS.c.executed_quantity > given("executed_less"),
        sa.and_(
            _ORDERS.c.executed_quantity == given("its_executed"),
            sa.or_(
                _ORDERS.c.at > given("at"),
                sa.and_(_ORDERS.c.at == given("same_at"), _ORDERS.c.state == given("its_state")),
            ),
        ),
    ),
)
_MOVED: Final = sa.select(_TRANSITIONS.c.seq).where(
    _TRANSITIONS.c.at == given("at"),
    _TRANSITIONS.c.machine == given("its_machine"),
    _TRANSITIONS.c.to_state == given("its_state"),
    _TRANSITIONS.c.executed_quantity == given("its_executed"),
    _TRANSITIONS.c.intent_id.is_not_distinct_from(given("its_intent")),
    _TRANSITIONS.c.order_id.is_not_distinct_from(given("its_order")),
)


def _question(entry: Entry) -> tuple[sa.Select[Any], Mapping[str, Plain]]:
    """Return the query for whether an entry is stored: a non-null row means yes."""
    match entry:
        case AttemptStarted():
            return _STARTED, {"attempt": entry.attempt_id}
        case AttemptFinished():
            return _FINISHED, {"attempt": entry.attempt_id}
        case Decision():
            decided = {"its_code": entry.code, "its_request": entry.request_id}
            return _DECIDED, {"at": instant_text(entry.at), **decided}
        case Fill():
            before = plain(entry.order_executed - entry.quantity)
            return _FILLED, {"its_intent": entry.intent_id, "executed_before": before}
        case OrderResultSeen():
            seen = {"its_order": entry.order_id, "its_source": entry.source}
            return _SEEN, {"at": instant_text(entry.at), **seen}
        case OrderUpdated():
            executed = plain(entry.executed_quantity)
            return _UPDATED, {
                "its_order": entry.order_id,
                "its_account": entry.account,
                "its_day": plain(entry.trading_date),
                "at": instant_text(entry.at),
                "same_at": instant_text(entry.at),
                "its_state": str(entry.state),
                "its_executed": executed,
                "executed_less": executed,
            }
        case IntentMoved() | Transition():
            row = rows.move_row(entry) if isinstance(entry, IntentMoved) else rows.row_of(entry)
            return _MOVED, {
                "at": row["at"],
                "its_machine": "send" if isinstance(entry, IntentMoved) else "order",
                "its_state": row["to_state"],
                "its_executed": row["executed_quantity"],
                "its_intent": row["intent_id"],
                "its_order": row["order_id"],
            }
        case Note():
            at, numbers = instant_text(entry.at), plain(entry.numbers)
            return _NOTED, {
                "its_kind": entry.kind,
                "at": at,
                "its_numbers": numbers,
                "same_at": at,
            }
        case StateChanged():
            scope, state = entry.scope, str(entry.to_state)
        case StrategySwitched():
            scope, state = f"strategy:{entry.strategy}", entry.state
        case _:
            raise AssertionError(f"{type(entry).__name__} is never kept")
    return _CHANGED, {"at": instant_text(entry.at), "its_scope": scope, "its_state": state}


def _write(descriptor: int, data: bytes, start: int) -> None:
    if os.pwrite(descriptor, data, start) < len(data):
        raise OSError("no space left")


def _parsed(line: bytes) -> list[Entry] | None:
    return entries_of(line.decode("utf-8", errors="replace"))


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
