"""The page of what covers each path is what the code says, and it leaves no path out."""

from bot.protocol.endpoints import ENDPOINTS
from bot.runtime.api import READS
from tests.conformance.coverage import PAGE, WRITES, assertions, coverage_markdown


def test_the_page_is_what_the_tables_say() -> None:
    assert PAGE.read_text("utf-8") == coverage_markdown()


def test_every_path_has_a_line_and_every_read_its_assertions() -> None:
    lines = [line for line in coverage_markdown().splitlines() if line.startswith("| `")]

    assert len(lines) == len(ENDPOINTS) == len(READS) + len(WRITES)
    assert {name for name in READS if assertions()[name] < 3} == set()
