"""A journal in the place of the one that earlier runs wrote is told of."""

from pathlib import Path

import pytest

from bot.journal.writing.heads import FILE, OLDER, KeptHeads, append_line
from bot.runtime.start.damage import damage_at_start, forgotten
from tests.engine.stage import START


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
