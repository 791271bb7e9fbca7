"""Recorded days are decided again as they were: hash for hash, whatever happened in them.

    python -m tests.simulation.recorded_days [days] [first seed]      20 days, seed 0

Each day is a story of the simulation (`simulate.py`): the real run against the sandbox, with its
faults, places that get lost, refused tokens, rows about others, plug-ins that raise and act in
every hook, an operator who pauses, halts, cancels and amends, a disk that hangs, and kills. It is
recorded, and then `bot replay` decides it again, in a process of its own with another hash seed.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bot.config.problems import ExitCode
from bot.runtime.history.recording import recorder
from bot.runtime.history.recording.recordings import days_of, parts_of, rows_of, runs_of
from tests.proofs import undone
from tests.simulation.plan import plan_of
from tests.simulation.simulate import MEMORY, _live, _project
from tests.simulation.world import KILLED

FLUSH_S: Final = 0.02
"""A story goes a thousand times as fast as the wall: a kill would cost most of it."""
REPLAY_S_MAX: Final = 120


def live_through(folder: Path, seed: int) -> tuple[Path, list[int]]:
    """Live through the story of a seed; return its configuration, and the code of each end."""
    plan = plan_of(seed)
    config = _project(folder, plan, record=True)
    return config, list(_live(config, plan))


def replays_of(config: Path) -> Iterator[tuple[int, dict[str, Any], str]]:
    """Replay each recorded day as its owner does; give exit code, result, and what went wrong."""
    for day in days_of(config.parent / "state"):
        done = subprocess.run(
            [sys.executable, "-m", "bot", "replay", str(day), "-c", str(config), "--json"],
            capture_output=True,
            check=False,
            text=True,
            timeout=REPLAY_S_MAX,
            env={**os.environ, "PYTHONHASHSEED": str(day.toordinal())},
        )
        yield done.returncode, json.loads(done.stdout), done.stderr


def kinds_in(state: Path) -> Counter[str]:
    """Count the calls of the engine by their kind, and those in which something was odd."""
    found: Counter[str] = Counter()
    for run in (run for day in days_of(state) for run in runs_of(state, day)):
        for row in (row for part in parts_of(run) for row in rows_of(part)):
            found[row.kind] += 1
            for odd in json.loads(row.odd) if row.odd else ():
                found[f"({odd[0]})"] += 1
    return found


def main(days: int = 20, seed: int = 0) -> int:
    """Tell stories until there are so many days; 0 when each hash came out again.

    A story that leaves no day, or whose last run does not end well, ends it.
    """
    done, equal, decided, kinds, wrong = 0, 0, 0, Counter[str](), list[str]()
    shelf = MEMORY if Path(MEMORY).is_dir() else None
    setattr(recorder, "FLUSH_S", FLUSH_S)  # noqa: B010 (of this proof's children alone)
    while done < days and not wrong:
        before = done
        with TemporaryDirectory(dir=shelf, prefix="story") as name:
            config, codes = live_through(Path(name), seed)
            kills = codes.count(KILLED)
            wrong += [f"seed {seed}: run {len(codes)} ended with {codes[-1]}"] if codes[-1] else []
            kinds += kinds_in(config.parent / "state")
            for code, found, words in replays_of(config):
                runs = found["runs"]
                events, decisions = (
                    sum(run[what] for run in runs) for what in ("events", "decisions")
                )
                sys.stdout.write(
                    f"seed {seed:4}, {found['day']}: {len(runs)} runs, {kills} kills, "
                    f"{events:6,} events, {decisions:6,} decisions, hash {found['digest']}\n{words}"
                )
                done, equal = done + 1, equal + (code == ExitCode.DONE)
                decided += decisions
        wrong += [f"seed {seed}: nothing was recorded"] if done == before else []
        seed += 1
    wrong += undone(days=done, decisions=decided)
    counted = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
    sys.stdout.write(f"{counted}\n{equal} of {done} recorded days are equal\n")
    sys.stdout.write("".join(f"{each}\n" for each in wrong))
    return 0 if equal == done and not wrong else ExitCode.DIFFERS


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
