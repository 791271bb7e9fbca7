"""The files that a strategy was made of, and which of them have been changed since.

A running bot goes on with what it read at its start; whoever edits a file meanwhile should know.
The bot only hands out names and hashes: the command that shows them reads the files.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from bot.config.problems import shown_path

if TYPE_CHECKING:
    from bot.engine.settings import LoadedStrategy

Hashes = Mapping[str, str]
"""Absolute path to the SHA-256 of a file's text."""


def hashes_of(strategies: Iterable["LoadedStrategy"]) -> dict[str, Hashes]:
    """Return by strategy the files that it has just been loaded from."""
    # `bot status` looks for changed files alone, and need not import what a strategy is made of.
    from bot.config.strategies.invoke import files_of

    return {
        each.plan.name: {
            str(Path(each.plan.source).absolute()): each.plan.source_sha256,
            **{str(file): _hash(file) for file in files_of(each.factory)},
        }
        for each in strategies
    }


def changed_files(hashes: Mapping[str, object]) -> list[str]:
    """Return the files that hold another text now, or are gone; as they may be shown."""
    changed = []
    for name, known in hashes.items():
        try:
            is_changed = _hash(Path(name)) != known
        except FileNotFoundError:
            is_changed = True
        except OSError:
            continue  # not ours to read: nothing is known about it
        if is_changed:
            changed.append(shown_path(Path(name)))
    return changed


def _hash(file: Path) -> str:
    """Of the text, as a strategy file's hash in the journal is: a byte order mark is no change."""
    return sha256(file.read_bytes().decode("utf-8-sig", "replace").encode()).hexdigest()
