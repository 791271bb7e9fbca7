"""The heads of a journal as they were at one moment, kept outside the tables that they seal.

A journal that nobody changed holds every head that was ever written down, at its place. One that
was cut off at its end, changed and hashed again, or replaced by an older copy does not. A head is
written down after the commit that it belongs to: it may lag behind the journal and never leads it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from bot.journal.batch import Head
from bot.journal.encoding import instant_of, instant_text, local_text
from bot.journal.engines import file_of, is_sqlite, parse

FILE: Final = "heads.jsonl"
"""The name of the file of heads, in a bot's state directory."""
OLDER: Final = "heads.older.jsonl"
"""What was in it before it grew too large."""
LINE_START: Final = b'{"at":'
"""How every line of ours begins."""

Heads = Mapping[str, Head]


@dataclass(frozen=True, slots=True)
class KeptHeads:
    """Where every chain of a journal ended. `at` is wire time; `run` counts the journal's runs.

    `is_last`: the run wrote nothing after it.
    """

    at: datetime
    journal: str
    run: int
    epoch: int | None
    heads: Heads
    is_last: bool = False

    def __str__(self) -> str:
        """Name the moment as an operator would look for it."""
        time = local_text(instant_text(self.at)).replace("T", " ")[:19]
        return f"the heads of {time}, run {self.run}"

    @property
    def line(self) -> str:
        """One line of JSON, `kept_of` reads it again."""
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
    """The heads as JSON writes them: rows, last number, hash."""
    return {
        name: (each.row_count, each.last_seq, each.head_hash)
        for name, each in sorted(heads.items())
    }


def heads_of(plain: Mapping[str, Iterable[int | str]]) -> dict[str, Head]:
    """Read what `plain_heads` wrote. Raises ValueError or TypeError for anything else."""
    found = {}
    for name, values in plain.items():
        count, seq, hashed = values
        found[name] = Head(int(seq), int(count), str(hashed))
    return found


def kept_of(line: str) -> KeptHeads:
    """Read one line. Raises ValueError for anything else."""
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
    """How a journal is named in the lines: no password, and the same when its folder is moved."""
    if is_sqlite(url):
        return file_of(url).name
    parsed = parse(url)
    return f"{parsed.host or 'localhost'}:{parsed.port or 5432}/{parsed.database}"


@dataclass(frozen=True, slots=True)
class HeadsFile:
    """The lines of a file of heads and of the one before it, oldest first.

    `others` counts lines about other journals, `unreadable` those that are no lines of heads: one
    that was being written when the power went is such a line.
    """

    path: Path
    kept: tuple[KeptHeads, ...]
    others: int = 0
    unreadable: int = 0
    trouble: str | None = None
    """Why the file could not be read."""
    files: tuple[Path, ...] = ()
    """Those that are there."""


def read_heads_file(folder: Path, url: str) -> HeadsFile:
    """Read the lines about the journal at `url`. Nothing there: no lines."""
    path, label = folder / FILE, label_of(url)
    kept, others, unreadable = [], 0, 0
    files: list[Path] = []
    for each in (folder / OLDER, path):
        try:
            lines = each.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            continue
        except OSError as error:
            return HeadsFile(path, (), trouble=error.strerror or str(error))
        files.append(each)
        for line in filter(None, lines):
            try:
                found = kept_of(line)
            except ValueError:
                unreadable += 1
                continue
            if found.journal == label:
                kept.append(found)
            else:
                others += 1
    return HeadsFile(path, tuple(kept), others, unreadable, files=tuple(files))
