"""At the close of a day what is too old is deleted, and one line says so."""

from datetime import timedelta
from pathlib import Path

import pytest

from bot.config.problems import OperatorMistake
from bot.config.settings.load import load_settings
from bot.config.settings.model import KeepSettings
from bot.domain.entry import Note
from bot.domain.message import Noted
from bot.journal.database.engines import file_of
from bot.journal.database.schema import migrate
from bot.journal.journal import Journal
from bot.journal.upkeep.copying import back_up, require_empty
from bot.journal.upkeep.verify import verify
from bot.journal.writing.heads import FILE
from bot.runtime.upkeep import Retention, copy_to, cuts
from tests.journal.facts import T0, after, but
from tests.journal.reading.test_folding import NO
from tests.story import once, write_project

DAY_S = 86_400.0


async def notes_of(url: str, keep: KeepSettings, *, days: int) -> list[str]:
    journal, told = Journal.open(url), list[Noted]()
    await journal.write([but(NO, at=after(day * DAY_S)) for day in range(days)])
    await Retention(journal, keep, told.append).at_close(after((days - 1) * DAY_S))
    await journal.close()
    assert verify(url).is_whole
    return [each.entry.text for each in told if isinstance(each.entry, Note)]


async def test_what_is_older_than_it_may_be_goes_and_is_told_once(sqlite_url: str) -> None:
    told = await notes_of(sqlite_url, KeepSettings(decisions=3), days=10)

    assert told == ["deleted by journal.keep: 6 rows of decisions"]


@pytest.mark.parametrize("days", [0, 30])
async def test_what_is_young_or_kept_for_ever_stays_in_silence(days: int, sqlite_url: str) -> None:
    assert await notes_of(sqlite_url, KeepSettings(decisions=days), days=10) == []


def test_each_table_has_days_of_its_own() -> None:
    keep = KeepSettings(decisions=1, order_results=2, account_snapshots=0, notes=4)

    assert cuts(keep, T0) == {
        "decisions": T0 - timedelta(days=1),
        "order_results": T0 - timedelta(days=2),
        "notes": T0 - timedelta(days=4),
    }


async def told_with(backups: Path, url: str) -> list[str]:
    journal, told = Journal.open(url), list[Noted]()
    await journal.write([but(NO, at=after(day * DAY_S)) for day in range(5)])
    if (backups / "whole.db").parent.is_dir():
        back_up(url, backups / "whole.db")
    await journal.write([but(NO, at=after(day * DAY_S)) for day in range(5, 10)])
    retention = Retention(journal, KeepSettings(decisions=3), told.append, backups)
    await retention.at_close(after(9 * DAY_S))
    await journal.close()
    return [each.entry.text for each in told if isinstance(each.entry, Note)]


async def test_with_a_folder_of_backups_only_what_is_in_one_of_them_goes(
    sqlite_url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()

    told = await told_with(folder, sqlite_url)

    rest = f"1 rows of decisions are due and stay: no backup in {folder} holds them. "
    assert told == [
        "deleted by journal.keep: 5 rows of decisions",
        f"{rest}Now and then: bot journal backup",
    ]


async def test_the_journal_in_the_folder_of_its_backups_is_none_of_them(
    sqlite_url: str, tmp_path: Path
) -> None:
    (tmp_path / "linked.db").symlink_to(file_of(sqlite_url))
    journal, told = Journal.open(sqlite_url), list[Noted]()
    await journal.write([but(NO, at=after(day * DAY_S)) for day in range(10)])

    retention = Retention(journal, KeepSettings(decisions=3), told.append, tmp_path)
    await retention.at_close(after(9 * DAY_S))
    await journal.close()

    [text] = [each.entry.text for each in told if isinstance(each.entry, Note)]
    assert text.startswith("6 rows of decisions are due and stay: no backup in")


async def test_a_folder_that_is_not_there_keeps_everything(sqlite_url: str, tmp_path: Path) -> None:
    [told] = await told_with(tmp_path / "gone", sqlite_url)

    assert told.startswith("old rows stay until the next close: ")
    assert "gone" in told


@pytest.mark.parametrize("is_new", [True, False])
async def test_a_copy_whose_heads_can_not_be_kept_is_not_made(
    tmp_path: Path, *, is_new: bool
) -> None:
    loaded = load_settings(write_project(tmp_path, scenario="quiet", strategies=[once()]))
    journal = Journal.open(loaded.journal_url)
    await journal.write([NO])
    await journal.close()
    target = f"sqlite:///{tmp_path / 'copy.db'}"
    if not is_new:
        migrate(target)
    (loaded.state_dir / FILE).mkdir()

    with pytest.raises(OperatorMistake, match=r"E-JNL-005 .*heads\.jsonl \(Is a directory\)"):
        copy_to(loaded, target, lambda _: None)

    assert file_of(target).exists() is not is_new
    if not is_new:
        require_empty(target)
