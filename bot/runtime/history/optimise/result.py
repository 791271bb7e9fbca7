"""The input and result of a search, and the figures of a trial in a window of days.

Workers get and return plain data, as they may be other processes or machines.

Walk-forward windows: each fold is searched on all days before its test, and tested on the next.

    days     |------------------------------------------|
    fold 1   [ searched      ][ test ]
    fold 2   [ searched            ][ test ]
    fold 3   [ searched                  ][ test        ]

The search itself sees only the days before the last test, so no trial is chosen by the last test.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from math import prod, sqrt
from statistics import fmean
from typing import Final

from bot.runtime.history.backtest.figures import DAYS_A_YEAR, RATIO_DAYS_MIN, sharpe
from bot.runtime.history.optimise.deflated import Deflated, deflated_sharpe
from bot.runtime.history.optimise.space import Space, Values, key_of, size_of
from bot.sandbox.markets.mirror.model import FillName

FOLDS: Final = 3
FIRST_BLOCKS: Final = 2
"""The first fold is searched on this many blocks of days, each as long as a test."""
LOSS_MIN: Final = 0.0001
"""0.01 %, for the Sortino ratio."""
DAYS_MIN: Final = (FIRST_BLOCKS + 1) * RATIO_DAYS_MIN


@dataclass(frozen=True, slots=True)
class Fold:
    """Day numbers: searched from 0 up to `until`, tested from there up to `end` (exclusive)."""

    until: int
    end: int


def folds_of(days: int, wanted: int) -> tuple[Fold, ...]:
    """Return up to `wanted` folds, as many as leave enough days for each test; empty if not one
    does.
    """
    for count in range(wanted, 0, -1):
        block = days // (count + FIRST_BLOCKS)
        if block >= RATIO_DAYS_MIN:
            ends = [(FIRST_BLOCKS + number) * block for number in range(count)]
            return tuple(
                Fold(until, days if until == ends[-1] else until + block) for until in ends
            )
    return ()


@dataclass(frozen=True, slots=True)
class Job:
    """What every trial of a search has in common. Paths must mean the same on every worker.

    `code`: the hash of strategy file and plug-in, `content` of the data up to the last day,
    `market` of the exchanges' rules and the fees, `rules` of the risk settings; a worker that finds
    others refuses. `config`: the bot's configuration, empty without one; `base_dir`: where the
    strategy's Python is looked up, empty: in the project of its file.
    """

    strategy: str
    code: str
    data: tuple[str, ...]
    first: date
    last: date
    cash: int
    holdings: tuple[tuple[str, int], ...]
    fill: FillName
    config: str
    rules: str = ""
    base_dir: str = ""
    content: str = ""
    market: str = ""


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The result of a trial: the gain of each day (0.01 is 1 %), trades, and money in VND."""

    days: tuple[date, ...]
    gains: tuple[float, ...]
    profit: int
    trades: int
    costs: int


@dataclass(frozen=True, slots=True)
class Failure:
    """A trial that could not be played at all, described for the operator: it ends the search."""

    problem: str


class Objective(StrEnum):
    """What a search maximises on the days that it may see."""

    SHARPE = "sharpe"
    SORTINO = "sortino"
    RETURN = "return"


def whole_return(gains: Sequence[float]) -> float | None:
    """Return the total return over some days; None without days."""
    return prod(1 + gain for gain in gains) - 1 if gains else None


def bounded_sortino(gains: Sequence[float]) -> float | None:
    """Return the yearly Sortino ratio as if at least one day had lost `LOSS_MIN`: a trial without a
    losing day has no other one, and would be dropped. None with too few days, or no trade.
    """
    if len(gains) < RATIO_DAYS_MIN or not any(gains):
        return None
    losses = sum(min(gain, 0.0) ** 2 for gain in gains)
    downside = sqrt(max(losses, LOSS_MIN**2) / len(gains))
    return fmean(gains) / downside * sqrt(DAYS_A_YEAR)


