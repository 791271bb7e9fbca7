"""Every id of the failure catalogue has a test, or says what is open and why."""

from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.rows import every_row

HERE = Path(__file__).parent
ROWS: dict[str, dict[str, Any]] = YAML(typ="safe").load(
    (HERE / "catalogue.yaml").read_text("utf-8")
)
IN_EACH = {"T": 14, "S": 17, "A": 4, "C": 4, "P": 9, "D": 7, "M": 3, "V": 2, "O": 3}
NAMED = {name for row in ROWS.values() for name in row.get("tests", ())}


@cache
def _text(path: str) -> str:
    return (HERE.parent / path).read_text("utf-8")


def test_every_id_is_there_with_a_test_or_a_reason() -> None:
    ids = [f"{letter}{number + 1}" for letter, count in IN_EACH.items() for number in range(count)]

    assert list(ROWS) == ids
    assert [key for key, row in ROWS.items() if not row.get("tests") and not row.get("open")] == []
    assert all(set(row) <= {"tests", "open"} for row in ROWS.values())


@every_row("name", sorted(NAMED))
def test_the_tests_that_are_named_are_there(name: str) -> None:
    path, _, test = name.partition("::")

    assert f"def {test}(" in _text(path)
