"""Private files: read only if nobody else could have read or changed them.

They are written atomically. The checks cover the file, its folder and every folder above, both
along the path as written and where its links lead. Contents never appear in a message.
"""

import errno
import os
import pwd
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bot.config.problems import ExitCode, OperatorMistake, Problem, shown_path

BYTES_MAX: Final = 65_536
"""The addresses of all notice channels fit, at their longest and in letters of four bytes."""
CREDENTIALS_DIRECTORY: Final = "CREDENTIALS_DIRECTORY"
"""The variable in which systemd names the folder of a service's credentials."""


@dataclass(frozen=True, slots=True)
class _Bits:
    """Mode bits that a file and its folder must not have."""

    file: int
    folder: int


_OWN: Final = _Bits(file=0o077, folder=0o077)
_CREDENTIAL: Final = _Bits(file=0o037, folder=0o022)
"""systemd lets a service's user read through an access list, which shows as group read permission
(systemd.exec(5), LoadCredential=).
"""


def name_of(user: int) -> str:
    """Return a user's name, or the number where it has none."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def read_private(file: Path) -> str:
    """Return the text of a file of mode 0600 in a folder of mode 0700, both owned by the reader.

    Raises OperatorMistake for a symbolic link, bits for group or others, another owner, or a
    world-writable folder above.
    """
    return _read(file, _OWN)


def read_credential(file: Path) -> str:
    """Return a systemd credential of the service; raises OperatorMistake if others can read it."""
    return _read(file, _CREDENTIAL)


def _read(file: Path, bits: _Bits) -> str:
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        is_link = file.is_symlink()
        reason = "is a symbolic link" if is_link else (error.strerror or "cannot be read").lower()
        raise refused(file, f"{reason}; wanted a regular file of mode 0600") from error
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise refused(file, "is not a regular file; wanted one of mode 0600")
        if found.st_uid not in {os.geteuid(), 0}:
            raise refused(file, f"belongs to user {found.st_uid}, not to the user running the bot")
        if found.st_mode & bits.file:
            mode = stat.S_IMODE(found.st_mode)
            raise refused(file, f"has mode {mode:04o}: others can read it. Do: chmod 600 {file}")
        _require_folders(file, bits)
        with os.fdopen(handle, "rb", closefd=False) as opened:
            content = opened.read(BYTES_MAX + 1)
        if len(content) > BYTES_MAX:
            raise refused(file, f"is longer than {BYTES_MAX:,} bytes: remove what is not needed")
        return content.decode("utf-8", "replace")
    finally:
        os.close(handle)


def _require_folders(file: Path, bits: _Bits) -> None:
    folder = file.absolute().parent
    found = folder.stat()
    if found.st_uid not in {os.geteuid(), 0}:
        raise refused(file, f"is in {folder}, which belongs to user {found.st_uid}")
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o022:
        raise refused(file, f"is below {folder}, which others can write to (mode {mode:04o})")
    if mode & bits.folder:
        how = f"Do: chmod 700 {folder}, or name a file in a folder of its own: broker.secrets_file"
        raise refused(file, f"is in {folder}, which others can look into (mode {mode:04o}). {how}")
    for above in dict.fromkeys((*folder.parents, *folder.resolve().parents)):
        mode = above.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise refused(file, f"is below {above}, which others can write to")


def write_private(file: Path, text: str) -> None:
    """Write a file of mode 0600 atomically, in a folder of mode 0700 that is created if needed.

    Raises OperatorMistake if others could read it or it cannot be written; the previous file then
    stays.
    """
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if file.is_symlink():
            raise refused(file, "is a symbolic link; wanted a regular file of mode 0600")
        _require_folders(file, _OWN)
        replace_private(file, text.encode())
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise refused(file, f"cannot be written: {reason}") from error


def replace_private(file: Path, data: bytes) -> None:
    """Replace `file` by one of mode 0600, synced to disk, completely or not at all.

    Raises OSError and then leaves nothing half written. A temporary file may be left by a killed
    process with our process id: in a container the id is the same each time.
    """
    beside = file.with_name(f".{file.name}.{os.getpid()}.new")
    beside.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(beside, flags, 0o600), "wb") as new:
            new.write(data)
            new.flush()
            os.fsync(new.fileno())
        beside.replace(file)
    finally:
        with suppress(OSError):
            beside.unlink()
    sync_names(file.parent)


def sync_names(folder: Path) -> None:
    """Sync the names in a folder to disk: without that a new or removed file may not outlive a cut
    of the power. Does nothing where a file system syncs no folders. Raises OSError.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # so a shared folder answers, each time: fsync(2)
            raise
    finally:
        os.close(descriptor)


def refused(file: Path, why: str) -> OperatorMistake:
    """Return the error for a file that holds a secret and must not be used."""
    problem = Problem("E-SEC-002", why, shown_path(file))
    return OperatorMistake((problem,), ExitCode.SECRET)
