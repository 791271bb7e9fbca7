"""What a cut of the power would leave: the contents and names that were synced to disk."""

import os
from pathlib import Path

import pytest


def kept_by_syncs(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[str]:
    """Return a list that grows with each sync: of a file by its text, of the folder by its sorted
    names. Threads of earlier tests sync elsewhere.
    """
    kept, real = list[str](), os.fsync

    def fsync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.parent == folder:
            kept.append(path.read_text())
        elif path == folder:
            kept.append(" ".join(sorted(each.name for each in path.iterdir())))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return kept
