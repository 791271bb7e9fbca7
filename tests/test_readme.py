"""The README opens with the two commands, and they are what the Makefile and CI run."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")
LINES_BEFORE_THE_COMMANDS = 3


def first_block() -> str:
    block = re.search(r"^```sh\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    assert block is not None
    return block[1]


def test_the_readme_opens_with_two_commands() -> None:
    commands = [line.split("#")[0].strip() for line in first_block().splitlines()]

    assert commands == ["make demo", "make test"]


def test_only_three_lines_stand_above_the_commands() -> None:
    title, *above = README.split("```sh")[0].splitlines()

    assert title == "# vnbot"
    assert len([line for line in above if line.strip()]) == LINES_BEFORE_THE_COMMANDS


def test_no_other_block_of_commands_stands_before_the_first_section() -> None:
    opening = README.split("\n## ")[0]

    assert opening.count("```") == 2


@pytest.mark.parametrize("target", ["demo", "test"])
def test_the_makefile_knows_the_command(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)


def test_every_link_of_the_readme_leads_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README)

    assert [link for link in links if not (ROOT / link).exists()] == []
