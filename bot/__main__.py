"""The entry point of `bot`: a signal ends or halts a run even before the run handles signals.

Importing everything a run needs takes a fifth of a second. Nothing is open yet by then, so the
process may exit at once; an exception could get lost in the middle of an import.
"""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

RUNS: Final = frozenset({"run", "demo"})
"""Commands that exit cleanly when a signal ends them."""
QUIET: Final = frozenset({"-q", "--quiet"})
INTERRUPTED: Final = 130


def begins_a_run(words: Sequence[str]) -> bool:
    """Return whether the command (the first word that is neither an option nor its value) is a run.
    `halt --reason run` is not, and must not exit as if it had done its work.
    """
    for before, word in zip(["", *words], words, strict=False):
        if word in RUNS:
            return True
        if not word.startswith("-") and not before.startswith("-"):
            return False
    return False


def begin() -> NoReturn:
    """Install early signal handlers, then run the command line."""
    words = sys.argv[1:]
    is_run = begins_a_run(words)

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        try:  # the closed window accepts no output any more
            if is_run and QUIET.isdisjoint(words):
                name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
                line = f"stopped by {name} while it was starting\n"
                os.write(sys.stderr.fileno(), line.encode())
        finally:
            os._exit(0 if is_run else INTERRUPTED)

    heard = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        heard.append(signal.SIGHUP)  # else started under nohup: an ignored signal stays ignored
    for each in heard if is_run else heard[:1]:
        signal.signal(each, end)
    halts = list[int]()
    if is_run:
        signal.signal(signal.SIGUSR1, lambda number, _: halts.append(number))
    from bot.cli.main import hear_halts, main

    if is_run:
        hear_halts(halts)
    else:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    main()


def enter() -> NoReturn:
    """Run the command line in this process, and end it."""
    try:
        begin()
    except SystemExit as ended:
        from bot.cli.main import leave

        leave(ended)


if __name__ == "__main__":
    # `python -m bot` behaves like `bot`: nothing is imported from the current folder.
    if not sys.flags.safe_path and Path(sys.path[0]) == Path.cwd():
        del sys.path[0]
    enter()
