"""The search: what it asks, in which order, and what it keeps."""

import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, ThreadPoolExecutor
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from bot.cli.report.search import search_json, search_page, sections
from bot.config.problems import ExitCode, OperatorMistake
from bot.runtime.history.optimise.deflated import Deflated
from bot.runtime.history.optimise.result import (
    Fold,
    Objective,
    Search,
    Trial,
    TrialResult,
    TrialState,
    best_of,
)
from bot.runtime.history.optimise.search import Question, search
from bot.runtime.history.optimise.space import Choice, Span, Values
from bot.runtime.history.optimise.study import LOG
from bot.runtime.history.optimise.workers import processes
from tests.optimise_trials import JOB, briefly, dying_once, failing, hill, idle, listed, sometimes
from tests.rows import every_row

pytest.importorskip("optuna", reason="optuna is not installed")
FAST = Span("fast", 3, 20, 1, True)
SLOW = Span("slow", 20, 100, 5, True)


def refuse(values: Values) -> str | None:
    fast, slow = values["fast"], values.get("slow", 1_000)
    return None if float(fast) < float(slow) else "fast is not below slow"


QUESTION = Question(
    job=JOB,
    run=hill,
    space=(FAST, SLOW),
    refuse=refuse,
    objective=Objective.SHARPE,
    trials=40,
    folds=3,
    seed=7,
)


def threads(count: int = 1) -> Callable[[], Executor]:
    return lambda: ThreadPoolExecutor(count)


def asked(found: Search) -> list[tuple[int, Values, float | None]]:
    return [(trial.number, trial.values, trial.value) for trial in found.trials]


def test_it_finds_the_hill_and_says_what_was_searched(tmp_path: Path) -> None:
    found = search(QUESTION, tmp_path, threads())

    assert found.best is not None
    assert abs(float(found.best.values["fast"]) - 12) <= 3
    assert abs(float(found.best.values["slow"]) - 60) <= 15
    assert [trial.number for trial in found.trials] == list(range(40))
    assert found.folds == (Fold(40, 60), Fold(60, 80), Fold(80, 100))
    assert found.seen == 80


def test_the_search_sees_no_day_of_the_last_test(tmp_path: Path) -> None:
    found = search(replace(QUESTION, trials=5), tmp_path, threads())

    best = found.best
    assert best is not None
    assert best.outcome is not None
    assert best.value == found.objective_of(best.outcome.gains[:80])
    assert found.outside(best) == found.objective_of(best.outcome.gains[80:])


def test_a_seed_gives_the_same_search_however_many_work_at_it(tmp_path: Path) -> None:
    alone = search(QUESTION, tmp_path / "alone", threads(1))
    four = search(QUESTION, tmp_path / "four", threads(4), workers=4)

    assert asked(alone) == asked(four)
    assert asked(alone) != asked(search(replace(QUESTION, seed=8), tmp_path / "8", threads()))


def test_a_search_that_was_interrupted_goes_on_where_it_stopped(tmp_path: Path) -> None:
    class Interrupted(Exception):
        pass

    def interrupt(done: int, _best: Trial | None) -> None:
        if done == 15:
            raise Interrupted

    with pytest.raises(Interrupted):
        search(QUESTION, tmp_path, threads(), told=interrupt)
    ended = list[int]()
    found = search(QUESTION, tmp_path, threads(), told=lambda done, _best: ended.append(done))

    assert ended[0] == 15
    assert len(found.trials) == 40
    numbers = [trial.number for trial in found.trials]
    assert len(set(numbers)) == 40
    # What was under way is asked again with its values, under a new number.
    assert numbers[:15] == list(range(15))
    whole = search(QUESTION, tmp_path / "whole", threads())
    again = [trial.values for trial in found.trials[15:22]]
    assert again == [trial.values for trial in whole.trials[15:22]]


def test_a_search_that_is_done_makes_no_trial_again(tmp_path: Path) -> None:
    first = search(QUESTION, tmp_path, threads())
    calls = list[int]()

    again = search(QUESTION, tmp_path, threads(), told=lambda done, _best: calls.append(done))

    assert asked(again) == asked(first)
    assert calls == [40]


