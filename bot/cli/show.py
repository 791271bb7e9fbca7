"""How results and mistakes reach the terminal. Results go to stdout, everything else to stderr.

Everything the command line writes goes through this module: lines by `write_line`, JSON by
`write_json`. Both make control characters visible, so that a text from outside can neither control
the terminal nor forge a line. Our own colours are added afterwards (`wants_color`).
"""

import errno
import json
import logging
import os
import re
import shutil
import sys
import termios
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count, islice
from time import sleep
from typing import Final, TextIO

import click

from bot.cli.command import Invocation
from bot.config.problems import OperatorMistake, Problem
from bot.domain.visible import visible, visible_json
from bot.runtime.hush import trace_of

ENGLISH: Final = "en"
WIDTH: Final = 100
"""Columns if the terminal does not report its width."""
UNCUT: Final = 1_000
"""Columns of a table that is not to be cut."""
LINE_MAX: Final = 100_000
"""Characters of one line: more than any of ours, or a stored broker answer, has."""
ROWS_AT_ONCE: Final = 1_000
"""A longer table is laid out in blocks of this many rows."""
LAST_MIN: Final = 16
"""Columns that a table's last column keeps while others can be dropped."""
STREAMS: Final = (1, 2)
"""Descriptors of stdout and stderr."""
STEPS: Final = 1_000
"""Steps of a progress bar."""
WIPE: Final = "\r\x1b[2K"
_TYPED_MAX: Final = 65_536
"""Characters of typed or piped input: more than any key or token has."""
_ENCODING_MARK: Final = "\ufeff"
"""Some editors begin every file with it."""
_UP_AND_WIPE: Final = "\x1b[{lines}F\x1b[0J"

Cell = str | int | None
Row = Sequence[Cell]


def write_line(
    text: str,
    *,
    err: bool = False,
    dye: Callable[[str], str] = str,
    ends: bool = True,
    color: bool | None = None,
    limit: int = LINE_MAX,
) -> None:
    """Write one line; a line feed in `text` is made visible like other control characters.

    `dye` colours the output. `ends` False leaves the line open, for the status line.
    """
    click.echo(dye(visible(text, limit)), err=err, nl=ends, color=color)


def write_json(text: str) -> None:
    """Write complete JSON to stdout."""
    click.echo(visible_json(text))


def steer(sequence: str, *, err: bool = False) -> None:
    """Write an escape sequence of our own, to erase or to move up."""
    click.echo(sequence, err=err, nl=False, color=True)


def show_mistake(mistake: OperatorMistake, language: str = ENGLISH) -> None:
    """Write every problem: `file:line:col: CODE message`, with its snippet; in another language the
    code's meaning comes before the message.
    """
    for problem in mistake.problems:
        show_problem(_told_in(language, problem))


def _told_in(language: str, problem: Problem) -> Problem:
    if language in {"", ENGLISH}:
        return problem
    from bot.cli.explaining import meanings  # slow, and only needed for another language
    from bot.cli.telling.languages import phrases

    if (told := phrases(language)(problem.message)) != problem.message:
        return replace(problem, message=told)
    meaning = meanings(language).get(problem.code)
    return replace(problem, message=f"{meaning}: {problem.message}") if meaning else problem


def show_problem(problem: Problem, *, before: str = "") -> None:
    """Write one problem to stderr; its message takes one line, its snippet those of the file."""
    write_line(f"{before}{problem.head}", err=True)
    for line in problem.snippet.split("\n") if problem.snippet else ():
        write_line(line, err=True)


def show_traceback(hide: Callable[[str], str]) -> None:
    """Write the traceback of the present exception to stderr, indented, as it may
    quote anything.
    """
    failure = sys.exception()
    assert failure is not None, "an exception is being handled"
    for line in hide(trace_of(failure)).splitlines():
        write_line(f"  {line}", err=True)


class LogLines(logging.Handler):
    """Writes a library's log records to stderr; further lines of a record are indented."""

    def emit(self, record: logging.LogRecord) -> None:
        first, *more = self.format(record).splitlines() or [""]
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, OSError) and error.errno in {errno.EMFILE, errno.ENFILE}:
            first, more = f"{first}: too many open files", []  # no place in a program is the cause
        write_line(first, err=True)
        for line in more:
            write_line(f"  {line}", err=True)


def leave_a_closed_window(descriptors: Iterable[int] = STREAMS) -> None:
    """Discard output from here on if the terminal is gone, so that neither finished work nor
    buffered output fails because of that.
    """
    for descriptor in descriptors:
        try:
            termios.tcgetattr(descriptor)
        except termios.error as error:
            if error.args[0] == errno.EIO:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, descriptor)
                os.close(nowhere)


