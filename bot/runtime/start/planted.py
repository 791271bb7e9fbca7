"""Finds code that Python runs before the bot's own and that belongs to no installed package.

A `.pth` file beside the packages, or a module called `sitecustomize` or `usercustomize`, runs in
every process of this Python, and could read the key before any of our code runs. One that belongs
to a package is in that package's RECORD with its hash; one that comes with Python itself is as safe
as Python.
"""

import csv
import importlib.util
import site
import sys
import sysconfig
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

from bot.config.problems import ExitCode, OperatorMistake

CUSTOMISERS: Final = ("sitecustomize", "usercustomize")
MADE_BY_TOOLS: Final = {"_virtualenv.pth": "import _virtualenv"}
"""What environment tools write, always the same and without a package."""
HASH: Final = "sha256="
FILES_MAX: Final = 1_000
"""At most this many `.pth` files beside the packages are checked."""


def require_nothing_planted() -> None:
    """Raise OperatorMistake naming each file that runs at Python's start and belongs to no package.

    A bot with real money does not start then; the key should be changed in case it was read.
    """
    folders = [*site.getsitepackages(), site.getusersitepackages() if site.ENABLE_USER_SITE else ""]
    searched = [Path(folder) for folder in dict.fromkeys(folders) if folder in sys.path]
    specs = [importlib.util.find_spec(name) for name in CUSTOMISERS]
    modules = [Path(spec.origin) for spec in specs if spec is not None and spec.origin]
    if found := list(planted(searched, modules)):
        text = (
            f"{' and '.join(map(str, found))} would run at the start of every Python process here, "
            "but came with no installed package. Look at it, remove it, and if nobody here put it "
            "there, ask the broker for a new key"
        )
        raise OperatorMistake.of("E-SEC-006", text, ExitCode.SECRET)


def planted(folders: Iterable[Path], customisers: Iterable[Path]) -> Iterator[Path]:
    """Yield the `.pth` files in `folders`, and of these modules, that belong to no package."""
    stdlib = Path(sysconfig.get_path("stdlib")).resolve()
    for folder in folders:
        files = sorted(folder.glob("*.pth"))[:FILES_MAX]
        unknown = [file for file in files if not _is_made_by_tool(file)]
        recorded = _recorded(folder) if unknown else {}
        yield from (file for file in unknown if not _is_in(recorded, file))
    for module in customisers:
        is_python_s = module.parent.resolve() == stdlib or module.parent == stdlib
        if not is_python_s and not _is_in(_recorded(module.parent), module):
            yield module


def _is_made_by_tool(file: Path) -> bool:
    made = MADE_BY_TOOLS.get(file.name)
    try:
        return made is not None and file.read_text("utf-8", "replace").strip() == made
    except OSError:
        return False


def _is_in(recorded: Mapping[str, str], file: Path) -> bool:
    """Return whether a package recorded the file as it is; one that can't be read is nobody's."""
    try:
        return recorded.get(file.name) == _hash_of(file)
    except OSError:
        return False


def _recorded(folder: Path) -> dict[str, str]:
    """Return the files directly in a package folder, with the hashes in their packages' RECORDs.

    A RECORD is read line by line: as paths, its thousands of files would stay in memory.
    """
    return {
        row[0]: row[1].removeprefix(HASH)
        for package in distributions(path=[str(folder)])
        for row in csv.reader((package.read_text("RECORD") or "").splitlines())
        if len(row) == 3 and row[0].endswith((".pth", ".py")) and row[1].startswith(HASH)
    }


def _hash_of(file: Path) -> str:
    """Return a hash as a RECORD writes it (PyPA, recording installed projects)."""
    return urlsafe_b64encode(sha256(file.read_bytes()).digest()).decode().rstrip("=")
