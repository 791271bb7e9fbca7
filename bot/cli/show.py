"""How results and mistakes reach the terminal. Results go to stdout, everything else to stderr.

Tables are plain aligned columns; escape sequences are written only where colour is wanted
(`wants_color`).
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NoReturn, TextIO

import click

from bot.cli.invocation import Invocation
from bot.runtime.problems import OperatorMistake

WIDTH: Final = 100
"""Columns where the terminal does not say."""
UNCUT: Final = 1_000
"""Columns of a table that is wanted whole."""

LAST_MIN: Final = 16
"""Columns that a table's last column keeps where others can be left out."""

Cell = str | int | None
Row = Sequence[Cell]


# --------------------------------------------------------------------------------------- mistakes


def fail(mistake: OperatorMistake) -> NoReturn:
    """Show a mistake on stderr and end with its exit code."""
    show_mistake(mistake)
    sys.exit(int(mistake.exit_code))


def show_mistake(mistake: OperatorMistake) -> None:
    """Write every problem: `file:line:col: CODE message`, with its snippet."""
    for problem in mistake.problems:
        click.echo(str(problem), err=True)


# ------------------------------------------------------------------------------------------- talk


def say(invocation: Invocation, text: str) -> None:
    """Talk to the person; never a result."""
    if not invocation.quiet:
        click.echo(text, err=True)


def is_attended(invocation: Invocation) -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty() and not invocation.no_input


def print_text(text: str) -> None:
    """Print a result."""
    click.echo(text)


def print_lines(lines: Iterable[str]) -> None:
    """Print results, one to a line."""
    for text in lines:
        print_text(text)


def print_json(value: object) -> None:
    """Print one JSON value, keys in the order they were given. Instants are ISO 8601."""
    click.echo(json_text(value))


def json_text(value: object) -> str:
    """Write one JSON value as `print_json` prints it: indented on a terminal, else one line."""
    indent = 2 if sys.stdout.isatty() else None
    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)


# ----------------------------------------------------------------------------------------- colour


def wants_color(invocation: Invocation, stream: TextIO) -> bool:
    """Say whether escape sequences may be written to a stream."""
    if invocation.color != "auto":
        return invocation.color == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def width() -> int:
    """Columns of the screen: `COLUMNS`, the terminal's, else 100."""
    return shutil.get_terminal_size((WIDTH, 24)).columns


# ----------------------------------------------------------------------------------------- tables


def print_table(
    invocation: Invocation,
    heads: Sequence[str],
    rows: Sequence[Row],
    *,
    styles: Mapping[str, str] | None = None,
    limit: int | None = None,
    spare: Sequence[str] = (),
) -> None:
    """Print rows under their heads. Numbers stand right; lines are cut to `limit`, or the screen.

    `styles` colours whole cells by their text, on a terminal only. Where it is too wide, columns of
    `spare` are left out, the first of them first.
    """
    columns = limit or width()
    heads, rows = _kept(heads, rows, spare, columns)
    lines = aligned(heads, rows, limit=columns)
    if wants_color(invocation, sys.stdout):
        lines = [click.style(lines[0], bold=True), *(_dyed(x, styles or {}) for x in lines[1:])]
    for line in lines:
        click.echo(line, color=True)


def aligned(heads: Sequence[str], rows: Sequence[Row], *, limit: int) -> list[str]:
    """Return the lines of a table, at most `limit` wide, without trailing blanks."""
    table = [list(heads), *([text_of(cell) for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in table) for at in range(len(heads))]
    rights = [_is_right(rows, at) for at in range(len(heads))]
    return [cut(_line(row, widths, rights), limit) for row in table]


def _kept(
    heads: Sequence[str], rows: Sequence[Row], spare: Sequence[str], columns: int
) -> tuple[Sequence[str], Sequence[Row]]:
    """The columns that fit; the last one may be cut down to a few words."""
    widths = [max(len(text_of(row[at])) for row in (heads, *rows)) for at in range(len(heads))]
    widths[-1] = min(widths[-1], LAST_MIN)
    kept = dict(zip(heads, widths, strict=True))
    for head in spare:
        if sum(kept.values()) + len(kept) - 1 <= columns:
            break
        del kept[head]
    at = [place for place, head in enumerate(heads) if head in kept]
    return [heads[place] for place in at], [[row[place] for place in at] for row in rows]


def _line(row: Sequence[str], widths: Sequence[int], rights: Sequence[bool]) -> str:
    cells = [
        text.rjust(wide) if right else text.ljust(wide)
        for text, wide, right in zip(row, widths, rights, strict=True)
    ]
    return " ".join(cells).rstrip()


def _is_right(rows: Sequence[Row], at: int) -> bool:
    return any(isinstance(row[at], int) for row in rows)


def text_of(cell: Cell) -> str:
    """A cell as it is shown: thousands separated, `-` for nothing."""
    if cell is None:
        return "-"
    return f"{cell:,}" if isinstance(cell, int) else cell


def cut(text: str, limit: int) -> str:
    """Shorten to `limit` characters, the last one `…`."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _dyed(line: str, styles: Mapping[str, str]) -> str:
    """Colour the words of a line that have a style: whole cells, between blanks or ends."""
    for word, color in styles.items():
        cell = rf"(?<!\S){re.escape(word)}(?!\S)"
        line = re.sub(cell, partial(_styled, color), line)
    return line


def _styled(color: str, found: re.Match[str]) -> str:
    return click.style(found[0], fg=color)
