"""Loads the settings of a run, checks them, and remembers where each came from.

A flag takes precedence over the environment (`BOT_…`, `__` between steps), which takes precedence
over the file and its defaults. Nothing here uses a network; all mistakes are reported at once.
Relative paths in the file start at its own folder.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from pydantic import ValidationError

from bot.config.masking import masked_url
from bot.config.model_check import dotted
from bot.config.problems import OperatorMistake, Problem, shown_path
from bot.config.settings.model import Mode, Settings
from bot.config.settings.notify import ChannelPlan, find_channels
from bot.config.settings.places import (
    DEFAULT,
    STATE_KEY,
    below,
    expanded,
    find_config,
    folders_named_after,
    path_fault,
    real_path,
    state_dir_of,
)
from bot.config.settings.secrets import SecretPlaces, in_configuration
from bot.config.settings.sources import (
    Merged,
    merge,
    problems_of,
    process_environment,
    unknown_variables,
)
from bot.config.shipped import DEMO, find_scenario, shipped
from bot.config.yaml_file import YamlDocument, parse_yaml, read_text

JOURNAL_FILE: Final = "journal.db"
_SQLITE: Final = "sqlite:///"
JOURNAL_URLS: Final = "sqlite:///FILE.db or postgresql+psycopg://user@host/name"
_HOST: Final = r"(\[[0-9A-Fa-f:.%]+\]|[^\s@/?#:\[\]]*)(:[0-9]{1,5})?"
_POSTGRES: Final = re.compile(
    rf"postgresql(\+psycopg)?://([^\s@/?#:]*(:[^\s@/?#]*)?@)?{_HOST}(,{_HOST})*(/[^\s@?#]*)?(\?[^\s#]*)?"
)
_DATED: Final = re.compile(r"\b(20[0-9]{2})-([01][0-9])-([0-3][0-9])\b")
_LOOPBACK: Final = re.compile(r"http://(127\.0\.0\.1|\[::1\]|localhost)(:[0-9]+)?(/.*)?")
_THIS_MACHINE: Final = re.compile(r"localhost|127(\.[0-9]{1,3}){3}|::1|[/@].*", re.IGNORECASE)
"""Local hosts as PostgreSQL's library names them; a path is a socket in the file system."""
_HOSTS_ELSEWHERE: Final = {"host": "PGHOST", "hostaddr": "PGHOSTADDR", "service": "PGSERVICE"}
"""Where the host may be given outside its place in an address: parameter, else its variable."""
VERIFIED: Final = "verify-full"
_RISK: Final = "risk"
"""The section of the limits."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings in effect. `origins`: dotted key to `flag`, `env BOT_…`, `bot.yaml:12`.

    `journal_url` names SQLite files absolutely and may hold a password. `sha256` covers everything
    in effect except secrets; `files` are the absolute paths of what was read and the SHA-256 of
    each text, of bot.yaml and the file of `market_rules`. `warnings` do not prevent a start.
    """

    settings: Settings
    path: Path
    origins: Mapping[str, str]
    base_dir: Path
    state_dir: Path
    sha256: str
    journal_url: str = field(repr=False)
    files: Mapping[str, str]
    warnings: tuple[Problem, ...] = ()

    @property
    def backups_dir(self) -> Path | None:
        """The folder of the journal's backups."""
        folder = self.settings.journal.backups
        return None if folder is None else below(self.base_dir, folder)

    @property
    def name(self) -> str:
        """What people call this bot."""
        return name_of(self.path)

    @property
    def bot(self) -> Mapping[str, str]:
        """The bot's identity, as in `--json` output."""
        config = str(self.path.absolute())
        return {"name": self.name, "mode": self.settings.mode, "config": config}

    def origin_of(self, key: str) -> str:
        """Return where a dotted key was set; `default` if nowhere."""
        return self.origins.get(key, DEFAULT)

    def secret_places(self, environment: Mapping[str, str]) -> SecretPlaces:
        """Return where the broker's key and secret of this configuration may be."""
        settings = self.settings
        return SecretPlaces.of(settings.broker, settings.mode, self.base_dir, environment)

    def channels(self, environment: Mapping[str, str]) -> tuple[ChannelPlan, ...]:
        """Return the channels of notices. Raises OperatorMistake."""
        return find_channels(
            self.settings.notify,
            config=self.path,
            origin=self.origin_of("notify.urls"),
            is_live=self.settings.mode == "live",
            environment=environment,
        )

    @property
    def strategy_patterns(self) -> tuple[Path, ...]:
        """The patterns of strategy files, absolute."""
        patterns = self.settings.strategies
        return tuple(self.base_dir / expanded(each) for each in patterns)

    @property
    def strategy_files(self) -> tuple[Path, ...]:
        """The files that the patterns match, sorted.

        What is hidden is left out unless a pattern names it, as in a shell: editors, file systems
        and killed processes leave such copies. The folder of bot.yaml is no part of a pattern.
        """
        found: set[Path] = set()
        for pattern in self.strategy_patterns:
            start = self.base_dir if self.base_dir in pattern.parents else Path(pattern.anchor)
            wanted = str(pattern.relative_to(start))
            for file in [pattern] if pattern.exists() else start.glob(wanted):
                unnamed = set(file.parts).difference(pattern.parts)
                if file.is_file() and not any(each.startswith(".") for each in unnamed):
                    found.add(file)
        return tuple(sorted(found))


