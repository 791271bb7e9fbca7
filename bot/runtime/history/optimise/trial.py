"""One trial of a search: a strategy with some values of its parameters, over all the days.

`question_of` builds a search's question from user input; `run_trial` plays one trial of it, in a
worker. Each process reads the bars once and keeps them; the strategy's Python is run anew for each
trial, which so finds nothing that an earlier one has left in a class or module. The result is the
gain of each day, from which windows are cut, so that one run serves every fold.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from bot.config.problems import OperatorMistake, shown_path
from bot.config.settings.load import Loaded, load_settings
from bot.config.strategies.invoke import files_of
from bot.config.strategies.plugin_check import RefusedParameters, make
from bot.config.strategies.plugins import find_strategy
from bot.domain.rulebook import Rulebook
from bot.engine.settings import LoadedStrategy
from bot.runtime.history.backtest.figures import daily
from bot.runtime.history.backtest.result import BacktestResult, BacktestSpec
from bot.runtime.history.backtest.run import run_backtest
from bot.runtime.history.backtest.spec import Wanted, data_of, spec_of
from bot.runtime.history.backtest.trades import round_trips
from bot.runtime.history.bars import BarColumns, BarSource, DayFrame, Gap
from bot.runtime.history.optimise.result import Failure, Job, Objective, TrialResult
from bot.runtime.history.optimise.search import Question
from bot.runtime.history.optimise.space import Values, read_space, words_of
from bot.runtime.history.recording.event_codec import Codec
from bot.runtime.history.recording.recordings import parts_of
from bot.runtime.history.store.archive import joined
from bot.runtime.history.store.bar_files import FIGURES
from bot.runtime.history.store.importing import ALWAYS

JOBS_KEPT: Final = 2
"""A worker serves one search; a cluster's worker perhaps two."""


def question_of(
    wanted: Wanted,
    words: Sequence[str],
    *,
    objective: Objective,
    trials: int,
    folds: int,
    seed: int,
) -> tuple[str, Question]:
    """Return the strategy's name and what is searched. Raises OperatorMistake for an impossible
    search.
    """
    spec = spec_of(wanted)
    [strategy], [file], loaded = spec.strategies, wanted.files, wanted.loaded
    job = Job(
        strategy=str(file.absolute()),
        code=code_of(strategy),
        data=tuple(str(Path(each).absolute()) for each in data_of(wanted)),
        first=spec.first,
        last=spec.last,
        cash=spec.cash,
        holdings=tuple(spec.holdings.items()),
        fill=spec.fill,
        config=str(loaded.path.absolute()) if loaded else "",
        rules=risk_of(loaded),
        base_dir=str(wanted.base_dir.absolute()) if wanted.base_dir else "",
        content=content_of(spec),
        market=rules_of(spec),
    )
    question = Question(
        job=job,
        run=run_trial,
        space=read_space(words, strategy.factory, strategy.plan.use),
        refuse=Refusal(strategy),
        objective=objective,
        trials=trials,
        folds=folds,
        seed=seed,
    )
    return strategy.plan.name, question


def run_trial(job: Job, values: Values) -> TrialResult | Failure:
    """Play a trial in this process."""
    try:
        result = play(job, values)
    except (OperatorMistake, OSError) as error:  # an OperatorMistake does not pickle
        return Failure(str(error))
    days = daily(result.equity, result.capital)
    end = result.equity[-1].equity if result.equity else result.capital
    return TrialResult(
        days=tuple(day.day for day in days),
        gains=tuple(day.gain for day in days),
        profit=end - result.capital,
        trades=len(round_trips(result.fills, result.decisions).closed),
        costs=sum(fill.fee + fill.tax for fill in result.fills),
    )


def play(job: Job, values: Values) -> BacktestResult:
    """Run the backtest of a trial. Raises OperatorMistake."""
    spec = prepared(job)
    [known] = spec.strategies
    plan = replace(known.plan, parameters={**known.plan.parameters, **values})
    folder = Path(job.base_dir) if job.base_dir else Path(job.strategy).parent
    strategy = replace(known, plan=plan, factory=find_strategy(plan.use, folder))
    if code_of(strategy) != job.code:
        raise _changed(_code_words(job))
    return run_backtest(replace(spec, strategies=(strategy,)))


