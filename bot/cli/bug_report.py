"""Keeps the traceback of an unexpected error in a file for its owner alone."""

import os
import platform
import sys
from pathlib import Path

from bot import __version__
from bot.cli.invocation import Invocation
from bot.cli.show import LINE_MAX
from bot.clock import SystemClock
from bot.domain.visible import visible


def write_report(text: str, invocation: Invocation) -> Path | None:
    """Write a report and return where; None when no place for it can be written.

    Argument values are left out: the words of the command are enough to find the code.
    """
    now = SystemClock().now()
    folder = _folder(invocation)
    path = folder / f"bug-{now:%Y%m%dT%H%M%SZ}-{os.getpid()}.txt"
    head = f"vnbot {__version__} · python {platform.python_version()} · {sys.platform}\n\n"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(head + "\n".join(visible(line, LINE_MAX) for line in text.splitlines()))
    except OSError:
        return None
    return path


def _folder(invocation: Invocation) -> Path:
    if invocation.state_dir is not None:
        return invocation.state_dir / "bugs"
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(home) / "vnbot" / "bugs"
