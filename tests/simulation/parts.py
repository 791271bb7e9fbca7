"""A night that is told in parts: a file says who tells it, and what came of each story so far.

    python -m tests.simulation.simulate 1000 --into FILE      and once more, until all are told

Each part tells the seeds that it is asked for and that are not in the file yet, and the whole is
judged as one run. A part that was cut off goes on after the last story that it told.
"""

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any


def commit() -> str:
    """Name the commit. Raises SystemExit when what runs is none."""
    asked = [
        subprocess.run(
            command.split(), cwd=Path(__file__).parent, capture_output=True, text=True, check=False
        )
        for command in ("git rev-parse HEAD", "git status --porcelain --untracked-files=no")
    ]
    if any(each.returncode for each in asked) or asked[1].stdout:
        raise SystemExit("a night in parts is told by one commit: commit what has changed")
    return asked[0].stdout.strip()


def told_before(file: Path, by: Mapping[str, object]) -> list[dict[str, Any]]:
    """Return the stories in a file, or begin it. Raises SystemExit if others told them."""
    if not file.exists():
        file.write_text(f"{json.dumps(by)}\n")
    *lines, cut_off = file.read_text().split("\n")
    if cut_off:
        file.write_text("".join(f"{line}\n" for line in lines))
    head, *stories = map(json.loads, lines)
    if head != by:
        raise SystemExit(f"{file} was begun by {head}, this is {by}: name another file")
    return stories


def kept(results: Iterable[Any], file: Path) -> Iterator[Any]:
    """Pass each on once it is in the file."""
    for result in results:
        with file.open("a") as end:
            end.write(f"{json.dumps(vars(result))}\n")
        yield result
