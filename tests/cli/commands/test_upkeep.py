"""A backup is whole and private, a query changes nothing, nothing is pruned without a backup."""

import asyncio
import hashlib
import json
import shutil
import sqlite3
import stat
from pathlib import Path

import pytest

from bot.config.problems import ExitCode
from bot.journal.database.engines import file_of, reading
from bot.journal.database.schema import migrate
from bot.journal.errors import Unreachable
from bot.journal.journal import Journal
from bot.journal.reading.reader import JournalReader
from bot.journal.reading.values import PRUNING
from bot.journal.upkeep.copying import saved_in
from bot.journal.upkeep.verify import verify
from bot.journal.writing.heads import FILE, append_line, read_heads_file
from bot.journal.writing.lease import acquire
from bot.runtime.journal_file import this_process
from bot.runtime.upkeep import shrink
from tests.cli.commands.test_journal_commands import cut_off_decisions, keep_heads, url_of
from tests.cli.stage import call
from tests.journal.facts import T0, after, but
from tests.journal.reading.test_folding import NO
from tests.runtime.test_damage import ACCEPTED
from tests.runtime.test_state_dir import no_room
from tests.runtime.test_upkeep import place_of_an_older_copy

EARLIER = "2026-11-21"
"""A day after the one of the shared journal, and before the last of `grown`."""


@pytest.fixture
def grown(own: Path) -> Path:
    """The same project, with decisions of later days."""

    async def grow() -> None:
        journal = Journal.open(url_of(own))
        await journal.start_run(at=T0, mode="sandbox", version="1", config_sha256="ab")
        await journal.write([but(NO, at=after(days * 86_400.0)) for days in (2, 3)])
        await journal.close()

    asyncio.run(grow())
    return own


@pytest.fixture
def own(config: Path, tmp_path: Path) -> Path:
    """A project of the test's own."""
    return shutil.copytree(config.parent, tmp_path / "own") / config.name


def states_in(folder: Path) -> dict[str, tuple[int, str]]:
    """Every file's time and content."""
    files = [each for each in folder.rglob("*") if each.is_file()]
    hashes = {each: hashlib.sha256(each.read_bytes()).hexdigest() for each in files}
    return {str(each): (each.stat().st_mtime_ns, hashes[each]) for each in files}


# ------------------------------------------------------------------------------------- backups


def test_a_backup_is_a_whole_journal_for_its_owner_alone(config: Path, tmp_path: Path) -> None:
    file = tmp_path / "backup.db"

    ran = call("journal", "backup", str(file), "-c", str(config))

    assert (ran.code, ran.err) == (ExitCode.DONE, "")
    assert "chain whole, 3 orders, 2 fills" in ran.out
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert verify(f"sqlite:///{file}").is_whole
    with JournalReader(url_of(config)) as reader, JournalReader(f"sqlite:///{file}") as copy:
        assert copy.orders() == reader.orders()
    assert [each.name for each in tmp_path.glob("backup*")] == ["backup.db"]


@pytest.mark.parametrize("name", ["what?.db", "a#b.db", "50%20.db"])
def test_a_backup_has_the_name_that_it_was_given(config: Path, tmp_path: Path, name: str) -> None:
    ran = call("journal", "backup", str(tmp_path / name), "-c", str(config))

    assert (ran.code, ran.err) == (ExitCode.DONE, "")
    assert [each.name for each in tmp_path.iterdir()] == [name]
    assert saved_in(tmp_path, url_of(config))["fills"][0].row_count == 2


def test_a_journal_of_an_earlier_program_is_backed_up_with_that(own: Path, tmp_path: Path) -> None:
    with sqlite3.connect(file_of(url_of(own))) as connection:
        connection.execute("update alembic_version set version_num = '0001'")
    connection.close()

    ran = call("journal", "backup", str(tmp_path / "backup.db"), "-c", str(own))

    assert ran.code == ExitCode.DATABASE
    assert "E-DB-002 the journal has schema 0001" in ran.err
    assert "A backup is made with the program that wrote it" in ran.err
    assert "Do: bot db migrate" not in ran.err
    assert list(tmp_path.glob("backup*")) == []


def test_no_journal_is_migrated_under_a_bot_that_writes_it(own: Path) -> None:
    lease = acquire(url_of(own), this_process())
    current = call("db", "migrate", "-c", str(own))
    with sqlite3.connect(file_of(url_of(own))) as connection:
        connection.execute("update alembic_version set version_num = '0001'")
    connection.close()

    older = call("db", "migrate", "-c", str(own))
    found = call("db", "check", "--json", "-c", str(own))
    lease.release()

    assert current.code == ExitCode.DONE, "nothing is to be done"
    assert older.code == ExitCode.NOT_RUNNING
    assert older.err == (
        "E-DB-004 a bot of another version writes this journal, and nothing was changed. First: "
        "bot stop\n"
    )
    assert json.loads(found.out)["found"] == "0001"