FIGURE: Final[Mapping[Objective, Callable[[Sequence[float]], float | None]]] = {
    Objective.SHARPE: sharpe,
    Objective.SORTINO: bounded_sortino,
    Objective.RETURN: whole_return,
}


class TrialState(StrEnum):
    """PLAYED: it has figures. REFUSED: the strategy's own check refused its values. SILENT: it was
    played but has no figure, usually because it traded on none of the days searched.
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
    outcome: TrialResult | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class FoldFigures:
    """A fold: the trial that was best on its searched days, and its result on the test."""

    searched: tuple[date, date]
    tested: tuple[date, date]
    number: int
    values: Values
    inside: float | None
    outside: float | None


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A trial one step from the best in one parameter; None: refused, or without a figure."""

    name: str
    values: Values
    inside: float | None
    outside: float | None


@dataclass(frozen=True, slots=True)
class Search:
    """A finished or interrupted search. `before`: the strategy with its own values.

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
        """Return the played trials, best first, each set of values once."""
        order = sorted(self.played, key=lambda trial: (-(trial.value or 0.0), trial.number))
        found = dict[object, Trial]()
        for trial in order:
            found.setdefault(key_of(trial.values), trial)
        return list(found.values())

    @property
    def best(self) -> Trial | None:
        """The chosen trial: the best on the days that the search may see."""
        return next(iter(self.ranked()), None)

    @property
    def is_own_as_good(self) -> bool:
        """Whether the strategy's own values did as well as the best, or better, on the days that
        the search may see.
        """
        own, best = self.inside(self.before), self.best
        outcome = self.before.outcome
        if own is None and outcome and not any(outcome.gains[: self.seen]):
            own = 0.0  # that it did not trade has no ratio, and has neither won nor lost
        return own is not None and best is not None and own >= (self.inside(best) or 0.0)

    def inside(self, trial: Trial) -> float | None:
        """Return the objective on the days that the search may see."""
        return self.figure(trial, 0, self.seen)

    def outside(self, trial: Trial) -> float | None:
        """Return the objective on the days that did not influence the choice."""
        return self.figure(trial, self.seen, len(self.days)) if self.folds else None

    def figure(self, trial: Trial, start: int, end: int) -> float | None:
        return self.objective_of(trial.outcome.gains[start:end]) if trial.outcome else None

    def objective_of(self, gains: Sequence[float]) -> float | None:
        return FIGURE[self.objective](gains)

    def fold_figures(self) -> tuple[FoldFigures, ...]:
        """Return each fold with its own best trial: walk-forward."""
        found = []
        for fold in self.folds:
            ranked = [
                (value, -trial.number, trial)
                for trial in self.played
                if (value := self.figure(trial, 0, fold.until)) is not None
            ]
            if not ranked:
                continue
            inside, _, trial = max(ranked, key=lambda each: each[:2])
            figures = FoldFigures(
                searched=(self.days[0], self.days[fold.until - 1]),
                tested=(self.days[fold.until], self.days[fold.end - 1]),
                number=trial.number,
                values=trial.values,
                inside=inside,
                outside=self.figure(trial, fold.until, fold.end),
            )
            found.append(figures)
        return tuple(found)

    def deflated(self) -> Deflated | None:
        """Return the deflated Sharpe ratio of the best, on the days that the search may see."""
        if self.best is None or self.best.outcome is None:
            return None
        windows = (trial.outcome.gains[: self.seen] for trial in self.played if trial.outcome)
        ratios = (sharpe(gains) for gains in windows)
        daily = [ratio / sqrt(DAYS_A_YEAR) for ratio in ratios if ratio is not None]
        return deflated_sharpe(self.best.outcome.gains[: self.seen], daily)

    def count(self, state: TrialState) -> int:
        return sum(trial.state is state for trial in self.trials)

    @property
    def size(self) -> int | None:
        return size_of(self.space)


def best_of(trials: Iterable[Trial]) -> Trial | None:
    """Return the played trial with the highest value, the first of equals."""
    played = [trial for trial in trials if trial.value is not None]
    return max(played, key=lambda trial: (trial.value or 0.0, -trial.number), default=None)
