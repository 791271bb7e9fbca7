"""The files of recordings: one folder per day and run, with a head that identifies it, and parts.

    recorded/date=2026-11-19/run=000003/head.json
                                       part-0001-5b1e….parquet     closed, named by its own hash
                                       part-0002.db                open: SQLite, a block a second
                                       begun                       which parts hold something

A part is written in place and closed by a rename, so a kill costs the last block and parts cannot
damage each other. With polars a closed part is Parquet, otherwise it stays SQLite; the rows are the
same. The last column of a row is a hash over all rows of the run so far, so anything altered,
missing or moved shows at its row.
"""

import json
import re
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from hashlib import blake2b, sha256
from io import BytesIO
from pathlib import Path
from typing import Final, NamedTuple

from bot.config.problems import OperatorMistake
from bot.domain.instrument import Instrument
from bot.domain.local_time import day_and_clock_of
from bot.domain.message import Command, Event
from bot.domain.plan import StrategyPlan
from bot.domain.rulebook import Rulebook
from bot.engine.settings import EngineSettings
from bot.runtime.history.recording.event_codec import Codec, Shapes, UnknownShape

FORMAT: Final = 1
FOLDER: Final = "recorded"
HEAD: Final = "head.json"
BEGUN: Final = "begun"
"""Gets a line for each part that has content: its number, and since when (Unix seconds)."""
GO_ON, LOOK, GAP, END = "go_on", "look", "gap", "end"
"""Kinds of rows besides events: due hooks called, a fault in a look, rows lost, a clean end."""
DUE, LAST_LOOK = "due", "last look"
"""Which look it was."""
_SCHEMA: Final = "create table blocks (first integer primary key, crc integer, data blob)"
_RUN: Final = re.compile(r"run=([0-9]{6,})")
_PART: Final = re.compile(r"part-([0-9]{4,})(?:\.db|-[0-9a-f]{16}\.parquet)")
_BEGUN: Final = re.compile(r"([0-9]{1,6}) ([0-9]{1,10})")
_FIELD, _ROW = "\x1f", "\x1e"
"""Neither occurs in JSON, which escapes them."""


class Row(NamedTuple):
    """One call of the engine: its input, anomalies, and output.

    `at_us` is the event's time; `event`, `odd` and `commands` are JSON, empty for none. `seal` is
    the hash of all rows of the run up to here.
    """

    number: int
    at_us: int
    kind: str
    event: str
    odd: str
    commands: str
    seal: str


@dataclass(frozen=True, slots=True)
class RecordedStrategy:
    """A strategy of the run: `files` are those it was loaded from, with their hashes."""

    plan: StrategyPlan
    instruments: tuple[Instrument, ...]
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Head:
    """Identifies the run of a recording: everything its engine was made of."""

    version: str
    run: int
    began: date
    mode: str
    base_dir: str
    strategies: tuple[RecordedStrategy, ...]
    settings: EngineSettings
    rulebook: Rulebook


class Unusable(Exception):
    """A recording cannot be read from here on; the text says why."""


def sealed(before: str, row: Row, commands: str) -> str:
    """Return the seal of a row after one with seal `before`, as if it had these commands."""
    hashed = blake2b(before.encode(), digest_size=8)
    for text in (str(row.number), row.kind, row.event, row.odd, commands):
        hashed.update(text.encode())
        hashed.update(b"\x1f")
    return hashed.hexdigest()


class Codecs:
    """How the values of one recording are encoded and decoded."""

    def __init__(self, shapes: Shapes | None = None) -> None:
        self.event = Codec(Event, shapes)
        self.commands = Codec(tuple[Command, ...], shapes)
        self.head = Codec(Head, shapes)

    @property
    def shapes(self) -> Shapes:
        return {**self.event.shapes, **self.commands.shapes, **self.head.shapes}


@cache
def codecs() -> Codecs:
    """The codecs of this release: slow to make, and the same for every run."""
    return Codecs()


# -------------------------------------------------------------------------------------- places


def days_of(state_dir: Path) -> tuple[date, ...]:
    """Return the recorded days, oldest first."""
    found = list[date]()
    for folder in (state_dir / FOLDER).glob("date=*"):
        with suppress(ValueError):
            found.append(date.fromisoformat(folder.name.removeprefix("date=")))
    return tuple(sorted(found))