@every_row("torn", [b'{"op_code":4,"worker_', b"\0" * 64, b'{"op_code"\0\0'])
def test_a_log_whose_end_a_crash_has_torn_goes_on(tmp_path: Path, torn: bytes) -> None:
    folder = tmp_path / torn.hex()
    few = replace(QUESTION, trials=3)
    first = search(few, folder, threads())
    with (folder / LOG).open("ab") as file:
        file.write(torn)

    again = search(replace(QUESTION, trials=5), folder, threads())

    assert asked(again)[:3] == asked(first)
    assert len(asked(search(replace(QUESTION, trials=5), folder, threads()))) == 5


def test_a_folder_with_another_question_is_refused(tmp_path: Path) -> None:
    search(replace(QUESTION, trials=3), tmp_path, threads())

    with pytest.raises(OperatorMistake, match="another objective and seed"):
        search(replace(QUESTION, objective=Objective.RETURN, seed=1), tmp_path, threads())


def test_values_that_check_refuses_are_counted_and_not_played(tmp_path: Path) -> None:
    narrow = replace(QUESTION, space=(FAST, Span("slow", 5, 20, 1, True)), run=hill)

    found = search(narrow, tmp_path, threads())

    refused = [trial for trial in found.trials if trial.state is TrialState.REFUSED]
    assert refused
    assert all(refuse(trial.values) for trial in refused)
    assert not any(refuse(trial.values) for trial in found.played)
    assert {trial.reason for trial in refused} == {"fast is not below slow"}
    assert len(found.trials) == 40


def test_a_trial_that_never_traded_has_no_figure(tmp_path: Path) -> None:
    found = search(replace(QUESTION, run=idle), tmp_path, threads())

    silent = [trial for trial in found.trials if trial.state is TrialState.SILENT]
    assert silent
    assert all(float(trial.values["fast"]) < 10 and trial.value is None for trial in silent)
    assert found.before.state is TrialState.SILENT


def test_a_trial_without_a_losing_day_is_the_best_by_sortino(tmp_path: Path) -> None:
    space = (Span("fast", 1, 3, 1, True),)
    question = replace(QUESTION, space=space, run=sometimes, objective=Objective.SORTINO)

    found = search(question, tmp_path, threads())

    assert [(trial.values["fast"], trial.state) for trial in found.ranked()] == [
        (3, TrialState.PLAYED),
        (2, TrialState.PLAYED),
        (1, TrialState.PLAYED),
    ]
    assert found.best is not None
    assert found.inside(found.best) == found.best.value


def test_a_small_space_is_tried_whole_and_once(tmp_path: Path) -> None:
    space = (Choice("fast", (3, 4)), Span("slow", 20, 40, 10, True))

    found = search(replace(QUESTION, space=space), tmp_path, threads())

    values = sorted((trial.values["fast"], trial.values["slow"]) for trial in found.trials)
    assert values == [(fast, slow) for fast in (3, 4) for slow in (20, 30, 40)]
    assert found.repeated == 0


NINE = replace(
    QUESTION,
    space=(Span("fast", 3, 5, 1, True), Span("slow", 20, 30, 5, True)),
    refuse=lambda values: "no" if values == {"fast": 4, "slow": 25} else None,
)


def combinations(found: Search) -> set[tuple[object, object]]:
    return {(trial.values["fast"], trial.values["slow"]) for trial in found.trials}


@pytest.mark.parametrize("seed", [1, 2, 5])
def test_more_trials_than_a_small_space_holds_try_all_of_it(tmp_path: Path, seed: int) -> None:
    few = search(replace(NINE, trials=8, seed=seed), tmp_path, threads())

    found = search(replace(NINE, trials=50, seed=seed), tmp_path, threads())

    missing = 9 - len(combinations(few))
    assert missing > 1, "the first search has repeated some"
    assert len(combinations(found)) == 9
    assert len(found.trials) == len(few.trials) + missing
    assert asked(search(replace(NINE, trials=50, seed=seed), tmp_path, threads())) == asked(found)


