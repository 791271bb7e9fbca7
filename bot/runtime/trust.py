"""Whether somebody else could change a file that runs in our process, or says what runs.

A strategy's Python can do anything, so whoever may write to it trades. Looked at are the file, what
a link leads to, and every folder above both. The owner's own group may write: Debian gives each
user one, and a plain `umask 002` then harms nobody.
"""

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import bot
from bot.runtime.problems import OperatorMistake, Problem
from bot.runtime.yaml_file import shown_path

LINKS_MAX: Final = 40


def require_trusted(*files: Path) -> None:
    """Raise OperatorMistake for every file or folder that somebody else may write to."""
    found = {place: why for file in files for place, why in _open_places(file)}
    if found:
        raise OperatorMistake(
            Problem("E-CFG-038", f"others could change what runs: {why}", shown_path(place))
            for place, why in found.items()
        )


def _open_places(file: Path) -> Iterator[tuple[Path, str]]:
    for path in _followed(file.absolute()):
        yield from _complaint(path, path.stat(), may_be_sticky=False)
        for folder in path.parents:
            yield from _complaint(folder, folder.stat(), may_be_sticky=folder != path.parent)


def _followed(path: Path) -> Iterator[Path]:
    """Yield a path, each link that it leads to, and the end of them all."""
    for _ in range(LINKS_MAX):
        yield path
        if not path.is_symlink():
            break
        path = path.parent / path.readlink()
    yield path.resolve()


def _complaint(
    path: Path, found: os.stat_result, *, may_be_sticky: bool
) -> Iterator[tuple[Path, str]]:
    if found.st_uid not in {os.geteuid(), 0, Path(bot.__file__).stat().st_uid}:
        yield path, f"user {found.st_uid} owns this, not you. Do: chown, or run as that user"
    elif may_be_sticky and found.st_mode & stat.S_ISVTX:
        return
    elif found.st_mode & stat.S_IWOTH:
        yield path, f"everybody may write here. Do: chmod o-w {path}"
    elif found.st_mode & stat.S_IWGRP and not _is_private(found.st_gid, found.st_uid):
        yield path, f"the group {found.st_gid} may write here. Do: chmod g-w {path}"


def _is_private(group: int, owner: int) -> bool:
    """Whether a group is the owner's own: of the same name, and without another member."""
    try:
        user, found = pwd.getpwuid(owner), grp.getgrgid(group)
    except KeyError:
        return False
    return found.gr_name == user.pw_name and set(found.gr_mem) <= {user.pw_name}
