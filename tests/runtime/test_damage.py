"""A journal in the place of the one that earlier runs wrote is told of."""

import os
import shutil
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest

from bot.config.settings.load import load_settings
from bot.domain.entry import Note, RunState, StateChanged
from bot.domain.recovery import UNCHECKED
from bot.journal.writing.emergency import EmergencyJournal
from bot.journal.writing.heads import DAMAGE, FILE, OLDER, KeptHeads, append_line, read_heads_file
from bot.runtime import damage
from bot.runtime.control.server import ControlServer
from bot.runtime.damage import check_time_s, check_words, damage_at_start, forgotten
from bot.runtime.emergency_file import take_over
from bot.runtime.journal_file import answer
from bot.runtime.run_controls import RunOptions
from bot.runtime.start.opening import Opened, open_journal
from bot.runtime.supervisor import Supervisor
from tests.engine.stage import START
from tests.story import Shown, write_project


@pytest.mark.parametrize("files", [[FILE], [OLDER, FILE]])
def test_who_begins_anew_is_not_told_to_remove_what_holds_the_start(
    tmp_path: Path, files: list[str]
) -> None:
    """Acceptance ends that; the day's orders of the lost journal would be sent again."""
    url = f"sqlite:///{tmp_path}/journal.db"
    for file in files:
        append_line(tmp_path / file, KeptHeads(START, "journal.db", 1, None, {}).line)

    [told] = forgotten(url, tmp_path)
    for file in files:
        (tmp_path / file).rename(tmp_path / f"{file}.away")

    assert told.endswith("not known any more. If you have it, stop the bot and put it back")
    assert forgotten(url, tmp_path) == ()


@pytest.mark.parametrize("file", [FILE, OLDER])
def test_a_new_journal_beside_heads_that_cannot_be_read_is_not_taken_for_the_first(
    tmp_path: Path, file: str
) -> None:
    (tmp_path / file).mkdir()

    [told] = forgotten(f"sqlite:///{tmp_path}/journal.db", tmp_path)

    assert told == (
        "it is new, and whether one that was here is gone is not known (the heads in "
        f"{tmp_path} can't be read: Is a directory)"
    )


@pytest.mark.parametrize("file", [FILE, OLDER])
async def test_a_journal_beside_heads_that_cannot_be_read_is_not_taken_for_the_newest(
    tmp_path: Path, sqlite_url: str, file: str
) -> None:
    (tmp_path / file).mkdir()

    [told] = await damage_at_start(sqlite_url, tmp_path, 1)

    assert told == (
        f"whether it is an older copy is not known (the heads in {tmp_path} can't be read: Is a "
        "directory)"
    )


@pytest.mark.parametrize("content", [b'{"at":garbage\n', b"\0" * 400, b"my notes\n"])
async def test_heads_of_which_no_line_can_be_read_do_not_count_as_none(
    tmp_path: Path, sqlite_url: str, content: bytes
) -> None:
    (tmp_path / FILE).write_bytes(content)

    told = (*await damage_at_start(sqlite_url, tmp_path, 1), *forgotten(sqlite_url, tmp_path))

    why = f"is not known (the heads in {tmp_path} can't be read: no line of them is whole)"
    assert told == (
        f"whether it is an older copy {why}",
        f"it is new, and whether one that was here is gone {why}",
    )


@pytest.mark.parametrize("content", [b"", b'{"at":"2026-11-19T02:'])
async def test_a_kill_in_the_first_moment_of_the_heads_holds_no_start(
    tmp_path: Path, sqlite_url: str, content: bytes
) -> None:
    (tmp_path / FILE).write_bytes(content)

    assert await damage_at_start(sqlite_url, tmp_path, 1) == ()
    assert forgotten(sqlite_url, tmp_path) == ()


@pytest.mark.parametrize(("size", "seconds"), [(0, 30), (4_000_000_000, 230)])
def test_a_start_checks_a_large_journal_as_long_as_a_slow_disk_takes_to_read_it(
    tmp_path: Path, size: int, seconds: float
) -> None:
    (tmp_path / "journal.db").touch()
    os.truncate(tmp_path / "journal.db", size)  # takes no space

    assert check_time_s(f"sqlite:///{tmp_path}/journal.db") == seconds
    assert check_time_s("postgresql://localhost/vnbot") == 30
    told = f"all 4.0 GB of it are checked, for {seconds} s at most" if size else ""
    assert check_words(f"sqlite:///{tmp_path}/journal.db") == told
    assert check_words("postgresql://localhost/vnbot") == ""


async def test_a_check_that_is_not_done_in_time_says_so(tmp_path: Path, sqlite_url: str) -> None:
    usual, damage.CHECK_S = damage.CHECK_S, 0  # type: ignore[misc]
    try:
        found = await damage_at_start(sqlite_url, tmp_path, 1)
    finally:
        damage.CHECK_S = usual  # type: ignore[misc]

    assert found == ("it could not be checked within 0 s",)
    assert found[0].startswith(UNCHECKED)


FOUND = StateChanged(START, RunState.RUNNING, RunState.HALTED, "found", "engine", scope=DAMAGE)
ACCEPTED = StateChanged(
    START, RunState.HALTED, RunState.RUNNING, "compared", "operator", scope=DAMAGE
)


