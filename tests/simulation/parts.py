"""A night that is told in parts: a file says who tells it, and what came of each story so far.

    python -m tests.simulation.simulate 1000 --into FILE      and once more, until all are told

Each part tells the seeds that it is asked for and that are not in the file yet, and the whole is
judged as one run. A part that was cut off goes on after the last story that it told.
"""

import fcntl
import json
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
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


@contextmanager
def alone(file: Path) -> Iterator[None]:
    """Keep others out of a file. Raises SystemExit if one is at it: both would tell the same."""
    with file.open("a") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"another part is being told into {file}: wait for its end") from None
        yield


def told_before(file: Path, by: Mapping[str, object]) -> list[dict[str, Any]]:
    """Return the stories in a file, or begin it. Raises SystemExit if others told them."""
    *lines, cut_off = file.read_text().split("\n")
    lines = lines or [json.dumps(by)]
    if cut_off or len(lines) == 1:
        file.write_text("".join(f"{line}\n" for line in lines))
    head, *stories = map(json.loads, lines)
    if head != by:
        raise SystemExit(f"{file} was begun by {head}, this is {by}: name another file")
    return stories


def kept(results: Iterable[Any], file: Path, is_told: Callable[[], bool]) -> Iterator[Any]:
    """Pass each on once it is in the file. Raises SystemExit if it is not told as the others are:
    a part reads its files for as long as it lasts.
    """
    for result in results:
        if not is_told():
            raise SystemExit("the commit has changed meanwhile: what was told since is not kept")
        with file.open("a") as end:
            end.write(f"{json.dumps(vars(result))}\n")
        yield result