def name_of(config: Path) -> str:
    """Return what people call the bot of a configuration: `demo`, else its folder; if that holds
    two files, also the file.
    """
    path = real_path(config)
    if path == real_path(shipped(DEMO)):
        return "demo"
    folder = path.parent.parent if path.parent.name == "config" else path.parent
    file = "" if path.name == "bot.yaml" else path.stem
    return "/".join(part for part in (folder.name, file) if part) or "bot"


def load_settings(
    path: Path | None = None,
    *,
    overrides: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Loaded:
    """Load and check the settings, including the broker's key and secret if a broker is named.

    Raises OperatorMistake with all problems. `path` None: the file of `find_config`. `overrides`:
    dotted keys set on the command line, None for those not given. `environment` None: the process's
    own.
    """
    environment = process_environment() if environment is None else environment
    loaded = load_without_secrets(path, overrides=overrides, environment=environment)
    settings = loaded.settings
    if settings.is_embedded:
        return loaded
    keys = loaded.secret_places(environment).find()
    broker = settings.broker.model_copy(update=keys)
    return replace(loaded, settings=settings.model_copy(update={"broker": broker}))


def load_without_secrets(
    path: Path | None = None,
    *,
    overrides: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Loaded:
    """Load the settings as `load_settings` does, without reading any secret."""
    environment = process_environment() if environment is None else environment
    path = path or find_config(environment)
    text, name = read_text(path), shown_path(path)
    has_keys = any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines())
    document = parse_yaml(text, name) if has_keys else YamlDocument(name, text, {})
    merged = merge(document, environment, overrides or {})
    problems = [*in_configuration(document), *unknown_variables(environment)]
    try:
        settings = Settings.model_validate(merged.data)
    except ValidationError as error:
        raise OperatorMistake([*problems, *problems_of(error, merged)]) from error
    problems += _contradictions(settings, merged, path.absolute().parent)
    problems += _emptied_limits(document)
    problems += _unusable_paths(settings, merged, path.absolute().parent)
    if settings.state_dir is None:
        problems += _two_folders(merged, folders_named_after(path, environment))
    warnings = [*_open_lines(settings, merged, environment)]
    if settings.mode == "live":
        problems, warnings = [*problems, *warnings], []
    if problems:
        raise OperatorMistake(problems)
    base_dir = path.absolute().parent
    state_dir = state_dir_of(settings.state_dir, path, environment)
    data = settings.model_dump(mode="json")
    data["journal"]["url"] = masked_url(settings.journal.url or "")
    return Loaded(
        settings=settings,
        path=path,
        origins=merged.origins,
        base_dir=base_dir,
        state_dir=state_dir,
        sha256=hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest(),
        journal_url=_journal_url(settings.journal.url, base_dir, state_dir),
        files=dict(_hashes(path.absolute(), text, settings)),
        warnings=tuple(warnings),
    )


# -------------------------------------------------------------------------------------- consistency


def _contradictions(settings: Settings, merged: Merged, base_dir: Path) -> Iterator[Problem]:
    mode, url = settings.mode, settings.broker.base_url
    if url is not None and (fault := _address_fault(url, mode)):
        message = f"'broker.base_url': {fault}"
        yield merged.blame("E-CFG-043", message, ("broker", "base_url"))
    if url is None and mode != "sandbox":
        message = f"mode {mode!r} needs broker.base_url, the broker's address"
        yield merged.blame("E-CFG-043", message, ("mode",))
    statement = settings.legal.automation_allowed_by_broker
    if mode == "live" and not is_dated(statement or ""):
        message = (
            "mode 'live' needs legal.automation_allowed_by_broker: your dated statement that the "
            "broker allows automated orders, like '2026-11-02, letter of the broker, N. V. An'"
        )
        place = ("legal", "automation_allowed_by_broker") if statement else ("mode",)
        yield merged.blame("E-CFG-042", message, place)
    journal = settings.journal.url
    if journal is not None and not is_journal_url(journal):
        message = f"'journal.url': wanted {JOURNAL_URLS}"
        if journal.startswith("postgresql"):
            message += ". In a password, write @ as %40, / as %2F, ? as %3F, # as %23 and % as %25"
        yield merged.blame("E-CFG-044", message, ("journal", "url"))
    if settings.is_embedded:
        yield from _unplayable(settings, merged, base_dir)


def _unusable_paths(settings: Settings, merged: Merged, base_dir: Path) -> Iterator[Problem]:
    """Yield paths that no file can have, before a run needs them."""
    url = settings.journal.url or ""
    named: list[tuple[tuple[str, ...], str | None]] = [
        (("state_dir",), settings.state_dir),
        (("market_rules",), settings.market_rules),
        (("journal", "url"), url.removeprefix(_SQLITE) if url.startswith(_SQLITE) else None),
        (("journal", "backups"), settings.journal.backups),
        (("log", "file"), settings.log.file),
        (("notify", "file"), settings.notify.file),
        (("broker", "secrets_file"), settings.broker.secrets_file),
        *((("strategies",), pattern) for pattern in settings.strategies),
    ]
    for steps, text in named:
        if text is not None and (fault := path_fault(base_dir, text)):
            yield merged.blame("E-CFG-001", f"{dotted(steps)!r}: {fault}", steps)


def _emptied_limits(document: YamlDocument) -> Iterator[Problem]:
    """Yield limits without a value: YAML reads null, no limit, but perhaps a person was not done.

    It may have been behind the `#` of a comment, or never typed.
    """
    for location in sorted(document.empty):
        if location[0] == _RISK:
            message = f"{dotted(location)!r}: wanted a value, or null for no limit; found nothing"
            yield document.at_value("E-CFG-013", message, location)


def _unplayable(settings: Settings, merged: Merged, base_dir: Path) -> Iterator[Problem]:
    """Yield what keeps the broker of this process from starting."""
    sandbox, port = settings.sandbox, settings.health.port
    try:
        find_scenario(sandbox.scenario, base_dir)
    except OperatorMistake as mistake:
        message = f"'sandbox.scenario': {mistake.problems[0].message}"
        yield merged.blame("E-CFG-001", message, ("sandbox", "scenario"))
    if port and port == sandbox.port and "sandbox.port" in merged.origins:
        message = f"'health.port' is {port}, and so is 'sandbox.port': they need two ports"
        yield merged.blame("E-CFG-013", message, ("health", "port"))


def _two_folders(merged: Merged, folders: tuple[Path, ...]) -> Iterator[Problem]:
    """Yield that two folders hold the state of one file, which no choice of ours may hide."""
    if len(folders) > 1:
        one, other = folders
        message = (
            f"this file has two state folders, {one} and {other}, as it was run under two paths: "
            f"name the one that counts, like {STATE_KEY}: {other}, or move the other away"
        )
        yield merged.blame("E-CFG-059", message, (STATE_KEY,))


def _open_lines(
    settings: Settings, merged: Merged, environment: Mapping[str, str]
) -> Iterator[Problem]:
    """Yield connections that somebody on the network could read and change; a mistake with real
    money.
    """
    if host := unverified_host(settings.journal.url or "", environment):
        message = f"'journal.url': {unverified(host)}"
        yield merged.blame("E-CFG-053", message, ("journal", "url"))


def _address_fault(url: str, mode: Mode) -> str:
    """Return what is wrong with a broker's address; empty if nothing is."""
    wanted = "wanted https://HOST or https://HOST:PORT"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        return f"{error}; {wanted}"
    if not parts.hostname:
        return f"it has no host; {wanted}"
    if mode == "live" and not url.startswith("https://"):
        return "live orders need https://"
    if not (url.startswith("https://") or _LOOPBACK.fullmatch(url)):
        return "http:// is only for this machine; use https:// elsewhere"
    return ""


def is_dated(statement: str) -> bool:
    """Return whether a text contains a date like 2026-11-02."""
    for year, month, day in _DATED.findall(statement):
        try:
            date(int(year), int(month), int(day))
        except ValueError:
            continue
        return True
    return False


def is_journal_url(url: str) -> bool:
    """Return whether a journal can be kept at an address; nothing is opened."""
    is_file = url.startswith(_SQLITE) and url.endswith(".db") and len(url) > len(_SQLITE + ".db")
    return is_file or _POSTGRES.fullmatch(url) is not None


def unverified_host(url: str, environment: Mapping[str, str]) -> str:
    """Return the host of a journal on another machine whose identity is not verified.

    Empty for a file, this machine, or `sslmode=verify-full` in the address itself, where it cannot
    get lost like an environment variable.
    """
    if not url.startswith("postgresql"):
        return ""
    _, _, rest = url.partition("://")
    before, _, query = rest.partition("?")
    said = parse_qs(query)
    modes = {each.lower() for each in said.get("sslmode", ())}
    if modes == {VERIFIED}:
        return ""
    hosts = re.sub(r":[0-9]+(?=,|$)", "", before.rpartition("@")[2].partition("/")[0]).split(",")
    is_named = hosts != [""]
    for name, variable in _HOSTS_ELSEWHERE.items():
        may_be_set = name == "hostaddr" or not is_named
        told = said.get(name) or ([environment.get(variable, "")] if may_be_set else [])
        hosts += [each for one in told for each in one.split(",")]
    elsewhere = (unquote(each).strip("[]") for each in hosts)
    return next((each for each in elsewhere if each and not _THIS_MACHINE.fullmatch(each)), "")


def unverified(host: str) -> str:
    """Return what is wrong with an address whose host is not verified, and what to do."""
    return (
        f"the database is on another machine ({host}), and nothing proves that it is the right "
        "one: anyone on the network path can read and change the journal. Add "
        f"?sslmode={VERIFIED}&sslrootcert=FILE, the certificate of the database's authority"
    )


# ------------------------------------------------------------------------------------------ places


def _hashes(path: Path, text: str, settings: Settings) -> Iterator[tuple[str, str]]:
    yield str(path), hashlib.sha256(text.encode()).hexdigest()
    if settings.market_rules is not None:
        rules = path.parent / expanded(settings.market_rules)
        with suppress(OperatorMistake):  # it is refused where its rules are read
            yield str(rules), hashlib.sha256(read_text(rules).encode()).hexdigest()


def _journal_url(url: str | None, base_dir: Path, state_dir: Path) -> str:
    if url is None:
        return f"{_SQLITE}{state_dir / JOURNAL_FILE}"
    if url.startswith(_SQLITE):
        return f"{_SQLITE}{below(base_dir, url.removeprefix(_SQLITE))}"
    return url.replace("postgresql://", "postgresql+psycopg://", 1)
