"""Problems as an operator reads them, and exit codes for scripts.

Every mistake that an operator can make is an `OperatorMistake` with one `Problem` for each thing to
put right; anything else that reaches the screen is a bug. The codes are in `error_codes.yaml`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Self


def shown_path(path: Path) -> str:
    """Return a path as a message shows it: relative when it lies below the working directory."""
    absolute = path.absolute()
    here = Path.cwd()
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(absolute)


class ExitCode(IntEnum):
    """Exit codes of the process; the numbers are stable."""

    DONE = 0
    BUG = 1
    USAGE = 2
    CONFIG = 3
    SECRET = 4
    NEEDS_2FA = 5
    UNREACHABLE = 6
    DATABASE = 7
    REFUSED = 8
    REJECTED = 9
    NOT_RUNNING = 10
    """Also: one is already running."""
    TIMED_OUT = 11
    DIFFERS = 12


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem. `message` says what was wanted, what was found and what to do.

    `line` and `column` count from 1; `snippet` is the line in question with a caret line under it.
    """

    code: str
    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    snippet: str = ""

    def __str__(self) -> str:
        return f"{self.head}\n{self.snippet}" if self.snippet else self.head

    @property
    def head(self) -> str:
        """`file:line:col: CODE message`: everything except the snippet."""
        text = f"{self.code} {self.message}"
        return f"{self.place}: {text}" if self.place else text

    @property
    def place(self) -> str:
        """`file:line:column`, as far as known; empty without a file."""
        parts = (self.file, self.line, self.column)
        return ":".join(str(part) for part in parts if part is not None)


class OperatorMistake(Exception):
    """A mistake that the operator can correct. Shown without a traceback."""

    def __init__(self, problems: Iterable[Problem], exit_code: int = ExitCode.CONFIG) -> None:
        self.problems = tuple(problems)
        self.exit_code = exit_code
        super().__init__("\n".join(str(problem) for problem in self.problems))

    @classmethod
    def of(cls, code: str, message: str, exit_code: int = ExitCode.CONFIG) -> Self:
        """Return a mistake with one problem that belongs to no file."""
        return cls((Problem(code, message),), exit_code)
