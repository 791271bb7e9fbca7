"""What goes wrong ends with its exit code, in words, and without a traceback."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from errno import EACCES, ENOENT, ENOSPC, EROFS
from os import strerror
from pathlib import Path

import pytest
import sqlalchemy as sa

from bot.cli.command import Invocation
from bot.cli.main import BROKEN_PIPE, show_beneath, system_mistake, write_report
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.shipped import DEMO, shipped
from bot.journal.database.engines import make_private_file, one_transaction
from bot.journal.errors import Holder, LeaseHeld
from bot.journal.writing.heads import FILE, KeptHeads, append_line
from bot.runtime.brake import FLAG
from bot.runtime.journal_file import TO_RUN, journal_errors
from tests.cli.stage import call, make_project

CODE = "424242"
NEEDS_A_BOT = (
    "status",
    "pause",
    "resume",
    "halt --yes",
    "stop",
    "otp",
    "otp request",
    "otp forget",
    "otp revoke",
    "quote FPT",
)


@pytest.mark.parametrize("command", NEEDS_A_BOT)
def test_without_a_running_bot_it_is_exit_code_10(command: str, config: Path) -> None:
    ran = call(*command.split(), "-c", str(config))

    assert ran.code == ExitCode.NOT_RUNNING
    first, said = ran.err.split("E-RUN-001", 1)
    assert first.startswith("NOTHING WAS HALTED") == command.startswith("halt")
    assert said == (
        f" no bot is running on {config.parent / 'state'}. Start one: bot run (or bot demo)\n"
    )


@pytest.mark.parametrize("command", ["status", "resume", "pause"])
def test_who_looks_for_a_bot_that_does_not_run_hears_of_the_halt_that_waits(
    command: str, config: Path
) -> None:
    state = config.parent / "state"
    state.mkdir(exist_ok=True)
    (state / FLAG).write_text("")

    ran = call(command, "-c", str(config))
    (state / FLAG).unlink()

    assert ran.code == ExitCode.NOT_RUNNING
    assert "there is a HALT file: the next start will be HALTED" in ran.err
    assert 'bot resume --reason "…"' in ran.err


def test_a_folder_stands_for_the_configuration_in_it(tmp_path: Path) -> None:
    (tmp_path / "bot.yaml").write_text("mode: sandbox\n")

    named = call("config", "path", "-c", str(tmp_path))
    (tmp_path / "bot.yaml").unlink()
    missed = call("config", "check", "-c", str(tmp_path))

    assert (named.code, named.err) == (ExitCode.DONE, "")
    assert str(tmp_path / "bot.yaml") in named.out
    assert f"{tmp_path / 'bot.yaml'}: E-CFG-001 cannot read this file: no such file" in missed.err


def test_a_configuration_with_another_ending_is_named(tmp_path: Path) -> None:
    (tmp_path / "bot.yaml").write_text("mode: sandbox\n")

    ran = call("config", "check", "-c", str(tmp_path / "bot.yml"))

    assert ran.code == ExitCode.CONFIG
    assert "no such file or directory; did you mean bot.yaml?" in ran.err


def test_waiting_too_long_for_a_state_is_exit_code_11(config: Path) -> None:
    ran = call("status", "--wait", "RUNNING", "--timeout", "0", "-c", str(config))

    assert ran.code == ExitCode.TIMED_OUT


@pytest.mark.parametrize("length", ["0s", "0.01", "0m"])
def test_a_length_of_time_has_a_unit_or_means_seconds(length: str, config: Path) -> None:
    ran = call("status", "--wait", "RUNNING", "--timeout", length, "-c", str(config))

    assert ran.code == ExitCode.TIMED_OUT


@pytest.mark.parametrize(
    "command",
    [
        "demo --speed -1",
        "demo --speed fast",
        "demo --db mysql://x",
        "status --watch 0",
        "orders --since x",
        "fills --since 5y",
        "decisions --since x",
    ],
)
def test_a_wrong_value_of_an_option_is_a_wrong_command_line(command: str, tmp_path: Path) -> None:
    ran = call(*command.split(), "--state-dir", str(tmp_path))

    assert ran.code == ExitCode.USAGE
    assert "wanted" in ran.err


def test_a_length_of_time_that_is_none_is_a_wrong_command_line(config: Path) -> None:
    ran = call("status", "--wait", "RUNNING", "--timeout", "soon", "-c", str(config))

    assert ran.code == ExitCode.USAGE
    assert "'soon': wanted a length of time like 60s or 2m" in ran.err


@pytest.mark.parametrize(
    ("typed", "meant"), [("demmo", "demo"), ("order-s", "orders"), ("strategy lst", "list")]
)
def test_a_command_with_a_slip_names_the_one_that_was_meant(typed: str, meant: str) -> None:
    ran = call(*typed.split())

    assert (ran.code, ran.out) == (ExitCode.USAGE, "")
    assert f"'{meant}'" in ran.err


def test_a_bad_configuration_names_file_line_and_column(tmp_path: Path) -> None:
    config = tmp_path / "bot.yaml"
    config.write_text("mode: sandbox\nriks: {}\n")
    ran = call("orders", "-c", str(config))

    assert (ran.code, ran.out) == (ExitCode.CONFIG, "")
    assert "bot.yaml:2:1: E-CFG-012 " in ran.err
    assert "Traceback" not in ran.err


def test_a_database_without_a_journal_needs_a_migration(tmp_path: Path) -> None:
    config = tmp_path / "bot.yaml"
    config.write_text('journal: {url: "sqlite:///journal.db"}\n')
    (tmp_path / "journal.db").touch(mode=0o600)

    ran = call("db", "check", "-c", str(config))
    assert (ran.code, ran.err) == (
        ExitCode.DATABASE,
        "E-DB-002 this database has no journal yet: bot db migrate\n",
    )

    assert call("db", "migrate", "-c", str(config)).code == ExitCode.DONE
    assert call("db", "check", "-c", str(config)).code == ExitCode.DONE


@pytest.mark.parametrize("command", ["check", "migrate", "migrate --dry-run"])
def test_a_journal_of_a_later_program_is_exit_code_7(command: str, tmp_path: Path) -> None:
    config = make_project(tmp_path)
    with sqlite3.connect(tmp_path / "journal.db") as connection:
        connection.execute("update alembic_version set version_num = '9999'")
    connection.close()

    ran = call("db", *command.split(), "-c", str(config))

    assert ran.code == ExitCode.DATABASE
    assert "E-DB-002 the journal has schema 9999" in ran.err


def test_a_changed_journal_differs(tmp_path: Path) -> None:
    config = make_project(tmp_path)
    with sqlite3.connect(tmp_path / "journal.db") as connection:
        names = connection.execute("select name from sqlite_master where type = 'trigger'")
        for (name,) in names.fetchall():
            connection.execute(f'drop trigger "{name}"')
        connection.execute("update fills set price = price + 1 where fill_id = 'F-0001'")
    connection.close()

    ran = call("journal", "verify", "-c", str(config))

    assert ran.code == ExitCode.DIFFERS
    assert "E-JNL-001 fills " in ran.err


@pytest.mark.parametrize(
    "command",
    [["otp", CODE], ["otp", "submit", CODE], ["otp", "token", CODE], ["otp", "-x" + CODE]],
)
def test_a_code_is_never_an_argument_and_never_repeated(command: list[str], config: Path) -> None:
    ran = call(*command, "-c", str(config))

    assert (ran.code, ran.out) == (ExitCode.USAGE, "")
    assert CODE not in ran.err


def test_a_refused_code_says_why() -> None:
    assert "shell's history" in call("otp", CODE).err


def test_a_report_of_a_bug_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = write_report("what happened", Invocation(state_dir=tmp_path))

    assert path is not None
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text("utf-8").endswith("what happened")


def test_where_no_report_can_be_written_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "bugs").touch()

    assert write_report("what happened", Invocation(state_dir=tmp_path)) is None


def test_debug_shows_the_traceback_of_a_mistake(config: Path) -> None:
    ran = call("--debug", "order", "nope", "-c", str(config))

    assert ran.code == ExitCode.USAGE
    assert "Traceback" in ran.err


def test_colour_is_written_only_where_it_is_wanted(config: Path) -> None:
    plain = call("orders", "-c", str(config)).out
    forced = call("orders", "--color", "always", "-c", str(config)).out

    assert "\x1b" not in plain
    assert "\x1b[" in forced


def test_reading_before_the_first_run_says_what_makes_a_journal(tmp_path: Path) -> None:
    config = tmp_path / "bot.yaml"
    config.write_text('journal: {url: "sqlite:///journal.db"}\n')

    ran = call("orders", "-c", str(config))

    assert (ran.code, ran.out) == (ExitCode.DATABASE, "")
    assert ran.err == (
        f"E-DB-001 can't reach {tmp_path / 'journal.db'} (no such file), from journal.url in "
        f"{config}:1. The first run makes it (bot run), or: bot db migrate\n"
    )


def test_a_journal_that_was_there_is_to_be_put_back_and_no_other_made(tmp_path: Path) -> None:
    config, at = tmp_path / "bot.yaml", datetime(2026, 11, 19, 2, 20, 10, tzinfo=UTC)
    config.write_text('state_dir: .\njournal: {url: "sqlite:///journal.db"}\n')
    append_line(tmp_path / FILE, KeptHeads(at, "journal.db", 1, 1, {}).line)

    ran = call("orders", "-c", str(config))

    assert ran.code == ExitCode.DATABASE
    assert "There was one (heads of 2026-11-19 09:20:10): put it back, and run no bot" in ran.err
    assert "The first run makes it" not in ran.err


def _fill(connection: sa.Connection) -> None:
    connection.exec_driver_sql("PRAGMA max_page_count = 1")
    connection.exec_driver_sql("CREATE TABLE more (text)")


def _fill_directly(connection: sa.Connection) -> None:
    given = connection.connection.driver_connection
    assert isinstance(given, sqlite3.Connection)
    given.execute("PRAGMA max_page_count = 1")
    given.execute("CREATE TABLE more (text)")


def _start(_: sa.Connection) -> None:
    """As SQLite fails that finds no room for the file beside a journal which every start makes."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
    raise error


