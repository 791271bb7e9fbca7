"""A search on two processes beside one, and one of whose workers is killed.

    .venv/bin/python -m bench.optimise [--trials 500]

The trials are real: sma_cross on the twelve shipped weeks of one symbol. Reported are the
whole search, with asking, telling and the trials' log, and how many times each trial was told.
"""

import argparse
import os
import signal
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import date
from multiprocessing import active_children
from pathlib import Path
from time import perf_counter, process_time

from bot.runtime.history.backtest.spec import Wanted
from bot.runtime.history.optimise.result import Objective, Search, Trial
from bot.runtime.history.optimise.search import Question, search
from bot.runtime.history.optimise.trial import question_of, run_trial
from bot.runtime.history.optimise.workers import processes

STRATEGY = """\
name: bench
use: sma_cross
symbols: [HPG]
wake: {bar: 5m}
order: {size: {shares: 100}}
"""
SPACE = ("fast=2..60", "slow=61..400")


def asked(folder: Path, trials: int) -> Question:
    file = folder / "bench.yaml"
    file.write_text(STRATEGY)
    wanted = Wanted((file,), first=date(2026, 8, 24), last=date(2026, 11, 13))
    _, question = question_of(
        wanted, SPACE, objective=Objective.RETURN, trials=trials, folds=0, seed=7
    )
    return question


def timed(
    question: Question,
    folder: Path,
    workers: int,
    told: Callable[[int, Trial | None], None] = lambda _done, _best: None,
) -> tuple[float, Search]:
    make: Callable[[], Executor] = processes(workers)
    start, busy = perf_counter(), process_time()
    found = search(question, folder, make, workers=workers, told=told)
    print(
        f"  the search itself: {(process_time() - busy) / question.trials * 1e3:.1f} ms CPU a trial"
    )
    return perf_counter() - start, found


def cpu_of_a_trial(question: Question) -> float:
    """Return the CPU seconds of a trial in a process that has already read its bars."""
    run_trial(question.job, {})
    start = process_time()
    for fast in range(2, 12):
        run_trial(question.job, {"fast": fast, "slow": 61})
    return (process_time() - start) / 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=500)
    trials = parser.parse_args().trials

    def kill_one(done: int, _best: Trial | None) -> None:
        if done == trials // 2:
            child = min(child.pid or 0 for child in active_children())
            os.kill(child, signal.SIGKILL)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        question = asked(folder, trials)
        print(f"{trials} trials, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        print(f"  a trial: {cpu_of_a_trial(question) * 1e3:.1f} ms CPU")
        one, alone = timed(question, folder / "one", 1)
        print(f"one process    {one:6.1f} s")
        two, both = timed(question, folder / "two", 2)
        print(f"two processes  {two:6.1f} s  {one / two:.2f} times as quick")
        killed, left = timed(question, folder / "killed", 2, kill_one)
    counts = Counter(trial.number for trial in left.trials)
    print(
        f"with one killed {killed:5.1f} s  {len(counts)} results, "
        f"{sum(count > 1 for count in counts.values())} told twice"
    )
    same = [(t.number, t.values, t.value) for t in alone.trials]
    for found in (both, left):
        equal = same == [(t.number, t.values, t.value) for t in found.trials]
        print("the same trials as on one process:", "yes" if equal else "NO")


if __name__ == "__main__":
    main()
