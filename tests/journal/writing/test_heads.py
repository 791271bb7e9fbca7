"""Heads that were kept outside the journal show what the journal itself can't show any more."""

import asyncio
import random
import shutil
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import sleep

import pytest
import sqlalchemy as sa

from bot.clock import SystemClock
from bot.domain.entry import Entry, RunState, StateChanged
from bot.journal.database import tables
from bot.journal.database.engines import file_of
from bot.journal.errors import Holder
from bot.journal.journal import Journal
from bot.journal.upkeep.verify import VerifyReport, heads_now, verify
from bot.journal.writing.batch import Head
from bot.journal.writing.heads import FILE, HeadsFile, HeadsKeeper, read_heads_file
from bot.journal.writing.lease import acquire
from tests.journal.facts import EVERY_KIND, T0, Story, after, but
from tests.journal.forging import Change, Row, forge, set_head, without_guards
from tests.journal.stored import close_day_in

TRIALS = 60
"""200 and more: `make prove`."""
COVERED = [*tables.CHAINED, tables.orders, tables.runs]


async def run_of(
    url: str,
    folder: Path,
    *numbers: int,
    troubles: list[str] | None = None,
    beside: Sequence[Entry] = (),
) -> Journal:
    """Begin a run that keeps its heads, and write a few orders."""
    told = [] if troubles is None else troubles
    lease = acquire(url, Holder(1, "test", T0))
    keeper = HeadsKeeper(folder, url, SystemClock(), told.append)
    journal = Journal.open(url, epoch=lease.epoch, keeper=keeper)
    lease.release()
    await journal.take_over(beside)
    await journal.start_run(at=T0, mode="paper", version="1", config_sha256="ab")
    for number in numbers:
        story = Story(number, price=27_000 + 50 * number)
        for entries in story.placed():
            await journal.write(entries)
        await journal.write(story.filled(500, position=500 * number))
    return journal


async def whole_run(url: str, folder: Path, *numbers: int, with_all: bool = False) -> None:
    journal = await run_of(url, folder, *numbers)
    if with_all:
        await journal.write([but(entry) for entry in EVERY_KIND])
        await journal.write([but(entry, at=after(200)) for entry in EVERY_KIND[-5:]])
        await close_day_in(journal, at=after(9))
        await journal.end_run(1, "stopped", at=after(60))
    await journal.close()


@dataclass(frozen=True)
class Kept:
    """A journal and the folder of its heads."""

    url: str
    folder: Path

    def verify(self) -> VerifyReport:
        return verify(self.url, self.file().kept)

    def file(self) -> HeadsFile:
        return read_heads_file(self.folder, self.url)

    def forge(self, table: sa.Table, change: Change) -> None:
        with without_guards(self.url) as connection:
            forge(connection, table, change)