@pytest.mark.parametrize("fill", [_fill, _fill_directly, _start])
def test_a_full_disk_is_to_be_given_room(
    tmp_path: Path, fill: Callable[[sa.Connection], None]
) -> None:
    make_private_file(file := tmp_path / "journal.db")

    with (
        pytest.raises(OperatorMistake) as met,
        journal_errors("bot.yaml:1", what_to_do=TO_RUN),
        one_transaction(f"sqlite:///{file}") as connection,
    ):
        fill(connection)

    said = "disk I/O error" if fill is _start else "database or disk is full"
    assert str(met.value).endswith(
        f"({said}), from journal.url in bot.yaml:1. Make room on its disk: df, "
        "du. No order is placed without a journal. Check: bot db check"
    )


def test_a_directory_without_room_for_a_journal_is_to_be_given_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(ENOSPC, strerror(ENOSPC))

    monkeypatch.setattr(os, "open", full)

    with (
        pytest.raises(OperatorMistake, match=r"Make room on its disk: df, du\."),
        journal_errors("bot.yaml:1"),
    ):
        make_private_file(tmp_path / "journal.db")


def test_who_is_refused_for_a_bot_that_is_gone_is_told_to_wait() -> None:
    said, holder = [], Holder(7, "box", datetime(2026, 11, 19, 2, tzinfo=UTC))
    for silent_s in (None, 75):
        with pytest.raises(OperatorMistake) as met, journal_errors("bot.yaml:1"):
            raise LeaseHeld(holder, silent_s=silent_s)
        said.append(str(met.value))

    begins = "pid 7 on box, since 2026-11-19 02:00:00 UTC"
    wait = "bot run --standby. Another journal.url is for a bot of its own: it knows nothing of the"
    writes, silent = said
    assert f"another bot writes this journal: {begins}. One bot at a time: bot stop" in writes
    assert f"another bot holds this journal: {begins}; its last heartbeat was 75 s ago" in silent
    assert "the database lets go of it within half a minute: start again then" in silent
    assert all(f"{wait} orders and shares in this one" in each for each in said)


