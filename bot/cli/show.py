"""How results and mistakes reach the terminal. Results go to stdout, everything else to stderr.

Everything the command line writes goes through this module: a line by `write_line`, JSON by
`write_json`. Both make visible what a text from outside may hold, so that it can neither steer the
terminal nor forge a line. Colours are ours and are put on afterwards (`wants_color`).
"""

import json
import logging
import os
import re
import shutil
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NoReturn, TextIO

import click

from bot.cli.invocation import Invocation
from bot.config.problems import OperatorMistake, Problem
from bot.domain.visible import visible, visible_json

WIDTH: Final = 100
"""Columns where the terminal does not say."""
UNCUT: Final = 1_000
"""Columns of a table that is wanted whole."""

LINE_MAX: Final = 100_000
"""Characters of one line: more than any that is ours, and than an answer as it is kept."""
LAST_MIN: Final = 16
"""Columns that a table's last column keeps where others can be left out."""

Cell = str | int | None
Row = Sequence[Cell]
Dye = Callable[[str], str]


# -------------------------------------------------------------------------------- the one way out


def write_line(
    text: str,
    *,
    err: bool = False,
    dye: Dye = str,
    ends: bool = True,
    color: bool | None = None,
    limit: int = LINE_MAX,
) -> None:
    """Write one line; a line feed in `text` is made visible like all that is no text.

    `dye` colours what is written. `ends` False leaves the line open, for the status line.
    """
    click.echo(dye(visible(text, limit)), err=err, nl=ends, color=color)


def write_json(text: str) -> None:
    """Write JSON to stdout, whole."""
    click.echo(visible_json(text))


def steer(sequence: str, *, err: bool = False) -> None:
    """Write an escape sequence of our own: to wipe, to go back up."""
    click.echo(sequence, err=err, nl=False, color=True)


# --------------------------------------------------------------------------------------- mistakes


def fail(mistake: OperatorMistake) -> NoReturn:
    """Show a mistake on stderr and end with its exit code."""
    show_mistake(mistake)
    sys.exit(int(mistake.exit_code))


def show_mistake(mistake: OperatorMistake) -> None:
    """Write every problem: `file:line:col: CODE message`, with its snippet."""
    for problem in mistake.problems:
        show_problem(problem)


def show_problem(problem: Problem, *, before: str = "") -> None:
    """Write one problem on stderr; its message takes one line, its snippet those of the file."""
    write_line(f"{before}{problem.head}", err=True)
    for line in problem.snippet.split("\n") if problem.snippet else ():
        write_line(line, err=True)


def show_traceback() -> None:
    """Write the traceback of what is being handled on stderr, set in: it may quote anything."""
    for line in traceback.format_exc().splitlines():
        write_line(f"  {line}", err=True)


# ------------------------------------------------------------------------------------------- talk


def say(invocation: Invocation, text: str) -> None:
    """Talk to the person; never a result."""
    if not invocation.quiet:
        write_line(text, err=True)


def is_attended(invocation: Invocation) -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty() and not invocation.no_input


def confirm(question: str) -> bool:
    """Ask on stderr; ends the command when nothing is answered."""
    return click.confirm(visible(question), err=True)


def ask_hidden(question: str) -> str:
    """Ask on stderr for what is not echoed."""
    return str(click.prompt(visible(question), hide_input=True, err=True))


def print_text(text: str) -> None:
    """Print a result of one line."""
    write_line(text)


def print_lines(lines: Iterable[str]) -> None:
    """Print results, one to a line."""
    for text in lines:
        print_text(text)


def print_json(fields: Mapping[str, object]) -> None:
    """Print one JSON object, keys in the order they were given. Instants are ISO 8601."""
    write_json(json_text(fields))


def json_text(fields: Mapping[str, object]) -> str:
    """Return one JSON object as `print_json` prints it: indented on a terminal, else one line.

    Where the command is about a bot, its `bot` stands first: name, mode and configuration.
    """
    context = click.get_current_context(silent=True)
    invocation = context.find_object(Invocation) if context else None
    bot = {"bot": invocation.bot} if invocation and invocation.bot else {}
    indent = 2 if sys.stdout.isatty() else None
    found = {**bot, **fields}
    return visible_json(json.dumps(found, ensure_ascii=False, indent=indent, default=str))


class LogLines(logging.Handler):
    """What a library logs, on stderr; a record of several lines is set in from its second on."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        first, *more = self.format(record).splitlines() or [""]
        write_line(first, err=True)
        for line in more:
            write_line(f"  {line}", err=True)


# ----------------------------------------------------------------------------------------- colour


def wants_color(invocation: Invocation, stream: TextIO) -> bool:
    """Say whether escape sequences may be written to a stream."""
    if invocation.color != "auto":
        return invocation.color == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def width() -> int:
    """Columns of the screen: `COLUMNS`, else the terminal's; into a pipe nothing is cut."""
    wide = WIDTH if sys.stdout.isatty() else UNCUT
    return shutil.get_terminal_size((wide, 24)).columns


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
    is_colored = wants_color(invocation, sys.stdout)
    for number, line in enumerate(lines):
        dye = partial(_dyed, styles or {}) if number else partial(click.style, bold=True)
        write_line(line, dye=dye if is_colored else str, color=True)


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
    """A cell as it is shown: thousands separated, `-` for nothing, a text made visible."""
    if cell is None:
        return "-"
    return f"{cell:,}" if isinstance(cell, int) else visible(cell)


def cut(text: str, limit: int) -> str:
    """Shorten to `limit` characters behind a whole word, then ` …`; one long word is cut itself."""
    if len(text) <= limit:
        return text
    whole = text[: limit - 1].rpartition(" ")[0].rstrip()
    return f"{whole} …" if len(whole) > limit // 2 else f"{text[: limit - 1]}…"


def _dyed(styles: Mapping[str, str], line: str) -> str:
    """Colour the words of a line that have a style: whole cells, between blanks or ends."""
    for word, color in styles.items():
        cell = rf"(?<!\S){re.escape(word)}(?!\S)"
        line = re.sub(cell, partial(_styled, color), line)
    return line


def _styled(color: str, found: re.Match[str]) -> str:
    return click.style(found[0], fg=color)
