"""The page on strategies: its examples run as they stand, and it leaves nothing out."""

import inspect
import re
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

import bot.strategy
from bot.cli.strategy_templates import class_name
from bot.config.strategies.invoke import BUDGET_S
from bot.config.strategies.load import CheckedFile, check_file, market_of, rehearse
from bot.config.strategies.plugin_check import HOOKS
from bot.config.strategies.plugins import find_strategy
from bot.domain.entry import Verdict
from bot.domain.plan import Limits
from bot.domain.quote import Bar
from bot.testing import play

PAGE = (Path(__file__).parents[2] / "docs" / "strategies.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(python|yaml)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
EXAMPLES = [
    (python, yaml)
    for (kind, python), (next_kind, yaml) in pairwise(BLOCKS)
    if (kind, next_kind) == ("python", "yaml")
]
UP_AND_DOWN = [*range(100_000, 98_000, -200), *range(98_000, 101_000, 300), *[97_000] * 6]
INNER = {bot.strategy.Context, bot.strategy.Request, bot.strategy.RequestKind, bot.strategy.Default}
CALLS = {"buy", "sell", "close", "cancel", "skip", "check"}


def bars(closes: list[int], symbol: str) -> list[Bar]:
    start = datetime(2026, 11, 19, 2, 30, tzinfo=UTC)
    return [
        Bar(symbol, start + timedelta(minutes=n), 60, c, c + 100, c - 100, c, 1_000)
        for n, c in enumerate(closes)
    ]


def checked(folder: Path, python: str, yaml: str) -> CheckedFile:
    """Write an example as its reader would, and check it."""
    (folder / "strategies").mkdir()
    use = re.search(r"^use: (\w+)", yaml, re.MULTILINE)
    assert use is not None
    (folder / "strategies" / f"{use[1]}.py").write_text(python)
    file = folder / "strategies" / "example.yaml"
    file.write_text(yaml)
    return rehearse([check_file(file, market=market_of(date(2026, 11, 19)))])[0]


def test_there_are_three_examples() -> None:
    assert len(EXAMPLES) == 3


@pytest.mark.parametrize(("python", "yaml"), EXAMPLES)
def test_an_example_is_checked_without_a_warning_and_trades_as_it_stands(
    tmp_path: Path, python: str, yaml: str
) -> None:
    example = checked(tmp_path, python, yaml)
    plan = example.plan

    r = play(
        example.factory,
        bars(UP_AND_DOWN, plan.symbols[0]),
        order=plan.order,
        limits=Limits(max_position=1_000),
        wake=plan.wake,
        settled_shares=1_000,
        **({"ratio": 0.5} if plan.wake.depth else dict(plan.parameters)),
    )

    assert example.warnings == ()
    assert r.fills
    assert not r.of(Verdict.FAILED)


def test_the_test_on_the_page_passes(tmp_path: Path) -> None:
    [block] = [text for kind, text in BLOCKS if kind == "python" and "def test_" in text]
    names: dict[str, object] = {}

    exec(compile(block, "docs/strategies.md", "exec"), names)  # noqa: S102 - our own page

    test = names["test_it_buys_once"]
    assert callable(test)
    test(tmp_path)


def public_names() -> list[str]:
    module = [
        name
        for name, value in vars(bot.strategy).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == "bot.strategy"
    ]
    constants = [name for name in vars(bot.strategy) if name.isupper() and not name.startswith("_")]
    seen = [value for value in vars(bot.strategy).values() if inspect.isclass(value)]
    seen = [each for each in seen if each.__module__ == "bot.strategy" and each not in INNER]
    parts = [name for each in seen for name in dir(each) if not name.startswith("_")]
    of_float = set(dir(float))
    return sorted({*module, *constants, *(name for name in parts if name not in of_float)})


@pytest.mark.parametrize("name", public_names())
def test_every_public_name_is_on_the_page(name: str) -> None:
    assert re.search(rf"\b{name}\b", PAGE), f"docs/strategies.md does not tell of {name}"


def test_every_hook_and_every_call_stands_with_its_arguments() -> None:
    for name in HOOKS:
        arguments = ", ".join(inspect.signature(getattr(bot.strategy.Strategy, name)).parameters)
        assert f"`{name}({arguments})`" in PAGE
    for name in CALLS:
        named = inspect.signature(getattr(bot.strategy.Strategy, name)).parameters
        assert all(argument in PAGE for argument in named)


def test_the_figures_on_the_page_are_the_programs() -> None:
    assert f"A hook has {BUDGET_S} s" in PAGE
    assert f"{bot.strategy.BARS_MAX:,} (`BARS_MAX`)" in PAGE


def test_the_name_of_a_new_strategy_is_found_as_the_page_says(tmp_path: Path) -> None:
    python, _ = EXAMPLES[1]
    (tmp_path / "strategies").mkdir()
    (tmp_path / "strategies" / "any_file.py").write_text(python)

    assert find_strategy("buy_the_dip", tmp_path).__name__ == "BuyTheDip"
    assert class_name("buy-the-dip") == ("BuyTheDip", "buy_the_dip")
