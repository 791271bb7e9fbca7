"""`bot docs` finds every page, in a checkout and in a wheel."""

import json
from pathlib import Path

import pytest

from bot.config.problems import ExitCode
from bot.config.shipped import shipped
from tests.cli.stage import call

ROOT = Path(__file__).resolve().parents[3]
PAGES = {path.stem: path for path in sorted((ROOT / "docs").glob("*.md"))}


def test_alone_it_lists_every_page_with_a_line() -> None:
    ran = call("docs")

    assert (ran.code, ran.err) == (ExitCode.DONE, "")
    assert [line.split()[0] for line in ran.out.splitlines()] == list(PAGES)
    assert "Paper mode" in ran.out


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_printed_as_it_was_written(name: str) -> None:
    ran = call("docs", name)

    assert (ran.code, ran.out) == (ExitCode.DONE, PAGES[name].read_text("utf-8"))


@pytest.mark.parametrize("name", ["docs/paper.md", "paper.md"])
def test_a_page_is_found_by_its_file_too(name: str) -> None:
    assert call("docs", name) == call("docs", "paper")


def test_a_page_that_is_not_there_is_said_with_a_suggestion() -> None:
    ran = call("docs", "jurnal")

    assert (ran.code, ran.out) == (ExitCode.USAGE, "")
    assert "no page is called 'jurnal'. Did you mean journal? Pages: accounts," in ran.err


def test_pages_as_json() -> None:
    listed = json.loads(call("docs", "--json").out)["pages"]
    page = json.loads(call("docs", "paper", "--json").out)

    assert [each["page"] for each in listed] == list(PAGES)
    assert page == {
        "page": "paper",
        "title": "Paper mode",
        "text": PAGES["paper"].read_text("utf-8"),
    }


def test_the_wheel_has_every_page_where_the_program_looks() -> None:
    wheel = pytest.importorskip("hatchling.builders.wheel", reason="the build tool is not there")
    builder = wheel.WheelBuilder(str(ROOT))

    shipped_files = {file.distribution_path for file in builder.recurse_included_files()}

    assert {f"bot/_shipped/docs/{name}.md" for name in PAGES} <= shipped_files
    assert "bot/_shipped/config/bot.yaml" in shipped_files
    assert shipped("docs").is_dir()
