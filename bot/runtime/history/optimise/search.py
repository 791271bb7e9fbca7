"""The search itself: asks for values, has an executor try them, and reports the results.

It does not know where trials run: the `Executor` passed in uses processes of this machine or
workers of a cluster. Results are reported to Optuna in the order of asking, with a fixed number
under way, so that a seed gives the same search whatever the number and speed of workers. If a
worker dies nothing is lost: its trials are handed out again, and each number is reported once.
"""

from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Final

from bot import __version__
from bot.config.problems import ExitCode, OperatorMistake
from bot.runtime.history.optimise.result import (
    DAYS_MIN,
    FIGURE,
    Failure,
    Job,
    Neighbour,
    Objective,
    Search,
    Trial,
    TrialResult,
    TrialState,
    best_of,
    folds_of,
)
from bot.runtime.history.optimise.space import Space, Values, key_of, size_of
from bot.runtime.history.optimise.study import StudyLog, open_folder, require_optuna

UNDER_WAY: Final = 8
"""Trials handed out at once; more where there are many workers. Each is chosen without the others'
results, so more of them make the search less efficient.
"""
BROKEN_MAX: Final = 3
"""After this many breakdowns of the executor it is no longer bad luck."""
GRID_MAX: Final = 100_000

Run = Callable[[Job, Values], TrialResult | Failure]
Refuse = Callable[[Values], str | None]
Told = Callable[[int, Trial | None], None]
"""Called with the number of finished trials, and the best so far."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is searched. `refuse` returns why values cannot be tried, None if they can."""

    job: Job
    run: Run
    space: Space
    refuse: Refuse
    objective: Objective
    trials: int
    folds: int
    seed: int

    @property
    def kept(self) -> Mapping[str, object]:
        """What identifies a folder's search: with any of these changed its trials mean something
        else.
        """
        job = self.job
        return {
            "strategy": job.code,
            "data": list(job.data),
            "content of the data": job.content,
            "days": f"{job.first} to {job.last}",
            "risk settings": job.rules,
            "market rules": job.market,
            "account": f"{job.cash} {dict(job.holdings)} {job.fill}",
            "space": " ".join(map(str, self.space)),
            "objective": str(self.objective),
            "folds": self.folds,
            "seed": self.seed,
            "version of vnbot": __version__,
        }


def quiet(_done: int, _best: Trial | None) -> None:
    """Show no progress."""


def search(
    question: Question,
    folder: Path,
    make_executor: Callable[[], Executor],
    *,
    workers: int = 1,
    told: Told = quiet,
) -> Search:
    """Make the trials that the folder lacks, and return everything known then.

    Raises OperatorMistake for a folder with another question, a range that is too short, a strategy
    that cannot be played, or workers that keep dying.
    """
    require_optuna()
    with open_folder(folder, question.kept):
        log = StudyLog(folder, question.space, question.seed)
        with _Workers(make_executor, question) as played:
            before = log.before
            if before is None:
                before = played.result(played.submit({}))
                log.keep_before(before)
            folds = folds_of(len(before.days), question.folds)
            if question.folds and not folds:
                log.forget()
                text = f"a test that no trial was chosen by takes {DAYS_MIN} days with bars, there"
                text += f" are {len(before.days)}. Take a longer range, or --folds 0"
                raise OperatorMistake.of("E-OPT-003", text)
            seen = folds[-1].until if folds else len(before.days)
            judge = _Judge(question.objective, seen, before.days)
            limit = max(UNDER_WAY, 2 * workers)
            repeated = _make_trials(question, log, played, judge, limit, told)
            found = Search(
                job=question.job,
                space=question.space,
                objective=question.objective,
                wanted=question.trials,
                seed=question.seed,
                days=before.days,
                seen=seen,
                folds=folds,
                before=judge.judged(-1, {}, before),
                trials=tuple(log.trials()),
                neighbours=(),
                repeated=repeated,
            )
            return replace(found, neighbours=_neighbours(found, question, played, judge))


@dataclass(frozen=True, slots=True)
class _Judge:
    """Makes a trial of an outcome: computes its value on the days that the search may see."""

    objective: Objective
    seen: int
    days: tuple[object, ...]

    def judged(self, number: int, values: Values, outcome: TrialResult) -> Trial:
        if outcome.days != self.days:
            text = f"a worker has played {len(outcome.days)} days instead of {len(self.days)}: "
            raise OperatorMistake.of("E-OPT-006", f"{text}its bars are not those of the others")
        value = FIGURE[self.objective](outcome.gains[: self.seen])
        has_traded = any(outcome.gains[: self.seen])
        if value is None or not has_traded:
            idle = "it traded on none of the days searched"
            why = "too few days for a figure" if has_traded else idle
            return Trial(number, values, TrialState.SILENT, None, outcome, why)
        return Trial(number, values, TrialState.PLAYED, value, outcome)


