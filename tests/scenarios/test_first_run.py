"""The first run in a folder that `bot init` has just written."""

from pathlib import Path

from bot.cli.main import run
from bot.domain.entry import Decision, Fill, Note, Verdict
from tests.scenarios.test_scripted import lines_of
from tests.story import lay_journal, tell

MINUTES = 50
"""Of market time; at the speed that is written, under a minute."""


async def test_the_first_run_of_a_new_folder_shows_life_and_nothing_scripted(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "mybot"
    run(["init", str(folder)])
    config = folder / "bot.yaml"
    written = config.read_text("utf-8")
    assert "speed: 60, scenario: market" in written
    assert "account: '.1'" in written, "normal is ambiguous where there is an account for routing"
    lay_journal(folder / "var" / "journal.db")
    config.write_text(written.replace("speed: 60", "speed: max"), "utf-8")

    story = await tell(config, minutes=MINUTES)

    quoted = {note.symbol for note in story.shown.all(Note) if note.kind == "QUOTE"}
    decided = [each for each in story.shown.all(Decision) if each.verdict is Verdict.PASSED]
    assert quoted == {"FPT", "HPG"}
    assert decided
    assert story.shown.all(Fill)
    assert story.shown.troubles == []
    assert not [line for line in lines_of(story) if "scripted" in line]
