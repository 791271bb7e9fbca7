"""Where the broker's key and secret come from, and for which host they were given.

In this order: the environment (never in live mode), systemd credentials, a file of mode 0600.
Anything that others could read is refused (`private_files.py`). The file names the `host` for which
the key was issued, as `bot secret set` does: the key is sent to no other host, whatever the
configuration says. Without real money it may be left out. Secrets never appear in a message.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from bot.config.private_files import (
    CREDENTIALS_DIRECTORY,
    read_credential,
    read_private,
    refused,
    write_private,
)
from bot.config.problems import ExitCode, OperatorMistake, Problem, shown_path
from bot.config.settings.model import BrokerSettings, Mode
from bot.config.settings.places import expanded
from bot.config.settings.sources import SECRET_KEYS, variable
from bot.config.yaml_file import YamlDocument, parse_yaml
from bot.protocol.secret import Secret

SECRETS_FILE: Final = "secrets.yaml"
HOST: Final = "host"
"""The key of the file that names the host for which the others are."""
_HEAD: Final = "# written by: bot secret set. Only its owner may read it.\n"

_USABLE: Final = re.compile(r"[!-~]+")
"""What a header can carry; with other characters the HTTP library would quote the key
in its error.
"""

Found = dict[str, Secret]


def in_configuration(document: YamlDocument) -> list[Problem]:
    """Return a problem for each secret in a configuration file."""
    message = (
        "a secret does not belong in this file: remove it, and store it with bot secret set "
        f"({SECRETS_FILE}, mode 0600), as a systemd credential or in the environment"
    )
    broker = document.data.get("broker")
    below = [("broker", key) for key in SECRET_KEYS if isinstance(broker, dict) and key in broker]
    places = [*((key,) for key in SECRET_KEYS if key in document.data), *below]
    return [document.at_key("E-CFG-041", message, place) for place in places]


@dataclass(frozen=True, slots=True)
class SecretPlaces:
    """The places that may hold the secrets of one configuration."""

    file: Path
    is_named: bool
    """Whether the configuration names the file, which then has to exist."""
    host: str
    """The host of `broker.base_url`; empty without one."""
    mode: Mode
    environment: Mapping[str, str]

    @classmethod
    def of(
        cls, broker: BrokerSettings, mode: Mode, base_dir: Path, environment: Mapping[str, str]
    ) -> "SecretPlaces":
        """Return the places of a configuration in `base_dir`."""
        file = base_dir / expanded(broker.secrets_file or SECRETS_FILE)
        host = (urlsplit(broker.base_url or "").hostname or "").lower()
        return cls(file, broker.secrets_file is not None, host, mode, environment)

    def find(self) -> Found:
        """Return the `api_key` and `api_secret` found. Raises OperatorMistake."""
        found = {key: (text, shown_path(self.file)) for key, text in self._in_file().items()}
        for key, file in self.credentials():
            found[key] = read_credential(file), str(file)
        given = self.variables()
        if given and self.mode == "live":
            message = (
                f"{' and '.join(given.values())} are set in the environment, which other processes "
                "can read: in live mode, use bot secret set or systemd credentials"
            )
            raise OperatorMistake.of("E-SEC-003", message, ExitCode.SECRET)
        found |= {key: (self.environment[name], name) for key, name in given.items()}
        for key, (text, origin) in found.items():
            if not _USABLE.fullmatch(text.strip()):
                message = (
                    f"the {key} in {origin} can't be right: wanted one word of letters, digits "
                    "and punctuation, as the broker shows it; found "
                    + ("blanks or line breaks" if text.strip() else "nothing")
                )
                raise OperatorMistake.of("E-SEC-007", message, ExitCode.SECRET)
        return {key: Secret(text.strip()) for key, (text, _) in found.items()}

    def credentials(self) -> Iterator[tuple[str, Path]]:
        """Yield the systemd credentials of this service: the key, and the file that holds it."""
        if folder := self.environment.get(CREDENTIALS_DIRECTORY):
            files = ((key, Path(folder) / f"broker__{key}") for key in SECRET_KEYS)
            yield from ((key, file) for key, file in files if os.path.lexists(file))

    def variables(self) -> Mapping[str, str]:
        """Return the environment variable of each key that is set there."""
        names = {key: variable(("broker", key)) for key in SECRET_KEYS}
        return {key: name for key, name in names.items() if self.environment.get(name)}

    def _in_file(self) -> dict[str, str]:
        if not os.path.lexists(self.file):
            if self.is_named:
                message = f"there is no {shown_path(self.file)}, which broker.secrets_file names"
                raise OperatorMistake.of("E-SEC-001", message, ExitCode.SECRET)
            return {}
        found = self.kept()
        host = found.pop(HOST, "").lower()
        if host and host != self.host:
            message = (
                f"{shown_path(self.file)}: the key in it was entered for {host}, but "
                f"broker.base_url names {self.host or 'no host'}. Nothing was sent. If the "
                "broker has moved, enter the key again: bot secret set api-key"
            )
            raise OperatorMistake.of("E-SEC-005", message, ExitCode.SECRET)
        if not host and self.mode == "live" and set(found) - set(dict(self.credentials())):
            message = (
                f"{shown_path(self.file)} does not say for which host the key in it is, so another "
                f"broker.base_url could send it elsewhere. If {self.host} is your broker's, add "
                f"the line: {HOST}: {self.host}"
            )
            raise OperatorMistake.of("E-SEC-005", message, ExitCode.SECRET)
        return found

    def kept(self) -> dict[str, str]:
        """Return the contents of the file in clear text; empty without one. Raises
        OperatorMistake.
        """
        if not os.path.lexists(self.file):
            return {}
        text = read_private(self.file)
        wanted = f"wanted lines like {SECRET_KEYS[0]}: '…'; found something else"
        try:
            found = parse_yaml(text, shown_path(self.file)).data
        except OperatorMistake:
            raise refused(self.file, wanted) from None  # the cause quotes the file
        if set(found) - {*SECRET_KEYS, HOST}:
            wanted = f"wanted only {', '.join(SECRET_KEYS)} and {HOST}; found another key"
            raise refused(self.file, wanted)
        for key, value in found.items():
            if not isinstance(value, str):
                raise refused(self.file, f"wanted text for {key}; put it in quotes")
        return {key: str(value) for key, value in found.items()}

    def put(self, key: str, text: str) -> None:
        """Write one secret into the file, and the host that it is for. What was entered for another
        host is removed: it would be sent to this one.
        """
        kept = {} if self.kept_for_another() else self.kept()
        host = {HOST: self.host} if self.host else {}
        self._write({**kept, **host, key: text})

    def kept_for_another(self) -> str:
        """Return the host that the file names; empty if it is ours, or it names none."""
        host = self.kept().get(HOST, "").lower()
        return host if self.host and host != self.host else ""

    def remove(self, key: str) -> bool:
        """Remove one secret from the file, and the file with the last one; False if
        it held none.
        """
        kept = self.kept()
        is_held = kept.pop(key, None) is not None
        if is_held and set(kept) & set(SECRET_KEYS):
            self._write(kept)
        elif is_held:
            self.file.unlink()
        return is_held

    def _write(self, kept: Mapping[str, str]) -> None:
        lines = (f"{name}: {json.dumps(value)}\n" for name, value in sorted(kept.items()))
        write_private(self.file, _HEAD + "".join(lines))