def test_a_journal_whose_address_nobody_set_is_called_the_default(tmp_path: Path) -> None:
    config = tmp_path / "bot.yaml"
    config.write_text("mode: sandbox\n")

    ran = call("orders", "-c", str(config))

    assert ran.code == ExitCode.DATABASE
    assert "(no such file), from the default journal.url. The first run makes it" in ran.err


def test_a_state_directory_that_is_a_file_is_a_mistake_of_the_operator(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.touch()

    ran = call("demo", "--state-dir", str(taken))

    assert (ran.code, ran.out) == (ExitCode.DATABASE, "")
    assert f"E-SYS-001 {taken}" in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("command", [("run", "-c", str(shipped(DEMO))), ("demo",)], ids=" ".join)
@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("bot.yaml", "it exists and is not a folder"),
        ("bot.yaml/state", "not a directory"),
        ("/proc/nope/state", "no such file or directory"),
    ],
)
def test_a_state_folder_that_cannot_be_made_is_said_with_what_to_do(
    tmp_path: Path, command: tuple[str, ...], place: str, reason: str
) -> None:
    (tmp_path / "bot.yaml").touch()
    folder = tmp_path / place

    ran = call(*command, environment={"BOT_STATE_DIR": str(folder), "BOT_SANDBOX__PORT": "0"})

    assert (ran.code, ran.out) == (ExitCode.DATABASE, "")
    assert ran.err.splitlines()[-1] == (
        f"E-SYS-001 {folder}: this folder, for journal and state, cannot be made ({reason}). "
        "Check permissions and free space there, or choose another: "
        "--state-dir DIR, or state_dir in bot.yaml"
    )


