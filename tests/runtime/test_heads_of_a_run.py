"""A run keeps the heads of its journal beside it, and trades on where it can't."""

from pathlib import Path

from bot.domain.entry import Fill
from bot.journal.upkeep.verify import VerifyReport, verify
from bot.journal.writing.heads import FILE, read_heads_file
from tests.staging import QUIET
from tests.story import Story, once, tell, write_project


def _verified(story: Story) -> VerifyReport:
    url = story.loaded.journal_url
    return verify(url, read_heads_file(story.loaded.state_dir, url).kept)


async def test_a_run_keeps_its_heads_and_the_next_goes_on_from_them(tmp_path: Path) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[once()])
    first = await tell(config, minutes=2)
    after_first = _verified(first)
    second = await tell(config, minutes=1)

    lines = read_heads_file(second.loaded.state_dir, second.loaded.journal_url).kept
    assert after_first.is_whole
    assert _verified(second).is_whole
    assert sorted({line.run for line in lines if line.is_last}) == [1, 2]
    assert second.shown.troubles == []


async def test_heads_that_can_not_be_kept_are_told_once_and_trading_goes_on(tmp_path: Path) -> None:
    config = write_project(tmp_path, scenario=QUIET, strategies=[once()])
    (tmp_path / "state" / FILE).symlink_to(tmp_path / "no such folder" / FILE)

    story = await tell(config, minutes=2)

    [trouble] = story.shown.troubles
    assert trouble.startswith("the heads of the journal can't be kept in ")
    assert len(story.shown.all(Fill)) == 1
