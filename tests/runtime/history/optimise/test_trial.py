"""One trial, as a worker plays it."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

import pytest

from bot.config.problems import OperatorMistake
from bot.config.settings.load import load_settings
from bot.runtime.history.backtest.spec import Wanted
from bot.runtime.history.bars import BarColumns
from bot.runtime.history.optimise.result import Failure, Objective, TrialResult
from bot.runtime.history.optimise.search import Question
from bot.runtime.history.optimise.trial import KeptBars, question_of, run_trial
from tests.backtest_results import FIRST, WavyBars

FIRST_DAY, LAST_DAY = date(2026, 11, 12), date(2026, 11, 13)
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
    return asked_of(Wanted((file,), first=FIRST_DAY, last=LAST_DAY), "fast=3..6", "slow=10|20")


def asked_of(wanted: Wanted, *space: str) -> Question:
    _, asked = question_of(wanted, space, objective=Objective.RETURN, trials=2, folds=0, seed=7)
    return asked


def test_values_change_what_is_played_and_the_same_ones_do_not(question: Question) -> None:
    first = run_trial(question.job, {"fast": 3, "slow": 10})
    other = run_trial(question.job, {"fast": 6, "slow": 20})
    again = run_trial(question.job, {"fast": 3, "slow": 10})

    assert isinstance(first, TrialResult)
    assert first == again != other
    assert first.days == (date(2026, 11, 12), date(2026, 11, 13))
    assert first.costs > 0


def test_the_strategy_itself_says_which_values_it_refuses(question: Question) -> None:
    assert question.refuse({"fast": 6, "slow": 20}) is None
    assert question.refuse({"fast": 30}) == "wanted fast above 1 and below slow"


BROKEN = """\
from bot import Strategy

class Broken(Strategy):
    fast: int = 5

    def check(self):
        if self.fast == 7:
            raise RuntimeError("oh no")

    def on_bar(self, bar):
        self.skip("no")
"""


def test_a_check_that_raises_is_told_with_the_values_that_it_was_given(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    file = tmp_path / "mine.yaml"
    file.write_text(STRATEGY.replace("sma_cross", "broken.py:Broken").replace(", slow: 20", ""))
    asked = asked_of(Wanted((file,), first=FIRST_DAY, last=LAST_DAY), "fast=3..9")

    assert asked.refuse({"fast": 6}) is None
    with pytest.raises(OperatorMistake, match=r"(?s)RuntimeError: oh no.*that was with fast 7"):
        asked.refuse({"fast": 7})


ONCE = """\
from bot import Strategy

DONE = []

class Once(Strategy):
    fast: int = 5
    BOUGHT = {}

    def on_bar(self, bar):
        if not DONE and not self.BOUGHT:
            DONE.append(self.symbol)
            self.BOUGHT[self.symbol] = self.fast
            self.buy()