@pytest.mark.parametrize(
    "words", [("journal", "export", "-o"), ("drill", "--only", "halt", "--keep")], ids=" ".join
)
@pytest.mark.parametrize(
    ("place", "reason"),
    [("bot.yaml", "file exists"), ("bot.yaml/it", "not a directory"), ("/proc/nope", "no such")],
)
def test_a_folder_to_write_into_that_cannot_be_made_is_said_with_its_option(
    tmp_path: Path, words: tuple[str, ...], place: str, reason: str
) -> None:
    make_project(tmp_path)
    config, folder = tmp_path / "bot.yaml", tmp_path / place
    assert call("db", "migrate", "-c", str(config)).code == ExitCode.DONE

    ran = call(*words, str(folder), "-c", str(config))

    assert (ran.code, ran.out) == (ExitCode.DATABASE, "")
    assert ran.err.startswith(f"E-SYS-001 {words[-1]} {folder}: it can't be written ({reason}")
    assert ran.err.endswith("). Name a new folder, or one of yours with room\n")


def test_a_new_demo_wants_a_journal_that_nobody_has_used(tmp_path: Path) -> None:
    make_project(tmp_path)
    url = f"sqlite:///{tmp_path / 'journal.db'}"

    free = {"BOT_SANDBOX__PORT": "0"}
    ran = call("demo", "--db", url, "--state-dir", str(tmp_path / "demo"), environment=free)

    assert (ran.code, ran.out) == (ExitCode.CONFIG, "")
    assert ran.err.startswith(f"E-RUN-005 {url} holds an earlier run, but")
    assert not (tmp_path / "demo" / "sandbox.jsonl").exists()


def test_a_journal_that_is_no_database_is_told_with_its_setting_and_what_to_do(
    tmp_path: Path,
) -> None:
    (tmp_path / "bot.yaml").write_text("mode: sandbox\n")
    (tmp_path / "journal.db").write_text("nonsense" * 1_000)

    ran = call("orders", "-c", str(tmp_path / "bot.yaml"), "--state-dir", str(tmp_path))

    assert (ran.code, ran.out) == (ExitCode.DATABASE, "")
    assert ran.err == (
        f"E-DB-003 {tmp_path}/journal.db: file is not a database, from the default journal.url. "
        "Keep the file as it is: move it away together with any -wal and -shm beside it, then put "
        "the last good copy in its place: bot docs journal\n"
    )


