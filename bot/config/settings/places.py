"""Where a bot's configuration and state lie. What asks a running bot needs no more than this.

To load the settings takes many times as long as to ask, and a kill switch should work beside a
configuration that somebody has just broken. So the state directory is found without reading them,
where that cannot go wrong.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from bot import __version__
from bot.config.shipped import DEMO, shipped

CONFIG_VARIABLE: Final = "BOT_CONFIG"
STATE_KEY: Final = "state_dir"
STATE_VARIABLE: Final = "BOT_STATE_DIR"
KNOWN: Final = "last-run.json"
"""In a state directory: which bot the last run was, and by which configuration."""
_SETTING: Final = "BOT_"
_KEYS: Final = frozenset({"BOT_BROKER__API_KEY", "BOT_BROKER__API_SECRET"})
"""Settings that name no bot, and that a person gives by the environment."""
_ESCAPE: Final = "\\"
"""By which a key could be written that does not look like itself."""
_PLAIN: Final = re.compile(rf"{STATE_KEY}: +([\w./~-]*[A-Za-z_][\w./~-]*) *( #.*)?", re.ASCII)
_WORDS: Final = frozenset({"null", "true", "false"})
"""What a reader of YAML may take for something else than a text."""
_READ_MAX: Final = 200_000


def find_config(environment: Mapping[str, str], folder: Path | None = None) -> Path:
    """Return the configuration in effect where the command line names none.

    It is what BOT_CONFIG names, there or not; else ./bot.yaml, ./config/bot.yaml, the user's own in
    the XDG folder; else the shipped demo's, which is always there. One that is there and cannot be
    read, like a link to a disk that is away, is the one that is meant: reading it says why not.
    """
    if named := environment.get(CONFIG_VARIABLE):
        return Path(named).expanduser()
    here = folder or Path.cwd()
    user = _xdg(environment, "XDG_CONFIG_HOME", ".config") / "vnbot"
    for path in (here / "bot.yaml", here / "config" / "bot.yaml", user / "bot.yaml"):
        try:
            path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return path
        return path
    return shipped(DEMO)


def state_dir_at_sight(path: Path, environment: Mapping[str, str]) -> Path | None:
    """Return the state directory of a configuration; None where only loading it can tell.

    What a person usually writes is taken: no `state_dir`, or one plain word on a line of its own.
    """
    if any(name.upper() == STATE_VARIABLE for name in environment):
        return None
    try:
        if not path.is_file() or path.stat().st_size > _READ_MAX:
            return None
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None
    written = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    setting = [line for line in written if STATE_KEY in line]
    if _ESCAPE in text or len(setting) > 1:
        return None
    if not setting:
        return state_dir_of(None, path, environment)
    found, after = _PLAIN.fullmatch(setting[0]), written[written.index(setting[0]) + 1 :]
    goes_on = bool(after) and after[0].startswith((" ", "\t"))
    if found is None or found[1].lower() in _WORDS or goes_on:
        return None
    return state_dir_of(found[1], path, environment)


def state_dir_of(given: str | None, path: Path, environment: Mapping[str, str]) -> Path:
    """Return the folder that is `given`, else one by the path of the configuration: the shipped
    demo's is called `demo`.
    """
    whole = path.absolute()
    if given is not None:
        return below(whole.parent, given)
    name = f"{whole.parent.name}-{hashlib.sha256(str(whole).encode()).hexdigest()[:8]}"
    name = "demo" if whole == shipped(DEMO).absolute() else name
    return _xdg(environment, "XDG_STATE_HOME", ".local/state") / "vnbot" / name


def remember_run(
    state_dir: Path,
    path: Path,
    environment: Mapping[str, str],
    bot: Mapping[str, str],
    language: str,
) -> None:
    """Keep which bot its configuration, whole as it is now, makes: for who finds no bot running."""
    kept = {"bot": dict(bot), "language": language, "made_by": _makers(path, environment)}
    with suppress(OSError):  # it spares time and nothing else
        (state_dir / KNOWN).touch(mode=0o600)
        (state_dir / KNOWN).write_text(json.dumps(kept, ensure_ascii=False) + "\n")


def last_run(
    state_dir: Path, path: Path, environment: Mapping[str, str]
) -> tuple[Mapping[str, str], str] | None:
    """Return the bot and the language of the last run; None unless loading would tell the same.

    That is so while nothing has changed that makes them: this program, the file, and the settings
    in the environment, which are none but the broker's keys.
    """
    set_here = {name.upper() for name in environment if name.upper().startswith(_SETTING)}
    if set_here - {CONFIG_VARIABLE, *_KEYS}:
        return None
    try:
        kept = json.loads((state_dir / KNOWN).read_text())
        if kept["made_by"] == _makers(path, environment):
            bot = {str(name): str(value) for name, value in kept["bot"].items()}
            return (bot, str(kept["language"])) if {"name", "mode", "config"} <= set(bot) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return None


def _makers(path: Path, environment: Mapping[str, str]) -> list[str]:
    """Name what makes a bot; of a secret, only that there is one."""
    keys = sorted(name.upper() for name, key in environment.items() if key)
    whole = hashlib.sha256(path.read_bytes()).hexdigest()
    return [__version__, str(path.absolute()), whole, *(name for name in keys if name in _KEYS)]


def below(folder: Path, text: str) -> Path:
    """Return the path without `..`, so that one place has one name."""
    return (folder / Path(text).expanduser()).resolve()


def _xdg(environment: Mapping[str, str], name: str, default: str) -> Path:
    """An XDG path counts only when it is absolute (XDG Base Directory Specification 0.8)."""
    given = environment.get(name, "")
    home = environment.get("HOME") or "~"
    return Path(given) if given.startswith("/") else Path(home).expanduser() / default