def say(invocation: Invocation, text: str) -> None:
    """Write a message to the user, never a result."""
    if not invocation.quiet:
        write_line(text, err=True)


def is_attended(invocation: Invocation) -> bool:
    """Whether a user is present to be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty() and not invocation.no_input


def confirm(question: str) -> bool:
    """Ask on stderr; the command ends if the question is left open."""
    return click.confirm(visible(question), err=True)


def ask_shown(question: str) -> str:
    """Ask on stderr."""
    return str(click.prompt(visible(question), err=True))


def ask_hidden(question: str) -> str:
    """Ask on stderr without echo."""
    return str(click.prompt(visible(question), hide_input=True, err=True))


def typed_or_piped(invocation: Invocation, what: str, *, is_piped: bool) -> str:
    """Read a line from stdin, or ask without echo. Raises UsageError if nothing was given."""
    if is_piped or not sys.stdin.isatty():
        typed = sys.stdin.readline(_TYPED_MAX).removeprefix(_ENCODING_MARK)
    else:
        typed = "" if invocation.no_input else ask_hidden(f"{what} (hidden)")
    if not typed.strip():
        raise click.UsageError(f"no {what.lower()} was given: type it, or pipe it in with '-'")
    return typed.strip()


class ProgressLine:
    """One line on a terminal that says what is going on; not shown if nobody is watching."""

    def __init__(self, invocation: Invocation) -> None:
        is_hidden = invocation.json or invocation.quiet or not sys.stderr.isatty()
        self._is_shown = not is_hidden and wants_color(invocation, sys.stderr)

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(self, *_error: object) -> None:
        self.wipe()

    def show(self, text: str) -> None:
        if self._is_shown:
            self.wipe()
            write_line(cut(f"… {text}", width() - 1), err=True, ends=False)

    def wipe(self) -> None:
        if self._is_shown:
            steer(WIPE, err=True)


@contextmanager
def progress_bar(invocation: Invocation, label: str) -> Iterator[Callable[[float], None]]:
    """Yield a function to call with the share done, from 0 to 1; not shown if nobody
    is watching.
    """
    if invocation.json or invocation.quiet or not sys.stderr.isatty():
        yield lambda _done: None
        return
    with click.progressbar(length=STEPS, label=label, file=sys.stderr) as bar:
        yield lambda done: bar.update(max(0, round(done * STEPS) - bar.pos))


def print_lines(lines: Iterable[str]) -> None:
    for text in lines:
        write_line(text)


def print_json(fields: Mapping[str, object]) -> None:
    """Print one JSON object, keys in the order they were given. Instants are ISO 8601."""
    write_json(json_text(fields))


def print_json_rows(
    name: str, rows: Iterable[Mapping[str, object]], also: Mapping[str, object]
) -> None:
    """Print what `print_json` would for `{name: [*rows], **also}`, one row at a time."""
    before, key, after = json_text({name: [], **also}).partition(f'"{name}": [')
    assert key, "a key of ours is written as it is"
    indent = 2 if sys.stdout.isatty() else None
    click.echo(before + key, nl=False)
    has_rows = False
    for row in rows:
        text = visible_json(json.dumps(row, ensure_ascii=False, indent=indent, default=str))
        between = "," if has_rows else ""
        if indent:
            text = "\n" + textwrap.indent(text, " " * 2 * indent)
        elif has_rows:
            between = ", "
        click.echo(between + text, nl=False)
        has_rows = True
    if indent and has_rows:
        click.echo("\n" + " " * indent, nl=False)
    click.echo(after)


def print_result(
    invocation: Invocation, fields: Mapping[str, object], lines: Iterable[str]
) -> None:
    """Print the fields as JSON with --json, else the lines."""
    if invocation.json:
        print_json(fields)
    else:
        print_lines(lines)


def json_text(fields: Mapping[str, object]) -> str:
    """Return one JSON object as `print_json` prints it: indented on a terminal, else one line.

    If the command is about a bot, `bot` comes first: name, mode and configuration.
    """
    context = click.get_current_context(silent=True)
    invocation = context.find_object(Invocation) if context else None
    bot = {"bot": invocation.bot} if invocation and invocation.bot else {}
    indent = 2 if sys.stdout.isatty() else None
    found = {**bot, **fields}
    return visible_json(json.dumps(found, ensure_ascii=False, indent=indent, default=str))


def watch(
    invocation: Invocation,
    draw: Callable[[], Sequence[str]],
    *,
    every_s: float | None,
    looks: int | None = None,
) -> None:
    """Show what `draw` returns, every `every_s` seconds until interrupted; once if that is None.

    On a terminal it is redrawn in place, in a pipe written once per change. `looks` limits the
    number.
    """
    is_animated = sys.stdout.isatty() and wants_color(invocation, sys.stdout)
    before: Sequence[str] = ()
    for number in count(1):
        lines = [cut(visible(line), width()) for line in draw()] if is_animated else draw()
        if is_animated and before:
            steer(_UP_AND_WIPE.format(lines=len(before)))
        if is_animated or lines != before:
            print_lines(lines)
        before = lines
        if every_s is None or number == looks:
            return
        sleep(every_s)


def wants_color(invocation: Invocation, stream: TextIO) -> bool:
    """Return whether escape sequences may be written to a stream."""
    if invocation.color != "auto":
        return invocation.color == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def width() -> int:
    """Columns of the screen: `COLUMNS`, else the terminal's; output into a pipe is not cut."""
    wide = WIDTH if not sys.stdout.closed and sys.stdout.isatty() else UNCUT
    return shutil.get_terminal_size((wide, 24)).columns


