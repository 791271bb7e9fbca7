"""Scenario files of the sandbox: found by name among the shipped ones or by path, read, checked."""

from importlib.resources import files
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from bot.runtime.market_files.file import with_recording
from bot.runtime.problems import ExitCode, OperatorMistake, Problem
from bot.runtime.rulebook import load_rulebook
from bot.runtime.yaml_file import YamlDocument, read_yaml
from bot.sandbox.scenario import Scenario

_SHIPPED: Final = Path(str(files("bot.sandbox"))) / "scenarios"


def load_scenario(name: str, base_dir: Path) -> Scenario:
    """Return the scenario of a shipped name or a file, with the records that it replays.

    Raises OperatorMistake with every error, of its market files too. Those are checked against the
    shipped rules.
    """
    path = find_scenario(name, base_dir)
    document = read_yaml(path)
    try:
        scenario = Scenario.model_validate(document.data)
    except ValidationError as error:
        raise OperatorMistake(
            [_problem(document, path, each["loc"], each["msg"]) for each in error.errors()],
            ExitCode.CONFIG,
        ) from error
    return with_recording(scenario, load_rulebook(), path.parent)


def find_scenario(name: str, base_dir: Path) -> Path:
    """Return the file of a scenario: a shipped name, else a path relative to `base_dir`."""
    shipped = _SHIPPED / f"{name}.yaml"
    if shipped.is_file():
        return shipped
    path = base_dir / name
    if path.is_file():
        return path
    raise OperatorMistake.of(
        "E-CFG-001",
        f"no scenario '{name}': shipped are {', '.join(scenario_names())}; or give a file",
    )


def scenario_names() -> list[str]:
    """The names of the shipped scenarios."""
    return sorted(path.stem for path in _SHIPPED.glob("*.yaml"))


def _problem(
    document: YamlDocument, path: Path, where: tuple[int | str, ...], text: str
) -> Problem:
    line, column = document.position(where)
    key = ".".join(str(step) for step in where)
    return Problem("E-CFG-013", f"{key}: {text}", str(path), line, column)