def test_a_small_space_is_tried_whole_wherever_a_kill_cuts_the_log(tmp_path: Path) -> None:
    search(NINE, tmp_path, threads())
    lines = (tmp_path / LOG).read_bytes().splitlines(keepends=True)

    for count in range(1, len(lines), 3):
        (tmp_path / LOG).write_bytes(b"".join(lines[:count]))
        found = search(NINE, tmp_path, threads())
        assert len(combinations(found)) == 9, lines[count - 1]


def test_values_that_come_again_are_not_played_again(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    space = (Span("fast", 10, 13, 1, True), Span("slow", 55, 65, 1, True))
    job = replace(JOB, strategy=str(calls))

    question = replace(QUESTION, job=job, run=listed, space=space)
    found = search(question, tmp_path / "study", threads())

    played = calls.read_text().splitlines()
    assert found.repeated > 0
    assert search(question, tmp_path / "study", threads()).repeated == found.repeated
    assert len(set(played)) == len(played)
    assert len(found.trials) == 40


def test_the_neighbours_of_the_best_are_all_played(tmp_path: Path) -> None:
    found = search(replace(QUESTION, trials=12), tmp_path, threads())

    best = found.best
    assert best is not None
    names = [neighbour.name for neighbour in found.neighbours]
    assert names in (["fast", "fast", "slow", "slow"], ["fast", "slow", "slow"])
    for neighbour in found.neighbours:
        differing = {name for name in best.values if best.values[name] != neighbour.values[name]}
        assert differing == {neighbour.name}
        assert neighbour.inside is not None


def test_walk_forward_chooses_by_the_days_before_each_test(tmp_path: Path) -> None:
    found = search(QUESTION, tmp_path, threads())

    for fold, figures in zip(found.folds, found.fold_figures(), strict=True):
        inside = [found.figure(trial, 0, fold.until) or 0 for trial in found.played]
        assert figures.inside == max(inside)
        assert figures.tested == (found.days[fold.until], found.days[fold.end - 1])


def test_a_range_too_short_for_a_test_is_refused_and_folds_0_takes_it(tmp_path: Path) -> None:
    brief = replace(QUESTION, trials=3, run=briefly)

    with pytest.raises(OperatorMistake, match="30 days with bars, there are 25"):
        search(brief, tmp_path, threads())
    found = search(replace(brief, folds=0), tmp_path, threads())  # the folder is still free

    assert (found.folds, found.seen) == ((), 25)
    assert found.best is not None
    assert found.outside(found.best) is None


def test_a_strategy_that_cannot_be_played_ends_the_search(tmp_path: Path) -> None:
    with pytest.raises(OperatorMistake, match="no bars of HPG"):
        search(replace(QUESTION, run=failing), tmp_path, threads())


@pytest.mark.process
def test_a_killed_process_loses_no_trial_and_doubles_none(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    calls.mkdir()
    job = replace(JOB, strategy=str(calls))
    question = replace(QUESTION, job=job, run=dying_once, refuse=lambda _values: None)

    found = search(question, tmp_path / "study", processes(2), workers=2)

    assert (tmp_path / "killed").is_dir()
    plain = search(replace(QUESTION, refuse=lambda _values: None), tmp_path / "plain", threads())
    assert asked(found) == asked(plain)


SEARCH = """
import os, time
from bot.runtime.history.optimise.workers import processes

if __name__ == "__main__":
    executor = processes(1)()
    print(executor.submit(os.getpid).result(), flush=True)
    executor.submit(time.sleep, 60).result()
"""


@pytest.mark.process
def test_a_search_that_is_killed_leaves_no_process_behind(tmp_path: Path) -> None:
    script = tmp_path / "search.py"
    script.write_text(SEARCH)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE) as killed:
        assert killed.stdout is not None
        worker = os.pidfd_open(int(killed.stdout.readline()))

        killed.kill()

        ended, _, _ = select.select([worker], [], [], 20)
    os.close(worker)
    assert ended, "the worker has ended"


@pytest.mark.process
def test_a_search_that_is_cut_off_waits_for_no_trial() -> None:
    executor = processes(1)()
    executor.submit(os.getpid).result()
    playing = executor.submit(time.sleep, 40)
    time.sleep(0.3)  # by then the worker has it, and the next two fill the queue
    pending = [executor.submit(time.sleep, 40) for _ in range(4)]
    while not pending[1].running():
        time.sleep(0.01)
    for future in pending:
        future.cancel()

    executor.shutdown(wait=False)

    with pytest.raises(BrokenExecutor):
        playing.result(20)
    for thread in set(threading.enumerate()) - {threading.current_thread()}:
        thread.join(20)  # an error in one of them fails the test


def test_two_searches_do_not_run_in_one_folder(tmp_path: Path) -> None:
    def second(done: int, _best: Trial | None) -> None:
        with pytest.raises(OperatorMistake, match="already") as caught:
            search(QUESTION, tmp_path, threads())
        assert caught.value.exit_code == ExitCode.NOT_RUNNING

    search(replace(QUESTION, trials=1), tmp_path, threads(), told=second)


DAYS = tuple(date(2026, 9, 1) + timedelta(days=number) for number in range(40))


def trial_of(number: int, gain: float, *, trades_in_test: bool = True) -> Trial:
    wave = [gain + (0.01 if day % 2 else -0.01) for day in range(len(DAYS))]
    gains = (*wave[:30], *(wave[30:] if trades_in_test else [0.0] * 10))
    outcome = TrialResult(DAYS, gains, 1, 1, 1)
    return Trial(number, {"fast": number}, TrialState.PLAYED, gain, outcome)


def found_of(*trials: Trial) -> Search:
    [best, *_] = trials
    folds, space = (Fold(30, 40),), (Span("fast", 0, 5, 1, True),)
    return Search(
        *(JOB, space, Objective.SHARPE, len(trials), 7, DAYS, 30, folds, best, trials, (), 0)
    )


@every_row("trades_in_test", [True, False])
def test_the_large_dot_is_the_best_or_there_is_none(*, trades_in_test: bool) -> None:
    best, other = trial_of(0, 0.02, trades_in_test=trades_in_test), trial_of(1, 0.001)

    page = search_page(found_of(best, other), "hill")

    assert page.count("<circle") == 1 + trades_in_test
    assert page.count('class="best"') == trades_in_test


def test_the_first_of_equal_trials_is_the_best_also_if_its_values_came_again() -> None:
    first = trial_of(1, 0.02)
    trials = (first, replace(first, number=2, values={"fast": 9}), replace(first, number=3))

    found = found_of(*trials)

    assert [each.number for each in found.ranked()] == [1, 2]
    assert found.best == best_of(trials) == first


def test_a_trial_that_traded_on_too_few_days_is_not_one_that_never_traded() -> None:
    traded = replace(trial_of(0, 0.02), state=TrialState.SILENT, value=None)
    idle = Trial(1, {"fast": 1}, TrialState.SILENT, None, TrialResult(DAYS, (0.0,) * 40, 0, 0, 0))

    made = dict(sections(found_of(traded, idle)))["trials"]
    as_json = search_json(found_of(traded, idle), "hill")

    assert isinstance(as_json, dict)
    assert as_json["idle_when_searched"] == 1
    none, few = "1 that traded on none of the days searched", "1 with too few days for a figure"
    assert made == f"2 made: 0 played, {none}, {few}"


@every_row("probability, told", [(0.9962, "over 99 %"), (0.0001, "under 1 %"), (0.946, "95 %")])
def test_what_is_likely_is_not_told_as_certain(
    probability: float, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = found_of(*(trial_of(number, 0.02 + number / 1_000) for number in range(4)))
    monkeypatch.setattr(
        Search, "deflated", lambda _: Deflated(probability, 0.1, 0.2, 4, 0.01, 40, 0.0, 3.0)
    )

    luck = dict(sections(found))["more than luck"]

    assert luck.startswith(f"{told} (deflated Sharpe ratio)")
