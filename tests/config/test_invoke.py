"""What a plug-in raises is its own fault and stops nobody else."""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.config.strategies.invoke import invoke
from bot.config.strategies.plugins import find_strategy
from bot.domain.quote import Bar
from bot.engine.indicators import IndicatorSet
from bot.strategy import BarView, Context, Strategy


class Hostile(Strategy):
    """Raises what a test tells it to."""

    error: BaseException

    def on_start(self) -> None:
        raise self.error

    def on_stop(self) -> None:
        sys.exit("enough")


def _hostile(error: BaseException) -> Hostile:
    strategy = Hostile(Context("HPG", "hostile"))
    strategy.error = error
    return strategy


class Wordless(Exception):
    """Raises when it is asked what it says."""

    def __str__(self) -> str:
        raise ZeroDivisionError


class Unreachable(Strategy):
    """Raises when anybody looks at it."""

    def __getattribute__(self, name: str) -> object:
        raise ZeroDivisionError(name)


def test_a_strategy_whose_hook_cannot_even_be_found_has_the_fault_itself() -> None:
    strategy = Unreachable.__new__(Unreachable)

    fault = invoke(strategy, "on_start", None)

    assert fault is not None
    assert fault.error.startswith("ZeroDivisionError: on_start (test_invoke.py:")


RAISED = [
    ValueError("no"),
    SystemExit(3),
    RecursionError(),
    MemoryError(),
    AssertionError(),
    asyncio.CancelledError(),
    GeneratorExit(),
    BaseException("no"),
    Wordless(),
    ValueError("x" * 1_000_000),
]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_whatever_a_hook_raises_is_named_with_its_line(error: BaseException) -> None:
    fault = invoke(_hostile(error), "on_start", None)

    assert fault is not None
    assert fault.error.startswith(type(error).__name__)
    assert "test_invoke.py" in fault.error
    assert len(fault.error) < 300
    assert not fault.is_overrun


def test_an_interrupt_from_the_keyboard_is_not_the_plug_ins() -> None:
    with pytest.raises(KeyboardInterrupt):
        invoke(_hostile(KeyboardInterrupt()), "on_start", None)


def test_a_plug_in_that_exits_ends_itself_and_not_the_bot() -> None:
    fault = invoke(_hostile(ValueError()), "on_stop", None)

    assert fault is not None
    assert "enough" in fault.error


@pytest.mark.parametrize(
    ("hook", "line", "says"),
    [
        ("def on_bar(self, bar): self.buy(150.5)", 6, "TypeError: quantity must be a whole number"),
        ("def on_bar(self, bar): self.buy(limit=None, market='XX')", 6, "ValueError: 'XX' is not"),
        ("def on_bar(self, bar): bar.sma(0)", 6, "ValueError: sma(0): wanted 2 to 5000 bars"),
        ("def on_bar(self, bar): bar.sma(9 / 3)", 6, "TypeError: sma(3.0): wanted a whole number"),
        ("def on_bar(self, bar):\n        int('x')", 7, "ValueError: invalid literal"),
        ("def on_bar(self, bar): below(bar)", 3, "ZeroDivisionError: division by zero"),
        ("def on_bar(self, bar): import json; json.loads('')", 6, "JSONDecodeError: Expecting"),
    ],
)
def test_a_fault_names_the_line_of_the_plug_in_also_where_our_code_raised_it(
    tmp_path: Path, hook: str, line: int, says: str
) -> None:
    head = "from bot import Strategy\ndef below(bar):\n    1 / 0\nclass Mine(Strategy):\n\n    "
    (tmp_path / "strategies").mkdir()
    (tmp_path / "strategies" / "mine.py").write_text(f"{head}{hook}\n")
    strategy = find_strategy("mine", tmp_path)(Context("HPG", "mine"))
    bar = Bar("HPG", datetime(2026, 11, 19, tzinfo=UTC), 60, 1, 1, 1, 1, 1)

    fault = invoke(strategy, "on_bar", BarView(bar, IndicatorSet().read))

    assert fault is not None
    assert fault.error.startswith(says)
    assert fault.error.endswith(f"(mine.py:{line})")


class WrongSignature(Strategy):
    """A class that no check has seen."""

    def on_bar(self) -> None:  # type: ignore[override]
        """Never called."""


def test_a_hook_that_cannot_be_called_is_named_with_its_own_line() -> None:
    fault = invoke(WrongSignature(), "on_bar", "a bar")

    line = WrongSignature.on_bar.__code__.co_firstlineno
    assert fault is not None
    assert "takes 1 positional argument but 2 were given" in fault.error
    assert fault.error.endswith(f"(test_invoke.py:{line})")
