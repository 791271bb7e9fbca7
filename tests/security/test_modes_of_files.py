"""What a run writes is for its owner alone: the journal and its side files, recordings, all."""

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from bot.config.private_files import replace_private
from bot.config.settings.load import load_settings
from bot.runtime.history.recording.recordings import OpenPart, Row
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunOptions
from tests.staging import QUIET
from tests.story import Shown, in_process, once, write_project

WAL = ("-wal", "-shm")


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    """With the umask of most machines: what is private is so by our own doing."""
    before = os.umask(0o022)
    yield
    os.umask(before)


class Looking(Shown):
    """A screen that looks at the modes of the files, each time that it is shown something."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.seen: dict[str, str] = {}

    def entry(self, _entry: object) -> None:
        self.look()

    def look(self) -> None:
        for path in self.folder.rglob("*"):
            mode = path.lstat().st_mode & 0o777
            self.seen[str(path.relative_to(self.folder))] = f"{mode:04o}"


async def test_every_file_of_a_run_is_private_while_it_runs_and_after(tmp_path: Path) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[once()], record=True)
    loaded = load_settings(config)
    looking = Looking(loaded.state_dir)

    await run_bot(loaded, RunOptions(run_for=timedelta(minutes=1)), looking, make=in_process)
    looking.look()

    open_to_others = {path: mode for path, mode in looking.seen.items() if mode[2:] != "00"}
    assert open_to_others == {}
    assert {"journal.db", "journal.db-wal", "journal.db-shm", "sandbox.jsonl"} <= set(looking.seen)
    assert any(path.startswith("recorded/date=") for path in looking.seen)


def test_the_side_files_of_a_recording_that_is_being_written_are_private(tmp_path: Path) -> None:
    part = OpenPart(tmp_path, 1)
    part.add([Row(1, 0, "kind", "event", "", "", "seal")])

    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    part.close(parquet=False)

    files = ["begun", "part-0001.db", *(f"part-0001.db{end}" for end in WAL)]
    assert modes == dict.fromkeys(files, 0o600)


def test_what_is_put_in_place_is_private_and_a_killed_process_is_in_nobodys_way(
    tmp_path: Path,
) -> None:
    beside = tmp_path / f".paper.json.{os.getpid()}.new"
    beside.write_text("of a process of our number")

    replace_private(tmp_path / "paper.json", b"{}")

    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"paper.json": 0o600}
    assert (tmp_path / "paper.json").read_bytes() == b"{}"


def test_what_cannot_be_put_in_place_leaves_what_was_there_alone(tmp_path: Path) -> None:
    (tmp_path / "paper.json").mkdir()

    with pytest.raises(IsADirectoryError):
        replace_private(tmp_path / "paper.json", b"{}")

    assert [path.name for path in tmp_path.iterdir()] == ["paper.json"]
