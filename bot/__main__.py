"""Where `bot` begins: a signal ends a run cleanly also before the run can listen to it.

Importing all that a run needs takes a fifth of a second. Nothing is open yet then, so the process
may end at once; an exception could get lost in the middle of an import.
"""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

RUNS: Final = frozenset({"run", "demo"})
"""Commands whose end by a signal is a clean one."""
QUIET: Final = frozenset({"-q", "--quiet"})
INTERRUPTED: Final = 130


def begins_a_run(words: Sequence[str]) -> bool:
    """Whether the command, the first word that is no option nor behind one, is a run: `halt
    --reason run` is none, and must not end as one that has done what it was asked.
    """
    for before, word in zip(["", *words], words, strict=False):
        if word in RUNS:
            return True
        if not word.startswith("-") and not before.startswith("-"):
            return False
    return False


def begin() -> NoReturn:
    """Run the command line, and listen for signals before it is there."""
    words = sys.argv[1:]
    is_run = begins_a_run(words)

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        try:  # the window that was closed takes no line any more
            if is_run and QUIET.isdisjoint(words):
                name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
                line = f"stopped by {name} while it was starting\n"
                os.write(sys.stderr.fileno(), line.encode())
        finally:
            os._exit(0 if is_run else INTERRUPTED)

    heard = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        heard.append(signal.SIGHUP)  # else by nohup: what it ignores stays ignored
    for each in heard if is_run else heard[:1]:
        signal.signal(each, end)
    from bot.cli.main import main

    if not is_run:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    main()


if __name__ == "__main__":
    # `python -m bot` is `bot`: the folder that it is called in is no place to import from.
    if not sys.flags.safe_path and Path(sys.path[0]) == Path.cwd():
        del sys.path[0]
    begin()
