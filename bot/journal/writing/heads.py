"""The heads of a journal at one moment, stored outside the tables that they seal.

A head is stored after its commit, so it may lag behind the journal but never leads it.

While a bot runs, a separate thread writes one line a minute, and one at the end, so that neither a
commit nor the end of a run waits for this file's disk.
"""

import json
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from errno import ENOSPC
from pathlib import Path
from typing import Final

from bot.clock import Clock
from bot.domain.entry import Entry, RunState, StateChanged
from bot.journal.database.encoding import instant_of, instant_text, local_text
from bot.journal.database.engines import parse
from bot.journal.writing.aside import begin
from bot.journal.writing.batch import Head

DAMAGE: Final = "break:JOURNAL"
"""The scope of the break that is the journal's own damage."""
FILE: Final = "heads.jsonl"
"""The name of the file of heads, in a bot's state directory."""
OLDER: Final = "heads.older.jsonl"
"""The previous file, moved aside when it grew too large."""
UNREADABLE: Final = ".unreadable"
"""What is added to the name of a file that could not be read, and is moved aside."""
LINE_START: Final = b'{"at":'
"""The beginning of every line."""
PERIOD_S: Final = 60.0
"""At most one line in this time, except for the last."""
CLOSE_WAIT_S: Final = 2.0
"""How long the end of a run waits for the last line."""
FILE_BYTES_MAX: Final = 1_048_576
"""A larger file is moved aside, replacing the previous one: about 600 lines each. Older lines may
go: the newest covers everything before it.
"""
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Heads = Mapping[str, Head]


@dataclass(frozen=True, slots=True)
class KeptHeads:
    """The ends of a journal's chains. `at` is wire time; `run` counts the journal's runs.

    `is_last`: the run wrote nothing after it.
    """

    at: datetime
    journal: str
    run: int
    epoch: int | None
    heads: Heads
    is_last: bool = False

    def __str__(self) -> str:
        """Describe the moment as an operator would look for it."""
        time = local_text(instant_text(self.at)).replace("T", " ")[:19]
        return f"the heads of {time}, run {self.run}"

    @property
    def line(self) -> str:
        """One line of JSON, which `kept_of` parses."""
        facts = {
            "at": instant_text(self.at),
            "journal": self.journal,
            "run": self.run,
            "epoch": self.epoch,
            "last": self.is_last,
            "heads": plain_heads(self.heads),
        }
        return json.dumps(facts, separators=(",", ":"))


def plain_heads(heads: Heads) -> dict[str, tuple[int, int, str]]:
    """The heads in JSON form: rows, last number, hash."""
    return {
        name: (each.row_count, each.last_seq, each.head_hash)
        for name, each in sorted(heads.items())
    }


def heads_of(plain: Mapping[str, Iterable[int | str]]) -> dict[str, Head]:
    """Parse what `plain_heads` wrote. Raises ValueError or TypeError for anything else."""
    found = {}
    for name, values in plain.items():
        count, seq, hashed = values
        found[name] = Head(int(seq), int(count), str(hashed))
    return found