class Place:
    """A state directory whose journal a person may take away, copy and put back."""

    def __init__(self, folder: Path) -> None:
        self.loaded = load_settings(
            write_project(folder, scenario="quiet", strategies=[]), environment={}
        )
        self.state = self.loaded.state_dir
        self.rows = list[tuple[str, str]]()
        self.troubles = list[str]()

    async def run(
        self, *entries: Note | StateChanged, beside: bool = False, forgets: bool = False
    ) -> tuple[str, ...]:
        """Make a run as a start begins it, which writes these entries (by way of an emergency
        journal if they are `beside`); return the damage that it has found. What an earlier run has
        left in an emergency journal is taken over. One that `forgets` ends before it has stored the
        damage.
        """
        shown = Shown()
        self.rows, self.troubles = shown.rows, shown.troubles
        async with AsyncExitStack() as stack:
            opened = await open_journal(
                self.loaded,
                ControlServer(self.state, {}, {}),
                shown,
                Supervisor(),
                stack,
                {},
                child=None,
                options=RunOptions(),
                lose=shown.troubles.append,
                people=lambda _who, _why: None,
            )
            assert isinstance(opened, Opened)
            journal = opened.journal
            ask = partial(answer, self.loaded.journal_url)
            await take_over(journal, EmergencyJournal(self.state), ask, opened.damage)
            facts = {"mode": "sandbox", "version": "1", "config_sha256": ""}
            run_id = await journal.start_run(at=START, **facts)
            if opened.damage and not forgets:
                await journal.write([FOUND])
            await (journal.take_over(entries) if beside else journal.write(entries))
            await journal.end_run(run_id, "stopped", at=START)
        return opened.damage

    def move(self, source: str, target: str) -> None:
        for file in self.state.glob(f"{source}.db*"):
            file.rename(self.state / file.name.replace(source, target))

    async def take_away(self, instead: str) -> None:
        """Make two runs, and leave their journal as `right`; in its place is an older copy, or none
        and the next run makes a new one.
        """
        await self.run()
        self.copy("older")
        await self.run(Note(START, "ALERT", "later"))
        self.move("journal", "right")
        if instead == "an older copy":
            self.move("older", "journal")

    def copy(self, target: str) -> None:
        for file in self.state.glob("journal.db*"):
            shutil.copy(file, self.state / file.name.replace("journal", target))


async def test_a_start_that_checks_a_large_journal_says_so_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    await place.run()
    usual = [name for name, _ in place.rows]
    monkeypatch.setattr(damage, "LARGE_BYTES", 1)

    await place.run()

    assert usual == ["journal"]
    assert place.rows[0] == ("journal", "all 0.0 GB of it are checked, for 30 s at most")
    assert [name for name, _ in place.rows] == ["journal", "journal"]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("instead", ["an older copy", "a new one"])
async def test_the_right_journal_is_whole_when_it_is_put_back(place: Place, instead: str) -> None:
    await place.take_away(instead)
    found = [await place.run(), await place.run()]
    place.move("journal", "wrong")
    place.move("right", "journal")

    at_last = await place.run()

    assert all(found)
    assert at_last == ()


@pytest.mark.parametrize("is_beside", [False, True])
@pytest.mark.parametrize("instead", ["an older copy", "a new one"])
async def test_a_journal_that_a_person_accepts_has_its_heads_kept_again(
    place: Place, instead: str, is_beside: bool
) -> None:
    await place.take_away(instead)
    await place.run()
    await place.run(ACCEPTED, beside=is_beside)
    place.copy("copy")

    on_it = [await place.run(Note(START, "ALERT", "later still")), await place.run()]
    place.move("journal", "newest")
    place.move("copy", "journal")
    on_its_older_copy = await place.run()

    assert on_it == [(), ()]
    assert on_its_older_copy


async def test_a_journal_in_question_keeps_no_heads_either_where_none_are_beside_it_any_more(
    place: Place,
) -> None:
    await place.run(FOUND)
    (place.state / FILE).unlink()

    await place.run()

    assert not (place.state / FILE).exists()


async def test_an_acceptance_that_only_the_emergency_journal_has_lets_heads_be_kept(
    place: Place,
) -> None:
    await place.run()
    await place.run(FOUND)  # it could not be checked in time
    EmergencyJournal(place.state).keep([ACCEPTED])
    place.copy("copy")

    on_it = await place.run(Note(START, "ALERT", "later"))
    place.move("journal", "newest")
    place.move("copy", "journal")

    assert on_it == ()
    assert await place.run()


@pytest.mark.parametrize("file", [FILE, OLDER])
@pytest.mark.parametrize("content", [b"\0" * 400, b"my notes\n", None])
async def test_heads_that_cannot_be_read_are_moved_aside_once_that_is_accepted(
    place: Place, file: str, content: bytes | None
) -> None:
    await place.run()
    (place.state / FILE).unlink()
    if content is None:
        (place.state / file).mkdir()
    else:
        (place.state / file).write_bytes(content)
    found = [await place.run(), await place.run()]
    untouched = (place.state / file).exists()

    await place.run(ACCEPTED)

    aside = place.state / f"{file}.unreadable"
    assert all(found)
    assert untouched
    assert f"{file} could not be read: it is {aside} now, and a new one is begun" in place.troubles
    assert aside.is_dir() if content is None else aside.read_bytes() == content
    assert await place.run() == ()
    assert read_heads_file(place.state, place.loaded.journal_url).newest
    assert place.troubles == []


async def test_heads_that_can_be_read_stay_where_they_are_when_an_older_copy_is_accepted(
    place: Place,
) -> None:
    await place.run(FOUND)
    (place.state / FILE).rename(place.state / OLDER)
    older = (place.state / OLDER).read_bytes()

    await place.run(ACCEPTED)

    assert (place.state / OLDER).read_bytes() == older
    assert list(place.state.glob("*.unreadable")) == []
