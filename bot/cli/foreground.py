"""Runs the bot in the foreground of a terminal: session lines on stdout, all else on stderr.

On a terminal one status line is drawn below; it is erased before a line is printed and redrawn
after it. With `--json` each journal entry is one JSON value per line, as stored. Where nobody reads
on, lines are left out, as the bot must not wait for its screen (`unread.py`). A reader that is gone
is an ordinary stop, whose lines go to stderr; those of a demo to nobody.
"""

import asyncio
import json
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from bot.cli import messages
from bot.cli.code_prompt import CodePrompt
from bot.cli.command import Invocation
from bot.cli.rows import fields_of
from bot.cli.show import (
    WIPE,
    cut,
    is_attended,
    leave_a_closed_window,
    say,
    show_mistake,
    steer,
    wants_color,
    width,
    write_json,
    write_line,
)
from bot.cli.telling.languages import ENGLISH, phrases, told
from bot.cli.telling.narrator import Narrator
from bot.cli.telling.wording import LINE_MAX
from bot.cli.unread import STDERR, STDOUT, Unread, leave_broken_pipes
from bot.config.problems import ExitCode, OperatorMistake, shown_path
from bot.config.settings.places import CONFIG_VARIABLE, find_config
from bot.domain.entry import Entry
from bot.domain.recovery import Recovery
from bot.domain.visible import visible
from bot.runtime.brake import keep_early
from bot.runtime.early_signal import EarlySignal
from bot.runtime.process import LEAVE_S, LET_GO_S, leave_within, not_ignored

if TYPE_CHECKING:
    from bot.config.settings.load import Loaded
    from bot.runtime.run_controls import RunEnd, RunOptions

KIND_AT: Final = slice(9, 16)
"""The position of the kind in a line: `HH:MM:SS KIND `."""
COLORS: Final = {
    **dict.fromkeys(("FILL", "PARTIAL", "RESUMED", "RUNNING"), "green"),
    "ORDER": "cyan",
    **dict.fromkeys(("REJECT", "HALTED", "ALERT", "UNKNOWN"), "red"),
    **dict.fromkeys(("BLOCK", "LIMIT", "PAUSED", "HELD"), "yellow"),
    **dict.fromkeys(("SKIP", "PULSE"), "bright_black"),
}

T = TypeVar("T")


def run_in_foreground(invocation: Invocation, loaded: "Loaded", options: "RunOptions") -> "RunEnd":
    """Run until stopped, showing everything. Raises OperatorMistake."""
    # The whole daemon: imported for a run, not for its help page.
    from bot.runtime.notices.notices import tell_end
    from bot.runtime.run import run_bot

    _look_for_planted(loaded, is_service=options.is_service)
    if options.is_service:
        invocation.tell_end = partial(tell_end, loaded)
    screen = TerminalScreen(invocation, loaded.settings.mode, loaded.settings.language)
    if not options.is_service:  # which is to start again instead
        options = replace(options, unread=screen.stop_by)
    screen.is_of_demo = options.run_for is not None
    screen.ask_by(otp_command(invocation, loaded))
    prompt = CodePrompt(partial(write_line, err=True) if invocation.quiet else screen.talk)
    if options.answer_otp_after is None and is_attended(invocation):
        options = replace(options, ask_code=prompt)
    options = replace(options, told=told, hidden_by=partial(setattr, invocation, "hide"))
    is_closed, called_off = threading.Event(), threading.Event()

    def leave(code: int, mistake: OperatorMistake | None, *, is_open: bool) -> None:
        """End the process in time even if something blocks the normal end: with its code and its
        messages.
        """

        def tell(text: str) -> None:
            if mistake is not None:
                show_mistake(mistake, loaded.settings.language)
            write_line(messages.NOT_LET_GO if is_open else text, err=True)

        seconds, unless = (LET_GO_S, is_closed) if is_open else (LEAVE_S, called_off)
        leave_within(seconds, code, unless, tell)

    def over(error: BaseException | None) -> None:
        mistake = error if isinstance(error, OperatorMistake) else None
        code = ExitCode.BUG if error else ExitCode.DONE
        leave(mistake.exit_code if mistake else code, mistake, is_open=True)

    async def run() -> "RunEnd":
        code, told_of = int(ExitCode.BUG), None
        try:
            end = await run_bot(loaded, replace(options, over=over), screen)
            code = int(ExitCode.DONE)
        except OperatorMistake as mistake:
            is_closed.set()
            code, told_of = mistake.exit_code, mistake
            if options.is_service:
                tell_end(loaded, mistake)
            raise
        finally:
            is_closed.set()
            leave(code, told_of, is_open=False)
        return end

    try:
        return run_to_its_end(run())
    finally:
        called_off.set()
        prompt.restore()
        screen.close()


