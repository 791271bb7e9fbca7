"""Power that is cut at random moments of a bot under load; nothing is lost, doubled or miscounted.

    python -m tests.crash.power [cuts] [seed]      30 cuts, seed 1; a journal on SQLite

As `tests.crash.kills`, and with each kill the disk forgets: of every file in the state directory
either the last synced or the written contents remain, or for each block one of both. A library that
is loaded before the C library (`lossy_disk.c`) keeps what was synced; it is compiled first, and
without a compiler nothing is shown, and the exit code is 2. The broker keeps its power.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Final

from bot.runtime.state_dir import LEDGER
from tests.crash import kills

LIBRARY: Final = "LD_PRELOAD"
SYNCED: Final = "synced"
BLOCK: Final = 4096
"""What a file system writes as a whole."""
WAYS: Final = ("all that was written", "what was synced", "blocks of both", "blocks of both")
NOT_HERE: Final = "no C compiler: power is not cut here"


def cut(state: Path, dice: Random) -> str:
    """Leave of the files what a power cut may leave, and return which way it was.

    The first time everything present counts as synced.
    """
    synced, way = state.parent / SYNCED, dice.choice(WAYS)
    if not synced.exists():
        _sync(state, synced)
        return "nothing yet"
    written, kept = _files(state), _files(synced)
    for name in sorted({*written, *kept}):
        left = _left(way, written.get(name), kept.get(name), dice)
        if left is None or name.endswith("-shm"):  # which is memory, and no file
            (state / name).unlink(missing_ok=True)
            continue
        (state / name).touch(mode=0o600)
        (state / name).write_bytes(left)
    _sync(state, synced)
    return way


def _sync(state: Path, synced: Path) -> None:
    shutil.rmtree(synced, ignore_errors=True)
    synced.mkdir(mode=0o700)
    for name, data in _files(state).items():
        (synced / name).write_bytes(data)


def _files(folder: Path) -> Mapping[str, bytes]:
    files = (each for each in folder.iterdir() if each.is_file() and each.name[0] != ".")
    return {each.name: each.read_bytes() for each in files if each.name != LEDGER}


def _left(way: str, written: bytes | None, kept: bytes | None, dice: Random) -> bytes | None:
    if way == WAYS[0]:
        return written
    if way == WAYS[1]:
        return kept
    if written is None or kept is None:  # made, or removed, and the folder not synced since
        if dice.random() < 0.5:
            return written if kept is None else kept
        written, kept = written or b"", kept or b""
    if len(written) < len(kept):  # cut short, or made anew: all of it is so on the disk, or none
        return dice.choice((written, kept))
    size = dice.choice((len(written), len(kept)))
    blocks = (dice.choice((written, kept))[at : at + BLOCK] for at in range(0, size, BLOCK))
    return b"".join(block.ljust(BLOCK, b"\0") for block in blocks)[:size]


def main() -> int:
    """Cut as often as the command line says; the exit code tells whether all was well."""
    if LIBRARY in os.environ:
        return kills.main(lose=cut)
    if not shutil.which("cc"):
        sys.stdout.write(f"{NOT_HERE}\n")
        return 2
    with tempfile.TemporaryDirectory() as made:
        library, source = f"{made}/lossy_disk.so", Path(__file__).with_name("lossy_disk.c")
        flags = ["-shared", "-fPIC", "-O1", "-w"]
        subprocess.run(["cc", *flags, "-o", library, str(source), "-ldl"], check=True)
        command = [sys.executable, "-W", "ignore", "-m", "tests.crash.power", *sys.argv[1:]]
        environment = {**os.environ, LIBRARY: library}
        return subprocess.run(command, check=False, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