@pytest.fixture(scope="module")
def finished(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a journal of two runs and their heads."""
    folder = tmp_path_factory.mktemp("finished")
    url = f"sqlite:///{shutil.copy(sqlite_template, folder / 'journal.db')}"
    asyncio.run(whole_run(url, folder, 1, with_all=True))
    asyncio.run(whole_run(url, folder, 4))
    return folder


@pytest.fixture
def kept(finished: Path, tmp_path: Path) -> Kept:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    return Kept(f"sqlite:///{tmp_path / 'journal.db'}", tmp_path)


@pytest.fixture
async def kept_on_both(db_url: str, tmp_path: Path) -> Kept:
    await whole_run(db_url, tmp_path, 1, with_all=True)
    return Kept(db_url, tmp_path)


def without_last(count: int) -> Change:
    return lambda rows: rows[:-count]


def nothing_left(_rows: list[Row]) -> list[Row]:
    return []


def changed(**values: int | str) -> Change:
    def change(rows: list[Row]) -> list[Row]:
        rows[0].update(values)
        return rows

    return change


async def test_a_journal_left_alone_is_as_its_heads_say(kept_on_both: Kept) -> None:
    report = kept_on_both.verify()

    assert (report.problems, report.differences) == ((), ())
    assert report.keeps_heads
    assert [each.is_last for each in kept_on_both.file().kept][-1]


@pytest.mark.parametrize(
    ("table", "change", "found"),
    [
        (tables.decisions, without_last(1), "decisions 13 is not there, the last of 2 rows"),
        (tables.auth_events, nothing_left, "is not there, the last of 2 rows"),
        (tables.fills, changed(price=27_000), "was changed and hashed again"),
        (tables.runs, changed(mode="live"), "runs: rows were changed and sealed again"),
        (tables.orders, changed(price=1), "orders: rows were changed and sealed again"),
        (tables.intents, changed(state_reason="x"), "intents: rows were changed and sealed again"),
        (tables.attempts, changed(http_status=500), "attempts: rows were changed and sealed"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
async def test_what_was_made_to_fit_again_is_found(
    kept_on_both: Kept, table: sa.Table, change: Change, found: str
) -> None:
    kept_on_both.forge(table, change)

    assert verify(kept_on_both.url).problems == ()
    assert found in "\n".join(kept_on_both.verify().differences)


@pytest.mark.long
def test_sixty_tamperings_are_found(kept: Kept) -> None:
    """Edits, deletions, swaps and truncations of every table, made to fit again afterwards."""
    file = file_of(kept.url)
    drop_triggers(file)
    whole, lines = file.read_bytes(), kept.file().kept
    source, invisible = random.Random(7), 0

    for trial in range(TRIALS):
        file.write_bytes(whole)
        table = COVERED[trial % len(COVERED)]
        kept.forge(table, tampering(source, table))
        report = verify(kept.url, lines)
        assert report.differences, f"trial {trial}: {table.name}"
        invisible += len(report.problems) == 1  # only that the triggers are missing

    assert invisible > TRIALS / 2, "without the kept heads most of them can't be seen"


def drop_triggers(file: Path) -> None:
    """For good: whoever changes rows two hundred times need not drop them two hundred times."""
    with sqlite3.connect(file) as connection:
        query = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        for (name,) in connection.execute(query).fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()


def tampering(source: random.Random, table: sa.Table) -> Change:
    """One of the ways to lie about the rows of a table."""

    def edit(rows: list[Row]) -> list[Row]:
        free = [name for name in rows[0] if name not in tables.LINKS | {"seq", "run_id"}]
        row, name = source.choice(rows), source.choice(free)
        is_text = isinstance(table.c[name].type, sa.Text)
        row[name] = f"{row[name]}x" if is_text else int(row[name] or 0) + 1
        return rows

    def delete(rows: list[Row]) -> list[Row]:
        rows.remove(source.choice(rows))
        return rows

    def delete_end(rows: list[Row]) -> list[Row]:
        return rows[: -source.randint(1, len(rows))]

    def swap(rows: list[Row]) -> list[Row]:
        if len(rows) < 2 or "seq" not in table.c:
            return edit(rows)
        first, second = source.sample(rows, 2)
        first["seq"], second["seq"] = second["seq"], first["seq"]
        return rows

    ways: list[Change] = [edit, delete, delete_end, swap, nothing_left]
    return source.choice(ways)


def test_a_lease_that_was_set_back_is_found(kept: Kept) -> None:
    with without_guards(kept.url) as connection:
        connection.execute(tables.lease.update().values(epoch=0))

    assert kept.verify().problems == ("lease: its epoch is 0, but a run had 2 already",)


async def test_an_older_copy_is_found_before_and_after_its_run_goes_on(
    sqlite_url: str, tmp_path: Path
) -> None:
    kept, file = Kept(sqlite_url, tmp_path), file_of(sqlite_url)
    await whole_run(sqlite_url, tmp_path, 1)
    older = file.read_bytes()
    await whole_run(sqlite_url, tmp_path, 2)

    file.write_bytes(older)
    before = kept.verify().differences
    await whole_run(sqlite_url, tmp_path, 7, 8)
    later = kept.verify().differences

    assert any("this is an older copy" in text for text in before)
    assert any("hashed again" in text for text in later)
    assert verify(sqlite_url).is_whole


async def test_rows_added_between_two_runs_are_found(sqlite_url: str, tmp_path: Path) -> None:
    await whole_run(sqlite_url, tmp_path, 1)
    added = Journal.open(sqlite_url)
    await added.write([but(EVERY_KIND[-1])])
    await added.close()
    now = Kept(sqlite_url, tmp_path).verify().differences
    await whole_run(sqlite_url, tmp_path, 2)

    assert now == ("journal, notes: what is now is not what run 1 left behind",)
    assert Kept(sqlite_url, tmp_path).verify().differences == (
        "journal, notes: what was when run 2 began is not what run 1 left behind",
    )


async def test_what_a_start_takes_over_is_no_false_alarm(kept_on_both: Kept) -> None:
    """A full disk: the run before could end, but not write what its emergency journal has."""
    halt = StateChanged(T0, RunState.RUNNING, RunState.HALTED, "by hand", "operator")
    journal = await run_of(kept_on_both.url, kept_on_both.folder, beside=[halt])
    await journal.close()

    assert kept_on_both.verify().is_whole


async def test_a_run_that_was_killed_is_no_false_alarm(sqlite_url: str, tmp_path: Path) -> None:
    killed = await run_of(sqlite_url, tmp_path, 1)
    lines = (tmp_path / FILE).read_text() if (tmp_path / FILE).exists() else ""
    await killed.write([but(EVERY_KIND[-1])])
    await killed.close()
    (tmp_path / FILE).write_text(lines)

    assert Kept(sqlite_url, tmp_path).verify().is_whole
    await whole_run(sqlite_url, tmp_path, 2)
    assert Kept(sqlite_url, tmp_path).verify().is_whole


async def test_a_line_that_a_power_cut_cut_off_is_no_false_alarm(
    sqlite_url: str, tmp_path: Path
) -> None:
    await whole_run(sqlite_url, tmp_path, 1)
    file = tmp_path / FILE
    file.write_bytes(file.read_bytes()[:-300])
    await whole_run(sqlite_url, tmp_path, 2)

    kept = Kept(sqlite_url, tmp_path)
    assert (kept.file().unreadable, kept.verify().is_whole) == (1, True)


async def test_heads_of_another_journal_are_left_aside(
    sqlite_url: str, sqlite_template: Path, tmp_path: Path
) -> None:
    other = f"sqlite:///{shutil.copy(sqlite_template, tmp_path / 'other.db')}"
    await whole_run(other, tmp_path, 1)
    await whole_run(sqlite_url, tmp_path, 2, 3)

    kept = Kept(sqlite_url, tmp_path)
    assert kept.verify().is_whole
    assert kept.file().others == len(Kept(other, tmp_path).file().kept)


async def test_a_head_that_was_printed_finds_the_same(sqlite_url: str, tmp_path: Path) -> None:
    await whole_run(sqlite_url, tmp_path, 1)
    printed = heads_now(sqlite_url, T0)
    assert verify(sqlite_url, [printed]).is_whole

    Kept(sqlite_url, tmp_path).forge(tables.fills, changed(price=1))

    [found] = verify(sqlite_url, [printed]).differences
    assert "not as in the heads of 2026-11-19 09:21:00, run 1" in found


async def test_sums_that_were_set_back_are_found(sqlite_url: str, tmp_path: Path) -> None:
    await whole_run(sqlite_url, tmp_path, 1)
    printed = heads_now(sqlite_url, T0)

    with without_guards(sqlite_url) as connection:
        forge(connection, tables.runs, nothing_left)
        set_head(connection, "runs.seals", last_seq=0)

    [found] = verify(sqlite_url, [printed]).differences
    assert found.startswith("runs: there were more changes by the heads of 2026-11-19 09:21:00")


# --------------------------------------------------------------------------------- the file itself


def a_folder(path: Path) -> None:
    path.mkdir()


def a_file_of_somebody(path: Path) -> None:
    path.write_text("my notes\n")


def a_link(path: Path) -> None:
    path.symlink_to("/dev/full")


@pytest.mark.parametrize("there", [a_folder, a_file_of_somebody, a_link])
async def test_a_file_that_can_not_be_written_is_told_once_and_stops_nothing(
    there: Callable[[Path], None], sqlite_url: str, tmp_path: Path
) -> None:
    folder, troubles = tmp_path / "state", list[str]()
    folder.mkdir()
    there(folder / FILE)
    journal = await run_of(sqlite_url, folder, 1, 2, troubles=troubles)
    await journal.end_run(1, "stopped", at=after(60))
    await journal.close()

    [trouble] = troubles
    assert str(folder / FILE) in trouble
    assert trouble.endswith("Trading goes on")
    assert verify(sqlite_url).is_whole
    if there is a_file_of_somebody:
        assert (folder / FILE).read_text() == "my notes\n"


class StuckClock:
    """Stands for a disk that hangs: whoever writes the line gets no further until it is let go."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()

    def now(self) -> datetime:
        self.may_go_on.wait()
        return T0


async def test_a_file_that_hangs_delays_no_commit(sqlite_url: str, tmp_path: Path) -> None:
    clock = StuckClock()
    keeper = HeadsKeeper(tmp_path, sqlite_url, clock, print)
    journal = Journal.open(sqlite_url, keeper=keeper)
    await journal.start_run(at=T0, mode="paper", version="1", config_sha256="ab")
    for entries in Story().placed():
        await journal.write(entries)

    assert verify(sqlite_url).orders == 1
    assert Kept(sqlite_url, tmp_path).file().kept == ()
    clock.may_go_on.set()
    await journal.close()
    assert Kept(sqlite_url, tmp_path).file().kept[-1].is_last


async def test_a_commit_is_done_also_where_no_thread_can_begin_to_keep_its_heads(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: object, **_more: object) -> int:
        raise RuntimeError("can't start new thread")

    troubles = list[str]()
    keeper = HeadsKeeper(tmp_path, sqlite_url, SystemClock(), troubles.append)
    journal = Journal.open(sqlite_url, keeper=keeper)
    await journal.probe()  # its own thread has begun
    with monkeypatch.context() as patched:
        patched.setattr("_thread.start_new_thread", none_left)
        for name in ("_start_new_thread", "_start_joinable_thread"):
            patched.setattr(f"threading.{name}", none_left, raising=False)
        await journal.start_run(at=T0, mode="paper", version="1", config_sha256="ab")
        await journal.write([Story(1).decision])
    await journal.write([Story(2).decision])
    await journal.close()

    [trouble] = troubles
    assert "can't start new thread" in trouble
    assert Kept(sqlite_url, tmp_path).file().kept[-1].is_last
    assert verify(sqlite_url).is_whole


async def test_a_line_a_minute_and_one_at_the_end(sqlite_url: str, tmp_path: Path) -> None:
    journal = await run_of(sqlite_url, tmp_path, 1, 2, 3)
    await journal.close()

    lines = Kept(sqlite_url, tmp_path).file().kept
    assert len(lines) <= 2
    assert lines[-1].is_last
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


async def test_the_file_does_not_grow_without_end(sqlite_url: str, tmp_path: Path) -> None:
    await whole_run(sqlite_url, tmp_path, 1)
    file = tmp_path / FILE
    line = file.read_text().splitlines()[-1]
    file.write_text(f"{line}\n" * (1_048_576 // (len(line) + 1)))
    await whole_run(sqlite_url, tmp_path, 2)
    full = file.with_name("heads.older.jsonl").stat().st_size

    kept = Kept(sqlite_url, tmp_path)
    assert kept.file().files == (file.with_name("heads.older.jsonl"), file)
    assert full <= 1_048_576
    assert len(file.read_text().splitlines()) <= 2
    assert len(kept.file().kept) > 500
    assert kept.verify().is_whole


def test_heads_seen_in_a_pause_are_written_when_it_ends_and_not_before(tmp_path: Path) -> None:
    keeper = HeadsKeeper(tmp_path, "sqlite:///journal.db", SystemClock(), print)
    keeper.pause()
    keeper.see(1, 1, {"orders": Head(1, 1, "hash")})
    sleep(0.05)
    before = (tmp_path / FILE).exists()

    keeper.resume()
    for _ in range(1_000):
        if (tmp_path / FILE).exists():
            break
        sleep(0.01)

    assert not before
    assert (tmp_path / FILE).exists()
    keeper.close(is_last=False)


def test_a_file_that_cannot_be_read_stays_where_nobody_had_to_accept_that(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(bytes(400))
    told = list[str]()
    keeper = HeadsKeeper(tmp_path, "sqlite:///journal.db", SystemClock(), told.append)

    keeper.resume()
    keeper.see(1, 1, {"orders": Head(1, 1, "hash")})
    keeper.close(is_last=True)

    assert (tmp_path / FILE).read_bytes() == bytes(400)
    assert [text for text in told if "can't be kept" in text] == told != []