def print_table(
    invocation: Invocation,
    heads: Sequence[str],
    rows: Iterable[Row],
    *,
    styles: Mapping[str, str] | None = None,
    limit: int | None = None,
    spare: Sequence[str] = (),
) -> bool:
    """Print rows under their heads; return whether any was cut. Numbers are right-aligned; lines
    are cut to `limit`, or the screen.

    `styles` colours whole cells by their text, on a terminal only. If the table is too wide,
    columns of `spare` are dropped in order. Long tables are laid out in blocks of `ROWS_AT_ONCE`;
    later blocks keep the columns, and widen them if necessary.
    """
    columns, waiting = limit or width(), iter(rows)
    block = list(islice(waiting, ROWS_AT_ONCE))
    widths = _widths([heads, *block])
    kept = dict(zip(heads, [*widths[:-1], min(widths[-1], LAST_MIN)], strict=True))
    for head in spare:
        if sum(kept.values()) + len(kept) - 1 <= columns:
            break
        del kept[head]
    at = [place for place, head in enumerate(heads) if head in kept]

    def dyed(line: str) -> str:
        for word, color in (styles or {}).items():
            line = re.sub(rf"(?<!\S){re.escape(word)}(?!\S)", click.style(word, fg=color), line)
        return line

    is_dyed = wants_color(invocation, sys.stdout)
    color = is_dyed or None
    for number in count():
        shown, wide = [[row[place] for place in at] for row in block], [widths[p] for p in at]
        head, *lines = aligned([heads[p] for p in at], shown, limit=columns, widths=wide)
        if not number:
            write_line(head, dye=partial(click.style, bold=True) if is_dyed else str, color=color)
        for line in lines:
            write_line(line, dye=dyed if is_dyed else str, color=color)
        block = list(islice(waiting, ROWS_AT_ONCE))
        if not block:
            break
        widths = list(map(max, widths, _widths(block)))
    return sum(widths[place] for place in at) + len(at) - 1 > columns


def _widths(rows: Sequence[Row]) -> list[int]:
    """Return the width needed by each column."""
    return [max(len(text_of(cell)) for cell in cells) for cells in zip(*rows, strict=True)]


def aligned(
    heads: Sequence[str], rows: Sequence[Row], *, limit: int, widths: Sequence[int] | None = None
) -> list[str]:
    """Return the lines of a table, at most `limit` wide, without trailing blanks.

    `widths` are the widths of the columns, if known.
    """
    table = [list(heads), *([text_of(cell) for cell in row] for row in rows)]
    columns: list[list[str]] = []
    for cells, wide in zip(zip(*table, strict=True), widths or _widths(table), strict=True):
        is_number = any(isinstance(row[len(columns)], int) for row in rows)
        columns.append([cell.rjust(wide) if is_number else cell.ljust(wide) for cell in cells])
    return [cut(" ".join(line).rstrip(), limit) for line in zip(*columns, strict=True)]


def text_of(cell: Cell) -> str:
    """A cell as shown: thousands separated, `-` for nothing, text made visible."""
    if cell is None:
        return "-"
    return f"{cell:,}" if isinstance(cell, int) else visible(cell)


def cut(text: str, limit: int) -> str:
    """Shorten to `limit` characters after a whole word, then ` …`; one long word is cut."""
    if len(text) <= limit:
        return text
    whole = text[: limit - 1].rpartition(" ")[0].rstrip()
    return f"{whole} …" if len(whole) > limit // 2 else f"{text[: limit - 1]}…"
