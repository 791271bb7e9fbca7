"""Where the settings of a run come from: flags, environment and file, merged with their origins."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from bot.config.model_check import describe, details_of, did_you_mean, problem_of
from bot.config.problems import Problem
from bot.config.settings.model import NESTING, PREFIX, Settings
from bot.config.yaml_file import YamlDocument

SECRET_KEYS: Final = ("api_key", "api_secret")
FLAG: Final = "flag"
_ENV: Final = "env "
COMMAND_LINE: Final = "command line"
"""How a problem begins that lies in an option and in no file."""

Tree = dict[str, object]
Steps = tuple[str, ...]


@dataclass(slots=True)
class Merged:
    """The settings of all sources, one over the other, and which source each came from."""

    document: YamlDocument
    data: Tree = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)

    def put(self, steps: Steps, value: object, origin: str) -> None:
        """Set one value over what an earlier source said."""
        place = self.data
        for step in steps[:-1]:
            inner = place.get(step)
            if not isinstance(inner, dict):
                inner = place[step] = {}
            place = inner
        place[steps[-1]] = value
        self.origins[".".join(steps)] = origin

    def blame(self, code: str, message: str, steps: Steps) -> Problem:
        """Return a problem with one value, at the place that said it."""
        origin = self.origins.get(".".join(steps), "")
        if origin.startswith(_ENV):
            return Problem(code, _of_variable(origin, message))
        if origin == FLAG:
            return Problem(code, _of_flag(message))
        return self.document.at_value(code, message, steps)


def merge(
    document: YamlDocument, environment: Mapping[str, str], flags: Mapping[str, object]
) -> Merged:
    """Merge the sources; a later one wins. Keys of broker secrets are left out.

    `flags`: dotted key to value; None is a flag that was not given.
    """
    merged = Merged(document)
    for steps, value in _leaves(document.data):
        line, _ = document.position(steps)
        merged.put(steps, value, f"{document.name}:{line}")
    for steps, value in _leaves(_in_environment(environment)):
        merged.put(steps, value, f"{_ENV}{variable(steps)}")
    for dotted, value in flags.items():
        if value is not None:
            merged.put(tuple(dotted.split(".")), value, FLAG)
    _take_secrets_out(merged)
    return merged


def _in_environment(environment: Mapping[str, str]) -> Tree:
    """What our variables say; without any, the library that reads them is not even imported."""
    if not any(name.upper().startswith(PREFIX) for name in environment):
        return {}
    from bot.config.settings.environment import settings_in

    return settings_in(environment)


def _take_secrets_out(merged: Merged) -> None:
    broker = merged.data.get("broker")
    for key in SECRET_KEYS:
        merged.data.pop(key, None)
        merged.origins.pop(f"broker.{key}", None)
        if isinstance(broker, dict):
            broker.pop(key, None)


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
    """Return the environment of this process."""
    return os.environ


def unknown_variables(environment: Mapping[str, str]) -> list[Problem]:
    """Return a problem for each nested variable of ours whose section does not exist.

    Names without `__` are left alone: other programs may have variables that begin with BOT_.
    """
    sections = [variable((name,)) for name in Settings.model_fields]
    later = {variable((name,)): why for name, why in Settings.not_yet.items()}
    problems = []
    for name in sorted(environment):
        section = name.split(NESTING)[0]
        if not name.startswith(PREFIX) or NESTING not in name or section in sections:
            continue
        if section in later:
            text = f"{name} does nothing in this release: {later[section]}. Take it out"
            problems.append(Problem("E-CFG-028", f"the environment variable {text}"))
        else:
            text = f"the environment variable {name} names no setting. "
            text = (text + did_you_mean(section, sections)).rstrip()
            problems.append(Problem("E-CFG-045", text))
    return problems


def problems_of(error: ValidationError, merged: Merged) -> list[Problem]:
    """Return what is wrong, each at the place that said so."""
    problems = [_problem(detail, merged) for detail in details_of(error)]
    return sorted(problems, key=lambda problem: (problem.line or 0, problem.column or 0))


def _problem(detail: ErrorDetails, merged: Merged) -> Problem:
    origin = _origin(detail, merged)
    if origin.startswith(_ENV):
        if detail["type"] == "extra_forbidden":
            text = f"the environment variable {origin.removeprefix(_ENV)} names no setting"
            return Problem("E-CFG-045", text)
        code, message, hint = describe(detail, Settings)
        return Problem(code, _of_variable(origin, f"{message}. {hint}".rstrip(". ")))
    if origin == FLAG:
        code, message, hint = describe(detail, Settings)
        return Problem(code, _of_flag(f"{message}. {hint}".rstrip(". ")))
    return problem_of(detail, Settings, merged.document)


def _of_variable(origin: str, message: str) -> str:
    return f"environment variable {origin.removeprefix(_ENV)}: {message}"


def _of_flag(message: str) -> str:
    return f"{COMMAND_LINE}: {message}"


def _origin(detail: ErrorDetails, merged: Merged) -> str:
    steps = [str(step) for step in detail["loc"]]
    dotted = (".".join(steps[:length]) for length in range(len(steps), 0, -1))
    return next((merged.origins[name] for name in dotted if name in merged.origins), "default")
