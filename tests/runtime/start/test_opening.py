"""Where a standby makes no sense it is refused, and the refusal says what to change; a new journal
in the place of a lost one is told of.
"""

from pathlib import Path

import pytest

from bot.config.problems import OperatorMistake
from bot.config.settings.load import load_settings
from bot.journal.errors import LeaseHeld, LeaseLost
from bot.journal.writing.heads import FILE, OLDER, KeptHeads, append_line
from bot.runtime.start import opening
from bot.runtime.start.opening import begin_state, forgotten, keep_lease
from tests.engine.stage import START
from tests.story import once, write_project

URL = "postgresql://bot@127.0.0.1/journal"


def refusal(folder: Path, **settings: object) -> str:
    config = write_project(folder, scenario="quiet", strategies=[once()], **settings)  # type: ignore[arg-type]
    loaded = load_settings(config, environment={})
    with pytest.raises(OperatorMistake) as refused:
        begin_state(loaded, is_standby=True)
    assert not (loaded.state_dir / "last-run.json").exists()  # nothing has begun
    return str(refused.value)


def test_a_journal_in_a_file_has_no_standby(tmp_path: Path) -> None:
    said = refusal(tmp_path, broker={"base_url": "http://127.0.0.1:1"})

    assert "a standby needs a journal in PostgreSQL" in said
    assert "run without --standby" in said


def test_a_broker_inside_one_bot_has_no_standby(tmp_path: Path) -> None:
    said = refusal(tmp_path, journal_url=URL)

    assert "a standby needs a broker that both bots reach" in said
    assert "broker.base_url" in said


@pytest.mark.parametrize(
    ("files", "named"), [([FILE], FILE), ([OLDER, FILE], f"{OLDER} and {FILE}")]
)
def test_who_begins_anew_is_told_every_file_that_names_the_lost_journal(
    tmp_path: Path, files: list[str], named: str
) -> None:
    url = f"sqlite:///{tmp_path}/journal.db"
    for file in files:
        append_line(tmp_path / file, KeptHeads(START, "journal.db", 1, None, {}).line)

    [told] = forgotten(url, tmp_path)
    for file in files:
        (tmp_path / file).rename(tmp_path / f"{file}.away")

    assert f"to begin anew move {named} away too" in told
    assert forgotten(url, tmp_path) == ()


class Lock:
    """A lease's lock that is dropped once, and is another's at the first try to take it again."""

    def __init__(self) -> None:
        self.tries = 0
        self._beats = iter((True, False, False, True))

    async def beat(self) -> bool:
        if (is_locked := next(self._beats, None)) is None:
            raise LeaseLost(stored=2, ours=1)
        return is_locked

    def lock_again(self) -> None:
        self.tries += 1
        if self.tries == 1:
            raise LeaseHeld(None)


async def test_a_lock_that_is_gone_is_taken_again_and_the_lease_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(opening, "BEAT_S", 0)
    lock, lost = Lock(), list[str]()

    with pytest.raises(LeaseLost):
        await keep_lease(lock, lock, URL, lost.append)  # type: ignore[arg-type]

    assert (lock.tries, lost) == (2, [])
