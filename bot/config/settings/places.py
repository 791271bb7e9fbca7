"""Finds a bot's configuration and state directory; a command to a running bot needs no more.

Loading the settings takes many times as long as the command itself, and a kill switch must work
even if somebody has just broken the configuration. So the state directory is found without loading
them, where that is safe.
"""

import errno
import hashlib
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from bot import __version__
from bot.config.private_files import replace_private
from bot.config.problems import OperatorMistake
from bot.config.shipped import DEMO, shipped
from bot.domain.visible import visible

DEFAULT: Final = "default"
"""The origin of a setting that nobody has set."""
CONFIG_VARIABLE: Final = "BOT_CONFIG"
OWN: Final = "bot.yaml"
"""The configuration file in a folder."""
STATE_KEY: Final = "state_dir"
STATE_VARIABLE: Final = "BOT_STATE_DIR"
KNOWN: Final = "last-run.json"
"""In a state directory: the bot of the last run and its configuration."""
_SETTING: Final = "BOT_"
_KEYS: Final = frozenset({"BOT_BROKER__API_KEY", "BOT_BROKER__API_SECRET"})
"""Settings that do not identify a bot and are given in the environment."""
_ESCAPE: Final = "\\"
"""With it, a key could be written in a form that this module does not recognise."""
_PLAIN: Final = re.compile(rf"{STATE_KEY}: +([\w./~-]*[A-Za-z_][\w./~-]*) *( #.*)?", re.ASCII)
_WORDS: Final = frozenset({"null", "true", "false"})
"""Words that YAML reads as something other than text."""
_READ_MAX: Final = 200_000
_SHOWN_MAX: Final = 80
"""Characters of a path that can be none."""
_NO_NAME: Final = "it has a character that no file's name can have"
_NEVER: Final = {
    errno.ENAMETOOLONG: "it is longer than a file's name can be",
    errno.ELOOP: "its links lead in a circle",
}
"""What is wrong with a path that no file can have."""


def find_config(environment: Mapping[str, str], folder: Path | None = None) -> Path:
    """Return the configuration in effect where the command line names none.

    It is the file named by BOT_CONFIG, or the one in that folder, whether it exists or not; else
    ./bot.yaml, ./config/bot.yaml, the user's own in the XDG folder; else the shipped demo's, which
    always exists. One that exists but cannot be read, like a link to a missing disk, is still
    chosen, so that reading it reports why.
    """
    if named := environment.get(CONFIG_VARIABLE):
        return in_folder(expanded(named))
    here = folder or Path.cwd()
    user = _xdg(environment, "XDG_CONFIG_HOME", ".config") / "vnbot"
    for path in (here / OWN, here / "config" / OWN, user / OWN):
        try:
            path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return path
        return path
    return shipped(DEMO)


def in_folder(path: Path) -> Path:
    """Return the configuration in a folder: somebody in a hurry to halt may name that."""
    with suppress(OSError):  # told by the command, which knows what it means
        return path / OWN if path.is_dir() else path
    return path


def state_dir_at_sight(path: Path, environment: Mapping[str, str]) -> Path | None:
    """Return the state directory of a configuration; None if only loading it can tell.

    It understands what people usually write: no `state_dir`, or one plain word on a line of its
    own.
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
    with suppress(OperatorMistake):  # told by the settings, with its line
        return state_dir_of(found[1], path, environment)
    return None


def state_dir_of(given: str | None, path: Path, environment: Mapping[str, str]) -> Path:
    """Return the folder `given`, else the one named after the configuration's path."""
    if given is not None:
        return below(path.absolute().parent, given)
    return folders_named_after(path, environment)[0]