class _Workers:
    """An executor that is recreated when it breaks: its pending trials are handed out again."""

    def __init__(self, make: Callable[[], Executor], question: Question) -> None:
        self._make, self._question = make, question
        self._executor = make()
        self._under_way: dict[Future[TrialResult | Failure], Values] = {}
        self._again: dict[Future[TrialResult | Failure], Future[TrialResult | Failure]] = {}
        self._broken = 0

    def __enter__(self) -> "_Workers":
        return self

    def __exit__(self, *_error: object) -> None:
        """End the workers; wait only for idle ones, as one that plays might take long."""
        self._close(wait=all(future.done() for future in self._under_way))

    def _close(self, *, wait: bool) -> None:
        """Abandon pending trials. Not every executor can do so while closing."""
        for future in self._under_way:
            future.cancel()
        self._executor.shutdown(wait=wait)

    def submit(self, values: Values) -> Future[TrialResult | Failure]:
        try:
            future = self._executor.submit(self._question.run, self._question.job, values)
        except BrokenExecutor as error:
            self._make_anew(error)
            return self.submit(values)
        self._under_way[future] = values
        return future

    def result(self, future: Future[TrialResult | Failure]) -> TrialResult:
        """Wait for the result of a trial, through breakdowns of the executor."""
        while True:
            current = self._current(future)
            try:
                found = current.result()
            except (BrokenExecutor, CancelledError, OSError) as error:
                if self._current(future) is current:
                    self._make_anew(error)
                continue
            self._under_way.pop(current, None)
            if isinstance(found, Failure):
                raise OperatorMistake.of("E-OPT-006", f"a trial cannot be played: {found.problem}")
            return found

    def _current(self, future: Future[TrialResult | Failure]) -> Future[TrialResult | Failure]:
        while future in self._again:
            future = self._again[future]
        return future

    def _make_anew(self, error: BaseException) -> None:
        self._broken += 1
        if self._broken > BROKEN_MAX:
            text = (
                f"the workers broke down {self._broken} times ({type(error).__name__}); what was "
                "found is kept: the same command goes on from there"
            )
            raise OperatorMistake.of("E-OPT-007", text, ExitCode.UNREACHABLE) from error
        self._close(wait=False)
        self._executor = self._make()
        for future, values in list(self._under_way.items()):
            has_result = future.done() and not future.cancelled() and future.exception() is None
            if future in self._under_way and not has_result:
                del self._under_way[future]
                self._again[future] = self.submit(values)


def _make_trials(
    question: Question,
    log: StudyLog,
    played: _Workers,
    judge: _Judge,
    limit: int,
    told: Told,
) -> int:
    """Make the missing trials, at most `limit` of them under way; return how many only repeated
    others.
    """
    done, wanted = log.trials(), question.trials
    waiting = deque[tuple[int, Values, Future[TrialResult | Failure]]]()
    futures = dict[object, Future[TrialResult | Failure]]()
    kept = {key_of(trial.values): trial for trial in done}
    tried = [key_of(trial.values) for trial in done if trial.state is not TrialState.REFUSED]
    best, ended, repeated = best_of(done), len(done), len(tried) - len(set(tried))
    size, names = size_of(question.space), [each.name for each in question.space]
    if size is not None and size <= min(wanted, GRID_MAX):  # then try every combination, once
        rows = product(*(each.values for each in question.space))
        grid = (dict(zip(names, row, strict=True)) for row in rows)
        wanted = ended + log.queue(row for row in grid if key_of(row) not in kept)
    told(ended, best)
    while ended < wanted:
        trial = None
        if len(waiting) < min(limit, wanted - ended):
            number, values = log.ask()
            key = key_of(values)
            earlier = kept.get(key)
            reason = question.refuse(values)
            if reason is not None:
                trial = Trial(number, values, TrialState.REFUSED, reason=reason)
            elif earlier is not None:
                trial, repeated = replace(earlier, number=number), repeated + 1
            else:
                repeated += key in futures
                if key not in futures:
                    futures[key] = played.submit(values)
                waiting.append((number, values, futures[key]))
        else:
            number, values, future = waiting.popleft()
            trial = judge.judged(number, values, played.result(future))
            kept[key_of(values)] = trial
            futures.pop(key_of(values), None)
        if trial is not None:
            log.tell(trial)
            ended += 1
            best = best_of([trial] if best is None else [best, trial])
            told(ended, best)
    return repeated


def _neighbours(
    found: Search, question: Question, played: _Workers, judge: _Judge
) -> tuple[Neighbour, ...]:
    """Play the untried neighbours of the best, one step away: is it a peak or a plateau?"""
    best = found.best
    if best is None:
        return ()
    known = {key_of(trial.values): trial for trial in found.trials}
    asked: list[tuple[str, Values, Future[TrialResult | Failure] | None]] = []
    for dimension in found.space:
        for value in dimension.neighbours(best.values[dimension.name]):
            values: Values = {**best.values, dimension.name: value}
            is_needed = key_of(values) not in known and question.refuse(values) is None
            asked.append((dimension.name, values, played.submit(values) if is_needed else None))
    neighbours = []
    for name, values, future in asked:
        trial = known.get(key_of(values))
        if future is not None:
            trial = judge.judged(-1, values, played.result(future))
        inside = found.inside(trial) if trial else None
        outside = found.outside(trial) if trial else None
        neighbours.append(Neighbour(name, values, inside, outside))
    return tuple(neighbours)
