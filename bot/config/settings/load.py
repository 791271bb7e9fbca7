"""Loads the settings of a run, checks them, and remembers where each came from.

A flag outranks the environment (`BOT_…`, `__` between steps), which outranks the file, which
outranks the default. Nothing here talks to a network; all mistakes are named at once. Relative
paths in the file start at its own folder.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pydantic import ValidationError

from bot.config.masking import masked_url
from bot.config.problems import OperatorMistake, Problem
from bot.config.settings.model import (
    BrokerSettings,
    JournalSettings,
    LegalSettings,
    RiskSettings,
    SandboxSettings,
    Settings,
)
from bot.config.settings.secrets import find_secrets, in_configuration
from bot.config.settings.sources import (
    Merged,
    merge,
    problems_of,
    process_environment,
    unknown_variables,
)
from bot.config.shipped import shipped
from bot.config.yaml_file import YamlDocument, parse_yaml, read_text, shown_path

__all__ = [
    "DEMO",
    "BrokerSettings",
    "JournalSettings",
    "LegalSettings",
    "Loaded",
    "RiskSettings",
    "SandboxSettings",
    "Settings",
    "find_config",
    "load_settings",
]

DEMO: Final = "config/demo/bot.yaml"
DEFAULT: Final = "default"
"""The origin of a setting that nobody has set."""
CONFIG_VARIABLE: Final = "BOT_CONFIG"
JOURNAL_FILE: Final = "journal.db"
_SQLITE: Final = "sqlite:///"
JOURNAL_URLS: Final = "sqlite:///FILE.db or postgresql+psycopg://user@host/name"
_HOST: Final = r"(\[[0-9A-Fa-f:.%]+\]|[^\s@/?#:\[\]]*)(:[0-9]{1,5})?"
_POSTGRES: Final = re.compile(
    rf"postgresql(\+psycopg)?://([^\s@/?#:]*(:[^\s@/?#]*)?@)?{_HOST}(,{_HOST})*(/[^\s@?#]*)?(\?[^\s#]*)?"
)
_DATED: Final = re.compile(r"\b(20[0-9]{2})-([01][0-9])-([0-3][0-9])\b")
_LOOPBACK: Final = re.compile(r"http://(127\.0\.0\.1|\[::1\]|localhost)(:[0-9]+)?(/.*)?")


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings in effect. `origins`: dotted key to `flag`, `env BOT_…`, `bot.yaml:12`.

    `journal_url` names SQLite files absolutely and may hold a password. `sha256` is of all that is
    in effect but secrets. `warnings` do not keep the bot from starting.
    """

    settings: Settings
    path: Path
    origins: Mapping[str, str]
    base_dir: Path
    state_dir: Path
    sha256: str
    journal_url: str = field(repr=False)

    @property
    def name(self) -> str:
        """What people call this bot: `demo`, else its folder; of two files in it, also the file."""
        path = self.path.absolute()
        if path == shipped(DEMO).absolute():
            return "demo"
        folder = path.parent.parent if path.parent.name == "config" else path.parent
        file = "" if path.name == "bot.yaml" else path.stem
        return "/".join(part for part in (folder.name, file) if part) or "bot"

    @property
    def bot(self) -> Mapping[str, str]:
        """Which bot this is, as `--json` says it."""
        config = str(self.path.absolute())
        return {"name": self.name, "mode": self.settings.mode, "config": config}

    def origin_of(self, key: str) -> str:
        """Return where a dotted key was set; `default` when nowhere."""
        return self.origins.get(key, DEFAULT)

    @property
    def strategy_patterns(self) -> tuple[Path, ...]:
        """The patterns of strategy files, absolute."""
        patterns = self.settings.strategies
        return tuple(self.base_dir / Path(each).expanduser() for each in patterns)