def day_folder(state_dir: Path, day: date) -> Path:
    return state_dir / FOLDER / f"date={day.isoformat()}"


def runs_of(state_dir: Path, day: date) -> tuple[Path, ...]:
    """Return the folders of a day's runs, in order; copies under other names do not count."""
    return runs_in(day_folder(state_dir, day))


def runs_in(folder: Path) -> tuple[Path, ...]:
    """Return the runs in the folder of a day, wherever it is."""
    found = folder.glob("run=*")
    return tuple(sorted(each for each in found if _RUN.fullmatch(each.name)))


def is_blank(folder: Path) -> bool:
    """Return whether a run was killed before anything of it was written, its head included."""
    return not any(
        each.name in (HEAD, BEGUN) or _PART.fullmatch(each.name) for each in folder.iterdir()
    )


def next_run(state_dir: Path) -> int:
    """Return a number above that of every run still recorded."""
    found = (_RUN.fullmatch(each.name) for each in (state_dir / FOLDER).glob("date=*/run=*"))
    return max((int(each[1]) for each in found if each), default=0) + 1


def parts_of(folder: Path) -> tuple[Path, ...]:
    """Return a run's parts in order; empty if nothing was recorded yet. Raises Unusable if one is
    missing.

    A kill between the rename and the removal leaves a part twice; the closed one is complete.
    """
    found: dict[int, Path] = {}
    for path in (*sorted(folder.glob("part-*.db")), *sorted(folder.glob("part-*.parquet"))):
        if is_part := _PART.fullmatch(path.name):
            found[int(is_part[1])] = path
    begun = _begun_in(folder)
    last = max((*found, *begun), default=0)
    missing = next((number for number in range(1, last + 1) if number not in found), None)
    if missing is not None:
        since = ""
        if at := begun.get(missing):
            since = f"; it began {day_and_clock_of(at)}"
        text = f"part {missing} of {last} is missing{since}. Put it back from a copy"
        raise Unusable(f"{folder}: {text}: what it held is nowhere else")
    return tuple(found[number] for number in sorted(found))


def _begun_in(folder: Path) -> dict[int, datetime]:
    """Return since when each part has content; recordings of earlier releases lack this."""
    try:
        lines = (folder / BEGUN).read_text(encoding="ascii", errors="replace").splitlines()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise Unusable(f"{folder / BEGUN} can't be read ({error})") from error
    found = (_BEGUN.fullmatch(line) for line in lines)
    return {int(each[1]): datetime.fromtimestamp(int(each[2]), UTC) for each in found if each}


# ---------------------------------------------------------------------------------------- head


def write_head(folder: Path, head: Head) -> None:
    """Create a run's folder with its head, which is renamed into place."""
    for each in (folder.parent.parent, folder.parent, folder):  # of a bot, of a day, of a run
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
        each.chmod(0o700)  # one made by an earlier release may be open to others
    facts = {
        "format": FORMAT,
        "version": head.version,
        "shapes": codecs().shapes,
        "head": codecs().head.write(head),
    }
    new = folder / f"{HEAD}.new"
    new.touch(0o600)
    new.write_text(json.dumps(facts), encoding="utf-8")
    new.replace(folder / HEAD)


def read_head(folder: Path) -> tuple[Head, Codecs]:
    """Return the run that a recording is of, and how to read it. Raises Unusable."""
    path, version = folder / HEAD, "?"
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        version, form = facts["version"], facts["format"]
        if form != FORMAT:
            raise Unusable(
                f"{path}: a recording of format {form}, by vnbot {version}; this release reads "
                f"format {FORMAT}"
            )
        shapes = {name: tuple(names) for name, names in facts["shapes"].items()}
        ways = codecs() if shapes == codecs().shapes else Codecs(shapes)
        head = ways.head.read(facts["head"])
    except UnknownShape as error:
        text = f"{path}: recorded by vnbot {version}, with {error}"
        raise Unusable(f"{text}: replay it with the program that recorded it") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unusable(f"{path} can't be read ({type(error).__name__}: {error})") from error
    assert isinstance(head, Head)
    return head, ways


# --------------------------------------------------------------------------------------- parts