def folders_named_after(path: Path, environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the state directory of a configuration that names none; the shipped demo's is `demo`.

    One file has one, however its path is written. Earlier versions named it after the path as
    written: such a folder is kept while it is the only one, and stands second beside another.
    """
    states = _xdg(environment, "XDG_STATE_HOME", ".local/state") / "vnbot"
    whole = real_path(path)
    name = "demo" if whole == real_path(shipped(DEMO)) else _name_after(whole)
    found, earlier = states / name, states / _name_after(path.absolute())
    if name == "demo" or earlier == found or not earlier.is_dir():
        return (found,)
    return (found, earlier) if found.is_dir() else (earlier,)


def real_path(path: Path) -> Path:
    """Return the path with its folder's one name. A file that is a link keeps its own: strategies
    and secrets lie beside the link, and what it leads to may be replaced at each deployment.
    """
    return path.parent.resolve() / path.name


def _name_after(whole: Path) -> str:
    return f"{whole.parent.name}-{hashlib.sha256(str(whole).encode()).hexdigest()[:8]}"


def remember_run(
    state_dir: Path,
    path: Path,
    environment: Mapping[str, str],
    bot: Mapping[str, str],
    language: str,
    journal: str = "",
    pid: int | None = None,
    *,
    is_apart: bool = False,
) -> None:
    """Store which bot this configuration, as it is now, makes, for commands that find no running
    bot. `journal`: the URL of its file; a database's address is not kept here. `pid`: the process
    that runs it. `is_apart`: it sends no orders, or those of an account that its
    terminal has set.
    """
    kept: dict[str, object] = {"bot": dict(bot), "language": language, "journal": journal}
    kept |= {"made_by": _makers(path, environment), "pid": pid, "apart": is_apart}
    with suppress(OSError):  # it only saves time
        replace_private(state_dir / KNOWN, f"{json.dumps(kept, ensure_ascii=False)}\n".encode())


def last_run(
    state_dir: Path, path: Path, environment: Mapping[str, str]
) -> tuple[Mapping[str, str], str] | None:
    """Return the bot and the language of the last run; None unless loading would give the same.

    That holds while nothing they depend on has changed: this program, the file, and the settings in
    the environment, where only the broker's keys may be set.
    """
    if _is_set_here(environment):
        return None
    try:
        kept = json.loads((state_dir / KNOWN).read_text())
        if kept["made_by"] == _makers(path, environment):
            bot = {str(name): str(value) for name, value in kept["bot"].items()}
            return (bot, str(kept["language"])) if {"name", "mode", "config"} <= set(bot) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return None


def last_bot(state_dir: Path) -> Mapping[str, str]:
    """Return name, mode and configuration of the bot of the last run, as they were at its start;
    empty if none is known.
    """
    try:
        kept = json.loads((state_dir / KNOWN).read_text())["bot"]
        return {str(name): str(value) for name, value in kept.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def last_pid(state_dir: Path) -> int | None:
    """Return the process of the last run, which may have ended; None if none is known."""
    try:
        pid = json.loads((state_dir / KNOWN).read_text()).get("pid")
    except (OSError, ValueError, AttributeError):
        return None
    return pid if isinstance(pid, int) else None


def was_apart(state_dir: Path) -> bool:
    """Return whether the last run is known to send no orders to the account of its file."""
    try:
        return json.loads((state_dir / KNOWN).read_text()).get("apart") is True
    except (OSError, ValueError, AttributeError):
        return False


def last_journal(state_dir: Path) -> str | None:
    """Return the URL of the file that the last run wrote; None if nothing has run. Empty for
    another database, and where it can't be told any more: the configuration names the journal.
    """
    try:
        kept = json.loads((state_dir / KNOWN).read_text())
        return str(kept.get("journal") or "")
    except OSError:
        return None
    except (ValueError, AttributeError):
        return ""


def demo_at_sight(
    path: Path, environment: Mapping[str, str]
) -> tuple[Mapping[str, str], str] | None:
    """Return the bot and the language of the shipped demo, which need not have run; None if it is
    another configuration, or was changed in a checkout.
    """
    whole = path.absolute()
    if whole != shipped(DEMO).absolute() or _is_set_here(environment):
        return None
    lines = path.read_text(encoding="utf-8").splitlines()
    if "mode: sandbox" not in lines or any(line.startswith("language") for line in lines):
        return None
    return {"name": whole.parent.name, "mode": "sandbox", "config": str(whole)}, "en"


def _is_set_here(environment: Mapping[str, str]) -> bool:
    """Return whether the environment sets anything but the broker's keys."""
    set_here = {name.upper() for name in environment if name.upper().startswith(_SETTING)}
    return bool(set_here - {CONFIG_VARIABLE, *_KEYS})


def _makers(path: Path, environment: Mapping[str, str]) -> list[str]:
    """Return what determines a bot; of a secret, only that it is set."""
    keys = sorted(name.upper() for name, key in environment.items() if key)
    whole = hashlib.sha256(path.read_bytes()).hexdigest()
    return [__version__, str(path.absolute()), whole, *(name for name in keys if name in _KEYS)]


def expanded(text: str) -> Path:
    """Return the path with the folder that its `~` stands for. Raises OperatorMistake where that is
    unknown, or no file can have the name.
    """
    try:
        os.fsencode(text)
        path = Path(text).expanduser()
    except UnicodeEncodeError as error:
        raise _unusable(text, _NO_NAME) from error
    except RuntimeError as error:
        user = text.partition("/")[0].removeprefix("~")
        what = f"there is no user {user!r} here" if user else "your home folder is not known"
        raise _unusable(text, f"{what}, so name the folder in full") from error
    if "\0" in text:
        raise _unusable(text, _NO_NAME)
    return path


def below(folder: Path, text: str) -> Path:
    """Return the path without `..`, so that one place has one name. Raises OperatorMistake for one
    that no file can have.
    """
    path = folder / expanded(text)
    try:
        path.stat()
    except OSError as error:
        if fault := _NEVER.get(error.errno or 0):
            raise _unusable(text, fault) from error
    return path.resolve()


def path_fault(folder: Path, text: str) -> str:
    """Return why no file can have this path; empty if one can."""
    try:
        below(folder, text)
    except OperatorMistake as mistake:
        return mistake.problems[0].message
    return ""


def _unusable(text: str, fault: str) -> OperatorMistake:
    return OperatorMistake.of("E-CFG-001", f"{visible(text, _SHOWN_MAX)}: {fault}")


def _xdg(environment: Mapping[str, str], name: str, default: str) -> Path:
    """An XDG path counts only when it is absolute (XDG Base Directory Specification 0.8)."""
    given = environment.get(name, "")
    home = environment.get("HOME") or "~"
    return Path(given) if given.startswith("/") else expanded(home) / default
