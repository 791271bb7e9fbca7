"""Where the settings of a run come from: flags, environment and file, merged with their origins."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from bot.config.model_check import describe, did_you_mean, in_order, known_keys, problem_of
from bot.config.problems import Problem
from bot.config.settings.model import NESTING, PREFIX, Settings
from bot.config.yaml_file import YamlDocument

SECRET_KEYS: Final = ("api_key", "api_secret")
FLAG: Final = "flag"
EMPTIED: Final = frozenset({("notify", "urls"), ("notify", "channels"), ("health", "port")})
"""What an empty variable takes away: then the default holds."""
_ENV: Final = "env "
_VARIABLE: Final = "environment variable"
COMMAND_LINE: Final = "command line"
"""Prefix of a problem with an option, which is in no file."""

Tree = dict[str, object]
Steps = tuple[str, ...]


@dataclass(slots=True)
class Merged:
    """The settings of all sources, later ones over earlier ones, with the source of each."""

    document: YamlDocument
    data: Tree = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)

    def put(self, steps: Steps, value: object, origin: str) -> None:
        """Set one value, replacing that of an earlier source."""
        place = self.data
        for depth, step in enumerate(steps[:-1], start=1):
            inner = place.get(step)
            if not isinstance(inner, dict):
                inner = place[step] = {}
            self.origins.pop(".".join(steps[:depth]), None)  # a section, and no longer one value
            place = inner
        place[steps[-1]] = value
        self.origins[".".join(steps)] = origin

    def take_away(self, steps: Steps) -> None:
        """Forget what an earlier source has set."""
        place: object = self.data
        for step in steps[:-1]:
            place = place.get(step) if isinstance(place, dict) else None
        if isinstance(place, dict):
            place.pop(steps[-1], None)
        name = ".".join(steps)
        for known in [each for each in self.origins if f"{each}.".startswith(f"{name}.")]:
            del self.origins[known]

    def blame(self, code: str, message: str, steps: Steps) -> Problem:
        """Return a problem with one value, at the place that set it."""
        origin = self.origins.get(".".join(steps), "")
        if prefix := source_of(origin):
            return Problem(code, f"{prefix}: {message}")
        return self.document.at_value(code, message, steps)


def is_of_one_terminal(origin: str) -> bool:
    """Return whether a flag or a variable has set it: what is typed elsewhere has to name it."""
    return bool(source_of(origin))


def merge(
    document: YamlDocument, environment: Mapping[str, str], flags: Mapping[str, object]
) -> Merged:
    """Merge the sources; a later one wins. Keys of broker secrets are left out.

    `flags`: dotted key to value; None: the flag was not given.
    """
    merged = Merged(document)
    for steps, value in _leaves(document.data):
        line, _ = document.position(steps)
        merged.put(steps, value, f"{document.name}:{line}")
    for steps, value in _leaves(settings_in(environment)):
        if value == "" and steps in EMPTIED:
            merged.take_away(steps)
            continue
        merged.put(steps, value, f"{_ENV}{variable(steps)}")
    for dotted, value in flags.items():
        if value is not None:
            merged.put(tuple(dotted.split(".")), value, FLAG)
    broker = merged.data.get("broker")
    for key in SECRET_KEYS:
        merged.data.pop(key, None)
        merged.origins.pop(f"broker.{key}", None)
        if isinstance(broker, dict):
            broker.pop(key, None)
    return merged


def settings_in(environment: Mapping[str, str]) -> Tree:
    """Return the settings that variables like BOT_BROKER__DEVICE_ID set, upper or lower case, as
    texts.

    Without such a variable pydantic-settings is not imported: that would slow every start.
    """
    if not any(name.upper().startswith(PREFIX) for name in environment):
        return {}
    from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict

    class InEnvironment(Settings, BaseSettings):
        model_config = SettingsConfigDict(
            env_prefix=PREFIX, env_nested_delimiter=NESTING, enable_decoding=False
        )

    source = EnvSettingsSource(InEnvironment)
    source.env_vars = {name.lower(): value for name, value in environment.items()}
    return dict(source())


def _leaves(tree: Mapping[str, object], above: Steps = ()) -> Iterator[tuple[Steps, object]]:
    for key, value in tree.items():
        steps = (*above, key)
        if isinstance(value, dict) and value:
            yield from _leaves(value, steps)
        else:
            yield steps, value


def variable(steps: Steps) -> str:
    """Return the name of the variable that sets a key: BOT_BROKER__DEVICE_ID."""
    return PREFIX + NESTING.join(steps).upper()


def process_environment() -> Mapping[str, str]:
    return os.environ


def unknown_variables(environment: Mapping[str, str]) -> list[Problem]:
    """Return a problem for each nested variable of ours whose section does not exist.

    Names without `__` are ignored: other programs may have variables that begin with BOT_.
    """
    fields = Settings.model_fields
    names = [variable((name,)) for name in fields]
    sections = [variable((name,)) for name in fields if known_keys(Settings, (name,))]
    later = {variable((name,)): why for name, why in Settings.not_yet.items()}
    problems = []
    for name in sorted(environment):
        section = name.upper().split(NESTING)[0]
        if not section.startswith(PREFIX) or NESTING not in name or section in sections:
            continue
        code, text = "E-CFG-045", f"names no setting. {did_you_mean(section, names)}".rstrip()
        if section in later:
            code, text = "E-CFG-028", f"has no effect in this release: {later[section]}. Remove it"
        problems.append(Problem(code, f"the environment variable {name} {text}"))
    return problems


def problems_of(error: ValidationError, merged: Merged) -> list[Problem]:
    """Return the problems, each at the place that set the value."""
    problems = []
    for detail in error.errors(include_url=False):
        prefixes = dict.fromkeys(map(source_of, _origins_of(detail, merged.origins)))
        code, message, hint = describe(detail, Settings)
        for prefix in prefixes:
            if prefix.startswith(_VARIABLE) and detail["type"] == "extra_forbidden":
                text = f"the {prefix} names no setting. {hint}".rstrip(". ")
                problems.append(Problem("E-CFG-045", text))
            elif prefix:
                problems.append(Problem(code, f"{prefix}: {message}. {hint}".rstrip(". ")))
            else:
                problems.append(problem_of(detail, Settings, merged.document))
    return in_order(problems)


def _origins_of(detail: ErrorDetails, origins: Mapping[str, str]) -> Sequence[str]:
    """Return what set a wrong value: the place itself, all that is below it, or what is above."""
    steps = [str(step) for step in detail["loc"]]
    name, *above = (".".join(steps[:length]) for length in range(len(steps), 0, -1))
    if name in origins:
        return (origins[name],)
    below = [origin for each, origin in origins.items() if each.startswith(f"{name}.")]
    return below or [origins[each] for each in above if each in origins][:1] or ("",)


def source_of(origin: str) -> str:
    """Return what has set a value outside the file, in words; empty for one of the file."""
    if origin.startswith(_ENV):
        return f"{_VARIABLE} {origin.removeprefix(_ENV)}"
    return COMMAND_LINE if origin == FLAG else ""
