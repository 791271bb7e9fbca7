"""The folder of a search: its question and the result of each trial.

    question.json    what is searched: another question needs another folder
    trials.log       Optuna's journal; each trial is appended, and survives a kill
    lock             held by the search that runs

Trials under way when a search ended are marked failed and queued again with their values.
"""

import fcntl
import importlib
import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bot.config.problems import ExitCode, OperatorMistake, shown_path
from bot.runtime.history.optimise.result import Trial, TrialResult, TrialState
from bot.runtime.history.optimise.space import Choice, Dimension, Space, Values, key_of

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution

NAME: Final = "search"
LOG: Final = "trials.log"
QUESTION: Final = "question.json"
LOCK: Final = "lock"
MISSING: Final = (
    "a search needs Optuna, which is not installed: pip install 'vnbot[optimize]', then again"
)
_OUTCOME: Final = "outcome"
_BEFORE: Final = "before"
_REASON: Final = "reason"
_QUEUED: Final = "fixed_params"
"""Where Optuna keeps the values of a queued trial."""


@contextmanager
def open_folder(folder: Path, question: Mapping[str, object]) -> Iterator[None]:
    """Lock the folder of a search. Raises OperatorMistake if it holds another question, or another
    search runs in it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = f"a search runs in {shown_path(folder)} already: wait, or name another --study"
            raise OperatorMistake.of("E-OPT-005", text, ExitCode.NOT_RUNNING) from None
        file, wanted = folder / QUESTION, json.loads(json.dumps(question, default=str))
        if not file.exists():
            beside = folder / f".{QUESTION}.{os.getpid()}"
            beside.write_text(json.dumps(wanted, indent=2) + "\n", encoding="utf-8")
            beside.replace(file)
        kept = {}
        with suppress(ValueError):
            kept = json.loads(file.read_text("utf-8"))
        if differing := [name for name in wanted if kept.get(name) != wanted[name]]:
            text = f"{shown_path(folder)} holds a search with another {' and '.join(differing)}: "
            text += "name another --study, or remove the folder"
            raise OperatorMistake.of("E-OPT-005", text)
        yield
    finally:
        os.close(lock)


def require_optuna() -> None:
    """Raise OperatorMistake if the library is not installed."""
    try:
        importlib.import_module("optuna")
    except ImportError:
        raise OperatorMistake.of("E-OPT-002", MISSING) from None


class StudyLog:
    """The trials of a search: asked from Optuna by number, reported, and read again after a
    restart.
    """

    def __init__(self, folder: Path, space: Space, seed: int) -> None:
        import optuna

        from bot.runtime.history.optimise.log_file import TrialsFile

        self._folder = folder
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        storage = optuna.storages.JournalStorage(TrialsFile(folder / LOG))
        self._states = optuna.trial.TrialState
        self._distributions = {each.name: _distribution(each) for each in space}
        self._study: Study = optuna.create_study(
            storage=storage, study_name=NAME, direction="maximize", load_if_exists=True
        )
        self._asked: dict[int, optuna.Trial] = {}
        # The values of trials under way are queued again, before they are marked failed. Those that
        # came from the queue are known even if the log ends before it names them.
        running = self._study.get_trials(deepcopy=False, states=(self._states.RUNNING,))
        known = [each.system_attrs.get(_QUEUED, each.params) for each in running]
        self.queue(each for each in known if len(each) == len(self._distributions))
        for trial in running:
            self._study.tell(trial.number, state=self._states.FAIL)
        # A continued search draws other numbers than a new one, but the same each time.
        done = len(self._study.get_trials(deepcopy=False))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            self._study.sampler = optuna.samplers.TPESampler(
                seed=seed + done, constant_liar=True, multivariate=len(space) > 1
            )

    @property
    def before(self) -> TrialResult | None:
        """The result of the strategy with its own values, if already known."""
        found = self._study.user_attrs.get(_BEFORE)
        return _outcome(found) if found else None

    def forget(self) -> None:
        """Leave no search behind if none can be made, so that another question may
        take the folder.
        """
        for name in (LOG, QUESTION):
            (self._folder / name).unlink(missing_ok=True)

    def keep_before(self, outcome: TrialResult) -> None:
        self._study.set_user_attr(_BEFORE, _plain(outcome))

    def trials(self) -> list[Trial]:
        """Return all finished trials, by number."""
        states = (self._states.COMPLETE, self._states.PRUNED)
        found = []
        for each in self._study.get_trials(deepcopy=False, states=states):
            outcome = each.user_attrs.get(_OUTCOME)
            state = TrialState.PLAYED if each.value is not None else TrialState.SILENT
            trial = Trial(
                number=each.number,
                values=dict(each.params),
                state=state if outcome else TrialState.REFUSED,
                value=each.value,
                outcome=_outcome(outcome) if outcome else None,
                reason=each.user_attrs.get(_REASON, ""),
            )
            found.append(trial)
        return found

    def ask(self) -> tuple[int, Values]:
        """Return number and values of the next trial."""
        trial = self._study.ask(self._distributions)
        self._asked[trial.number] = trial
        return trial.number, dict(trial.params)

    def tell(self, trial: Trial) -> None:
        """Store the result of a trial."""
        asked = self._asked.pop(trial.number)
        if trial.outcome is not None:
            asked.set_user_attr(_OUTCOME, _plain(trial.outcome))
        if trial.reason:
            asked.set_user_attr(_REASON, trial.reason)
        if trial.state is TrialState.PLAYED:
            self._study.tell(asked, trial.value)
        else:
            self._study.tell(asked, state=self._states.PRUNED)

    def queue(self, rows: Iterable[Values]) -> int:
        """Queue values to be tried before Optuna chooses any, unless they wait already; return how
        many wait then.
        """
        states = (self._states.WAITING,)
        waiting = self._study.get_trials(deepcopy=False, states=states)
        kept = {key_of(each.system_attrs[_QUEUED]) for each in waiting}
        new = [values for values in rows if key_of(values) not in kept]
        for values in new:
            self._study.enqueue_trial(dict(values))
        return len(waiting) + len(new)


def _distribution(dimension: Dimension) -> "BaseDistribution":
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(dimension, Choice):
        return CategoricalDistribution(dimension.values)
    low, high, step = dimension.low, dimension.high, dimension.step
    if dimension.is_whole:
        return IntDistribution(round(low), round(high), step=round(step or 1))
    return FloatDistribution(low, high, step=step)


def _plain(outcome: TrialResult) -> dict[str, object]:
    return {**asdict(outcome), "days": [day.isoformat() for day in outcome.days]}


def _outcome(found: Mapping[str, Any]) -> TrialResult:
    days = tuple(date.fromisoformat(day) for day in found["days"])
    return TrialResult(**{**found, "days": days, "gains": tuple(found["gains"])})
