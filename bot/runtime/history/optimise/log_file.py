"""Appends to the file of a search's trials. A separate module because it subclasses Optuna, which
is slow to import.

Optuna's own backend takes a lock file and syncs each line to disk, six times a trial: on a busy
disk the search waits longer for that than two workers need for a trial. Here the search locks the
folder, and a line is written without a sync, which survives a kill. The file is synced now and
then; a power cut costs the trials since then, which are repeated.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from optuna.storages.journal import JournalFileBackend

SYNC_LINES: Final = 50
"""About eight trials."""


class TrialsFile(JournalFileBackend):
    """Appends to a file with a single writer; a partial last line left by a crash is truncated."""

    def __init__(self, path: Path) -> None:
        if path.exists():  # a partial last line, and zeros that a power cut may leave
            data = path.read_bytes()
            whole = data.rstrip(b"\0")
            whole = whole[: whole.rfind(b"\n") + 1]
            if len(whole) < len(data):
                os.truncate(path, len(whole))
        super().__init__(str(path))
        self._path, self._unsynced = path, 0

    def append_logs(self, logs: Sequence[Mapping[str, Any]]) -> None:
        """Append lines, each written completely."""
        lines = [json.dumps(log, separators=(",", ":")) + "\n" for log in logs]
        self._unsynced += len(lines)
        with self._path.open("ab") as file:
            file.write("".join(lines).encode("utf-8"))
            file.flush()
            if self._unsynced >= SYNC_LINES:
                os.fsync(file.fileno())
                self._unsynced = 0
