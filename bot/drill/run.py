"""A whole drill: every exercise in turn, each in its own folder, all within five minutes."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from bot.clock import monotonic_s
from bot.drill.exercise import HALT, KILLS, OutOfTime, Row, exercises
from bot.drill.killing import BROKEN, KILLS_COUNT, halt_once, kill_often
from bot.drill.project import Project
from bot.drill.story import drill

Progress = Callable[[str], None]
KINDS = {KILLS: kill_often, HALT: halt_once}
DRILL_S_MAX: Final = 270.0
"""For the whole; what is being played then is broken off, which takes some seconds."""


def run(project: Project, only: Sequence[str], progress: Progress, started: float) -> Iterator[Row]:
    """Do the exercises, those named in `only` or all; yield each row as it comes.

    `progress` is called with what is going on. After `DRILL_S_MAX` from `started`, by the
    monotonic clock, nothing is played: the row of each one left says so, and is no pass. Raises
    Interrupted if a signal has ended one.
    """
    by_name = {each.name: each.fitted_to(project.loaded.settings) for each in exercises()}
    ends = started + DRILL_S_MAX
    for name in only or (*by_name, *KINDS):
        folder, begun = project.folder / name, monotonic_s()
        fault = by_name.get(name)
        broken = fault.broken if fault else BROKEN[name].format(kills=KILLS_COUNT)
        try:
            if begun >= ends:
                raise OutOfTime
            if fault is not None:
                progress(broken)
                yield asyncio.run(drill(project, fault, folder, ends))
            else:
                progress(name)
                yield KINDS[name](project, folder, progress, ends)
        except OutOfTime:
            how_far = "not played" if begun >= ends else "broken off"
            problem = f"{how_far}: the {DRILL_S_MAX:g} s of the drill are over; play it alone"
            yield Row(name, broken, "nothing that can be judged", [problem], monotonic_s() - begun)
