"""The systemd unit of one bot: what is in it, and why it is restarted or not.

Written for systemd 247 and later; `systemd-analyze verify` and `security` are run on it by a test.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MARK: Final = "# Written by bot service install; the next install writes it anew."
CREDENTIALS: Final = ("broker__api_key", "broker__api_secret")
SYSTEM_FOLDER: Final = Path("/etc/systemd/system")
USER_FOLDER: Final = Path("systemd/user")
"""Below the folder of the user's configuration."""
_NAME: Final = re.compile(r"[^a-z0-9_-]+")
NAME_MAX: Final = 40

NO_RESTART: Final = "2 3 4"
"""Wrong command line, wrong configuration, key refused: a person has to put that right first."""
_COMMON: Final = """\
Type=notify
NotifyAccess=main
TimeoutStartSec=60
WatchdogSec=30
Restart=on-failure
RestartSec=30
RestartPreventExitStatus={no_restart}
KillMode=mixed
TimeoutStopSec=20
Environment=PYTHONFAULTHANDLER=1 PYTHONDONTWRITEBYTECODE=1
UMask=0077
LimitCORE=0
MemoryMax=1G
TasksMax=128
OOMPolicy=stop
NoNewPrivileges=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM
PrivateTmp=yes
ProtectSystem=strict
"""
_SYSTEM_ONLY: Final = """\
ProtectHome={home}
PrivateDevices=yes
PrivateUsers=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
RemoveIPC=yes
DevicePolicy=closed
CapabilityBoundingSet=
AmbientCapabilities=
"""


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit for `bot run` of one configuration. `user` is None for a unit of the user's own
    manager. `writable` are the folders that the bot writes to.
    """

    name: str
    program: Sequence[str]
    config: Path
    state_dir: Path
    writable: Sequence[Path]
    user: str | None
    credentials: Path | None = None

    @property
    def file_name(self) -> str:
        return f"{unit_name(self.name)}.service"

    def text(self) -> str:
        """Return the whole file."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        run = ("run", "-c", str(self.config), "--state-dir", str(self.state_dir), "--no-input")
        yield MARK
        yield "[Unit]"
        yield f"Description=vnbot {_plain(self.name)}"
        yield "Wants=network-online.target"
        yield "After=network-online.target postgresql.service time-sync.target"
        yield "StartLimitIntervalSec=600"
        yield "StartLimitBurst=3"
        yield ""
        yield "[Service]"
        yield f"ExecStart={' '.join(quoted(word) for word in (*self.program, *run))}"
        yield f"WorkingDirectory={_plain(str(self.config.parent))}"
        if self.user is not None:
            yield f"User={self.user}"
        yield from _COMMON.format(no_restart=NO_RESTART).splitlines()
        if self.user is not None:
            places = (self.config, self.state_dir, *self.writable, *map(Path, self.program))
            home = "read-only" if any(is_at_home(place) for place in places) else "yes"
            yield from _SYSTEM_ONLY.format(home=home).splitlines()
        folders = dict.fromkeys((self.state_dir, *self.writable))
        yield f"ReadWritePaths={' '.join(quoted(str(folder)) for folder in folders)}"
        if self.credentials is not None:
            for name in CREDENTIALS:
                yield f"LoadCredential={name}:{_plain(str(self.credentials / name))}"
        yield ""
        yield "[Install]"
        yield f"WantedBy={'default.target' if self.user is None else 'multi-user.target'}"


def unit_name(name: str) -> str:
    """Return the name of a bot's unit: letters, digits, `_` and `-` alone."""
    return f"vnbot-{_NAME.sub('-', name.lower()).strip('-')[:NAME_MAX] or 'bot'}"


def quoted(word: str) -> str:
    """Return a word as a unit file reads it back: specifiers, variables and quotes are literal."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{_plain(escaped)}"'


def _plain(text: str) -> str:
    """A value that takes the rest of its line, with no specifier in it."""
    return text.replace("%", "%%")


def is_at_home(place: Path) -> bool:
    return any(place.is_relative_to(home) for home in ("/home", "/root", "/run/user"))