def otp_command(invocation: Invocation, loaded: "Loaded") -> str:
    """Return the command that gives this bot a code: elsewhere configured, it is to be named."""
    from bot.config.settings.sources import is_of_one_terminal  # slow, and loaded by now

    anywhere = {**os.environ, CONFIG_VARIABLE: ""}
    is_found = find_config(anywhere).absolute() == loaded.path.absolute()
    words = ["bot", "otp"]
    if not is_found:
        words += ["-c", shown_path(loaded.path)]
    state = invocation.state_dir
    if state is None and is_of_one_terminal(loaded.origin_of("state_dir")):
        state = loaded.state_dir
    if state is not None:
        words += ["--state-dir", shown_path(state)]
    return shlex.join(words)


def run_to_its_end(run: Coroutine[Any, Any, T]) -> T:
    """Run it as `asyncio.run` does, but let its end be its own if the loop cannot be taken apart:
    asyncio begins a thread for that, and the machine may have none left.
    """
    runner = asyncio.Runner()
    try:
        return runner.run(run)
    finally:
        with suppress(RuntimeError):
            runner.close()


def _look_for_planted(loaded: "Loaded", *, is_service: bool) -> None:
    """Show what runs at every start of Python. Raises OperatorMistake for it with real money."""
    from bot.runtime.notices.notices import tell_end
    from bot.runtime.start.planted import require_nothing_planted

    try:
        require_nothing_planted()
    except OperatorMistake as mistake:
        if loaded.settings.mode != "live":
            show_mistake(mistake)
            return
        if is_service:
            tell_end(loaded, mistake)
        raise


@contextmanager
def ending_while_it_starts(invocation: Invocation) -> Iterator[Callable[[Path], object]]:
    """Let a signal end a start cleanly too, before the run itself handles signals.

    Each becomes a Ctrl-C, which asyncio treats as a request to end: what was opened is closed
    again. SIGUSR1 halts the run that begins; yields what is to be told the state directory as soon
    as that is known, so that the halt outlives a start that fails.
    """
    heard = [signal.SIGINT]

    def end(number: int, _frame: FrameType | None) -> None:
        heard[:] = [signal.Signals(number)]
        signal.raise_signal(signal.SIGINT)

    heard_too = not_ignored((signal.SIGTERM, signal.SIGHUP))
    before = {each: signal.signal(each, end) for each in heard_too}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    found = signal.getsignal(signal.SIGUSR1)
    halt = found if isinstance(found, EarlySignal) else EarlySignal()
    before[signal.SIGUSR1] = signal.signal(signal.SIGUSR1, halt)
    try:
        yield lambda state_dir: halt.keep_by(partial(keep_early, state_dir))
    except KeyboardInterrupt:
        name = "Ctrl-C" if heard == [signal.SIGINT] else heard[0].name
        leave_a_closed_window()
        with _going_on():  # a full disk accepts no line either
            say(invocation, f"stopped by {name} while it was starting")
        raise click.exceptions.Exit(ExitCode.DONE) from None
    finally:
        for each, handler in before.items():
            # The earlier handler ends a process that has not begun; this one has ended and is on
            # its way out.
            is_python_s = handler in {signal.SIG_DFL, signal.SIG_IGN, signal.default_int_handler}
            signal.signal(each, handler if is_python_s else signal.SIG_IGN)
        if halt.is_lost:
            with _going_on():
                write_line(messages.HALT_LOST, err=True)


def with_free_port(invocation: Invocation, loaded: "Loaded") -> "Loaded":
    """Make sure that the embedded sandbox can listen, and report its port if the default is taken.

    Raises OperatorMistake.
    """
    if not loaded.settings.is_embedded:
        return loaded
    from bot.runtime.worlds.sandbox import settle_port

    settled = settle_port(loaded)
    if settled is not loaded:
        taken, free = loaded.settings.sandbox.port, settled.settings.sandbox.port
        say(invocation, messages.OTHER_PORT.format(taken=taken, free=free))
    return settled


