"""Where a run is shown: session lines on stdout, the start and everything else on stderr.

On a terminal one status line stands below; it is wiped before a line is printed and drawn again
after it. With `--json` each entry of the journal is one JSON value in a line, as it is stored.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

from bot.cli.invocation import Invocation
from bot.cli.rows import fields_of
from bot.cli.show import cut, say, steer, wants_color, width, write_json, write_line
from bot.cli.telling.narrator import Narrator
from bot.cli.telling.wording import LINE_MAX
from bot.domain.entry import Entry
from bot.domain.recovery import Recovery
from bot.domain.visible import visible

KIND_AT: Final = slice(9, 16)
"""Where the kind stands in a line: `HH:MM:SS KIND   `."""
COLORS: Final = {
    "FILL": "green",
    "PARTIAL": "green",
    "RESUMED": "green",
    "RUNNING": "green",
    "ORDER": "cyan",
    "REJECT": "red",
    "HALTED": "red",
    "ALERT": "red",
    "UNKNOWN": "red",
    "BLOCK": "yellow",
    "LIMIT": "yellow",
    "PAUSED": "yellow",
    "HELD": "yellow",
    "SKIP": "bright_black",
    "PULSE": "bright_black",
}
_WIPE: Final = "\r\x1b[2K"


class TerminalScreen:
    """Shows one run. `mode` is the word of the status line."""

    def __init__(self, invocation: Invocation, mode: str) -> None:
        self._invocation = invocation
        self._mode = mode
        self._narrator = Narrator()
        self._is_colored = wants_color(invocation, sys.stdout)
        self._has_status_line = _is_animated(invocation)
        self._drawn = ""
        self._trouble = ""

    def entry(self, entry: Entry) -> None:
        """Tell an entry that is in the journal."""
        self._trouble = ""
        lines = self._narrator.tell(entry, min(LINE_MAX, width()))
        with _shown_or_not():
            if self._invocation.json:
                value = {"entry": type(entry).__name__, **fields_of(entry)}
                write_json(json.dumps(value, ensure_ascii=False, default=str))
            elif lines:
                self._wipe()
                dye = _colored if self._is_colored else str
                for line in lines:
                    write_line(line, dye=dye, color=self._is_colored)
                self._draw()
            elif self._has_status_line and self._status() != self._drawn:
                self._wipe()
                self._draw()

    def recovered(self, recovery: Recovery) -> None:
        """Know what an earlier run of the day has left, without telling it again."""
        self._narrator.recall(recovery)

    def row(self, name: str, text: str) -> None:
        """Show a line of the start."""
        say(self._invocation, f" ok {name:<9} {text}")

    def trouble(self, text: str) -> None:
        """Show what is wrong now, once until something else happens."""
        if text == self._trouble:
            return
        self._trouble = text
        with _shown_or_not():
            self._wipe()
            write_line(f" !! {text}", err=True)
            self._draw()

    def talk(self, text: str) -> None:
        """Say something to the person at the terminal."""
        with _shown_or_not():
            self._wipe()
            say(self._invocation, text)

    def close(self) -> None:
        """Leave the terminal clean."""
        with _shown_or_not():
            self._wipe()
        self._has_status_line = False

    def _wipe(self) -> None:
        if self._has_status_line:
            steer(_WIPE, err=True)

    def _draw(self) -> None:
        self._drawn = self._status()
        if self._has_status_line:
            write_line(self._drawn, err=True, ends=False)

    def _status(self) -> str:
        return cut(visible(self._narrator.status_line.text(self._mode, width() - 1)), width() - 1)


@contextmanager
def _shown_or_not() -> Iterator[None]:
    """Go on where a line can't be written: the window was closed, or the disk of the log is full.

    Orders may be open, and the journal has it all. Who hangs a pipe up ends the run.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError:
        return


def _colored(line: str) -> str:
    color = COLORS.get(line[KIND_AT].strip())
    if color is None:
        return line
    head, kind, rest = line[: KIND_AT.start], line[KIND_AT], line[KIND_AT.stop :]
    return head + click.style(kind, fg=color) + rest


def _is_animated(invocation: Invocation) -> bool:
    """Whether a status line may be drawn: only where a person looks."""
    if invocation.json or invocation.quiet or not wants_color(invocation, sys.stderr):
        return False
    return sys.stdout.isatty() and sys.stderr.isatty()
