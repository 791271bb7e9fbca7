"""Makes the question of a search of what a person names: a strategy file, a space, bars, days."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from bot.runtime.history.backtest.spec import Wanted, data_of, spec_of
from bot.runtime.history.optimise.job import Job
from bot.runtime.history.optimise.result import Objective
from bot.runtime.history.optimise.search import Question
from bot.runtime.history.optimise.space import read_space
from bot.runtime.history.optimise.trial import Refusal, code_of, run_trial


def question_of(
    wanted: Wanted,
    words: Sequence[str],
    *,
    objective: Objective,
    trials: int,
    folds: int,
    seed: int,
) -> tuple[str, Question]:
    """Return the strategy's name and what is searched. Raises OperatorMistake for what can't be."""
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
        rules=sha256(loaded.settings.risk.model_dump_json().encode()).hexdigest() if loaded else "",
        base_dir=str(wanted.base_dir.absolute()) if wanted.base_dir else "",
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
