"""Counts how often each fault of the catalogue struck in a run, and prints a table at its end.

A case of a test struck once, a table of rows as often as it has rows; a test that strikes more
often says so itself (`record_property(STRIKES, n)`). With FAULT_STRIKES=all, as in a run of
everything, a fault that never struck fails the run. With FAULT_STRIKES=full a test whose row has
`asked` strikes as often as the failure catalogue asks, and a row that struck less often than that
fails the run: `FAULT_STRIKES=full pytest --timeout 0 …`. A case whose name begins with a fault
(`[T1 rst]`) counts for that one alone.
"""

import os
from collections import Counter
from collections.abc import Generator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from tests.rows import CHECKED

CATALOGUE: Final = Path(__file__).with_name("catalogue.yaml")
STRIKES: Final = "strikes"
WANTED: Final = "FAULT_STRIKES"
IN_FULL: Final = "full"
IN_A_LINE: Final = 12


@cache
def rows_of_catalogue() -> Mapping[str, Mapping[str, Any]]:
    """Return what the catalogue says of each fault."""
    rows: Mapping[str, Mapping[str, Any]] = YAML(typ="safe").load(CATALOGUE.read_text("utf-8"))
    return rows


def ids_of(node_id: str) -> list[str]:
    """Return the faults that a case shows: the one that it names, else all of its test."""
    name, _, case = node_id.removeprefix("tests/").partition("[")
    found = [each for each, row in rows_of_catalogue().items() if name in row.get("tests", ())]
    named = case.partition(" ")[0]
    return [named] if named in found else found


def times(fault: str, few: int) -> int:
    """Return how often a test is to strike: a few times, in full as often as the row asks."""
    return int(rows_of_catalogue()[fault]["asked"]) if is_in_full() else few


def is_in_full() -> bool:
    """Whether each fault is to strike as often as the failure catalogue asks."""
    return _wanted() == IN_FULL


def _wanted() -> str:
    return os.environ.get(WANTED, "")


class StrikeCounter:
    """Adds up the cases that have passed, of all workers of a run."""

    def __init__(self) -> None:
        self.struck: Counter[str] = Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note in a report how often a test struck; it goes from a worker to the controller."""
        report = yield
        if call.when == "call" and STRIKES not in dict(report.user_properties):
            checked = getattr(getattr(item, "function", None), CHECKED, 1)
            report.user_properties.append((STRIKES, checked))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count what a test has struck with, once it has passed."""
        if report.when == "call" and report.passed:
            strikes = dict(report.user_properties).get(STRIKES, 1)
            self.struck.update({each: int(str(strikes)) for each in ids_of(report.nodeid)})

    def never(self) -> list[str]:
        """Return the faults that have not struck although there is a test."""
        rows = rows_of_catalogue()
        return [each for each, row in rows.items() if row.get("tests") and not self.struck[each]]

    def lacking(self, wanted: str) -> list[str]:
        """Return what fails a run: the faults that struck too seldom for what is wanted of it."""
        if wanted == "all" and (never := self.never()):
            return [f"never struck: {', '.join(never)}"]
        asked = {each: int(row.get("asked", 0)) for each, row in rows_of_catalogue().items()}
        return [
            f"{each} struck {self.struck[each]:,} times, asked are {most:,}"
            for each, most in asked.items()
            if wanted == IN_FULL and 0 < self.struck[each] < most
        ]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run in which a fault struck too seldom."""
        if self.lacking(_wanted()) and not hasattr(session.config, "workerinput"):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table, where any fault has struck."""
        for line in lines_of(self.struck) if self.struck else ():
            terminalreporter.write_line(line)
        for line in self.lacking(_wanted()):
            terminalreporter.write_line(line, red=True)


def lines_of(struck: Counter[str]) -> list[str]:
    """Return the table: each fault of the catalogue and how often it struck."""
    cells = [f"{name:>3} {struck[name]:<5}" for name in rows_of_catalogue()]
    table = [cells[at : at + IN_A_LINE] for at in range(0, len(cells), IN_A_LINE)]
    return ["faults, and how often each struck:", *("  ".join(row).rstrip() for row in table)]
