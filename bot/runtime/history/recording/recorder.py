"""Writes the tape of a run to files, on its own thread and without delaying orders.

Once a second it writes what is queued, a few calls at a time so that nothing waits for it, and lets
orders under way go first. A full queue leaves a reported gap in the recording; a full disk ends it,
with a report. Trading continues.
"""

import asyncio
import json
import shutil
import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from time import sleep
from typing import Final

from bot import __version__
from bot.clock import monotonic_s
from bot.config.settings.load import Loaded
from bot.config.strategies.source_files import Hashes
from bot.domain.entry import Note
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.message import Noted
from bot.engine.health import LOW_BYTES
from bot.runtime.activity import Activity, RightOfWay
from bot.runtime.history.recording.recordings import (
    END,
    GAP,
    Head,
    OpenPart,
    RecordedStrategy,
    Row,
    codecs,
    day_folder,
    days_of,
    has_polars,
    next_run,
    sealed,
    write_head,
)
from bot.runtime.history.recording.tape import RecordedEngine, Tape
from bot.runtime.parts import Parts
from bot.runtime.watches import free_on

FLUSH_S: Final = 1.0
PART_ROWS: Final = 5_000
"""Closing a part reads it completely: some 35 MB."""
PART_S: Final = timedelta(minutes=30)
"""A part is closed after this much market time."""
LEAP: Final = timedelta(days=14)
"""No holidays last as long: a clock that goes on by more within a run is reported."""
AT_ONCE: Final = 8
"""Calls written before others get their turn: a tenth of a millisecond."""
BUSY_S: Final = 0.002
OLD_S: Final = 2.0
"""No order goes before a call that may have waited this long: answers can take longer than a kill
may cost.
"""
STOP_S: Final = 5.0
LOOK_S: Final = 5.0
STILL_LOOKS: Final = 6
"""After this many looks at a thread that has not written anything meanwhile, its disk hangs."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class NoRecording:
    """Null object for a run that is not recorded."""

    def stop(self) -> None: ...


def begin_recording(
    parts: Parts,
    loaded: Loaded,
    files: Mapping[str, Hashes],
    way: RightOfWay,
    activity: Activity,
) -> "Recorder | NoRecording":
    """Record a run from its first event on, if its engine keeps a tape."""
    engine, market = parts.engine, parts.environment.market
    if not isinstance(engine, RecordedEngine):
        return NoRecording()

    def say(text: str) -> None:
        parts.inbox.post(Noted(market.now(), Note(market.now(), "RECORDER", text)))

    strategies = [
        RecordedStrategy(each.plan, each.instruments, files[each.plan.name])
        for each in engine.strategies
    ]
    head = Head(
        version=__version__,
        run=next_run(loaded.state_dir),
        began=date.min,
        mode=loaded.settings.mode,
        base_dir=str(loaded.base_dir),
        strategies=tuple(strategies),
        settings=engine.settings,
        rulebook=engine.rulebook,
    )
    recorder = Recorder(
        loaded.state_dir,
        head,
        engine.tape,
        keep_days=loaded.settings.record_days,
        say=say,
        way=way,
        activity=activity,
    )
    recorder.start()
    return recorder


class Recorder:
    """The thread that writes a tape to files. `say` is called on the loop with problems; `way`
    returns whether an order is under way. While the queue is half full something counts as under
    way (`activity`), so that a clock that waits for activity waits.
    """

    def __init__(
        self,
        state_dir: Path,
        head: Head,
        tape: Tape,
        *,
        keep_days: int,
        say: Callable[[str], None],
        way: RightOfWay,
        activity: Activity,
        free_bytes: Callable[[Path], int] = free_on,
        look_s: float = LOOK_S,
        now_s: Callable[[], float] = monotonic_s,
        sleep_s: Callable[[float], None] = sleep,
    ) -> None:
        self._now_s, self._sleep_s = now_s, sleep_s
        self._emptied_s = now_s()
        self._state_dir, self._head, self._tape = state_dir, head, tape
        self._keep_days, self._say, self._way = keep_days, say, way
        self._activity, self._free_bytes = activity, free_bytes
        self._is_held = False
        self._look_s = look_s
        self._still, self._is_writing = 0, False
        self._steps, self._steps_seen = 0, 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._parquet = has_polars()
        self._codecs = codecs()
        self._wake = threading.Event()
        self._stopping = False
        self._part: OpenPart | None = None
        self._parts = 0
        self._part_ends: datetime | None = None
        self._day: date | None = None
        self._number, self._seal, self._at = 0, "", _EPOCH
        self._has_gap = False
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    def start(self) -> None:
        """Start writing; called on the loop."""
        self._loop = asyncio.get_running_loop()
        self._tape.on_full = self._hold
        self._thread.start()
        self._loop.call_later(self._look_s, self._look)

    def _look(self) -> None:
        """Check, on the loop, whether the thread makes progress; one whose disk accepts nothing is
        given up, as it cannot report that itself.
        """
        if self._stopping or not self._tape.is_open:
            return
        is_still = self._is_writing and self._steps == self._steps_seen
        self._steps_seen, self._still = self._steps, self._still + 1 if is_still else 0
        if self._still < STILL_LOOKS:
            assert self._loop is not None
            self._loop.call_later(self._look_s, self._look)
            return
        why = f"its disk has taken nothing for {STILL_LOOKS * self._look_s:.0f} s"
        self._give_up(f"{why}. Look at {self._state_dir}")

    def hurry(self) -> None:
        """Write what is queued now."""
        self._wake.set()

    def _hold(self) -> None:
        if not self._is_held:
            self._is_held = True
            self._activity.begin()
        self.hurry()

    def _let_go(self) -> None:
        if self._is_held and len(self._tape.calls) < self._tape.full:
            self._is_held = False
            self._activity.end()

    def _on_loop(self, do: Callable[..., object], *arguments: object) -> None:
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop has ended, so nobody can be told
            self._loop.call_soon_threadsafe(do, *arguments)

    def stop(self) -> None:
        """Write what is queued and end the recording cleanly; wait for that, but not for ever."""
        self._stopping = True
        self._wake.set()
        self._thread.join(STOP_S)

    def _run(self) -> None:
        try:
            while not self._stopping and self._tape.is_open:
                self._wake.wait(FLUSH_S)
                self._wake.clear()
                self._is_writing = True
                self._write_waiting()
                self._is_writing = False
            self._write_waiting()
            if self._tape.is_open:
                if self._part is not None:
                    lost = self._tape.lost  # by no later call told
                    gap = [self._gap(self._at, lost)] if lost else []
                    self._flush([*gap, self._row(self._at, END, "", "", "")])
                self._close_part()
        except (OSError, sqlite3.Error) as error:
            self._give_up(f"it can't be written ({error})")
        # a bug here must not affect the order path, nor one in polars
        except BaseException as error:
            self._give_up(f"a bug of ours ({type(error).__name__}: {error})")
        finally:
            with suppress(sqlite3.Error):
                if self._part is not None:
                    self._part.let_go()

    def _give_up(self, why: str) -> None:
        if not self._tape.is_open:
            return  # the disk that hung has come back, or failed
        self._tape.is_open = False
        self._tape.calls.clear()
        self._on_loop(self._let_go)
        self._on_loop(self._say, f"the recording of this run ends: {why}. Trading goes on")

    def _write_waiting(self) -> None:
        """Write queued calls as blocks of the day they belong to."""
        calls, rows = self._tape.calls, list[Row]()
        # what is queued came after the last time that all of it was taken
        oldest_s, self._emptied_s = self._emptied_s, self._now_s()
        flushed_s = self._emptied_s
        if not calls:
            return
        if self._free_bytes(self._state_dir) < LOW_BYTES:
            raise OSError(f"less than {LOW_BYTES // 1024**2} MB are left on the disk")
        for count in range(len(calls)):
            if count % AT_ONCE == 0:
                self._give_way(until_s=oldest_s + OLD_S)
                if self._now_s() - flushed_s >= FLUSH_S:
                    self._flush(rows)
                    flushed_s = self._now_s()
            if not self._tape.is_open:
                return
            call = calls.popleft()
            self._steps += 1
            part, ends = self._part, self._part_ends
            if part is None or ends is None or call.at >= ends or part.rows >= PART_ROWS:
                self._flush(rows)
                self._next_part(call.at)
            if call.lost:
                rows.append(self._gap(call.at, call.lost))
            event = "" if call.event is None else self._codecs.event.write(call.event)
            odd = json.dumps(call.odd) if call.odd else ""
            commands = self._codecs.commands.write(call.commands) if call.commands else ""
            rows.append(self._row(call.at, call.kind, event, odd, commands))
        self._flush(rows)
        self._on_loop(self._let_go)

    def _give_way(self, *, until_s: float) -> None:
        """Yield the interpreter to others, and let an order go first."""
        self._sleep_s(0)
        while self._way.is_taken and self._now_s() < until_s:
            if self._stopping or len(self._tape.calls) >= self._tape.full:
                break
            self._sleep_s(BUSY_S)

    def _gap(self, at: datetime, lost: int) -> Row:
        """Return the row of calls that were dropped; the first time, say so."""
        if not self._has_gap:
            self._has_gap = True
            text = f"the recording has a gap: {lost:,} events came faster than it can be"
            text += " written. This run can be replayed up to there"
            self._on_loop(self._say, text)
        return self._row(at, GAP, json.dumps([lost]), "", "")

    def _row(self, at: datetime, kind: str, event: str, odd: str, commands: str) -> Row:
        self._number, self._at = self._number + 1, at
        row = Row(self._number, (at - _EPOCH) // _MICROSECOND, kind, event, odd, commands, "")
        self._seal = sealed(self._seal, row, commands)
        return row._replace(seal=self._seal)

    def _flush(self, rows: list[Row]) -> None:
        if rows and self._part is not None:
            self._part.add(rows)
            rows.clear()
            self._steps += 1

    def _next_part(self, at: datetime) -> None:
        """Close the part, and begin one in the folder of its day."""
        self._close_part()
        day = at.astimezone(EXCHANGE_TZ).date()
        day = day if self._day is None else max(day, self._day)
        folder = day_folder(self._state_dir, day) / f"run={self._head.run:06d}"
        if day != self._day:
            if self._day is None:
                self._head = replace(self._head, began=day)
            elif day - self._day > LEAP:
                text = f"the clock went from {self._day} to {day}: what comes from here on is "
                self._on_loop(self._say, f"{text}recorded under {day}")
            # Counted, not reckoned from `day`: a clock that is wrong must not remove them all.
            for each in sorted({*days_of(self._state_dir), day})[: -self._keep_days]:
                if each != day:
                    shutil.rmtree(day_folder(self._state_dir, each))
            write_head(folder, self._head)
            self._day, self._parts = day, 0
        self._parts += 1
        self._part = OpenPart(folder, self._parts)
        midnight = datetime.combine(day + timedelta(days=1), datetime.min.time(), EXCHANGE_TZ)
        self._part_ends = min(at + PART_S, midnight)

    def _close_part(self) -> None:
        if self._part is not None:
            part, self._part = self._part, None
            part.close(parquet=self._parquet)