@pytest.mark.parametrize("errno", [ENOSPC, EROFS, EACCES])
def test_what_the_system_refuses_is_told_with_its_file(errno: int) -> None:
    mistake = system_mistake(OSError(errno, strerror(errno), "/var/lib/vnbot"))

    assert mistake is not None
    assert str(mistake).startswith(f"E-SYS-001 /var/lib/vnbot: {strerror(errno).lower()}. ")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_finds_no_room_is_told_as_that(tmp_path: Path, unbuffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "bot", "errors"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            check=False,
        )

    assert ran.returncode == ExitCode.DATABASE
    assert ran.stderr == (
        "E-SYS-001 the output was cut off: no space left on device. It goes to a device or file "
        "that takes no more\n"
    )


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_was_closed_before_the_start_is_no_bug(config: Path, closed: str) -> None:
    command = f'exec "$0" -m bot config show --json -c "$1" {closed}'

    ran = subprocess.run(
        ["/bin/sh", "-c", command, sys.executable, str(config)], capture_output=True, check=False
    )

    assert (ran.returncode, ran.stderr) == (ExitCode.DONE, b"")


def test_a_file_of_ours_that_is_missing_is_a_bug() -> None:
    assert system_mistake(FileNotFoundError(ENOENT, strerror(ENOENT), "rules.yaml")) is None


def test_a_reader_who_goes_away_ends_it_without_a_word(config: Path) -> None:
    command = [sys.executable, "-m", "bot", "decisions", "-o", "jsonl", "-c", str(config)]
    reading, writing = os.pipe()
    os.close(reading)

    ran = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, timeout=150, check=False)
    os.close(writing)

    assert (ran.returncode, ran.stderr) == (BROKEN_PIPE, b"")


def test_verbose_tells_what_lies_beneath_an_error_and_where_the_command_looked(
    config: Path,
) -> None:
    missing = config.with_name("none.yaml")

    plain, verbose = call("orders", "-c", str(missing)), call("orders", "-vc", str(missing))

    assert (verbose.code, verbose.out) == (plain.code, plain.out) == (ExitCode.CONFIG, "")
    assert verbose.err.splitlines() == [
        *plain.err.splitlines(),
        f"  because of FileNotFoundError: [Errno {ENOENT}] {strerror(ENOENT)}: '{missing}'",
        f"  looked in the configuration {missing}",
    ]


def test_verbose_names_the_state_folder_in_which_no_bot_runs(config: Path) -> None:
    plain, verbose = call("status", "-c", str(config)), call("status", "-vc", str(config))

    assert verbose.err.removeprefix(plain.err).splitlines() == [
        f"  looked in the configuration {config}",
        f"  looked in the state folder {config.parent / 'state'}",
    ]


def test_verbose_adds_nothing_where_nothing_failed(config: Path) -> None:
    assert call("orders", "-vc", str(config)) == call("orders", "-c", str(config))


def test_what_lies_beneath_an_error_is_told_by_its_first_line_and_without_secrets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    failed, refused = RuntimeError("no feed"), OSError("postgresql://me:hunter2@db/x refused")
    failed.__cause__ = refused
    refused.__cause__ = ValueError('{"api_secret": "hunter2"}\n[parameters: (\'mine\',)]')

    show_beneath(failed, Invocation(verbose=True, hide=lambda text: text.replace("db", "***")))

    assert capsys.readouterr().err.splitlines() == [
        "  because of OSError: postgresql://me:***@***/x refused",
        '  because of ValueError: {"api_secret": ***',
    ]


def test_what_lies_beneath_an_error_is_not_told_twice_and_may_have_no_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    failed, refused = RuntimeError("no feed: refused"), OSError("refused")
    failed.__cause__ = refused
    refused.__cause__ = again = OSError("feed: refused")
    again.__cause__ = TimeoutError()

    show_beneath(failed, Invocation(verbose=True))

    assert capsys.readouterr().err.splitlines() == ["  because of TimeoutError"]
