"""`bot service install|uninstall|status`: the bot as a systemd service, and the unit that runs it.

The unit is for systemd 247 and later; a test runs `systemd-analyze verify` and `security` on it.
"""

import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from bot.cli.command import CONFIGURATION, STATE_FOLDER, Invocation, define_command, define_group
from bot.cli.show import print_lines, print_result, say
from bot.cli.target import SQLITE
from bot.config.problems import ExitCode, OperatorMistake
from bot.config.settings.places import DEFAULT, STATE_KEY, find_config, real_path

if TYPE_CHECKING:
    from bot.config.settings.load import Loaded

MARK: Final = "# Written by bot service install; the next install writes it anew."
CREDENTIALS: Final = ("broker__api_key", "broker__api_secret")
SYSTEM_FOLDER: Final = Path("/etc/systemd/system")
USER_FOLDER: Final = Path("systemd/user")
"""Below the user's configuration folder."""
_NAME: Final = re.compile(r"[^a-z0-9_-]+")
NAME_MAX: Final = 40
_RUNS: Final = re.compile(r'"-c" "((?:[^"\\]|\\.)*)"')
"""In a unit, the configuration that it runs."""
_ESCAPED: Final = re.compile(r"\\(.)|([$%])\2")
"""What `quoted` writes for one character."""

NO_RESTART: Final = "2 3 4"
"""Wrong command line, wrong configuration, key refused: a person has to correct these first."""
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
    """The unit for `bot run` of one configuration. `user` is None for a unit of the user's own
    manager. `writable` are the folders that the bot writes to, `flags` are for `bot run`.
    """

    name: str
    program: Sequence[str]
    config: Path
    state_dir: Path
    writable: Sequence[Path]
    user: str | None
    credentials: Path | None = None
    flags: Sequence[str] = ()

    @property
    def file_name(self) -> str:
        return f"{unit_name(self.name)}.service"

    def text(self) -> str:
        """Return the whole file."""
        run = ("run", "-c", str(self.config), *self.flags, "--no-input")
        lines = [
            MARK,
            "[Unit]",
            f"Description=vnbot {_plain(self.name)}",
            "Wants=network-online.target",
            "After=network-online.target postgresql.service time-sync.target",
            "StartLimitIntervalSec=600",
            "StartLimitBurst=3",
            "",
            "[Service]",
            f"ExecStart={' '.join(quoted(word) for word in (*self.program, *run))}",
            f"WorkingDirectory={_plain(str(self.config.parent))}",
        ]
        if self.user is not None:
            lines.append(f"User={self.user}")
        lines += _COMMON.format(no_restart=NO_RESTART).splitlines()
        if self.user is not None:
            places = (self.config, self.state_dir, *self.writable, *map(Path, self.program))
            home = "read-only" if any(is_at_home(place) for place in places) else "yes"
            lines += _SYSTEM_ONLY.format(home=home).splitlines()
        folders = dict.fromkeys((self.state_dir, *self.writable))
        lines.append(f"ReadWritePaths={' '.join(quoted(str(folder)) for folder in folders)}")
        if self.credentials is not None:
            for name in CREDENTIALS:
                lines.append(f"LoadCredential={name}:{_plain(str(self.credentials / name))}")
        target = "default.target" if self.user is None else "multi-user.target"
        lines += ["", "[Install]", f"WantedBy={target}"]
        return "\n".join(lines) + "\n"


def unit_name(name: str) -> str:
    """Return the name of a bot's unit: only letters, digits, `_` and `-`."""
    return f"vnbot-{_NAME.sub('-', name.lower()).strip('-')[:NAME_MAX] or 'bot'}"


