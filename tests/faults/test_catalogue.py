"""Every id of the failure catalogue has a test, or says what is open and why."""

from functools import cache
from pathlib import Path

from tests.faults.strikes import StrikeCounter, ids_of, lines_of, rows_of_catalogue
from tests.rows import every_row

HERE = Path(__file__).parent
ROWS = rows_of_catalogue()
IN_EACH = {"T": 14, "S": 17, "A": 4, "C": 4, "P": 9, "D": 7, "M": 3, "V": 2, "O": 3}
NAMED = {name for row in ROWS.values() for name in row.get("tests", ())}


@cache
def _text(path: str) -> str:
    return (HERE.parent / path).read_text("utf-8")


def test_every_id_is_there_with_a_test_or_a_reason() -> None:
    ids = [f"{letter}{number + 1}" for letter, count in IN_EACH.items() for number in range(count)]

    assert list(ROWS) == ids
    assert [key for key, row in ROWS.items() if not row.get("tests") and not row.get("open")] == []
    assert all(set(row) <= {"tests", "open", "asked"} for row in ROWS.values())


@every_row("name", sorted(NAMED))
def test_the_tests_that_are_named_are_there(name: str) -> None:
    path, _, test = name.partition("::")

    assert f"def {test}(" in _text(path)


def test_a_case_is_counted_for_the_fault_that_it_names_or_for_all_that_its_test_shows() -> None:
    places = "tests/faults/test_t1_t2_t5_t7_t12_s1_s2_s3_places.py::test_one_post_and_the_truth"
    storms = "tests/simulation/test_storms.py::test_no_order_is_lost_and_none_is_doubled"

    assert ids_of(f"{places}[T1 rst]") == ["T1"]
    assert ids_of(f"{places}[T12 taken]") == ["T12"]
    assert ids_of(f"{storms}[0]") == ids_of(storms) == ["T1", "T4"]
    assert ids_of("tests/test_rows.py::test_none_of_the_catalogue") == []


def test_a_fault_that_never_struck_is_named_and_the_table_has_all() -> None:
    counter = StrikeCounter()
    counter.struck.update({name: 3 for name in ROWS if name != "S15"})

    told = "\n".join(lines_of(counter.struck))

    assert counter.never() == ["S15"]
    assert all(f"{name} " in told for name in ROWS)
    assert "S15 0" in told


def test_a_run_in_full_fails_for_a_row_that_struck_and_less_often_than_asked() -> None:
    counter = StrikeCounter()
    counter.struck.update({name: int(row.get("asked", 3)) for name, row in ROWS.items()})
    assert counter.lacking("full") == counter.lacking("all") == []

    del counter.struck["V2"], counter.struck["S15"]
    counter.struck["S11"] = 999

    assert counter.lacking("full") == ["S11 struck 999 times, asked are 1,000"]
    assert counter.lacking("all") == ["never struck: S15, V2"]
    assert counter.lacking("") == []
