"""Reading the rules from the package and from the operator."""

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from bot.domain.errors import RuleDataError
from bot.domain.instrument import Exchange, Phase
from bot.runtime.rulebook import load_rulebook, load_symbols
from bot.runtime.shipped import shipped, shipped_dir

MONDAY_MORNING = datetime(2026, 11, 23, 3, 0, tzinfo=UTC)


def written(folder: Path, text: str) -> Path:
    path = folder / "calendar.yaml"
    path.write_text(text, "utf-8")
    return path


def test_the_shipped_rules_are_read_once():
    assert load_rulebook() is load_rulebook()


def test_a_file_of_the_operator_closes_a_day(tmp_path):
    path = written(tmp_path, "closed:\n  - {date: 2026-11-23, name: Swap, source: HOSE notice}\n")

    closed = load_rulebook(path)

    assert closed.phase_at(Exchange.HOSE, MONDAY_MORNING) is Phase.CLOSED
    assert load_rulebook().phase_at(Exchange.HOSE, MONDAY_MORNING) is Phase.PROGRESS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("open: [{date: 2026-11-28}]", r"open\[0\]: wanted a weekday"),
        ("opened: []", "opened: wanted one of closed"),
        ("- 2026-11-23", "calendar.yaml: wanted a mapping"),
        ("", "calendar.yaml: wanted a mapping"),
        ("closed: [", "calendar.yaml: wanted YAML"),
        ("closed: []\nclosed: []", "calendar.yaml: wanted YAML"),
        ("closed: [{date: 2026-13-01, name: x}]", "wanted"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(tmp_path, text, message):
    with pytest.raises(RuleDataError, match=message):
        load_rulebook(written(tmp_path, text))


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_rulebook(tmp_path / "calendar.yaml")


def test_the_rules_of_a_day_may_be_asked_for():
    assert load_rulebook(on=date(2025, 6, 3)).max_quantity(Exchange.HOSE) == 500_000


def test_symbols_may_come_from_a_file(tmp_path):
    path = tmp_path / "symbols.csv"
    path.write_text("symbol,exchange,kind,from,to,source\nABC,HNX,STOCK,2026-01-01,,me\n", "utf-8")

    assert load_symbols(path).symbols(date(2026, 1, 1)) == ("ABC",)


def test_a_checkout_finds_its_own_files():
    assert shipped("config/symbols.csv") == shipped_dir() / "config" / "symbols.csv"


def test_a_file_that_did_not_come_along_is_named():
    with pytest.raises(FileNotFoundError, match=r"config/nothing.yaml did not come"):
        shipped("config/nothing.yaml")
