"""Counts how often each fault of the catalogue struck in a run, and prints a table at its end.

A test says itself how often its fault struck (`record_property(STRIKES, n)`). One with the mark
`scripted` need not: its faults are rules of the sandbox, whose ledgers in `tmp_path` know; nor one
with the mark `one_strike`: each of its cases fails unless its fault has struck. Of all others only
the cases that have passed are counted. A table of rows has as many cases. A case whose name begins
with a fault (`[T1 rst]`) counts for that one alone.

With FAULT_COUNTS=FILE a run leaves its counts there. `make prove` ends with what `make test` and
the long run left, taken together, and fails for a fault that struck in neither:

    python -m tests.faults.strikes FILE…

With FAULT_STRIKES=full a test whose row has `asked` strikes as often as the failure catalogue asks,
and a row that struck less often than that fails the run, also one that never did though a test of
it passed: `FAULT_STRIKES=full pytest --timeout 0 …`. A row without a test in the run is not judged.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from bot.runtime.state_dir import LEDGER
from bot.sandbox.house.ledger import read_ledger
from tests.rows import CHECKED

CATALOGUE: Final = Path(__file__).with_name("catalogue.yaml")
STRIKES: Final = "strikes"
CASES: Final = "cases"
SCRIPTED, ONE_STRIKE = "scripted", "one_strike"
COUNTS: Final = "FAULT_COUNTS"
WANTED: Final = "FAULT_STRIKES"
IN_FULL: Final = "full"
IN_A_LINE: Final = 9


@cache
def rows_of_catalogue() -> Mapping[str, Mapping[str, Any]]:
    """Return what the catalogue says of each fault."""
    rows: Mapping[str, Mapping[str, Any]] = YAML(typ="safe").load(CATALOGUE.read_text("utf-8"))
    return rows


def ids_of(node_id: str) -> list[str]:
    """Return the faults that a case shows: the one that it names, else all of its test."""
    name, _, case = node_id.removeprefix("tests/").partition("[")
    found = [each for each, row in rows_of_catalogue().items() if name in row.get("tests", ())]
    named = case.rstrip("]").partition(" ")[0]
    return [named] if named in found else found


def times(fault: str, few: int) -> int:
    """Return how often a test is to strike: a few times, in full as often as the row asks."""
    return int(rows_of_catalogue()[fault]["asked"]) if is_in_full() else few


def is_in_full() -> bool:
    """Whether each fault is to strike as often as the failure catalogue asks."""
    return os.environ.get(WANTED) == IN_FULL


def strikes_of_rules(folder: Path) -> int:
    """Return how often rules of a sandbox struck, by all ledgers beneath a folder."""
    latest = dict[tuple[Path, str], int]()
    for file in folder.rglob(LEDGER):
        for line in read_ledger(file):
            if line["kind"] == "fault":
                key = file, str(line["rule"])
                latest[key] = max(latest.get(key, 0), int(str(line["struck"])))
    return sum(latest.values())


class StrikeCounter:
    """Adds up strikes and the cases that have passed, of all workers of a run."""

    def __init__(self) -> None:
        self.struck: Counter[str] = Counter()
        self.passed: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note in a report what a test counted; it goes from a worker to the controller."""
        report = yield
        if call.when == "call" and ids_of(item.nodeid):
            checked = getattr(getattr(item, "function", None), CHECKED, 1)
            report.user_properties.append((CASES, checked))
            if item.get_closest_marker(SCRIPTED):
                folder = item.funcargs["tmp_path"]  # type: ignore[attr-defined]
                report.user_properties.append((STRIKES, strikes_of_rules(folder)))
            elif item.get_closest_marker(ONE_STRIKE):
                report.user_properties.append((STRIKES, checked))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count what a test says, once it has passed."""
        ids, told = ids_of(report.nodeid), dict(report.user_properties)
        if report.skipped:
            self.skipped.update(ids)
        elif report.when == "call" and report.passed:
            self.struck.update({each: int(str(told.get(STRIKES, 0))) for each in ids})
            self.passed.update({each: int(str(told.get(CASES, 1))) for each in ids})

    def lacking(self) -> list[str]:
        """Return what fails a run in full: the faults that struck too seldom, or never in the
        tests of theirs that ran, unless this machine skipped others.
        """
        asked = {each: int(row.get("asked", 0)) for each, row in rows_of_catalogue().items()}
        return [
            f"{each} struck {self.struck[each]:,} times, asked are {most:,}"
            for each, most in asked.items()
            if is_in_full() and self.struck[each] < most
            if self.struck[each] or (each in self.passed and not self.skipped[each])
        ]

    def never(self) -> list[str]:
        """Return the faults that never struck, but for those whose tests this machine skipped."""
        rows = rows_of_catalogue()
        return [each for each in rows if not self.struck[each] and not self.skipped[each]]

    def write(self, file: Path) -> None:
        """Leave the counts in a file."""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(vars(self)), "utf-8")

    def add(self, file: Path) -> None:
        """Add the counts that a run has left."""
        for name, counts in json.loads(file.read_text("utf-8")).items():
            getattr(self, name).update(counts)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Leave the counts; fail a run in full in which a fault struck too seldom."""
        if hasattr(session.config, "workerinput"):
            return
        if file := os.environ.get(COUNTS):
            self.write(Path(file))
        if self.lacking():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table, where any case has passed."""
        for line in lines_of(self) if self.passed else ():
            terminalreporter.write_line(line)
        for line in self.lacking():
            terminalreporter.write_line(line, red=True)


def lines_of(counter: StrikeCounter) -> list[str]:
    """Return the table: each fault of the catalogue, its strikes and its cases."""
    cells = [
        f"{name:>3} {f'{counter.struck[name]}/{counter.passed[name]}':<9}"
        for name in rows_of_catalogue()
    ]
    table = [cells[at : at + IN_A_LINE] for at in range(0, len(cells), IN_A_LINE)]
    title = "faults, how often each struck / how many cases that show it passed:"
    return [title, *("  ".join(row).rstrip() for row in table)]


def main(names: Sequence[str]) -> int:
    """Take the counts of several runs together; fail if a fault struck in none of them."""
    if missing := [name for name in names if not Path(name).is_file()]:
        sys.stdout.write(f"faults are not judged: no run has left {', '.join(missing)}\n")
        return 0
    counter = StrikeCounter()
    for name in names:
        counter.add(Path(name))
    lines = lines_of(counter)
    if unseen := [each for each in counter.skipped if not counter.struck[each]]:
        lines.append(f"skipped on this machine: {', '.join(unseen)}")
    if never := counter.never():
        lines.append(f"never struck: {', '.join(never)}")
    sys.stdout.write("\n".join((*lines, "")))
    return 1 if never else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
