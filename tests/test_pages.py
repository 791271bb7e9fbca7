"""What the pages and the README tell a person to type exists, and what they show as files loads."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from bot.cli.main import walk
from bot.config.problems import OperatorMistake
from bot.config.settings.load import load_settings
from bot.runtime.api import READS
from tests.cli.test_tree import assert_parses
from tests.rows import every_row

ROOT = Path(__file__).resolve().parents[1]
PAGES = {path.name: path.read_text("utf-8") for path in (ROOT / "docs").glob("*.md")}
TEXTS = {"README.md": (ROOT / "README.md").read_text("utf-8"), **PAGES}
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CALLED = re.compile(r"(?:^|[|(&;]|sudo -u \w+)\s*\$?\s*(bot [a-z].*)")
NAMES = {words for words, _ in walk()}
"""A command that is only named, without what it needs."""
REFUSED = {"bot otp 123456"}
COMMENT = re.compile(r"\s+[#>].*")


def commands_in(text: str) -> Iterator[str]:
    """Every call of `bot` in blocks of code and between back quotes."""
    blocks = "\n".join(block for kind, block in FENCED.findall(text) if kind in {"", "sh"})
    indented = [line for line in text.splitlines() if line.startswith("    ")]
    spans = re.findall(r"`([^`]+)`", FENCED.sub("", text))
    for line in (*blocks.splitlines(), *indented, *spans):
        words = COMMENT.sub("", " ".join(line.replace("\\|", "|").split()))
        if found := CALLED.search(words):
            yield found[1].removesuffix("&").strip()


def calls() -> list[tuple[str, str]]:
    return [(page, line) for page, text in TEXTS.items() for line in commands_in(text)]


def files_in(page: str) -> list[tuple[str, str]]:
    """The files that a page shows whole: their first line is a comment with their name."""
    blocks = [block for kind, block in FENCED.findall(PAGES[page]) if kind == "yaml"]
    named = [(re.match(r"# (\S+\.yaml)\n", block), block) for block in blocks]
    return [(found[1], block) for found, block in named if found]


@every_row(("page", "line"), calls())
def test_every_command_that_a_page_names_exists_and_parses(page: str, line: str) -> None:
    if line in REFUSED:
        with pytest.raises(click.UsageError):
            assert_parses(line)
    elif line not in NAMES:
        assert_parses(line)
    if read := re.match(r"bot api (\w+)", line):
        assert read[1] in {"list", *READS}


def test_the_commands_of_the_pages_are_found() -> None:
    found = {line for _, line in calls()}

    assert {"bot otp submit -", "bot run --dry-run", "bot halt"} <= found
    assert "bot otp -c /srv/vnbot/bot.yaml" in found


@pytest.mark.parametrize("number", range(2))
def test_the_configurations_of_the_way_to_live_load_with_their_secrets(
    tmp_path: Path, number: int
) -> None:
    shown = files_in("live.md")
    configuration = [text for name, text in shown if name == "bot.yaml"][number]
    [secrets] = [text for name, text in shown if name == "secrets.yaml"]
    (tmp_path / "bot.yaml").write_text(configuration, "utf-8")
    (tmp_path / "secrets.yaml").touch(0o600)
    (tmp_path / "secrets.yaml").write_text(secrets, "utf-8")
    with pytest.raises(OperatorMistake, match="can't be right"):  # the page leaves it open
        load_settings(tmp_path / "bot.yaml", environment={})

    (tmp_path / "secrets.yaml").write_text(secrets.replace("…", "from-the-broker"), "utf-8")
    loaded = load_settings(tmp_path / "bot.yaml", environment={})

    assert loaded.settings.mode == ("paper", "live")[number]
    assert loaded.settings.broker.api_key is not None


@pytest.mark.parametrize("page", ["journal.md", "upgrade.md"])
def test_who_restores_a_journal_keeps_the_heads_that_hold_the_start(page: str) -> None:
    """Without them a start on the same day sends the day's orders again."""
    text = " ".join(PAGES[page].split())
    moved = re.findall(r"[^.:]*`heads\.jsonl`[^:]*? away", text)

    assert all("Once it is accepted, and the bot stopped" in each for each in moved), moved
    assert "eave `heads.jsonl`" in text


def test_every_link_between_the_pages_leads_somewhere() -> None:
    links = [
        (page, link)
        for page, text in PAGES.items()
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", text)
    ]

    assert [(page, link) for page, link in links if not (ROOT / "docs" / link).exists()] == []