def test_a_backup_is_made_while_a_bot_writes(own: Path, tmp_path: Path) -> None:
    lease = acquire(url_of(own), this_process())
    try:
        ran = call("journal", "backup", str(tmp_path / "backup.db"), "-c", str(own))
    finally:
        lease.release()

    assert ran.code == ExitCode.DONE


def test_a_backup_never_takes_the_place_of_a_file(config: Path, tmp_path: Path) -> None:
    file = tmp_path / "backup.db"
    file.write_text("mine")

    ran = call("journal", "backup", str(file), "-c", str(config))

    assert ran.code == ExitCode.USAGE
    assert ran.err.startswith(
        f"E-JNL-005 {file} already exists and was left untouched: name another"
    )
    assert file.read_text() == "mine"


def test_no_backup_is_kept_of_a_journal_that_was_changed(own: Path, tmp_path: Path) -> None:
    keep_heads(own)
    cut_off_decisions(own)

    ran = call("journal", "backup", str(tmp_path / "backup.db"), "-c", str(own))

    assert ran.code == ExitCode.DIFFERS
    assert "no backup was kept" in ran.err
    assert list(tmp_path.glob("backup*")) == []


def test_a_backup_that_its_disk_does_not_take_is_told_and_leaves_nothing(
    own: Path, tmp_path: Path
) -> None:
    with no_room():
        ran = call("journal", "backup", str(tmp_path / "backup.db"), "-c", str(own))

    assert ran.code == ExitCode.USAGE
    assert f"E-JNL-005 {tmp_path}/backup.db can't be written (" in ran.err
    assert list(tmp_path.glob("backup*")) == []


# ------------------------------------------------------------------------------------- queries


def test_a_query_is_answered_as_table_csv_and_json(config: Path) -> None:
    query = ("journal", "sql", "SELECT id, status FROM v_orders ORDER BY seq", "-c", str(config))

    table, csv = call(*query), call(*query, "-o", "csv", "--limit", "1")
    found = json.loads(call(*query, "--json").out)

    assert table.out.splitlines()[-1] == "5 rows"
    heads, first = csv.out.splitlines()
    assert (heads, first) == ("\ufeffid,status", ",".join(found["rows"][0].values()))
    assert csv.err == "… there are more rows: --limit N (now 1)\n"
    assert (found["columns"], found["has_more"], len(found["rows"])) == (
        ["id", "status"], False, 5,
    )  # fmt: skip


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM notes",
        "UPDATE orders SET symbol = 'X'",
        "PRAGMA query_only = OFF",
        "ATTACH 'other.db' AS other",
        "SELECT 1; SELECT 2",
        "VACUUM INTO 'other.db'",
        "CREATE TEMP TABLE t (a)",
        "SELEC 1",
        "",
    ],
)
def test_a_query_only_reads(query: str, config: Path, tmp_path: Path) -> None:
    before = states_in(config.parent)

    ran = call("journal", "sql", query, "-c", str(config))

    assert ran.code == ExitCode.USAGE or (query == "" and ran.out == "")
    assert "Traceback" not in ran.err
    assert states_in(config.parent) == before


@pytest.mark.parametrize(
    "command",
    [
        "journal verify", "journal head", "journal sql", "journal prune --dry-run", "orders",
        "order last --timeline --raw", "decisions --why-not", "fills", "positions", "db check",
    ],
)  # fmt: skip
def test_a_reading_command_changes_no_file(command: str, own: Path) -> None:
    keep_heads(own)
    before = states_in(own.parent)

    call(*command.split(), "-c", str(own))

    assert states_in(own.parent) == before


def test_without_a_query_the_views_are_listed_first(config: Path) -> None:
    lines = call("journal", "sql", "-c", str(config)).out.splitlines()

    assert [line.split()[0] for line in lines[:4]] == [
        "v_orders", "v_timeline", "v_decisions", "v_pnl",
    ]  # fmt: skip


# ------------------------------------------------------------------------------------- pruning


def test_nothing_is_pruned_without_a_backup(own: Path) -> None:
    before = states_in(own.parent)

    ran = call("journal", "prune", "--before", EARLIER, "-c", str(own))

    assert ran.code == ExitCode.USAGE
    assert "a backup is made first: name it with --backup FILE" in ran.err
    assert states_in(own.parent) == before


