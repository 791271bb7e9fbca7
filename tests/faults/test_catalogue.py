"""Every id of the failure catalogue has a test, or says what is open and why."""

import json
import re
from functools import cache
from itertools import takewhile
from pathlib import Path

import pytest

from tests.faults.strikes import (
    IN_FULL,
    WANTED,
    StrikeCounter,
    ids_of,
    lines_of,
    main,
    rows_of_catalogue,
    strikes_of_rules,
)
from tests.rows import every_row

HERE = Path(__file__).parent
ROWS = rows_of_catalogue()
IN_EACH = {"T": 14, "S": 17, "A": 4, "C": 4, "P": 9, "D": 7, "M": 3, "V": 2, "O": 3}
FIELDS = {"tests", "open", "asked", "wanted", "by", "no_story"}
NAMED = {name for row in ROWS.values() for name in row.get("tests", ())}


@cache
def _text(path: str) -> str:
    return (HERE.parent / path).read_text("utf-8")


def test_every_id_is_there_with_a_test_or_a_reason() -> None:
    ids = [f"{letter}{number + 1}" for letter, count in IN_EACH.items() for number in range(count)]

    assert list(ROWS) == ids
    assert [key for key, row in ROWS.items() if not row.get("tests") and not row.get("open")] == []
    assert all(
        set(row) <= {"tests", "open", "asked", "wanted", "by", "no_story"} for row in ROWS.values()
    )


def test_a_count_that_is_reached_elsewhere_says_by_which_command() -> None:
    elsewhere = {name: row for name, row in ROWS.items() if "wanted" in row or "by" in row}

    assert elsewhere
    for name, row in elsewhere.items():
        assert "asked" not in row, name
        assert row["wanted"], name
        for module in re.findall(r"-m ([a-z0-9_.]+)", row["by"]):
            assert (HERE.parents[1] / f"{module.replace('.', '/')}.py").is_file(), name


@every_row("name", ROWS)
def test_a_module_of_the_name_of_an_id_has_a_test_of_it(name: str) -> None:
    def is_named(test: str) -> bool:
        ids = takewhile(ROWS.__contains__, Path(test).name.upper().split("_")[1:])
        return test.startswith("faults/test_") and name in ids

    assert any(map(is_named, ROWS[name]["tests"]))


@every_row("name", sorted(NAMED))
def test_the_tests_that_are_named_are_there(name: str) -> None:
    path, _, test = name.partition("::")

    assert f"def {test}(" in _text(path)


def test_a_case_is_counted_for_the_fault_that_it_names_or_for_all_that_its_test_shows() -> None:
    places = "tests/faults/test_t1_t2_t5_t7_t12_s1_s2_s3_places.py::test_one_post_and_the_truth"
    storms = "tests/simulation/test_storms.py::test_no_order_is_lost_and_none_is_doubled"

    assert ids_of(f"{places}[T1 rst]") == ["T1"]
    assert ids_of(f"{places}[T12 taken]") == ["T12"]
    assert ids_of(f"{places}[T12]") == ["T12"]
    assert ids_of(f"{storms}[0]") == ids_of(storms) == ["T1", "T4"]
    assert ids_of("tests/test_rows.py::test_none_of_the_catalogue") == []


def test_the_table_has_strikes_and_cases_of_each_fault() -> None:
    counter = StrikeCounter()
    counter.passed.update(dict.fromkeys(ROWS, 5))
    counter.struck.update({name: 3 for name in ROWS if name != "S15"})

    told = "\n".join(lines_of(counter))

    assert "S14 3/5" in told
    assert "S15 0/5" in told
    assert all(f"{name} " in told for name in ROWS)


def test_a_run_in_full_fails_for_a_row_whose_test_ran_and_that_struck_less_often_than_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counter = StrikeCounter()
    counter.struck.update({name: int(row.get("asked", 3)) for name, row in ROWS.items()})
    monkeypatch.setenv(WANTED, IN_FULL)
    assert counter.lacking() == []

    del counter.struck["V2"], counter.struck["S15"], counter.struck["S12"]
    counter.passed["S12"] = 5
    counter.struck["S11"] = 999

    assert counter.lacking() == [
        "S11 struck 999 times, asked are 1,000",
        "S12 struck 0 times, asked are 2,400",
    ]
    counter.skipped["S12"] = 1
    assert counter.lacking() == ["S11 struck 999 times, asked are 1,000"]
    monkeypatch.delenv(WANTED)
    assert counter.lacking() == []


def test_rules_struck_as_often_as_the_last_word_of_each_ledger_says(tmp_path: Path) -> None:
    told = {"one": [(0, 1), (1, 1), (0, 4)], "other": [(0, 2)]}
    for name, strikes in told.items():
        lines = [{"kind": "fault", "rule": rule, "struck": struck} for rule, struck in strikes]
        (tmp_path / name).mkdir()
        text = "".join(json.dumps(line) + "\n" for line in [{"kind": "head"}, *lines])
        (tmp_path / name / "sandbox.jsonl").write_text(text)

    assert strikes_of_rules(tmp_path) == 4 + 1 + 2


def _left(file: Path, *but: str, skipped: str = "") -> str:
    counter = StrikeCounter()
    counter.struck.update({name: 1 for name in ROWS if name not in but})
    counter.skipped.update(skipped.split())
    counter.write(file)
    return str(file)


def test_runs_that_are_taken_together_fail_for_what_struck_in_none_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = _left(tmp_path / "runs/short.json", "P2", "S15", "D5", skipped="D5")
    long = _left(tmp_path / "runs/long.json", "S15", "T1", "D5")
    whole = _left(tmp_path / "runs/whole.json")

    assert main([short, long]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[-2:] == ["skipped on this machine: D5", "never struck: S15"]
    assert main([short, long, whole]) == 0
    assert "T1 2/0" in capsys.readouterr().out


def test_without_the_counts_of_a_run_nothing_is_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = _left(tmp_path / "long.json", "S15")
    absent = str(tmp_path / "short.json")

    assert main([absent, long]) == 0
    assert capsys.readouterr().out == f"faults are not judged: no run has left {absent}\n"
