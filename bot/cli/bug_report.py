"""Keeps the traceback of an unexpected error in a file for its owner alone."""

import os
from pathlib import Path

from bot.cli.invocation import Invocation
from bot.runtime.faults import keep_report


def write_report(text: str, invocation: Invocation) -> Path | None:
    """Write a report and return where; None when no place for it can be written.

    Argument values are left out: the words of the command are enough to find the code.
    """
    return keep_report(_folder(invocation), "bug", text)


def _folder(invocation: Invocation) -> Path:
    if invocation.state_dir is not None:
        return invocation.state_dir / "bugs"
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(home) / "vnbot" / "bugs"
