"""A whole drill: every exercise in turn, each in its own folder."""

import asyncio
from collections.abc import Callable, Iterator, Sequence

from bot.drill.exercise import HALT, KILLS, Exercise, Row, exercises
from bot.drill.killing import halt_once, kill_often
from bot.drill.project import Project
from bot.drill.story import drill

Progress = Callable[[str], None]
KINDS = {KILLS: kill_often, HALT: halt_once}


def run(project: Project, only: Sequence[str], progress: Progress) -> Iterator[Row]:
    """Do the exercises, those named in `only` or all; yield each row as it comes.

    `progress` is called with what is going on. Raises Interrupted if a signal has ended one.
    """
    by_name: dict[str, Exercise] = {each.name: each for each in exercises()}
    for name in only or (*by_name, *KINDS):
        folder = project.folder / name
        if name in by_name:
            progress(by_name[name].broken)
            yield asyncio.run(drill(project, by_name[name], folder))
        else:
            progress(name)
            yield KINDS[name](project, folder, progress)
