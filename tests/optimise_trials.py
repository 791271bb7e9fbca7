"""Trials that take no time, for tests of the search: importable by any worker process."""

import os
import signal
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from time import sleep

from bot.runtime.history.optimise.result import Failure, Job, TrialResult
from bot.runtime.history.optimise.space import Values

DAYS = 100
JOB = Job(
    strategy="strategies/hill.yaml",
    code="c0de",
    data=("bars",),
    first=date(2026, 1, 1),
    last=date(2026, 6, 30),
    cash=100_000_000,
    holdings=(),
    fill="queue",
    config="",
)


def hill(job: Job, values: Values) -> TrialResult | Failure:
    """Play a strategy that is best at fast 12 and slow 60, and 0.1 % better on every second day.

    On the last fifth of the days, which no search sees, it is worth half as much.
    """
    fast, slow = float(values.get("fast", 5)), float(values.get("slow", 20))
    drift = 0.004 - 0.00002 * ((fast - 12) ** 2 + ((slow - 60) / 5) ** 2)
    gains = tuple(
        (drift if number < DAYS * 4 // 5 else drift / 2) + (0.005 if number % 2 else -0.004)
        for number in range(DAYS)
    )
    days = tuple(job.first + timedelta(days=number) for number in range(DAYS))
    return TrialResult(days, gains, profit=round(1e6 * sum(gains)), trades=7, costs=1_000)


def idle(job: Job, values: Values) -> TrialResult | Failure:
    """Play a strategy that trades with a fast of 10 and more alone."""
    found = hill(job, values)
    assert isinstance(found, TrialResult)
    if float(values.get("fast", 5)) >= 10:
        return found
    return TrialResult(found.days, (0.0,) * DAYS, 0, 0, 0)


def sometimes(job: Job, values: Values) -> TrialResult | Failure:
    """Gain every tenth day, the more the larger `fast` is; with a fast of 1 also lose now and then.

    The strategy as it is never trades.
    """
    found, fast = hill(job, values), int(values.get("fast", 0))
    assert isinstance(found, TrialResult)
    losses = -0.001 if fast == 1 else 0.0
    gains = (fast / 100 if number % 10 == 0 else losses for number in range(DAYS))
    return replace(found, gains=tuple(gains))


def briefly(job: Job, values: Values) -> TrialResult | Failure:
    """Play the same on a quarter of the days."""
    found = hill(job, values)
    assert isinstance(found, TrialResult)
    return replace(found, days=found.days[: DAYS // 4], gains=found.gains[: DAYS // 4])


def failing(_job: Job, _values: Values) -> TrialResult | Failure:
    return Failure("there are no bars of HPG")


def dying_once(job: Job, values: Values) -> TrialResult | Failure:
    """Note each call in the folder of the job; at the fifth the worker is killed, once."""
    folder = Path(job.strategy)
    try:
        sleep(0.002)  # so that both workers get some
        (folder / f"{os.getpid()}-{values.get('fast')}-{values.get('slow')}").touch()
        if len(list(folder.iterdir())) >= 5:
            (folder.parent / "killed").mkdir()
            os.kill(os.getpid(), signal.SIGKILL)
    except FileExistsError:
        pass
    return hill(job, values)


def noted(job: Job, values: Values) -> TrialResult | Failure:
    """Play the hill for a while, and note in the job's folder which process did."""
    sleep(0.02)
    (Path(job.strategy) / f"{os.getpid()}-{values.get('fast')}-{values.get('slow')}").touch()
    return hill(job, values)


def listed(job: Job, values: Values) -> TrialResult | Failure:
    """Play the hill, and add the values to the file that the job names."""
    with Path(job.strategy).open("a") as calls:
        calls.write(f"{values.get('fast')} {values.get('slow')}\n")
    return hill(job, values)
