"""Other parameters in a strategy file, and nothing else changed."""

from datetime import date
from pathlib import Path

import pytest

from bot.config.problems import OperatorMistake
from bot.config.strategies.check import Market
from bot.config.strategies.load import market_of
from bot.config.strategies.rewrite import write_with
from tests.rows import every_row

ROOT = Path(__file__).parents[2]
SHIPPED = {path.name: path for path in sorted((ROOT / "config").rglob("strategies/*.yaml"))}


@pytest.fixture(scope="module")
def market() -> Market:
    return market_of(date(2026, 11, 19))


def test_comments_and_all_other_lines_stay(tmp_path: Path, market: Market) -> None:
    path, target = SHIPPED["sma-fpt.yaml"], tmp_path / "best.yaml"

    write_with(path, target, {"fast": 13, "slow": 100}, market)

    old, new = path.read_text().splitlines(), target.read_text().splitlines()
    differing = [(a, b) for a, b in zip(old, new, strict=True) if a != b]
    assert differing == [
        (
            "params: {fast: 5, slow: 20}      # checked against the strategy's own types",
            "params: {fast: 13, slow: 100}    # checked against the strategy's own types",
        )
    ]
    assert [each.name for each in tmp_path.iterdir()] == ["best.yaml"]


@every_row("name", SHIPPED)
def test_every_shipped_file_can_be_rewritten(name: str, tmp_path: Path, market: Market) -> None:
    path, target = SHIPPED[name], tmp_path / name

    write_with(path, target, {}, market)

    assert target.read_text().count("\n") == path.read_text().count("\n")


def test_parameters_come_into_a_file_that_had_none(tmp_path: Path, market: Market) -> None:
    source = tmp_path / "mine.yaml"
    text = SHIPPED["sma-fpt.yaml"].read_text()
    lines = [line for line in text.splitlines() if not line.startswith("params")]
    source.write_text("\n".join(lines).replace("use: sma_cross", "use: own.py:Own") + "\n")
    (tmp_path / "own.py").write_text(
        "from bot import Strategy\n\n\nclass Own(Strategy):\n    fast: int = 5\n"
    )

    write_with(source, tmp_path / "best.yaml", {"fast": 9}, market)

    assert (tmp_path / "best.yaml").read_text().endswith("params:\n  fast: 9\n")


def test_values_that_the_strategy_refuses_leave_nothing_behind(
    tmp_path: Path, market: Market
) -> None:
    target = tmp_path / "best.yaml"
    target.write_text("old")

    with pytest.raises(OperatorMistake):
        write_with(SHIPPED["sma-fpt.yaml"], target, {"fast": 30, "slow": 20}, market)

    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("best.yaml", "old")]
