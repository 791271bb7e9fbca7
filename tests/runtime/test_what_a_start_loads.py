"""A bot holds in memory what it has a use for: what is heavy is loaded by those who need it."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

HEAVY = (
    *("numpy", "talib", "alembic", "rich", "pygments", "sqlalchemy.dialects.postgresql"),
    *("bot.protocol.values.stocks", "bot.protocol.values.earlier", "bot.protocol.values.news"),
)
START = """
import sys
import bot.cli.foreground, bot.runtime.run
from bot.runtime.journal_file import begin_journal, prepare_journal
url = sys.argv[1]
"""
MAKE_JOURNAL = (
    START
    + """
print(prepare_journal(url, begin_journal(url)))
print(begin_journal(url), prepare_journal(url))
"""
)
LOADED = f"print(*(name for name in {HEAVY} if name in sys.modules))\n"
BESIDE_A_THREAD = (
    START
    + """
import threading
told = threading.Event()
other = threading.Thread(target=told.wait)
other.start()
print(begin_journal(url), prepare_journal(url), "alembic" in sys.modules)
told.set()
other.join()
"""
)
WANT_BARS = (
    START
    + """
from datetime import timedelta
from bot.engine.bars import Bars
bars = Bars()
print("talib" in sys.modules)
bars.want("HPG", timedelta(minutes=1))
print("talib" in sys.modules)
"""
)
READ = """
import sys
import bot.journal.reader, bot.runtime.journal_file
print("bot.journal.batch" in sys.modules, "bot.journal.reader" in sys.modules)
"""
COMPLAIN = (
    START
    + """
from bot.journal.errors import Unreachable
try:
    prepare_journal(url, begin_journal(url))
except Unreachable as error:
    print(error)
"""
)


def told(script: str, folder: Path, *, file: str = "journal.db") -> list[str]:
    """What a new process says that runs this, for a journal in that folder."""
    done = subprocess.run(
        [sys.executable, "-c", script, f"sqlite:///{folder / file}"],
        capture_output=True,
        text=True,
        timeout=150,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_a_bot_that_has_made_its_journal_holds_nothing_that_it_has_no_use_for(
    tmp_path: Path,
) -> None:
    made, found, loaded = told(MAKE_JOURNAL + LOADED, tmp_path)

    assert made == "new"
    assert found == "None kept"
    assert loaded == ""


def test_a_process_with_threads_makes_its_journal_by_itself(tmp_path: Path) -> None:
    assert told(BESIDE_A_THREAD, tmp_path) == ["None new True"]


def test_a_journal_that_cannot_be_made_is_told_in_the_usual_words(tmp_path: Path) -> None:
    (tmp_path / "a-file").touch()

    (said,) = told(COMPLAIN, tmp_path, file="a-file/journal.db")

    assert said.startswith("can't reach ")
    assert "(Not a directory)" in said or "(File exists)" in said


def test_the_first_series_of_bars_brings_the_indicators_before_any_bar_closes(
    tmp_path: Path,
) -> None:
    assert told(WANT_BARS, tmp_path) == ["False", "True"]


def test_a_command_that_reads_a_journal_loads_nothing_that_writes_one(tmp_path: Path) -> None:
    assert told(READ, tmp_path) == ["False True"]
