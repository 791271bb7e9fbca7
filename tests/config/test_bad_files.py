"""Every bad file says the same as it did when a person last read it.

A `.case` under `bad_files/` is the file's text, a line `=====`, and what the operator is told, the
exit code first. To write what is said now into new cases: `python -m tests.config.test_bad_files`.
"""

import tempfile
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from bot.config.problems import OperatorMistake
from bot.config.settings.load import load_settings
from bot.config.strategies.load import check_file, market_of

CASES = Path(__file__).parent / "bad_files"
RULE = "=====\n"
MARKET = market_of(date(2026, 11, 19))


def check_strategy(file: Path) -> object:
    return check_file(file, market=MARKET)


def check_config(file: Path) -> object:
    return load_settings(file, environment={"HOME": "/nowhere"})


CHECKS: dict[str, Callable[[Path], object]] = {"strategy": check_strategy, "config": check_config}


def said(case: Path, folder: Path) -> str:
    """What the operator is told of a case's file."""
    text = case.read_text("utf-8").split(RULE)[0]
    file = folder / f"{case.stem}.yaml"
    file.write_text(text, "utf-8")
    try:
        CHECKS[case.parent.name](file)
    except OperatorMistake as mistake:
        told = f"exit {int(mistake.exit_code)}\n{mistake}\n"
        return told.replace(f"{folder}/", "")
    return "nothing is wrong\n"


def cases() -> list[Path]:
    return sorted(CASES.glob("*/*.case"))


@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case.parent.name}/{case.stem}")
def test_a_bad_file_says_what_is_wrong_and_where(case: Path, tmp_path: Path) -> None:
    golden = case.read_text("utf-8").split(RULE)[1]

    assert said(case, tmp_path) == golden


def test_there_are_many_and_each_names_file_line_and_column() -> None:
    goldens = [case.read_text("utf-8").split(RULE)[1] for case in cases()]

    assert len(goldens) >= 30
    for case, golden in zip(cases(), goldens, strict=True):
        first, *told = golden.splitlines()
        assert first == "exit 3"
        assert told[0].startswith(f"{case.stem}.yaml:")
        assert "Traceback" not in golden
        assert "1234567890" not in golden
        assert "hunter2" not in golden


def write_goldens() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for case in cases():
            text = case.read_text("utf-8").split(RULE)[0]
            case.write_text(text + RULE + said(case, Path(folder)), "utf-8")


if __name__ == "__main__":
    write_goldens()