def kept_of(line: str) -> KeptHeads:
    """Parse one line. Raises ValueError for anything else."""
    try:
        found = json.loads(line)
        return KeptHeads(
            at=instant_of(found["at"]),
            journal=str(found["journal"]),
            run=int(found["run"]),
            epoch=found["epoch"],
            heads=heads_of(found["heads"]),
            is_last=bool(found["last"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a line of heads: {line[:40]!r}") from error


def label_of(url: str) -> str:
    """The name of a journal in the lines: without password, and unchanged if its
    folder is moved, or its file and a link is put in its place.
    """
    parsed = parse(url)
    if parsed.drivername == "sqlite":
        return Path(parsed.database or "").name
    return f"{parsed.host or 'localhost'}:{parsed.port or 5432}/{parsed.database}"


@dataclass(frozen=True, slots=True)
class HeadsFile:
    """The lines of a file of heads and of the one before it, oldest first.

    `others` counts lines about other journals, `unreadable` malformed lines, such as one being
    written during a power cut. `newest` is the last line, whichever journal it is about.
    """

    path: Path
    kept: tuple[KeptHeads, ...]
    newest: KeptHeads | None = None
    others: int = 0
    unreadable: int = 0
    trouble: str | None = None
    """Why the file could not be read, or that it has nothing that can be."""
    files: tuple[Path, ...] = ()
    """The files that exist."""


def read_heads_file(folder: Path, url: str) -> HeadsFile:
    """Read the lines about the journal at `url`; empty without a file, or with one torn line."""
    path, label = folder / FILE, label_of(url)
    kept, others, unreadable = [], 0, 0
    newest: KeptHeads | None = None
    files, whole = list[Path](), ""
    for each in (folder / OLDER, path):
        try:
            text = each.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            continue
        except OSError as error:
            return HeadsFile(path, (), trouble=error.strerror or str(error))
        files.append(each)
        whole += text
        for line in filter(None, text.splitlines()):
            try:
                newest = kept_of(line)
            except ValueError:
                unreadable += 1
                continue
            if newest.journal == label:
                kept.append(newest)
            else:
                others += 1
    is_begun = "\n" not in whole and whole.startswith(LINE_START.decode())
    trouble = None if newest or is_begun or not unreadable else "no line of them is whole"
    return HeadsFile(path, tuple(kept), newest, others, unreadable, trouble, tuple(files))


def accepts_damage(entries: Iterable[Entry]) -> bool:
    """Return whether a person accepts with one of these what was found of the journal."""
    changes = [each for each in entries if isinstance(each, StateChanged)]
    return any(each.scope == DAMAGE and each.to_state is RunState.RUNNING for each in changes)


class HeadsKeeper:
    """Stores the heads that it is shown. All methods except `close` return at once.

    The first failure with the file is reported, once; the bot continues trading.
    """

    def __init__(self, folder: Path, url: str, clock: Clock, report: Callable[[str], None]) -> None:
        self._path = folder / FILE
        self._journal = label_of(url)
        self._clock = clock
        self._report = report
        self._news = threading.Condition()
        self._newest: tuple[int, int | None, Heads] | None = None
        self._is_new = False
        self.is_paused = self._was_accepted = self._is_closing = self._is_last = False
        self._over: threading.Event | None = None
        """Set when the thread has ended; None without one."""
        self._has_reported = False

    def see(self, run: int, epoch: int | None, heads: Heads) -> None:
        """Note the ends of the chains after a commit: that is done, so nothing is raised."""
        with self._news:
            self._newest = (run, epoch, heads)
            if not self._is_new:
                self._is_new = True
                self._news.notify()
        if self._over is None:
            try:
                self._over = begin(self._keep)
            except OSError as error:  # no thread can be created; the next commit tries again
                self._report_once(error)

    def pause(self) -> None:
        """Write nothing until `resume`, not even at the end."""
        with self._news:
            self.is_paused = True

    def resume(self) -> None:
        """Write what was seen in a pause, and go on: a person has accepted the journal as it is. A
        file of heads that can't be read is moved aside, as it would hold every later start too.
        """
        with self._news:
            self._was_accepted |= self.is_paused
            self.is_paused = False
            self._news.notify()

    def close(self, *, is_last: bool) -> None:
        """Write what is not written yet. `is_last`: the last heads seen are the end of the run."""
        with self._news:
            self._is_closing, self._is_last = True, is_last
            self._news.notify()
        if self._over is not None:
            self._over.wait(CLOSE_WAIT_S)

    # --------------------------------------------------------------------------- on the thread

    def _keep(self) -> None:
        is_closing = False
        while not is_closing:
            with self._news:
                self._news.wait_for(
                    lambda: (self._is_new and not self.is_paused) or self._is_closing
                )
                is_closing, newest, is_last = self._is_closing, self._newest, self._is_last
                is_wanted = (self._is_new or is_last) and not self.is_paused
                self._is_new = False
            if newest is not None and is_wanted:
                run, epoch, heads = newest
                at = self._clock.now()
                kept = KeptHeads(at, self._journal, run, epoch, heads, is_last=is_last)
                try:
                    if self._was_accepted:
                        self._move_aside()
                    append_line(self._path, kept.line)
                except OSError as error:
                    self._report_once(error)
            with self._news:
                self._news.wait_for(lambda: self._is_closing, PERIOD_S)

    def _move_aside(self) -> None:
        for path in (self._path.with_name(OLDER), self._path):
            if not _begins_as_ours(path):
                aside = path.replace(path.with_name(path.name + UNREADABLE))
                text = f"{path.name} could not be read: it is {aside} now, and a new one is begun"
                self._report(text)

    def _report_once(self, error: OSError) -> None:
        if not self._has_reported:
            self._has_reported = True
            self._report(
                f"the heads of the journal can't be kept in {self._path} ({error.strerror or error}"
                "): bot journal verify has less to compare with. Trading goes on"
            )


def append_line(path: Path, line: str) -> None:
    """Append a line, synced to disk. Raises OSError, also for a file that is not ours."""
    data = f"{line}\n".encode()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _opened(path, _FLAGS) as file:
        found = os.fstat(file)
        begins = os.pread(file, len(LINE_START), 0) if stat.S_ISREG(found.st_mode) else b"?"
        if begins and begins != LINE_START:
            raise OSError("it holds something else; move that away")
        size = found.st_size
        if size + len(data) <= FILE_BYTES_MAX:
            if size and os.pread(file, 1, size - 1) != b"\n":
                data = b"\n" + data  # a power cut or a full disk truncated the previous line
            _write_all(file, data)
            if size:
                return
        else:
            path.replace(path.with_name(OLDER))
            with _opened(path, _FLAGS) as new:
                _write_all(new, data)
    with _opened(path.parent, os.O_RDONLY | os.O_DIRECTORY) as folder:
        os.fsync(folder)


def _begins_as_ours(path: Path) -> bool:
    """Return whether a file is one of heads, empty or absent."""
    try:
        with _opened(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC) as file:
            return os.pread(file, len(LINE_START), 0) in (b"", LINE_START)
    except FileNotFoundError:
        return True
    except OSError:
        return False


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _write_all(file: int, data: bytes) -> None:
    if os.write(file, data) < len(data):
        raise OSError(ENOSPC, os.strerror(ENOSPC))
    os.fsync(file)
