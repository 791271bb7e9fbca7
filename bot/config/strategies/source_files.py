"""The files that a strategy is made of: which have changed since a start, and who else may write.

A running bot continues with what it read at its start, and somebody who edits a file meanwhile
should be told. The bot only reports names and hashes; the command that shows changes reads the
files.

A strategy's Python can do anything, so anybody who can write to it can trade. `require_trusted`
checks the file, every link target in its path, and every folder above these. The owner's own group
may write: Debian gives each user one, so a plain `umask 002` is harmless.
"""

import grp
import os
import pwd
import shlex
import stat
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

import bot
from bot.config.private_files import name_of
from bot.config.problems import OperatorMistake, Problem, shown_path

if TYPE_CHECKING:
    from bot.engine.settings import LoadedStrategy

Hashes = Mapping[str, str]
"""Absolute path to the SHA-256 of a file's text."""


def hashes_of(strategies: Iterable["LoadedStrategy"]) -> dict[str, Hashes]:
    """Return, by strategy, the hashes of the files it has just been loaded from."""
    # `bot status` only looks for changed files and need not import strategies.
    from bot.config.strategies.invoke import files_of

    return {
        each.plan.name: {
            str(Path(each.plan.source).absolute()): each.plan.source_sha256,
            **{str(file): _hash(file) for file in files_of(each.factory)},
        }
        for each in strategies
    }


def changed_files(hashes: Mapping[str, object]) -> list[str]:
    """Return the files whose text has changed or that are gone, as they may be shown."""
    changed = []
    for name, known in hashes.items():
        try:
            is_changed = _hash(Path(name)) != known
        except FileNotFoundError:
            is_changed = True
        except OSError:
            continue  # we may not read it, so nothing is known
        if is_changed:
            changed.append(shown_path(Path(name)))
    return changed


def _hash(file: Path) -> str:
    """Hash the text as the journal does for strategy files: a byte order mark makes
    no difference.
    """
    return sha256(file.read_bytes().decode("utf-8-sig", "replace").encode()).hexdigest()


LINKS_MAX: Final = 40


def require_trusted(*files: Path) -> None:
    """Raise OperatorMistake for every file or folder that somebody else can write to."""
    found: dict[Path, str] = {}
    for path in (path for file in files for path in _followed(file.absolute())):
        for place in (path, *path.parents):
            may_be_sticky = place not in {path, path.parent}
            if why := _complaint(place, may_be_sticky=may_be_sticky):
                found[place] = why
    if found:
        raise OperatorMistake(
            Problem("E-CFG-038", f"others could change what runs: {why}", shown_path(place))
            for place, why in found.items()
        )


def _followed(path: Path) -> Iterator[Path]:
    """Yield a path, then the path with one link after another resolved, until none is left."""
    for _ in range(LINKS_MAX):
        yield path
        link = next((each for each in (*reversed(path.parents), path) if each.is_symlink()), None)
        if link is None:
            return
        path = link.parent / link.readlink() / path.relative_to(link)
    yield path.resolve()


def _complaint(path: Path, *, may_be_sticky: bool) -> str:
    """Return who else can write here, and what to do; empty if nobody can."""
    found, ours = path.stat(), {os.geteuid(), 0, Path(bot.__file__).stat().st_uid}
    mode, place = found.st_mode, shlex.quote(str(path))
    if others := {found.st_uid, path.lstat().st_uid} - ours:
        owner, me = name_of(others.pop()), name_of(os.geteuid())
        return f"{owner} owns this, not you. Do: sudo chown -h {me} {place}, or run as {owner}"
    if may_be_sticky and mode & stat.S_ISVTX:
        return ""
    if mode & stat.S_IWOTH:
        who, change = "everybody", "o-w"
    elif mode & stat.S_IWGRP and not _is_private(found.st_gid, found.st_uid):
        try:
            group = grp.getgrgid(found.st_gid).gr_name
        except KeyError:
            group = str(found.st_gid)
        who, change = f"the group {group}", "g-w"
    else:
        return ""
    # On a drive without file modes, as on Windows, chmod does nothing: hence the last words.
    sudo = "" if os.geteuid() in {found.st_uid, 0} else "sudo "
    how = f"Do: {sudo}chmod {change} {place}. If that is not possible, move the bot to your home"
    return f"{who} can write here. {how}"


def _is_private(group: int, owner: int) -> bool:
    """Return whether a group is the owner's own: of the same name, and without other members."""
    try:
        user, found = pwd.getpwuid(owner), grp.getgrgid(group)
    except KeyError:
        return False
    return found.gr_name == user.pw_name and set(found.gr_mem) <= {user.pw_name}
