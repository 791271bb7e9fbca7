"""Each thing that docs/security.md promises is shown by tests that are there."""

import re
import tomllib
from pathlib import Path

from tests.rows import every_row

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
ROWS = dict(re.findall(r"^\| (X\d+) \| .+ \| (.+?) \|$", PAGE, re.MULTILINE))
PROMISED = [f"X{number}" for number in (*range(1, 9), *range(13, 16), *range(18, 27))]
"""What is between is about a page for the browser and orders by chat, of which there are none."""
CLAIM = re.compile(r"^(?:async )?def test_\w+", re.MULTILINE)
UNSAFE = re.compile(r"# noqa:.*?\b(S\d+)")
HARMLESS = ("S101", "S311")
"""Assertions, and chance that is seeded and no secret: nonces come from `secrets` (X8)."""
KNOWN = {
    ("bot/cli/commands/service.py", "S603"),
    ("bot/drill/killing.py", "S603"),
    ("bot/journal/database/statements.py", "S608"),
}
"""Where the product does what the linter warns of; each says why beside it."""


def named(item: str) -> list[Path]:
    return [ROOT / each for each in re.findall(r"`([\w/.]+)`", ROWS[item])]


def test_every_item_has_its_row_in_order() -> None:
    assert [*ROWS] == PROMISED


@every_row("item", PROMISED)
def test_every_row_names_files_with_tests(item: str) -> None:
    files = [each for each in named(item) if each.suffix != ".toml"]
    found = [
        claim
        for each in files
        for path in ([each] if each.suffix else sorted(each.glob("test_*.py")))
        for claim in CLAIM.findall(path.read_text("utf-8"))
    ]

    assert all(each.exists() for each in named(item))
    assert files
    assert found


def test_the_linter_looks_for_what_is_unsafe_but_in_known_places() -> None:
    ruff = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["ruff"]["lint"]
    excused = {
        code
        for where, codes in ruff["per-file-ignores"].items()
        for code in codes
        if not where.startswith("tests/")
    }
    places = {
        (path.relative_to(ROOT).as_posix(), code)
        for path in (ROOT / "bot").rglob("*.py")
        for code in UNSAFE.findall(path.read_text("utf-8"))
    }

    assert "S" in ruff["select"]
    assert [code for code in (*ruff["ignore"], *excused) if re.match(r"S\d", code)] == [*HARMLESS]
    assert places == KNOWN