class OpenPart:
    """The part being written: rows come in blocks, each its own transaction."""

    def __init__(self, folder: Path, number: int) -> None:
        self._number, self._name = number, f"part-{number:04d}"
        self._folder = folder
        self._path = folder / f"{self._name}.db"
        self._path.touch(0o600)  # SQLite gives the WAL side files the mode of this one
        self._connection = sqlite3.connect(
            self._path, isolation_level=None, check_same_thread=False
        )
        self._connection.execute("pragma journal_mode=wal")
        self._connection.execute("pragma synchronous=normal")
        self._connection.execute(_SCHEMA)
        self.rows = 0

    def add(self, rows: Sequence[Row]) -> None:
        """Write a block, completely or not at all."""
        text = _ROW.join(_FIELD.join(map(str, row)) for row in rows)
        data = zlib.compress(text.encode("utf-8"), 6)
        values = (rows[0].number, zlib.crc32(data), data)
        self._connection.execute("insert into blocks values (?, ?, ?)", values)
        if not self.rows:
            begun = self._folder / BEGUN
            begun.touch(0o600)
            with begun.open("a", encoding="ascii") as file:
                file.write(f"{self._number} {rows[0].at_us // 1_000_000}\n")
        self.rows += len(rows)

    def close(self, *, parquet: bool) -> None:
        """Close it; if wanted as Parquet, written beside it and renamed into place."""
        with closing(self._connection):
            self._connection.execute("pragma journal_mode=delete")
            rows = list(_rows_in(self._connection, self._path)) if parquet else []
        if not parquet:
            return
        import polars as pl

        columns = dict(zip(Row._fields, zip(*rows, strict=True), strict=True))
        texts = dict.fromkeys(("event", "odd", "commands", "seal"), pl.String)
        schema = {"number": pl.Int64, "at_us": pl.Int64, "kind": pl.Categorical, **texts}
        packed = BytesIO()  # so that a full disk raises OSError and not a polars error
        pl.DataFrame(columns, schema=schema).write_parquet(packed, compression_level=9)
        new = self._folder / f"{self._name}.new"
        new.touch(0o600)
        new.write_bytes(packed.getvalue())
        name = sha256(new.read_bytes()).hexdigest()[:16]
        new.replace(self._folder / f"{self._name}-{name}.parquet")
        self._path.unlink()

    def let_go(self) -> None:
        """Close it as it is. Raises sqlite3.Error."""
        self._connection.close()


def rows_of(path: Path) -> Iterator[Row]:
    """Yield the rows of a part. Raises Unusable at the first that cannot be trusted.

    Raises OperatorMistake for Parquet without polars.
    """
    if path.suffix == ".parquet":
        yield from _rows_of_parquet(path)
        return
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            yield from _rows_in(connection, path)
    except (sqlite3.Error, OSError) as error:
        raise Unusable(f"{path}: damaged ({error})") from error


def _rows_in(connection: sqlite3.Connection, path: Path) -> Iterator[Row]:
    tables = connection.execute("select name from sqlite_master").fetchall()
    if not tables and int(path.stem.removeprefix("part-")) not in _begun_in(path.parent):
        return  # a kill came before the part was made: it has never held anything
    for first, crc, data in connection.execute(
        "select first, crc, data from blocks order by first"
    ):
        if zlib.crc32(data) != crc:
            raise Unusable(f"{path}: damaged from call {first:,} on")
        for line in zlib.decompress(data).decode("utf-8").split(_ROW):
            number, at, *texts = line.split(_FIELD)
            yield Row(int(number), int(at), *texts)


def _rows_of_parquet(path: Path) -> Iterator[Row]:
    try:
        import polars as pl
    except ImportError as error:
        text = f"{path} is Parquet: to read it, pip install 'vnbot[data]'"
        raise OperatorMistake.of("E-REC-004", text) from error
    try:
        if path.stem[10:] != sha256(path.read_bytes()).hexdigest()[:16]:
            raise Unusable(f"{path}: damaged, its bytes are not those that were written")
        frame = pl.read_parquet(path, columns=list(Row._fields))
    except OSError as error:
        raise Unusable(f"{path}: can't be read ({error})") from error
    for row in frame.iter_rows():
        yield Row(*row)


def has_polars() -> bool:
    """Whether closed parts can be Parquet; it imports polars now, not while orders
    are under way.
    """
    try:
        import polars as pl  # noqa: F401
    except ImportError:
        return False
    return True