"""


def asked_once(folder: Path) -> Question:
    (folder / "once.py").write_text(ONCE)
    file = folder / "mine.yaml"
    file.write_text(STRATEGY.replace("sma_cross", "once.py:Once").replace(", slow: 20", ""))
    return asked_of(Wanted((file,), first=FIRST_DAY, last=LAST_DAY), "fast=3..6")


def test_a_trial_finds_nothing_that_an_earlier_one_left_in_class_or_module(tmp_path: Path) -> None:
    job = asked_once(tmp_path).job

    first, again = run_trial(job, {"fast": 3}), run_trial(job, {"fast": 3})

    assert isinstance(first, TrialResult)
    assert first.costs > 0
    assert again == first


def test_a_strategy_that_changes_between_two_trials_ends_the_search(tmp_path: Path) -> None:
    job = asked_once(tmp_path).job
    assert isinstance(run_trial(job, {"fast": 3}), TrialResult)

    (tmp_path / "once.py").write_text(ONCE.replace("self.buy()", "self.buy(200)"))
    found = run_trial(job, {"fast": 3})

    assert isinstance(found, Failure)
    assert "mine.yaml or its Python is not what the search began with" in found.problem


def test_the_bars_and_risk_settings_of_a_bot_are_those_of_its_backtests(tmp_path: Path) -> None:
    config, file = tmp_path / "bot.yaml", tmp_path / "mine.yaml"
    file.write_text(STRATEGY)
    stored = tmp_path / "state" / "data" / "bars" / "1m"
    stored.mkdir(parents=True)
    rows = "2026-11-10 09:20,27000,27000,27000,27000,1000\n"
    (stored / "HPG.csv").write_text(f"time,open,high,low,close,volume\n{rows}")
    asked = list[Question]()
    for limit in (1, 2):
        config.write_text(f"mode: sandbox\nstate_dir: state\nrisk: {{max_in_flight: {limit}}}\n")
        asked.append(asked_of(Wanted((file,), loaded=load_settings(config)), "fast=3..9"))

    assert {each.job.data for each in asked} == {(str(tmp_path / "state" / "data"),)}
    assert asked[0].kept["risk settings"] != asked[1].kept["risk settings"]


def differing(first: Question, second: Question) -> list[str]:
    return [name for name in first.kept if first.kept[name] != second.kept[name]]


def test_other_bars_days_and_rules_make_it_another_search(tmp_path: Path) -> None:
    config, file, bars = tmp_path / "bot.yaml", tmp_path / "mine.yaml", tmp_path / "bars"
    file.write_text(STRATEGY)
    bars.mkdir()
    row = "2026-11-10 09:20,27000,27000,27000,27000,1000\n"
    (tmp_path / "market.yaml").write_text("broker_fee_ppm: 2_000\n")

    def put(rows: str, settings: str = "") -> Question:
        (bars / "HPG.csv").write_text(f"time,open,high,low,close,volume\n{rows}")
        config.write_text(f"mode: sandbox\nstate_dir: state\n{settings}")
        loaded = load_settings(config)
        return asked_of(
            Wanted((file,), (bars,), last=date(2026, 11, 12), loaded=loaded), "fast=3..9"
        )

    first = put(row)
    later = put(row + row.replace("-10", "-13"))
    other = put(row.replace(",1000", ",1100"))
    ruled = put(row, "market_rules: market.yaml\n")
    (bars / "ex_dates.csv").write_text("symbol,ex_date,ratio\nHPG,2026-11-10,0.9\n")

    assert differing(first, later) == []
    assert differing(first, other) == ["content of the data"]
    assert differing(first, ruled) == ["market rules"]
    assert differing(first, put(row)) == ["content of the data"]


def test_another_release_makes_it_another_search(
    question: Question, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dict(question.kept)
    monkeypatch.setattr("bot.runtime.history.optimise.search.__version__", "9.9.9")

    assert [name for name in before if question.kept[name] != before[name]] == ["version of vnbot"]


@pytest.mark.parametrize("what", ["code", "content", "market"])
def test_a_worker_with_another_strategy_or_data_refuses(question: Question, what: str) -> None:
    found = run_trial(replace(question.job, **{what: "another"}), {})  # type: ignore[arg-type]

    assert isinstance(found, Failure)
    assert "E-OPT-006" in found.problem


def test_a_worker_with_other_risk_settings_refuses(tmp_path: Path) -> None:
    config, file = tmp_path / "bot.yaml", tmp_path / "mine.yaml"
    file.write_text(STRATEGY)
    config.write_text("mode: sandbox\nstate_dir: state\nrisk: {max_in_flight: 1}\n")
    wanted = Wanted((file,), first=FIRST_DAY, last=LAST_DAY, loaded=load_settings(config))
    asked = asked_of(wanted, "fast=3..6")

    config.write_text("mode: sandbox\nstate_dir: state\nrisk: {max_in_flight: 2}\n")
    found = run_trial(asked.job, {})  # in a worker that starts only now

    assert isinstance(found, Failure)
    assert "E-OPT-006 a risk setting is not what the search began with" in found.problem


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
