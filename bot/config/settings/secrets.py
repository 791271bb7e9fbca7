"""Where the broker's key and secret come from, and who else could read them there.

In this order: the environment (never in live mode), systemd credentials, a file of mode 0600. A
file that others may read or change, or that is a symbolic link, is refused: what was readable for
all is no secret any more. Nothing that was read is ever part of a message.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bot.config.problems import ExitCode, OperatorMistake, Problem
from bot.config.settings.model import BrokerSettings, Mode
from bot.config.settings.sources import SECRET_KEYS, variable
from bot.config.yaml_file import YamlDocument, parse_yaml, shown_path
from bot.protocol.secret import Secret

CREDENTIALS_DIRECTORY: Final = "CREDENTIALS_DIRECTORY"
SECRETS_FILE: Final = "secrets.yaml"
LENGTH_MAX: Final = 4_096
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH

Found = dict[str, Secret]


def in_configuration(document: YamlDocument) -> list[Problem]:
    """Return a problem for each secret that stands in a configuration file."""
    broker = document.data.get("broker")
    message = (
        "a secret does not belong in this file: take it out, and put it into "
        f"{SECRETS_FILE} (mode 0600), a systemd credential or the environment"
    )
    below = [("broker", key) for key in SECRET_KEYS if isinstance(broker, dict) and key in broker]
    places = [*((key,) for key in SECRET_KEYS if key in document.data), *below]
    return [document.at_key("E-CFG-041", message, place) for place in places]


def find_secrets(
    broker: BrokerSettings, mode: Mode, *, base_dir: Path, environment: Mapping[str, str]
) -> Found:
    """Return what was found of `api_key` and `api_secret`. Raises OperatorMistake."""
    found: Found = {}
    for source in (
        _in_file(broker, base_dir),
        _in_credentials(environment),
        _in_environment(mode, environment),
    ):
        found.update(source)
    return found


def _in_environment(mode: Mode, environment: Mapping[str, str]) -> Found:
    names = {key: variable(("broker", key)) for key in SECRET_KEYS}
    given = {key: name for key, name in names.items() if environment.get(name)}
    if given and mode == "live":
        message = (
            f"{' and '.join(given.values())} are set in the environment, which other processes can "
            f"read: in live mode use {SECRETS_FILE} (mode 0600) or systemd credentials"
        )
        raise OperatorMistake.of("E-SEC-003", message, ExitCode.SECRET)
    return {key: Secret(environment[name]) for key, name in given.items()}


def _in_credentials(environment: Mapping[str, str]) -> Found:
    """systemd makes the folder for this service alone; `LoadCredential=broker__api_key:…`."""
    folder = environment.get(CREDENTIALS_DIRECTORY)
    if not folder:
        return {}
    files = {key: Path(folder) / f"broker__{key}" for key in SECRET_KEYS}
    return {
        key: Secret(file.read_text("utf-8").strip())
        for key, file in files.items()
        if file.is_file()
    }


def _in_file(broker: BrokerSettings, base_dir: Path) -> Found:
    file = base_dir / Path(broker.secrets_file or SECRETS_FILE).expanduser()
    if not os.path.lexists(file):
        if broker.secrets_file is not None:
            message = f"there is no {shown_path(file)}, which broker.secrets_file names"
            raise OperatorMistake.of("E-SEC-001", message, ExitCode.SECRET)
        return {}
    document = _parse(read_private(file), file)
    unknown = sorted(set(document.data) - set(SECRET_KEYS))
    if unknown:
        raise _refused(file, f"wanted {' and '.join(SECRET_KEYS)} only; found another key")
    changed = [key for key, value in document.data.items() if not isinstance(value, str)]
    if changed:
        raise _refused(file, f"wanted a text for {changed[0]}; put it in quotes")
    return {key: Secret(str(value)) for key, value in document.data.items()}


def _parse(text: str, file: Path) -> YamlDocument:
    try:
        return parse_yaml(text, shown_path(file))
    except OperatorMistake:
        wanted = f"wanted lines like {SECRET_KEYS[0]}: '…'; found something else"
        raise _refused(file, wanted) from None  # the cause quotes the file


def read_private(file: Path) -> str:
    """Return the text of a file that only its owner can read or change.

    Raises OperatorMistake for a symbolic link, bits for group or others, another owner, or a folder
    that others may write to.
    """
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        is_link = file.is_symlink()
        reason = "is a symbolic link" if is_link else (error.strerror or "cannot be read").lower()
        raise _refused(file, f"{reason}; wanted a plain file of mode 0600") from error
    try:
        _refuse_shared(os.fstat(handle), file)
        return os.read(handle, LENGTH_MAX).decode("utf-8", "replace")
    finally:
        os.close(handle)


def _refuse_shared(found: os.stat_result, file: Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise _refused(file, "is no plain file; wanted a plain file of mode 0600")
    if found.st_uid not in {os.geteuid(), 0}:
        raise _refused(file, f"belongs to user {found.st_uid}, not to the one who runs the bot")
    if found.st_mode & _OTHERS:
        mode = stat.S_IMODE(found.st_mode)
        raise _refused(file, f"has mode {mode:04o}: others may read it. Do: chmod 600 {file}")
    for folder in file.absolute().parents:
        _refuse_open_folder(folder, file)


def _refuse_open_folder(folder: Path, file: Path) -> None:
    mode = folder.stat().st_mode
    is_parent = folder == file.absolute().parent
    others = mode & (_OTHERS_WRITE if is_parent else stat.S_IWOTH)
    is_sticky = bool(mode & stat.S_ISVTX) and not is_parent
    if others and not is_sticky:
        raise _refused(file, f"lies below {folder}, which others may write to")


def _refused(file: Path, why: str) -> OperatorMistake:
    problem = Problem("E-SEC-002", why, shown_path(file))
    return OperatorMistake((problem,), ExitCode.SECRET)
