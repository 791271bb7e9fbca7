"""The log of the process: a line of JSON for each thing that happened, in files of bounded size.

It has what the journal has, and what the journal cannot have: the start, problems while the journal
is out of reach, warnings of libraries, and why the run ended. A thread writes it from a bounded
queue, so that a slow or full disk delays nothing; lines that could not be written are counted, and
the next line says how many are missing. If somebody moves or removes the file, a new one is
started.

The log cannot report that it is not being written; `LogWatch` does.
"""

import asyncio
import json
import logging
import os
import re
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from queue import Full, Queue
from typing import Final, TextIO, get_args

from bot.clock import monotonic_s
from bot.config.settings.load import Loaded
from bot.config.settings.places import below
from bot.domain.entry import (
    AccountSeen,
    Decision,
    Entry,
    Note,
    Numbers,
    RunState,
    StateChanged,
    Verdict,
)
from bot.domain.message import Noted
from bot.domain.recovery import Recovery
from bot.domain.visible import visible_json
from bot.engine.control_state import Standing
from bot.runtime.activity import Post
from bot.runtime.hush import Hiding

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}
QUEUE_MAX: Final = 10_000
END_S: Final = 1.0
"""How long the end of a run waits for the last lines."""
GATHER_S: Final = 0.02
"""How long the thread waits for more lines: when an order is logged, its bytes are about to be
sent, and both need the interpreter.
"""
BURST_MAX: Final = 1_000
"""After this many lines in one go it is checked again that the file is still the same."""
MEGABYTE: Final = 1_000_000
_ILL: Final = {RunState.HALTED, RunState.DEGRADED, RunState.NEEDS_2FA}
_WORDS: Final = {
    kind: re.sub("(?<!^)([A-Z])", r"_\1", kind.__name__).lower() for kind in get_args(Entry)
}
"""What each kind of entry is called in the log."""
_LEVEL_OF_NOTE: Final = {"ALERT": "warning", "FAULT": "error", "PULSE": "debug", "QUOTE": "debug"}

Line = tuple[datetime, str, str, object]
"""Time, level, event name, and its facts or the entry that has them."""
LOG_LOOK_S: Final = 1.0
SILENT_MAX_S: Final = 10.0
"""A line may take this long to reach the file, or lines may be refused for this long."""
LOG_FILE: Final = "bot.log"


class ProcessLog:
    """Writes what it is shown. It is a further screen of a run.

    Lines of `level` and worse are written; a file takes `bytes_max`, and `keep` older ones are
    kept.
    """

    def __init__(
        self,
        file: Path,
        *,
        level: str,
        bytes_max: int,
        keep: int,
        hiding: Hiding,
        now: Callable[[], datetime],
    ) -> None:
        self.file, self._hiding, self._now = file, hiding, now
        self._least, self._bytes_max, self._keep = LEVELS[level], bytes_max, keep
        self._queue: Queue[Line | None] = Queue(QUEUE_MAX)
        self._open: TextIO | None = None
        self.lost = 0
        """Lines not written since the last one that was."""
        self.refused = ""
        """Why the last line was not written; empty while it is pending or if it was written."""
        self._silent_since: float | None = None
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._library = _Library(self)

    def begin(self) -> None:
        """Start writing, including what libraries log."""
        logging.getLogger().addHandler(self._library)
        self._thread.start()

    def end(self) -> None:
        """Write what is queued, but not for ever."""
        logging.getLogger().removeHandler(self._library)
        self._is_ending.set()
        with suppress(Full):
            self._queue.put(None, timeout=END_S)
        self._thread.join(END_S)

    def silent_s(self) -> float:
        """How long a line has been on its way to the file, or how long since the first refused one
        nothing was written.
        """
        since = self._silent_since
        return 0.0 if since is None else monotonic_s() - since

    def say(self, level: str, event: str, facts: object) -> None:
        """Queue one line; callable from any thread, and never blocks."""
        if LEVELS[level] < self._least:
            return
        try:
            self._queue.put_nowait((self._now(), level, event, facts))
        except Full:
            self.lost += 1

    # ------------------------------------------------------------------------------- as a screen

    def entry(self, entry: Entry) -> None:
        self.say(level_of(entry), name_of(entry), entry)

    def ahead(self, entry: Entry) -> None:
        """Log what the journal cannot take now; it is logged again when the journal has it."""
        facts = {"in_journal": False, "entry": entry}
        self.say(level_of(entry), name_of(entry), facts)

    def recovered(self, recovery: Recovery) -> None:
        orders, intents = len(recovery.orders), len(recovery.intents)
        self.say("info", "recovered", {"orders": orders, "intents": intents})

    def row(self, name: str, text: str) -> None:
        self.say("info", "start", {"step": name, "text": text})

    def trouble(self, text: str) -> None:
        self.say("error", "trouble", {"text": text})

    # ----------------------------------------------------------------------------- on the thread

    def _run(self) -> None:
        burst = 0
        while (line := self._queue.get()) is not None:
            self._silent_since = self._silent_since or monotonic_s()
            try:
                if burst == 0:
                    self._is_ending.wait(GATHER_S)
                    self._leave_if_moved()
                self._write(line)
                self._silent_since, self.refused = None, ""
            except OSError as error:
                self.lost += 1
                self.refused = (error.strerror or str(error)).lower()
                self._close()
            except (ValueError, TypeError, RecursionError):  # it cannot be formatted
                self.lost += 1
                self._silent_since = None
                self._close()
            finally:
                burst = 0 if self._queue.empty() else (burst + 1) % BURST_MAX
                self._queue.task_done()
        self._close()

    def _write(self, line: Line) -> None:
        text = self._text(line)
        if self._open is None:
            self._open = opened_privately(self.file)
            self._open.write(self._end_of_a_torn_line())
        if self.lost:
            gap = (self._now(), "warning", "lines_lost", {"count": self.lost})
            self._open.write(self._text(gap))
        self._open.write(text)
        self._open.flush()
        self.lost = 0
        if self._open.tell() >= self._bytes_max:
            self._close()
            for number in range(self._keep, 0, -1):
                older = self._numbered(number - 1)
                if older.exists():
                    older.replace(self._numbered(number))

    def _end_of_a_torn_line(self) -> str:
        """A full disk may have stored half a line; end it, so that the next one is not lost with
        it.
        """
        with self.file.open("rb") as written:
            size = written.seek(0, os.SEEK_END)
            written.seek(max(0, size - 1))
            return "\n" if written.read(1) not in {b"", b"\n"} else ""

    def _numbered(self, number: int) -> Path:
        return self.file.with_name(f"{self.file.name}.{number}") if number else self.file

    def _leave_if_moved(self) -> None:
        """Close the file that we write unless it is still the one of that name."""
        if self._open is None:
            return
        ours = os.fstat(self._open.fileno())
        try:
            found = self.file.stat()
        except FileNotFoundError:
            self._close()
        else:
            if (found.st_dev, found.st_ino) != (ours.st_dev, ours.st_ino):
                self._close()

    def _close(self) -> None:
        if self._open is not None:
            with suppress(OSError):  # what it could not flush was counted
                self._open.close()
            self._open = None

    def _text(self, line: Line) -> str:
        time, level, event, facts = line
        found = self._hiding.plain(facts)
        head = {"time": time.isoformat(timespec="milliseconds"), "level": level, "event": event}
        rest = found if isinstance(found, Mapping) else {"text": found}
        return visible_json(json.dumps({**head, **rest}, ensure_ascii=False)) + "\n"