def quoted(word: str) -> str:
    """Quote a word for a unit file: specifiers, variables and quotes are literal."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{_plain(escaped)}"'


def _plain(text: str) -> str:
    """Escape specifiers in a value that takes the rest of its line."""
    return text.replace("%", "%%")


def is_at_home(place: Path) -> bool:
    return any(place.is_relative_to(home) for home in ("/home", "/root", "/run/user"))


ASK_S: Final = 10.0
"""How long systemd may take to answer."""
_SHOWN: Final = ("ActiveState", "SubState", "StatusText", "NRestarts", "MainPID", "Result")
NO_SYSTEMD: Final = "there is no systemctl here. In a container, see docs/service.md"

user_option: Final = click.option(
    "--user", "is_users", is_flag=True, help="Use your own systemd, not the machine's."
)


@define_group("service", example="bot service install --print")
def command() -> None:
    """Run the bot as a systemd service."""


@define_command("install", group=command, example="bot service install --print")
@user_option
@click.option("--print", "is_shown", is_flag=True, help="Print the unit to stdout; write no file.")
@click.option(
    "--credentials",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder with broker__api_key and broker__api_secret, which systemd hands to the bot.",
)
@click.pass_obj
def install(
    invocation: Invocation, is_users: bool, is_shown: bool, credentials: Path | None
) -> None:
    """Write the unit file for this bot. Starts nothing: it prints the commands that do."""
    unit = _unit_of(_load(invocation, is_users), is_users=is_users, credentials=credentials)
    if is_shown:
        print_lines(unit.text().splitlines())
        return
    path = _folder(is_users=is_users) / unit.file_name
    if path.exists() and not path.read_text("utf-8").startswith(MARK):
        text = (
            f"{path} was not written by bot service install, so nothing was changed. Move it away"
        )
        raise OperatorMistake.of("E-SVC-001", text, ExitCode.USAGE)
    _require_own(path, unit)
    make_writable(unit)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(f".new-{os.getpid()}")
    beside.write_text(unit.text(), "utf-8")
    beside.replace(path)
    control = "systemctl --user" if is_users else "systemctl"
    print_lines([str(path)])
    say(invocation, f"next: {control} daemon-reload && {control} enable --now {unit.file_name}")
    if is_users:
        say(invocation, "and, to run while you are logged out: loginctl enable-linger")


@define_command("uninstall", group=command, example="bot service uninstall --user")
@user_option
@click.pass_obj
def uninstall(invocation: Invocation, is_users: bool) -> None:
    """Remove the unit file that install wrote. A running service is left alone: stop it first."""
    unit = _unit_of(_load(invocation, is_users), is_users=is_users)
    path = _folder(is_users=is_users) / unit.file_name
    if not path.exists():
        raise OperatorMistake.of("E-SVC-002", f"there is no {path}", ExitCode.NOT_RUNNING)
    if not path.read_text("utf-8").startswith(MARK):
        text = f"{path} was not written by bot service install, so nothing was changed"
        raise OperatorMistake.of("E-SVC-001", text, ExitCode.USAGE)
    _require_own(path, unit)
    control = "systemctl --user" if is_users else "systemctl"
    if _asked(unit, is_users=is_users).get("ActiveState") in {"active", "activating", "reloading"}:
        text = f"it is running. First: {control} disable --now {unit.file_name}"
        raise OperatorMistake.of("E-SVC-003", text, ExitCode.NOT_RUNNING)
    path.unlink()
    say(invocation, f"removed {path}; next: {control} daemon-reload")


@define_command("status", group=command, example="bot service status")
@user_option
@click.pass_obj
def status(invocation: Invocation, is_users: bool) -> None:
    """Show what systemd knows about this bot."""
    unit = _unit_of(_load(invocation, is_users), is_users=is_users)
    path = _folder(is_users=is_users) / unit.file_name
    _require_own(path, unit)
    known = _asked(unit, is_users=is_users)
    state = known.get("ActiveState", "unknown")
    fields = {"unit": unit.file_name, "file": str(path), "is_installed": path.exists(), **known}
    installed = "" if path.exists() else ", not installed: bot service install"
    lines = [f"{unit.file_name}  {state} ({known.get('SubState', '-')}){installed}"]
    lines += [f"{name:<12} {known[name]}" for name in _SHOWN[2:] if known.get(name)]
    print_result(invocation, fields, lines)
    if shutil.which("systemctl") is None:
        raise OperatorMistake.of("E-SVC-004", NO_SYSTEMD, ExitCode.NOT_RUNNING)
    if state != "active":
        raise OperatorMistake.of("E-SVC-002", "the service is not running", ExitCode.NOT_RUNNING)


def _load(invocation: Invocation, is_users: bool) -> "Loaded":
    """Load the settings of a bot that somebody else may run: `sudo` installs it, and its owner's
    secrets are not root's to read, nor is root's home the place of its state.
    """
    from bot.config.settings.load import load_without_secrets

    environment = dict(os.environ)
    config = invocation.config or find_config(environment)
    if not is_users and os.geteuid() == 0 and config.exists():
        with suppress(KeyError):  # an owner without a name has no home either
            environment["HOME"] = pwd.getpwuid(config.stat().st_uid).pw_dir
            environment.pop("XDG_STATE_HOME", None)
    given = invocation.state_dir
    flags = {} if given is None else {"state_dir": str(given.absolute())}
    invocation.looked_in[config.absolute()] = CONFIGURATION
    loaded = load_without_secrets(config, overrides=flags, environment=environment)
    invocation.looked_in[loaded.state_dir] = STATE_FOLDER
    invocation.bot = loaded.bot
    invocation.lang = invocation.lang or loaded.settings.language
    return loaded


def _unit_of(loaded: "Loaded", *, is_users: bool, credentials: Path | None = None) -> Unit:
    url = loaded.journal_url
    journal = [Path(url.removeprefix(SQLITE)).parent] if url.startswith(SQLITE) else []
    from bot.config.settings.sources import is_of_one_terminal  # slow, and loaded by now

    origin = loaded.origin_of(STATE_KEY)
    # A flag would hide what the file names, also after a person has changed that.
    is_in_file = origin != DEFAULT and not is_of_one_terminal(origin)
    return Unit(
        name=loaded.name,
        program=program_here(),
        config=loaded.path.absolute(),
        state_dir=loaded.state_dir.absolute(),
        writable=journal,
        user=None if is_users else owner_of(loaded),
        credentials=credentials.absolute() if credentials else None,
        flags=() if is_in_file else ("--state-dir", str(loaded.state_dir.absolute())),
    )


def _require_own(path: Path, unit: Unit) -> None:
    """Raise OperatorMistake if the unit runs another bot: two folders of one name give one unit
    name. A configuration that is gone was moved, and its unit may be written anew.
    """
    found = _RUNS.search(path.read_text("utf-8")) if path.exists() else None
    if found is None:
        return
    config = Path(_ESCAPED.sub(r"\1\2", found[1]))
    if real_path(config) != real_path(unit.config) and config.exists():
        its = shlex.quote(str(config))
        text = (
            f"{path} runs another bot of this name, {config}, so nothing was changed. Give one of "
            f"their folders another name, or first: bot service uninstall -c {its}"
        )
        raise OperatorMistake.of("E-SVC-005", text, ExitCode.USAGE)


def make_writable(unit: Unit) -> None:
    """Create the folders that the unit may write to: systemd starts no unit whose folder is
    missing. What `sudo` makes on the way to them is the bot's owner's.
    """
    from bot.runtime.state_dir import make_state_dir

    owner = (unit.state_dir if unit.state_dir.exists() else unit.config).stat()
    for folder in dict.fromkeys((unit.state_dir, *unit.writable)):
        made = [each for each in (folder, *folder.parents) if not each.exists()]
        if made:
            make_state_dir(folder)
        if unit.user is not None and os.geteuid() == 0:
            for each in made:
                os.chown(each, owner.st_uid, owner.st_gid)


def program_here() -> Sequence[str]:
    """Return this environment's `bot`, not whichever is first in somebody's path."""
    script = Path(sys.executable).parent / "bot"
    return (str(script),) if script.exists() else (sys.executable, "-m", "bot")


def owner_of(loaded: "Loaded") -> str:
    """Return whose bot it is: the owner of its state, else of its configuration."""
    owned = loaded.state_dir if loaded.state_dir.exists() else loaded.path
    try:
        return pwd.getpwuid(owned.stat().st_uid).pw_name
    except KeyError:
        return str(owned.stat().st_uid)


def _folder(*, is_users: bool) -> Path:
    if not is_users:
        return SYSTEM_FOLDER
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / USER_FOLDER


def _asked(unit: Unit, *, is_users: bool) -> dict[str, str]:
    """Return what systemd reports about a unit; empty if it does not answer."""
    program = shutil.which("systemctl")
    if program is None:
        return {}
    words = [*(["--user"] if is_users else []), "show", unit.file_name, f"-p{','.join(_SHOWN)}"]
    try:
        ran = subprocess.run(  # noqa: S603 - systemctl, of fixed words and a checked name
            [program, *words], capture_output=True, text=True, timeout=ASK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    pairs = (line.partition("=") for line in ran.stdout.splitlines())
    return {name: value for name, _, value in pairs if name in _SHOWN}