@dataclass(frozen=True, slots=True)
class Refusal:
    """Asks a strategy's own check whether values can be tried."""

    strategy: LoadedStrategy

    def __call__(self, values: Values) -> str | None:
        """Return why not, in the strategy's words; None: they can."""
        plan = self.strategy.plan
        try:
            make(self.strategy.factory, plan.symbols[0], {**plan.parameters, **values})
        except RefusedParameters as error:
            return str(error)
        except OperatorMistake as mistake:  # a bug in the check: the values are half of the story
            text = f"that was with {words_of(values)}: mend it, or leave them out of --space"
            told = OperatorMistake.of("E-OPT-006", text).problems
            raise OperatorMistake((*mistake.problems, *told), mistake.exit_code) from mistake
        return None


def code_of(strategy: LoadedStrategy) -> str:
    """Return the hash of everything that determines a strategy: its file and its Python."""
    digest = sha256(strategy.plan.source_sha256.encode())
    for file in sorted(files_of(strategy.factory)):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def content_of(spec: BacktestSpec) -> str:
    """Return the hash of the data that can affect a trial: bars and days of the symbols up to the
    last day, or the recordings.
    """
    digest = sha256()
    for _, folder in spec.recorded.folders if spec.recorded else ():
        for part in parts_of(folder):
            digest.update(part.read_bytes())
    for symbol in sorted({each for one in spec.strategies for each in one.plan.symbols}):
        digest.update(symbol.encode())
        days = ALWAYS[0], spec.last
        if parts := list(spec.source.chunks(symbol, *days)):
            bars = joined(parts)
            for name in ("start", *FIGURES):
                digest.update(getattr(bars, name).tobytes())
        digest.update(repr(sorted(spec.source.frames(symbol, *days).items())).encode())
    return digest.hexdigest()


def risk_of(loaded: Loaded | None) -> str:
    """Return the hash of a bot's risk settings; empty without a configuration."""
    return sha256(loaded.settings.risk.model_dump_json().encode()).hexdigest() if loaded else ""


def rules_of(spec: BacktestSpec) -> str:
    """Return the hash of the exchanges' rules, the fees, and where each symbol is listed."""
    listed = sorted({str(each) for one in spec.strategies for each in one.instruments})
    digest = sha256(Codec(Rulebook).write(spec.rulebook).encode())
    digest.update(" ".join(listed).encode())
    return digest.hexdigest()


@lru_cache(maxsize=JOBS_KEPT)
def prepared(job: Job) -> BacktestSpec:
    """Read what a job refers to, once in a process. Raises OperatorMistake."""
    wanted = Wanted(
        files=(Path(job.strategy),),
        data=tuple(Path(each) for each in job.data),
        first=job.first,
        last=job.last,
        cash=job.cash,
        holdings=dict(job.holdings),
        fill=job.fill,
        loaded=load_settings(Path(job.config)) if job.config else None,
        base_dir=Path(job.base_dir) if job.base_dir else None,
    )
    spec = spec_of(wanted)
    [strategy] = spec.strategies
    began_with = {
        _code_words(job): (code_of(strategy), job.code),
        "the content of the data": (content_of(spec), job.content),
        "the rules of the market": (rules_of(spec), job.market),
        "a risk setting": (risk_of(wanted.loaded), job.rules),
    }
    if changed := [name for name, (now, then) in began_with.items() if now != then]:
        raise _changed(changed[0])
    return replace(spec, source=KeptBars(spec.source))


def _code_words(job: Job) -> str:
    return f"{shown_path(Path(job.strategy))} or its Python"


def _changed(what: str) -> OperatorMistake:
    text = f"{what} is not what the search began with: start it anew"
    return OperatorMistake.of("E-OPT-006", text)


class KeptBars:
    """A BarSource that reads each symbol once and keeps it: 56 bytes a bar."""

    def __init__(self, source: BarSource) -> None:
        self._source = source
        self._kept: dict[tuple[str, date, date], Sequence[BarColumns]] = {}

    @property
    def width(self) -> timedelta:
        return self._source.width

    def symbols(self) -> tuple[str, ...]:
        return self._source.symbols()

    def span(self, symbol: str) -> tuple[date, date] | None:
        return self._source.span(symbol)

    def chunks(self, symbol: str, first: date, last: date) -> Iterator[BarColumns]:
        asked = symbol, first, last
        if asked not in self._kept:
            self._kept[asked] = tuple(self._source.chunks(*asked))
        return iter(self._kept[asked])

    def frames(self, symbol: str, first: date, last: date) -> Mapping[date, DayFrame]:
        return self._source.frames(symbol, first, last)

    def gaps(self, symbol: str, first: date, last: date) -> tuple[Gap, ...]:
        return self._source.gaps(symbol, first, last)