class _Library(logging.Handler):
    """Turns what a library logs into our lines."""

    def __init__(self, log: ProcessLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        level = "error" if record.levelno >= logging.ERROR else "warning"
        self._log.say(level, "library", {"logger": record.name, "text": record.getMessage()})


def opened_privately(file: Path) -> TextIO:
    """Open a private log file; never through a link that somebody else has made."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(file, flags, 0o600), "a", encoding="utf-8")


def name_of(entry: Entry) -> str:
    """`order_updated` for an OrderUpdated; a note has its own word."""
    return entry.kind.lower() if isinstance(entry, Note) else _WORDS[type(entry)]


def level_of(entry: Entry) -> str:
    if isinstance(entry, Note):
        default = "warning" if "alert" in entry.numbers else "info"
        return _LEVEL_OF_NOTE.get(entry.kind, default)
    if isinstance(entry, StateChanged):
        return "warning" if entry.to_state in _ILL else "info"
    if isinstance(entry, Decision):
        return "debug" if entry.verdict is Verdict.SKIPPED else "info"
    return "debug" if isinstance(entry, AccountSeen) else "info"


class LogWatch:
    """Raises an alert if the log is not written: its disk hangs, is full, or refuses.

    The alert goes to screen, journal and notices; it ends when a line is written again.
    """

    def __init__(self, log: ProcessLog, silent_max_s: float = SILENT_MAX_S) -> None:
        self._log = log
        self._silent_max_s = silent_max_s
        self._post: Post | None = None
        self.alerts: tuple[Standing, ...] = ()

    def follow(self, post: Post, now: Callable[[], datetime]) -> None:
        """Raise the log's alerts through `post` from now on; `now` is market time."""
        self._post, self._now = post, now

    async def run(self) -> None:
        """Check, for ever."""
        while True:
            await asyncio.sleep(LOG_LOOK_S)
            self.look()

    def look(self) -> None:
        """Check once; before there is anyone to report to, it waits."""
        is_silent = self._log.silent_s() > self._silent_max_s
        if self._post is None or is_silent == bool(self.alerts):
            return
        at, file, detail = self._now(), str(self._log.file), self._log.refused or "no answer"
        if is_silent:
            text = (
                f"the log {file} can't be written ({detail}): lines will be missing in it. Trading "
                "goes on, and the journal has what happens. Look at the disk"
            )
            facts: Numbers = {"file": file, "detail": detail}
            self.alerts = (Standing("LOG_UNWRITTEN", text, facts),)
            self._post(Noted(at, Note(at, "ALERT", text, {"alert": "LOG_UNWRITTEN", **facts})))
        else:
            self.alerts = ()
            self._post(Noted(at, Note(at, "RESUME", f"the log {file} is written again", {})))


def log_file(loaded: Loaded) -> Path:
    """Return the path of a bot's log."""
    file = loaded.settings.log.file
    return below(loaded.base_dir, file) if file else loaded.state_dir / LOG_FILE
