"""A bot holds in memory what it has a use for: whoever needs something heavy loads it."""

import subprocess
import sys
from pathlib import Path

import pytest

from bot.config.shipped import DEMO, shipped

pytestmark = pytest.mark.process

HEAVY = (
    *("numpy", "talib", "alembic", "rich", "pygments", "sqlalchemy.dialects.postgresql"),
    *("bot.protocol.values.stocks", "bot.protocol.values.earlier", "bot.protocol.values.news"),
)
START = """
import os, sys
import bot.cli.foreground, bot.runtime.run
from bot.runtime.journal_file import begin_journal, prepare_journal
folder, *scripts = sys.argv[1:]
for number, script in enumerate(scripts):
    url = f"sqlite:///{folder}/{number}/journal.db"
    if os.fork() == 0:
        exec(script, globals())
        sys.exit()
    if os.wait()[1]:
        sys.exit(f"this failed: {script}")
"""
"""Imports what a start does, and goes on from there once for each script: an import takes long."""
MAKE_JOURNAL = f"""
print(prepare_journal(url, begin_journal(url)))
print(begin_journal(url), prepare_journal(url))
print(*(name for name in {HEAVY} if name in sys.modules))
"""
BESIDE_A_THREAD = """
import threading
told = threading.Event()
other = threading.Thread(target=told.wait)
other.start()
print(begin_journal(url), prepare_journal(url), "alembic" in sys.modules)
told.set()
other.join()
"""
COMPLAIN = """
from bot.journal.errors import Unreachable
try:
    prepare_journal(url, begin_journal(url))
except Unreachable as error:
    print(error)
"""
WANT_BARS = """
from datetime import timedelta
from bot.engine.bars import Bars
bars = Bars()
print("talib" in sys.modules)
bars.want("HPG", timedelta(minutes=1))
print("talib" in sys.modules)
"""
READ = """
import sys
import bot.journal.reading.reader, bot.runtime.journal_file
print("bot.journal.writing.batch" in sys.modules, "bot.journal.reading.reader" in sys.modules)
"""


FIRST_RUN = """
import sys
from bot.__main__ import begin
folder, *sys.argv[1:] = sys.argv[1:]
sys.argv += ["--state-dir", folder, "demo", "-q", "--for", "2m", "--speed", "max"]
try:
    begin()
except SystemExit as ended:
    print(ended.code, "alembic" in sys.modules, "bot.journal.writing.thread" in sys.modules)
"""
LOOK = """
import sys
from bot.__main__ import begin
sys.argv[1:] = ["--state-dir", sys.argv[1], "-c", sys.argv[2], "status"]
try:
    begin()
except SystemExit as ended:
    print(ended.code, [name for name in ("pydantic", "sqlalchemy") if name in sys.modules])
"""
GLANCE = """
import sys
from bot.__main__ import begin
sys.stderr = sys.stdout
try:
    begin()
except SystemExit as ended:
    heavy = ("pydantic", "sqlalchemy", "httpx", "ruamel.yaml")
    print(ended.code, [name for name in heavy if name in sys.modules])
"""


def told(script: str, *arguments: object) -> list[str]:
    """What a new process that runs this prints."""
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=150,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("words", "code"), [(["run", "--help"], 0), (["status"], 10), ([], 0), (["--help"], 0)]
)
def test_a_help_page_and_a_status_where_no_bot_has_run_load_next_to_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))

    *_, last = told(GLANCE, *words)

    assert last == f"{code} []"


@pytest.mark.long
def test_a_start_holds_nothing_that_it_has_no_use_for_until_it_has(tmp_path: Path) -> None:
    for number in (0, 1, 3):
        (tmp_path / str(number)).mkdir()
    (tmp_path / "2").touch()  # where a journal's folder should be

    scripts = MAKE_JOURNAL, BESIDE_A_THREAD, COMPLAIN, WANT_BARS
    made, found, loaded, beside, said, *bars = told(START, tmp_path, *scripts)

    assert (made, found, loaded) == ("new", "None kept", "")
    assert beside == "None new True", "a process with threads makes its journal by itself"
    assert said.startswith("can't reach ")
    assert "(Not a directory)" in said or "(File exists)" in said
    assert bars == ["False", "True"], "the first series brings the indicators before any bar closes"


def test_a_command_that_reads_a_journal_loads_nothing_that_writes_one() -> None:
    assert told(READ) == ["False True"]


@pytest.mark.long
def test_a_first_run_loads_no_migrations_and_a_look_no_settings(
    tmp_path: Path,
) -> None:
    *_, last = told(FIRST_RUN, tmp_path / "state")

    assert last == "0 False True"
    assert (tmp_path / "state" / "journal.db").exists()

    stopped, ended, looked = subprocess.run(
        [sys.executable, "-c", LOOK, tmp_path / "state", shipped(DEMO)],
        capture_output=True,
        text=True,
        timeout=150,
        check=True,
    ).stdout.splitlines()

    assert stopped == "STOPPED  demo (sandbox)"
    assert ended.startswith("last run    began 2026-11-19 ")
    assert looked == "10 []", "what the last run said of its configuration spares loading it"
