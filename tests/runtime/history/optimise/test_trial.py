"""One trial, as a worker plays it."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date

import pytest

from bot.runtime.history.backtest.spec import Wanted
from bot.runtime.history.bars import BarColumns
from bot.runtime.history.optimise.ask import question_of
from bot.runtime.history.optimise.job import Failure, Outcome
from bot.runtime.history.optimise.result import Objective
from bot.runtime.history.optimise.search import Question
from bot.runtime.history.optimise.trial import KeptBars, run_trial
from tests.backtest_results import FIRST, WavyBars

STRATEGY = """\
name: mine
use: sma_cross
symbols: [HPG]
params: {fast: 5, slow: 20}
wake: {bar: 5m}
order: {size: {shares: 100}}
"""


@pytest.fixture(scope="module")
def question(tmp_path_factory: pytest.TempPathFactory) -> Question:
    file = tmp_path_factory.mktemp("trial") / "mine.yaml"
    file.write_text(STRATEGY)
    wanted = Wanted((file,), first=date(2026, 11, 12), last=date(2026, 11, 13))
    space = ("fast=3..6", "slow=10|20")
    _, asked = question_of(wanted, space, objective=Objective.RETURN, trials=2, folds=0, seed=7)
    return asked


def test_values_change_what_is_played_and_the_same_ones_do_not(question: Question) -> None:
    first = run_trial(question.job, {"fast": 3, "slow": 10})
    other = run_trial(question.job, {"fast": 6, "slow": 20})
    again = run_trial(question.job, {"fast": 3, "slow": 10})

    assert isinstance(first, Outcome)
    assert first == again != other
    assert first.days == (date(2026, 11, 12), date(2026, 11, 13))
    assert first.costs > 0


def test_the_strategy_itself_says_which_values_it_refuses(question: Question) -> None:
    assert question.refuse({"fast": 6, "slow": 20}) is None
    assert question.refuse({"fast": 30}) == "wanted fast above 1 and below slow"


def test_a_worker_with_another_strategy_refuses(question: Question) -> None:
    found = run_trial(replace(question.job, code="another"), {})

    assert isinstance(found, Failure)
    assert "E-OPT-006" in found.problem


@dataclass(frozen=True)
class Counted(WavyBars):
    """Bars that note how often they are read."""

    reads: list[str] = field(default_factory=list)

    def chunks(self, symbol: str, first: date, last: date) -> Iterator[BarColumns]:
        self.reads.append(symbol)
        return super().chunks(symbol, first, last)


def test_a_process_reads_each_symbol_once() -> None:
    source = Counted(("FPT", "HPG"))
    kept = KeptBars(source)

    for symbol in ("FPT", "HPG", "FPT", "HPG"):
        assert len(list(kept.chunks(symbol, FIRST, FIRST))) == 1

    assert source.reads == ["FPT", "HPG"]
