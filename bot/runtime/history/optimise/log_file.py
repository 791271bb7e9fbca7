"""The file of a search's trials as its one writer appends to it: a module of its own, for it is
Optuna's class and Optuna is slow to import.

Optuna's own takes a lock file and forces each line to the disk, six times a trial: on a busy disk
the search waits longer for that than two workers need for a trial. Here the folder is locked by
the search, and a line is handed to the system, which a kill does not take back. The disk is forced
now and then; a power cut costs the trials since, which are made again.
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
    """Appends to a file that nobody else writes; what a crash has cut short is cut off."""

    def __init__(self, path: Path) -> None:
        if path.exists():  # a last line without its end, and the zeros that a power cut may leave
            data = path.read_bytes()
            whole = data.rstrip(b"\0")
            whole = whole[: whole.rfind(b"\n") + 1]
            if len(whole) < len(data):
                os.truncate(path, len(whole))
        super().__init__(str(path))
        self._path, self._unsynced = path, 0

    def append_logs(self, logs: Sequence[Mapping[str, Any]]) -> None:
        """Append lines, whole as far as the system is concerned."""
        lines = [json.dumps(log, separators=(",", ":")) + "\n" for log in logs]
        self._unsynced += len(lines)
        with self._path.open("ab") as file:
            file.write("".join(lines).encode("utf-8"))
            file.flush()
            if self._unsynced >= SYNC_LINES:
                os.fsync(file.fileno())
                self._unsynced = 0
