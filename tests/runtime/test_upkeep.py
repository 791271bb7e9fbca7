"""At the close of a day what is too old is deleted, and one line says so; what a start would hold
is neither pruned nor copied.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from bot.config.problems import OperatorMistake
from bot.config.settings.load import Loaded, load_settings
from bot.config.settings.model import KeepSettings
from bot.domain.entry import Entry, Note
from bot.domain.hours import Hours
from bot.domain.message import Noted
from bot.journal.database.engines import file_of
from bot.journal.database.schema import migrate
from bot.journal.journal import Journal
from bot.journal.upkeep.copying import back_up, require_empty
from bot.journal.upkeep.verify import verify
from bot.journal.writing.heads import FILE
from bot.runtime.upkeep import Retention, copy_to, cuts, prune_alone
from tests.journal.facts import T0, after, but
from tests.journal.reading.test_folding import NO
from tests.runtime.test_damage import ACCEPTED, FOUND, Place
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


@pytest.mark.parametrize(
    ("opens", "before", "deleted"),
    [
        (after(9 * DAY_S + 121), [], 6),
        (after(9 * DAY_S + 120), [], 0),
        (after(9 * DAY_S), [], 0),
        (None, [], 6),
        (None, [FOUND], 0),
    ],
)
async def test_a_start_makes_up_for_a_close_before_the_opening_of_an_undoubted_journal(
    opens: datetime | None, before: list[Entry], deleted: int, sqlite_url: str
) -> None:
    journal, told = Journal.open(sqlite_url), list[Noted]()
    await journal.write([*before, *(but(NO, at=after(day * DAY_S)) for day in range(10))])
    hours = Hours(opens, opens + timedelta(hours=6)) if opens is not None else None

    await Retention(journal, KeepSettings(decisions=3), told.append).at_start(
        after(9 * DAY_S), hours
    )
    await journal.close()

    text = f"deleted by journal.keep: {deleted} rows of decisions"
    assert [each.entry.text for each in told if isinstance(each.entry, Note)] == [text] * (
        deleted > 0
    )


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
    (loaded.state_dir / FILE).symlink_to(tmp_path / "no such folder" / FILE)

    with pytest.raises(OperatorMistake, match=r"E-JNL-005 .*heads\.jsonl \(Too many levels of"):
        copy_to(loaded, target, lambda _: None)

    assert file_of(target).exists() is not is_new
    if not is_new:
        require_empty(target)


async def pruned(loaded: Loaded) -> None:
    await prune_alone(loaded, {"decisions": T0}, "1", pytest.fail)


async def copied(loaded: Loaded) -> None:
    copy_to(loaded, f"sqlite:///{loaded.base_dir / 'target.db'}", lambda _: None)


UPKEEP = pytest.mark.parametrize("work", [pruned, copied])
Work = Callable[[Loaded], Awaitable[None]]


async def place_of_an_older_copy(folder: Path, name: str) -> Place:
    """Return a place whose journal is an older copy of the one that ran last."""
    place = Place(folder)
    await place.run()
    place.copy("older")
    await place.run(Note(T0, "ALERT", "later"))
    place.move("journal", "right")
    place.move("older", name)
    url = f"sqlite:///{place.state / name}.db"
    place.loaded = replace(place.loaded, journal_url=url)
    return place


@UPKEEP
@pytest.mark.parametrize("name", ["journal", "backup"])
async def test_an_older_copy_is_held_whatever_upkeep_is_tried_on_it(
    tmp_path: Path, name: str, work: Work
) -> None:
    place = await place_of_an_older_copy(tmp_path, name)
    heads = (place.state / FILE).read_bytes()

    with pytest.raises(OperatorMistake, match=r"E-JNL-002 nothing was .* accepted it: bot reconc"):
        await work(place.loaded)

    assert (place.state / FILE).read_bytes() == heads
    assert not (tmp_path / "target.db").exists()
    assert await place.run()


@UPKEEP
async def test_what_a_start_found_stands_for_upkeep_too_where_the_heads_are_gone(
    tmp_path: Path, work: Work
) -> None:
    place = await place_of_an_older_copy(tmp_path, "journal")
    await place.run()
    (place.state / FILE).unlink()

    with pytest.raises(OperatorMistake, match="an earlier start found it damaged, or older, and"):
        await work(place.loaded)

    assert not (place.state / FILE).exists()


@UPKEEP
async def test_no_upkeep_beside_heads_that_can_not_be_read(tmp_path: Path, work: Work) -> None:
    place = Place(tmp_path)
    await place.run()
    (place.state / FILE).write_bytes(bytes(400))

    with pytest.raises(OperatorMistake, match=r"E-JNL-002 .*whether it is an older copy is not k"):
        await work(place.loaded)


@UPKEEP
@pytest.mark.parametrize("name", ["journal", "backup"])
async def test_a_journal_that_a_person_accepted_is_kept_up_like_any_other(
    tmp_path: Path, name: str, work: Work
) -> None:
    place = await place_of_an_older_copy(tmp_path, name)
    await place.run()
    await place.run(ACCEPTED)

    await work(place.loaded)

    assert await place.run() == ()


async def test_a_finding_whose_run_ended_before_it_was_stored_is_found_again(
    tmp_path: Path,
) -> None:
    place = await place_of_an_older_copy(tmp_path, "journal")
    heads = (place.state / FILE).read_bytes()

    early = Note(T0, "ALERT", "early")
    found = [await place.run(early, forgets=True), await place.run(early, forgets=True)]

    assert all(found)
    assert (place.state / FILE).read_bytes() == heads
