"""Whether somebody else could change a file that runs in our process, or says what runs.

A strategy's Python can do anything, so whoever can write to it trades. Looked at are the file, all
that a link in its path leads to, and every folder above these. The owner's own group may write:
Debian gives each user one, and a plain `umask 002` then harms nobody.
"""

import grp
import os
import pwd
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import bot
from bot.config.problems import OperatorMistake, Problem, shown_path

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
    """Yield a path, then the same with one more of its links followed, until none is left."""
    for _ in range(LINKS_MAX):
        yield path
        link = next((each for each in (*reversed(path.parents), path) if each.is_symlink()), None)
        if link is None:
            return
        path = link.parent / link.readlink() / path.relative_to(link)
    yield path.resolve()


def _complaint(path: Path, *, may_be_sticky: bool) -> str:
    """Who else can write here, and what to do; empty when nobody can."""
    found, ours = path.stat(), {os.geteuid(), 0, Path(bot.__file__).stat().st_uid}
    mode, place = found.st_mode, shlex.quote(str(path))
    if others := {found.st_uid, path.lstat().st_uid} - ours:
        owner, me = _name_of(others.pop()), _name_of(os.geteuid())
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
    # On a drive without modes of its own, as Windows has, chmod does nothing: hence the last words.
    sudo = "" if os.geteuid() in {found.st_uid, 0} else "sudo "
    how = f"Do: {sudo}chmod {change} {place}. If that is not possible, move the bot to your home"
    return f"{who} can write here. {how}"


def _name_of(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _is_private(group: int, owner: int) -> bool:
    """Whether a group is the owner's own: of the same name, and without another member."""
    try:
        user, found = pwd.getpwuid(owner), grp.getgrgid(group)
    except KeyError:
        return False
    return found.gr_name == user.pw_name and set(found.gr_mem) <= {user.pw_name}