def load_settings(
    path: Path | None = None,
    *,
    overrides: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Loaded:
    """Load and check the settings. Raises OperatorMistake with everything that is wrong.

    `path` None: the file of `find_config`. `overrides`: dotted keys that the command line set, None
    for what it did not. `environment` None: the process's own.
    """
    environment = process_environment() if environment is None else environment
    path = path or find_config(environment)
    document = _read(path)
    merged = merge(document, environment, overrides or {})
    problems = [*in_configuration(document), *unknown_variables(environment)]
    settings = _check(merged, problems)
    base_dir = path.absolute().parent
    if settings.is_embedded:
        keys = {}
    else:
        broker, mode = settings.broker, settings.mode
        keys = find_secrets(broker, mode, base_dir=base_dir, environment=environment)
    settings = settings.model_copy(update={"broker": settings.broker.model_copy(update=keys)})
    state_dir = _state_dir(settings, path, environment)
    return Loaded(
        settings=settings,
        path=path,
        origins=merged.origins,
        base_dir=base_dir,
        state_dir=state_dir,
        sha256=_sha256(settings),
        journal_url=_journal_url(settings.journal.url, base_dir, state_dir),
    )


def find_config(environment: Mapping[str, str], folder: Path | None = None) -> Path:
    """Return the configuration in effect where the command line names none.

    It is what BOT_CONFIG names, there or not; else ./bot.yaml, ./config/bot.yaml, the user's own in
    the XDG folder; else the shipped demo's, which is always there. One that stands there and cannot
    be read, like a link to a disk that is away, is the one that is meant: reading it says why not.
    """
    if named := environment.get(CONFIG_VARIABLE):
        return Path(named).expanduser()
    here = folder or Path.cwd()
    user = _xdg(environment, "XDG_CONFIG_HOME", ".config") / "vnbot"
    own = (here / "bot.yaml", here / "config" / "bot.yaml", user / "bot.yaml")
    return next((path for path in own if _stands(path)), None) or shipped(DEMO)


def _stands(path: Path) -> bool:
    """Whether anything has this name, as far as can be seen."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _read(path: Path) -> YamlDocument:
    """A configuration of comments alone is all defaults."""
    text = read_text(path)
    if all(line.lstrip().startswith("#") or not line.strip() for line in text.splitlines()):
        return YamlDocument(shown_path(path), text, {})
    return parse_yaml(text, shown_path(path))


def _check(merged: Merged, problems: list[Problem]) -> Settings:
    try:
        settings = Settings.model_validate(merged.data)
    except ValidationError as error:
        raise OperatorMistake([*problems, *problems_of(error, merged)]) from error
    problems = [*problems, *_contradictions(settings, merged)]
    if problems:
        raise OperatorMistake(problems)
    return settings


# -------------------------------------------------------------------------- what must hold together


def _contradictions(settings: Settings, merged: Merged) -> list[Problem]:
    checks = (_address_problem, _statement_problem, _journal_problem)
    found = (check(settings, merged) for check in checks)
    return [problem for problem in found if problem is not None]


def _address_problem(settings: Settings, merged: Merged) -> Problem | None:
    url, mode = settings.broker.base_url, settings.mode
    place = ("broker", "base_url")
    if url is None:
        message = f"mode {mode!r} needs broker.base_url, the broker's address"
        return None if mode == "sandbox" else merged.blame("E-CFG-043", message, ("mode",))
    if (wrong := _no_address(url)) is not None:
        message = f"'broker.base_url': {wrong}; wanted https://HOST or https://HOST:PORT"
        return merged.blame("E-CFG-043", message, place)
    if mode == "live" and not url.startswith("https://"):
        message = "'broker.base_url': live orders go over https:// only"
        return merged.blame("E-CFG-043", message, place)
    if not (url.startswith("https://") or _LOOPBACK.fullmatch(url)):
        message = "'broker.base_url': http:// is for this machine only; elsewhere use https://"
        return merged.blame("E-CFG-043", message, place)
    return None


def _no_address(url: str) -> str | None:
    """Why a URL names no host and port; None when it does."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        return str(error)
    return None if parts.hostname else "there is no host in it"


def _statement_problem(settings: Settings, merged: Merged) -> Problem | None:
    statement = settings.legal.automation_allowed_by_broker
    if settings.mode != "live" or (statement and _is_dated(statement)):
        return None
    message = (
        "mode 'live' needs legal.automation_allowed_by_broker: your dated statement that the "
        "broker allows automated orders, like '2026-11-02, letter of the broker, N. V. An'"
    )
    place = ("legal", "automation_allowed_by_broker") if statement else ("mode",)
    return merged.blame("E-CFG-042", message, place)


def _is_dated(statement: str) -> bool:
    for year, month, day in _DATED.findall(statement):
        try:
            date(int(year), int(month), int(day))
        except ValueError:
            continue
        return True
    return False


def _journal_problem(settings: Settings, merged: Merged) -> Problem | None:
    url = settings.journal.url
    if url is None or is_journal_url(url):
        return None
    message = f"'journal.url': wanted {JOURNAL_URLS}"
    if url.startswith("postgresql"):
        message += ". In a password @ is written %40, / %2F, ? %3F, # %23 and % %25"
    return merged.blame("E-CFG-044", message, ("journal", "url"))


def is_journal_url(url: str) -> bool:
    """Tell whether a journal can be kept at an address; nothing is opened."""
    is_file = url.startswith(_SQLITE) and url.endswith(".db") and len(url) > len(_SQLITE + ".db")
    return is_file or _POSTGRES.fullmatch(url) is not None


# ------------------------------------------------------------------------------------------ places


def _journal_url(url: str | None, base_dir: Path, state_dir: Path) -> str:
    if url is None:
        return f"{_SQLITE}{state_dir / JOURNAL_FILE}"
    if url.startswith(_SQLITE):
        return f"{_SQLITE}{_below(base_dir, url.removeprefix(_SQLITE))}"
    return url.replace("postgresql://", "postgresql+psycopg://", 1)


def _state_dir(settings: Settings, path: Path, environment: Mapping[str, str]) -> Path:
    if settings.state_dir is not None:
        return _below(path.absolute().parent, settings.state_dir)
    home = _xdg(environment, "XDG_STATE_HOME", ".local/state")
    return home / "vnbot" / _state_name(path)


def _state_name(path: Path) -> str:
    """`demo` for the shipped demo, else a name that no other configuration has."""
    if path.absolute() == shipped(DEMO).absolute():
        return "demo"
    whole = str(path.absolute())
    return f"{path.absolute().parent.name}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"


def _below(folder: Path, text: str) -> Path:
    """Return the path without `..`, so that one place has one name."""
    return (folder / Path(text).expanduser()).resolve()


def _xdg(environment: Mapping[str, str], name: str, default: str) -> Path:
    """An XDG path counts only when it is absolute (XDG Base Directory Specification 0.8)."""
    given = environment.get(name, "")
    home = environment.get("HOME") or "~"
    return Path(given) if given.startswith("/") else Path(home).expanduser() / default


def _sha256(settings: Settings) -> str:
    data = settings.model_dump(mode="json")
    data["journal"]["url"] = masked_url(settings.journal.url or "")
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
