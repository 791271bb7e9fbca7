"""What a search is asked, what it answers, and the figures of a trial in a window of days."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from math import prod, sqrt
from typing import Final

from bot.runtime.history.backtest.figures import DAYS_A_YEAR, sharpe, sortino
from bot.runtime.history.optimise.deflated import Deflated, deflated_sharpe
from bot.runtime.history.optimise.folds import Fold
from bot.runtime.history.optimise.job import Job, Outcome, Values
from bot.runtime.history.optimise.space import Space, size_of


class Objective(StrEnum):
    """What a search makes as large as it can, on the days that it may see."""

    SHARPE = "sharpe"
    SORTINO = "sortino"
    RETURN = "return"


def whole_return(gains: Sequence[float]) -> float | None:
    """Return the return over some days; None without a day."""
    return prod(1 + gain for gain in gains) - 1 if gains else None


FIGURE: Final[Mapping[Objective, Callable[[Sequence[float]], float | None]]] = {
    Objective.SHARPE: sharpe,
    Objective.SORTINO: sortino,
    Objective.RETURN: whole_return,
}


class TrialState(StrEnum):
    """PLAYED: it has figures. REFUSED: the strategy's own check refuses its values. SILENT: it was
    played and has no figure, mostly because it never traded.
    """

    PLAYED = "played"
    REFUSED = "refused"
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial. `value` is the objective on the days that the search may see."""

    number: int
    values: Values
    state: TrialState
    value: float | None = None
    outcome: Outcome | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class FoldFigures:
    """A fold: the trial that was best on its searched days, and what its test then showed."""

    searched: tuple[date, date]
    tested: tuple[date, date]
    number: int
    values: Values
    inside: float | None
    outside: float | None


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A trial one step beside the best in one parameter; None: refused, or without a figure."""

    name: str
    values: Values
    inside: float | None
    outside: float | None


@dataclass(frozen=True, slots=True)
class Search:
    """A search that has ended, or was interrupted. `before`: the strategy with its own values.

    `days` are all days; the search saw those before `seen`. `repeated`: trials that had the values
    of an earlier one and took its result.
    """

    job: Job
    space: Space
    objective: Objective
    wanted: int
    seed: int
    days: tuple[date, ...]
    seen: int
    folds: tuple[Fold, ...]
    before: Trial
    trials: tuple[Trial, ...]
    neighbours: tuple[Neighbour, ...]
    repeated: int

    @property
    def played(self) -> tuple[Trial, ...]:
        return tuple(trial for trial in self.trials if trial.state is TrialState.PLAYED)

    def ranked(self) -> list[Trial]:
        """Return what was played, best first, each set of values once."""
        order = sorted(self.played, key=lambda trial: (-(trial.value or 0.0), trial.number))
        return list(
            {tuple(sorted(trial.values.items())): trial for trial in reversed(order)}.values()
        )[::-1]

    @property
    def best(self) -> Trial | None:
        """The trial that is chosen: the best on the days that the search may see."""
        return next(iter(self.ranked()), None)

    def inside(self, trial: Trial) -> float | None:
        """Return the objective on the days that the search may see."""
        return self.figure(trial, 0, self.seen)

    def outside(self, trial: Trial) -> float | None:
        """Return the objective on the days that no trial was chosen by."""
        return self.figure(trial, self.seen, len(self.days)) if self.folds else None

    def figure(self, trial: Trial, start: int, end: int) -> float | None:
        return self.objective_of(trial.outcome.gains[start:end]) if trial.outcome else None

    def objective_of(self, gains: Sequence[float]) -> float | None:
        return FIGURE[self.objective](gains)

    def fold_figures(self) -> tuple[FoldFigures, ...]:
        """Return each fold with its own best: walk forward."""
        return tuple(found for fold in self.folds if (found := self._fold(fold)) is not None)

    def _fold(self, fold: Fold) -> FoldFigures | None:
        ranked = [
            (value, -trial.number, trial)
            for trial in self.played
            if (value := self.figure(trial, 0, fold.until)) is not None
        ]
        if not ranked:
            return None
        inside, _, trial = max(ranked, key=lambda each: each[:2])
        return FoldFigures(
            searched=(self.days[0], self.days[fold.until - 1]),
            tested=(self.days[fold.until], self.days[fold.end - 1]),
            number=trial.number,
            values=trial.values,
            inside=inside,
            outside=self.figure(trial, fold.until, fold.end),
        )

    def deflated(self) -> Deflated | None:
        """Return the deflated Sharpe ratio of the best, on the days that the search may see."""
        if self.best is None or self.best.outcome is None:
            return None
        return deflated_sharpe(self.best.outcome.gains[: self.seen], self._daily_sharpes())

    def _daily_sharpes(self) -> list[float]:
        windows = (trial.outcome.gains[: self.seen] for trial in self.played if trial.outcome)
        ratios = (sharpe(gains) for gains in windows)
        return [ratio / sqrt(DAYS_A_YEAR) for ratio in ratios if ratio is not None]

    def count(self, state: TrialState) -> int:
        return sum(trial.state is state for trial in self.trials)

    @property
    def size(self) -> int | None:
        return size_of(self.space)


def best_of(trials: Iterable[Trial]) -> Trial | None:
    """Return the played trial with the highest value, the first of equals."""
    played = [trial for trial in trials if trial.value is not None]
    return max(played, key=lambda trial: (trial.value or 0.0, -trial.number), default=None)