class TerminalScreen:
    """Shows one run. `mode` is shown in the status line."""

    def __init__(self, invocation: Invocation, mode: str, language: str = ENGLISH) -> None:
        self._invocation = invocation
        self._mode = mode
        self._narrator = Narrator(language)
        self._is_colored = wants_color(invocation, sys.stdout)
        is_hidden = invocation.json or invocation.quiet or not wants_color(invocation, sys.stderr)
        is_terminal = sys.stdout.isatty() and sys.stderr.isatty()
        self._has_status_line = is_terminal and not is_hidden
        self._drawn = ""
        self._trouble = ""
        self._language = language
        self._unread = Unread()
        self._stop: Callable[[], object] | None = None
        self._has_reader = True
        self.is_of_demo = False

    def ask_by(self, otp: str) -> None:
        self._narrator.ask_by(otp)

    def stop_by(self, stop: Callable[[], object]) -> None:
        """From here on there is a run, which `stop` asks to end."""
        self._stop = stop

    def entry(self, entry: Entry) -> None:
        self._trouble = ""
        lines = self._narrator.lines_of(entry, min(LINE_MAX, width()))
        if self._has_reader:
            self._show(entry, lines)
        if not (self._has_reader or self.is_of_demo):
            with self._going_on():
                for line in lines if self._is_read(STDERR, lines=len(lines)) else ():
                    write_line(line, err=True)

    def _show(self, entry: Entry, lines: Sequence[str]) -> None:
        with self._going_on():
            if self._invocation.json:
                value = {"entry": type(entry).__name__, **fields_of(entry)}
                text = json.dumps(value, ensure_ascii=False, default=str)
                if self._is_read(STDOUT, size=len(text.encode())):
                    write_json(text)
            elif lines and self._is_read(STDOUT, size=_bytes_of(lines), lines=len(lines)):
                self._wipe()
                for line in lines:
                    dye = _colored if self._is_colored else str
                    write_line(line, dye=dye, color=self._is_colored)
                self._draw()
            elif (
                self._has_status_line
                and self._status() != self._drawn
                and self._is_read(STDERR, lines=0)
            ):
                self._wipe()
                self._draw()

    def recovered(self, recovery: Recovery) -> None:
        """Take in what an earlier run of the day has left, without showing it again."""
        self._narrator.recall(recovery)

    def row(self, name: str, text: str) -> None:
        with self._going_on():
            if self._is_read(STDERR):
                say(self._invocation, f" ok {name:<9} {phrases(self._language)(text)}")

    def trouble(self, text: str) -> None:
        """Show what is wrong now, once until something else happens."""
        if text == self._trouble:
            return
        with self._going_on():
            if self._is_read(STDERR):
                self._trouble = text
                self._wipe()
                write_line(f" !! {phrases(self._language)(text)}", err=True)
                self._draw()

    def talk(self, text: str) -> None:
        with self._going_on():
            if self._is_read(STDERR):
                self._wipe()
                say(self._invocation, text)

    def close(self) -> None:
        """Leave the terminal clean, and what is left of it alone."""
        leave_a_closed_window()
        with self._going_on():
            if self._is_read(STDERR, lines=0):
                self._wipe()
        self._has_status_line = False

    @contextmanager
    def _going_on(self) -> Iterator[None]:
        """Outlive a line that can't be written; a reader that is gone ends a run by a stop."""
        try:
            with _going_on():
                yield
        except BrokenPipeError:
            if self._stop is None:
                raise
            self._has_reader = False
            leave_broken_pipes((sys.stdout, sys.stderr))
            with suppress(RuntimeError):  # the loop has ended, and the run with it
                self._stop()

    def _is_read(self, stream: int, *, size: int = 0, lines: int = 1) -> bool:
        """Return whether lines can be shown now, and say first how many could not."""
        streams = {stream, STDERR} if self._has_status_line else {stream}
        if _are_closed(streams) or not self._unread.has_room(streams, size, lines):
            return False
        can_tell = self._unread.count and not _are_closed({STDERR})
        if can_tell and self._unread.has_room({STDERR}, 0, 0):
            text = phrases(self._language)(messages.UNREAD, count=self._unread.count)
            self._unread.count = 0
            self._wipe()
            write_line(text, err=True)
        return True

    def _wipe(self) -> None:
        if self._has_status_line:
            steer(WIPE, err=True)

    def _draw(self) -> None:
        if self._has_status_line:
            self._drawn = self._status()
            write_line(self._drawn, err=True, ends=False)

    def _status(self) -> str:
        return cut(visible(self._narrator.status_line.text(self._mode, width() - 1)), width() - 1)


@contextmanager
def _going_on() -> Iterator[None]:
    """Ignore that a line cannot be written: the window was closed, or the log's disk is full.

    Orders may be open, and the journal has everything. A closed pipe is raised.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError:
        return


def _are_closed(streams: Collection[int]) -> bool:
    """Return whether a plug-in has closed one of them by its name; its descriptor stays open."""
    shown = {STDOUT: sys.stdout, STDERR: sys.stderr}
    return any(shown[each].closed for each in streams)


def _bytes_of(lines: Sequence[str]) -> int:
    return sum(len(each.encode()) + 1 for each in lines)


def _colored(line: str) -> str:
    color = COLORS.get(line[KIND_AT].strip())
    if color is None:
        return line
    return line[: KIND_AT.start] + click.style(line[KIND_AT], fg=color) + line[KIND_AT.stop :]