def test_what_goes_is_told_and_what_is_left_is_whole(grown: Path, tmp_path: Path) -> None:
    keep_heads(grown)
    asked = ("journal", "prune", "--before", EARLIER, "--json", "-c", str(grown))
    told = json.loads(call(*asked, "--dry-run").out)
    file = tmp_path / "before.db"

    ran = call(*asked, "--backup", str(file))

    done = json.loads(ran.out)
    assert (ran.code, told["what"], done["what"]) == (ExitCode.DONE, "would be deleted", "deleted")
    assert done["tables"][0] == told["tables"][0]
    assert verify(f"sqlite:///{file}").is_whole
    assert call("journal", "verify", "-c", str(grown)).code == ExitCode.DONE
    heads = read_heads_file(grown.parent / "state", url_of(grown))
    assert heads.kept[-1].is_last


def test_what_was_deleted_is_told_even_if_the_file_can_not_be_shrunk(
    grown: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shrink_without_room(url: str) -> int:
        with no_room():
            return shrink(url)

    monkeypatch.setattr("bot.runtime.upkeep.shrink", shrink_without_room)
    asked = ("journal", "prune", "--before", EARLIER, "--json", "-c", str(grown))

    ran = call(*asked, "--backup", str(tmp_path / "before.db"))

    done = json.loads(ran.out)
    assert (ran.code, done["what"], done["freed"]) == (ExitCode.DONE, "deleted", 0)
    assert done["tables"][0]["rows"] > 0
    assert "warning: the file keeps its size (" in ran.err


def test_a_pruning_that_fails_has_an_end_and_is_no_crash(
    grown: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **_named: object) -> None:
        raise Unreachable("database or disk is full", database="journal.db")

    monkeypatch.setattr("bot.runtime.upkeep.prune", fail)
    asked = ("journal", "prune", "--before", EARLIER, "-c", str(grown))

    ran = call(*asked, "--backup", str(tmp_path / "before.db"))

    assert (ran.code, "E-DB-001" in ran.err) == (ExitCode.DATABASE, True)
    with JournalReader(url_of(grown)) as reader:
        assert reader.runs()[-1].end_reason == PRUNING


def test_a_journal_that_is_being_written_is_not_pruned(grown: Path, tmp_path: Path) -> None:
    lease = acquire(url_of(grown), this_process())
    try:
        asked = ("journal", "prune", "--before", EARLIER, "-c", str(grown))
        ran = call(*asked, "--backup", str(tmp_path / "before.db"))
    finally:
        lease.release()

    assert (ran.code, "E-DB-004" in ran.err) == (ExitCode.NOT_RUNNING, True)


@pytest.mark.parametrize("day", ["yesterday", "2026-13-01"])
def test_a_day_that_is_none_is_named(day: str, grown: Path) -> None:
    ran = call("journal", "prune", "--before", day, "--dry-run", "-c", str(grown))

    assert (ran.code, f"'{day}': wanted a day like" in ran.err) == (ExitCode.USAGE, True)


@pytest.mark.parametrize("day", ["2026-11-22", "2026-11-23", "2049-01-01", "2026-11-22T09:00"])
def test_the_last_day_of_the_journal_is_never_pruned_nor_the_one_before(
    day: str, grown: Path, tmp_path: Path
) -> None:
    before = states_in(grown.parent)
    asked = ("journal", "prune", "--before", day, "-c", str(grown))

    ran = call(*asked, "--backup", str(tmp_path / "x.db"))

    assert (ran.code, call(*asked, "--dry-run").code) == (ExitCode.USAGE, ExitCode.USAGE)
    assert f"'{day}': a start needs 2026-11-22" in ran.err
    assert states_in(grown.parent) == before
    assert not (tmp_path / "x.db").exists()


def test_a_folder_of_backups_is_used_where_no_file_is_named(grown: Path) -> None:
    folder = grown.parent / "backups"
    text = grown.read_text()
    grown.write_text(text.replace("journal: {", "journal: {backups: backups, "))

    made = call("journal", "backup", "-c", str(grown))
    doctor = json.loads(call("doctor", "--offline", "--json", "-c", str(grown)).out)
    pruned = call("journal", "prune", "--before", EARLIER, "-c", str(grown))

    assert (made.code, pruned.code) == (ExitCode.DONE, ExitCode.DONE)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = sorted(folder.iterdir())
    assert all(verify(f"sqlite:///{each}").is_whole for each in files)
    assert str(files[0]) in made.out
    assert str(files[-1]) in pruned.err
    [row] = [each for each in doctor["rows"] if each["name"] == "backups"]
    assert (row["verdict"], row["found"]) == ("ok", f"{files[0]}, 0 days old")


def test_without_a_folder_a_backup_is_asked_for_by_name(own: Path) -> None:
    ran = call("journal", "backup", "-c", str(own))

    assert (ran.code, "journal.backups" in ran.err) == (ExitCode.USAGE, True)


# --------------------------------------------------------------------------------------- copies


def test_a_copy_goes_into_an_empty_database_only(own: Path, tmp_path: Path) -> None:
    target = f"sqlite:///{tmp_path / 'copy.db'}"

    first = call("db", "copy", "--to", target, "-c", str(own))
    again = call("db", "copy", "--to", target, "-c", str(own))

    assert (first.code, again.code) == (ExitCode.DONE, ExitCode.USAGE)
    assert "chain whole. Now set journal.url" in first.out
    assert "E-JNL-005" in again.err
    assert "already" in again.err
    with JournalReader(url_of(own)) as reader, JournalReader(target) as copy:
        assert copy.orders() == reader.orders()
    with reading(target) as connection:
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar_one() == "ok"


def test_a_copy_that_is_not_whole_is_not_called_whole(own: Path, tmp_path: Path) -> None:
    target = f"sqlite:///{tmp_path / 'copy.db'}"
    migrate(target)
    with sqlite3.connect(tmp_path / "copy.db") as connection:
        connection.execute("drop trigger fills_no_delete")
    connection.close()

    ran = call("db", "copy", "--to", target, "-c", str(own))

    assert (ran.code, "chain whole" in ran.out) == (ExitCode.DIFFERS, False)
    assert "E-JNL-001 the copy is not whole: triggers that keep rows" in ran.err
    assert "Do not set journal.url to it" in ran.err


# ------------------------------------------------------------------------------- an older copy


def test_an_older_copy_is_neither_copied_nor_backed_up_as_the_newest_and_pruned(
    tmp_path: Path,
) -> None:
    place = asyncio.run(place_of_an_older_copy(tmp_path, "journal"))
    prune = ("journal", "prune", "--before", "2020-01-01", "--backup", str(tmp_path / "saved.db"))
    copy = ("db", "copy", "--to", f"sqlite:///{tmp_path / 'copy.db'}")

    ran = [call(*each, "-c", str(place.loaded.path)) for each in (prune, copy)]

    assert [each.code for each in ran] == [ExitCode.DIFFERS] * 2
    assert "E-JNL-002 nothing was deleted, as the next start would hold this" in ran[0].err
    assert "E-JNL-002 nothing was copied, as the next start would hold this" in ran[1].err
    assert list(tmp_path.glob("*.db")) == []


def test_an_older_copy_that_a_person_accepted_is_backed_up_and_pruned(tmp_path: Path) -> None:
    place = asyncio.run(place_of_an_older_copy(tmp_path, "journal"))
    asyncio.run(place.run())
    asyncio.run(place.run(ACCEPTED))
    prune = ("journal", "prune", "--before", "2020-01-01", "--backup", str(tmp_path / "saved.db"))

    ran = call(*prune, "-c", str(place.loaded.path))

    assert (ran.code, "chain whole" in ran.err) == (ExitCode.DONE, True)
    assert asyncio.run(place.run()) == ()


def test_an_older_copy_that_went_on_is_not_backed_up_until_a_person_accepts_it(
    tmp_path: Path,
) -> None:
    place = asyncio.run(place_of_an_older_copy(tmp_path, "journal"))
    asyncio.run(place.run())
    config = str(place.loaded.path)
    append_line(place.state / FILE, call("journal", "head", "-c", config).out.strip())

    ran = call("journal", "backup", str(tmp_path / "saved.db"), "-c", config)

    assert (ran.code, "E-JNL-001 no backup was kept" in ran.err) == (ExitCode.DIFFERS, True)


def test_a_password_is_refused_on_the_command_line(own: Path) -> None:
    ran = call("db", "copy", "--to", "postgresql+psycopg://a:secret@db/x", "-c", str(own))

    assert ran.code == ExitCode.USAGE
    assert "~/.pgpass" in ran.err
    assert "secret" not in ran.err


def test_nothing_is_copied_while_a_bot_writes(own: Path, tmp_path: Path) -> None:
    lease = acquire(url_of(own), this_process())
    try:
        target = f"sqlite:///{tmp_path / 'copy.db'}"
        ran = call("db", "copy", "--to", target, "-c", str(own))
    finally:
        lease.release()

    assert (ran.code, list(tmp_path.glob("copy*"))) == (ExitCode.NOT_RUNNING, [])
