"""What a plug-in raises is its own fault and stops nobody else."""

import sys

import pytest

from bot.runtime.invoke import invoke
from bot.strategy import Desk, Strategy


class Hostile(Strategy):
    """Raises what a test tells it to."""

    error: BaseException

    def on_start(self) -> None:
        raise self.error

    def on_stop(self) -> None:
        sys.exit("enough")


def _hostile(error: BaseException) -> Hostile:
    strategy = Hostile(Desk("HPG", "hostile"))
    strategy.error = error
    return strategy


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), RecursionError()])
def test_whatever_a_hook_raises_is_named_with_its_line(error: BaseException) -> None:
    fault = invoke(_hostile(error), "on_start", None)

    assert fault is not None
    assert fault.error.startswith(type(error).__name__)
    assert "test_invoke.py" in fault.error
    assert not fault.is_overrun


def test_a_plug_in_that_exits_ends_itself_and_not_the_bot() -> None:
    fault = invoke(_hostile(ValueError()), "on_stop", None)

    assert fault is not None
    assert "enough" in fault.error
