"""D4: a journal that is damaged, cut or older than the last run is noticed, and not traded on."""

import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from bot.config.problems import ExitCode, OperatorMistake
from bot.domain.entry import Note
from bot.journal.database import tables
from bot.journal.errors import JournalError
from bot.journal.upkeep.verify import GONE_ON_FROM, verify
from bot.runtime.worlds.environment import EnvironmentSpec
from tests.by_hand import tell_by_hand
from tests.faults.strikes import STRIKES, times
from tests.staging import QUIET
from tests.story import InProcessEnvironment, in_process, once, tell, write_project

PAGE = 4_096
FLIPPED = 24
"""Bytes in a row that are changed, somewhere in a page."""
EAGER = [once(), once("other", symbols=["SHS"], params={"price": 18_000})]
"""One that buys at once and one that rests, in each run anew."""
REFUSED, NOTICED = f"refused with {ExitCode.DATABASE}", "noticed, and nothing traded"
OF_HISTORY = "in the history alone, for verify to find"
"""A start reads all of what it goes on from, and of decisions and the like what is new."""
LOG = ("journal.db-wal", "journal.db-shm")


async def _first_run(folder: Path) -> Path:
    config = write_project(folder, scenario=QUIET, strategies=EAGER)
    await tell(config, minutes=2)
    return config


def _contents(file: Path) -> list[object]:
    """Everything that a query can see; what is wrong, where one can't."""
    try:
        with closing(sqlite3.connect(f"file:{file}?mode=ro&immutable=1", uri=True)) as journal:
            return list(journal.iterdump())
    except (sqlite3.DatabaseError, UnicodeDecodeError, OverflowError) as error:
        return [str(error)]


def _orders_in(state: Path) -> int:
    return (state / "sandbox.jsonl").read_text().count('"kind":"place"')


async def _start_on_it(config: Path) -> str:
    """Start on what is there; return how it was noticed, or what was done on it."""
    state = config.parent / "state"
    before, made = _orders_in(state), list[InProcessEnvironment]()

    def make(spec: EnvironmentSpec) -> InProcessEnvironment:
        made.append(in_process(spec))
        return made[-1]

    try:
        story = (await tell_by_hand(config, minutes=4, place_in=make)).story
    except OperatorMistake as mistake:
        for environment in made:
            environment._sandbox.close()
        assert _orders_in(state) == before
        return f"refused with {mistake.exit_code}"
    alerts = {note.numbers.get("alert") for note in story.shown.all(Note)}
    is_noticed, has_traded = "JOURNAL_DAMAGED" in alerts, _orders_in(state) > before
    return {(True, False): NOTICED, (False, True): "traded"}.get((is_noticed, has_traded), "both")


def _spoil(state: Path, whole: bytes, dice: Random) -> bool:
    """Change some bytes of a page; False if nothing that a query sees is another for it."""
    file, spoilt = state / "journal.db", bytearray(whole)
    page = dice.randrange(1, len(whole) // PAGE)
    at = page * PAGE + dice.choice((0, dice.randrange(PAGE - FLIPPED)))
    for each in range(at, at + FLIPPED):
        spoilt[each] ^= dice.randrange(1, 256)
    before = _contents(file)
    file.write_bytes(spoilt)
    return _contents(file) != before


def _is_history_alone(whole: Path, spoilt: Path) -> bool:
    """Return whether all that a start goes on from is as it was, and `verify` says what is not."""
    try:
        is_whole = verify(f"sqlite:///{spoilt}").is_whole
    except JournalError:
        is_whole = False
    return not is_whole and _gone_on_from(whole) == _gone_on_from(spoilt)


def _gone_on_from(file: Path) -> list[object]:
    with closing(sqlite3.connect(f"file:{file}?mode=ro&immutable=1", uri=True)) as journal:
        names = sorted({table.name for table in (*GONE_ON_FROM, *tables.SEALED)})
        return [
            journal.execute(f"select * from {name} order by rowid").fetchall() for name in names
        ]


async def test_on_a_whole_journal_it_trades(tmp_path: Path) -> None:
    config = await _first_run(tmp_path)

    assert await _start_on_it(config) == "traded"


@pytest.mark.long
async def test_flipped_bytes_are_noticed_at_the_start_and_nothing_is_traded_on_them(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    config = await _first_run(tmp_path / "story")
    shutil.copytree(tmp_path / "story" / "state", kept := tmp_path / "kept")
    whole = (kept / "journal.db").read_bytes()
    noticed, seed, state = Counter[str](), 0, tmp_path / "story" / "state"
    while noticed.total() < times("D4", 5):
        shutil.rmtree(state)
        shutil.copytree(kept, state)
        if _spoil(state, whole, Random(seed)):
            spoilt = Path(shutil.copy(state / "journal.db", tmp_path / "spoilt.db"))
            how = await _start_on_it(config)
            if how == "traded" and _is_history_alone(kept / "journal.db", spoilt):
                how = OF_HISTORY
            assert how in {REFUSED, NOTICED, OF_HISTORY}, f"seed {seed}: {how}"
            noticed[how] += 1
        seed += 1

    assert noticed[OF_HISTORY] * 4 < noticed.total()
    record_property(STRIKES, noticed.total())


@pytest.mark.one_strike
async def test_an_older_copy_and_one_without_its_log_are_noticed(tmp_path: Path) -> None:
    config = await _first_run(tmp_path)
    file, found = tmp_path / "state" / "journal.db", []
    older = file.read_bytes()
    with closing(sqlite3.connect(file)) as reader:  # so that the log is not taken into the file
        reader.execute("begin")
        reader.execute("select count(*) from orders").fetchone()
        await tell(config, minutes=4)
        without_log = file.read_bytes()
        assert (file.parent / LOG[0]).stat().st_size
    now = file.read_bytes()
    for copy in (older, without_log):
        for name in LOG:
            (file.parent / name).unlink(missing_ok=True)
        file.write_bytes(copy)
        found.append(await _start_on_it(config))
        file.write_bytes(now)

    assert found == [NOTICED, NOTICED]
