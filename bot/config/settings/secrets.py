"""Where the broker's key and secret come from, and who else could read them there.

In this order: the environment (never in live mode), systemd credentials, a file of mode 0600. A
file that others can read or change, or that is a symbolic link, is refused: what everybody could
read is no longer a secret. Nothing that was read is ever part of a message.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bot.config.problems import ExitCode, OperatorMistake, Problem, shown_path
from bot.config.settings.model import BrokerSettings, Mode
from bot.config.settings.sources import SECRET_KEYS, variable
from bot.config.yaml_file import YamlDocument, parse_yaml
from bot.protocol.secret import Secret

CREDENTIALS_DIRECTORY: Final = "CREDENTIALS_DIRECTORY"
SECRETS_FILE: Final = "secrets.yaml"
LENGTH_MAX: Final = 4_096
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH

Found = dict[str, Secret]


def in_configuration(document: YamlDocument) -> list[Problem]:
    """Return a problem for each secret in a configuration file."""
    message = (
        "a secret does not belong in this file: take it out, and put it into "
        f"{SECRETS_FILE} (mode 0600), a systemd credential or the environment"
    )
    broker = document.data.get("broker")
    below = [("broker", key) for key in SECRET_KEYS if isinstance(broker, dict) and key in broker]
    places = [*((key,) for key in SECRET_KEYS if key in document.data), *below]
    return [document.at_key("E-CFG-041", message, place) for place in places]


def find_secrets(
    broker: BrokerSettings, mode: Mode, *, base_dir: Path, environment: Mapping[str, str]
) -> Found:
    """Return what was found of `api_key` and `api_secret`. Raises OperatorMistake."""
    found = _in_file(broker, base_dir)
    if folder := environment.get(CREDENTIALS_DIRECTORY):  # made by systemd for this service alone
        for key in SECRET_KEYS:
            file = Path(folder) / f"broker__{key}"
            if file.is_file():
                found[key] = Secret(file.read_text("utf-8").strip())
    names = {key: variable(("broker", key)) for key in SECRET_KEYS}
    given = {key: name for key, name in names.items() if environment.get(name)}
    if given and mode == "live":
        message = (
            f"{' and '.join(given.values())} are set in the environment, which other processes can "
            f"read: in live mode use {SECRETS_FILE} (mode 0600) or systemd credentials"
        )
        raise OperatorMistake.of("E-SEC-003", message, ExitCode.SECRET)
    return found | {key: Secret(environment[name]) for key, name in given.items()}


def _in_file(broker: BrokerSettings, base_dir: Path) -> Found:
    file = base_dir / Path(broker.secrets_file or SECRETS_FILE).expanduser()
    if not os.path.lexists(file):
        if broker.secrets_file is not None:
            message = f"no file {shown_path(file)}, which broker.secrets_file names"
            raise OperatorMistake.of("E-SEC-001", message, ExitCode.SECRET)
        return {}
    text = read_private(file)
    try:
        found = parse_yaml(text, shown_path(file)).data
    except OperatorMistake:
        wanted = f"wanted lines like {SECRET_KEYS[0]}: '…'; found something else"
        raise _refused(file, wanted) from None  # the cause quotes the file
    if set(found) - set(SECRET_KEYS):
        raise _refused(file, f"wanted {' and '.join(SECRET_KEYS)} only; found another key")
    for key, value in found.items():
        if not isinstance(value, str):
            raise _refused(file, f"wanted a text for {key}; put it in quotes")
    return {key: Secret(str(value)) for key, value in found.items()}


def read_private(file: Path) -> str:
    """Return the text of a file that only its owner can read or change.

    Raises OperatorMistake for a symbolic link, bits for group or others, another owner, or a folder
    that others can write to.
    """
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        is_link = file.is_symlink()
        reason = "is a symbolic link" if is_link else (error.strerror or "cannot be read").lower()
        raise _refused(file, f"{reason}; wanted a plain file of mode 0600") from error
    try:
        found, parent = os.fstat(handle), file.absolute().parent
        if not stat.S_ISREG(found.st_mode):
            raise _refused(file, "is not a plain file; wanted a plain file of mode 0600")
        if found.st_uid not in {os.geteuid(), 0}:
            raise _refused(file, f"belongs to user {found.st_uid}, not to the one who runs the bot")
        if found.st_mode & _OTHERS:
            mode = stat.S_IMODE(found.st_mode)
            raise _refused(file, f"has mode {mode:04o}: others can read it. Do: chmod 600 {file}")
        for folder in (parent, *parent.parents):
            mode, is_parent = folder.stat().st_mode, folder == parent
            is_sticky = bool(mode & stat.S_ISVTX) and not is_parent
            if mode & (_OTHERS_WRITE if is_parent else stat.S_IWOTH) and not is_sticky:
                raise _refused(file, f"is below {folder}, which others can write to")
        return os.read(handle, LENGTH_MAX).decode("utf-8", "replace")
    finally:
        os.close(handle)


def _refused(file: Path, why: str) -> OperatorMistake:
    problem = Problem("E-SEC-002", why, shown_path(file))
    return OperatorMistake((problem,), ExitCode.SECRET)
