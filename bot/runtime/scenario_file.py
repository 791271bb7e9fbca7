"""Scenario files of the sandbox: found by name among the shipped ones or by path, read, checked."""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from bot.domain.errors import NoRule
from bot.domain.instrument import InstrumentKind
from bot.domain.rulebook import Rulebook
from bot.runtime.market_files.file import with_recording
from bot.runtime.problems import ExitCode, OperatorMistake, Problem
from bot.runtime.rulebook import load_rulebook
from bot.runtime.yaml_file import Location, YamlDocument, read_yaml
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
    rulebook = load_rulebook()
    if problems := [_problem(document, path, *each) for each in _unplayable(scenario, rulebook)]:
        raise OperatorMistake(problems)
    return with_recording(scenario, rulebook, path.parent)


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


def _unplayable(scenario: Scenario, rulebook: Rulebook) -> Iterator[tuple[Location, str]]:
    """Tell where a scenario is one that the rules of the exchanges cannot play, and why.

    The days of a replay are looked at with its files.
    """
    calendar, is_replayed = rulebook.calendar, any(each.replay for each in scenario.symbols)
    if scenario.day and not is_replayed and not calendar.covers(scenario.day):
        years = f"{min(calendar.years)} to {max(calendar.years)}"
        yield ("day",), f"wanted a day of the calendar, {years}; found {scenario.day}"
    for number, symbol in enumerate(scenario.symbols):
        try:
            rulebook.venues[symbol.exchange].ticks_of(symbol.kind)
            if symbol.kind is not InstrumentKind.CW:
                rulebook.venues[symbol.exchange].band_width(symbol.kind)
        except NoRule as missing:
            yield ("symbols", number), f"{symbol.symbol} cannot be played: {missing}"
    for number, action in enumerate(scenario.corporate_actions):
        if not calendar.is_trading_day(action.ex_date):
            place = ("corporate_actions", number, "ex_date")
            yield place, f"wanted a trading day, found {action.ex_date:%a} {action.ex_date}"


def _problem(document: YamlDocument, path: Path, where: Location, text: str) -> Problem:
    where = _as_written(document, where)
    is_there = where in document.values or where in document.keys
    line, column = document.position(where if is_there else where[:-1])
    key = ".".join(str(step) for step in where)
    text = text.removeprefix("Value error, ")
    return Problem("E-CFG-013", f"{key}: {text}" if key else text, str(path), line, column)


def _as_written(document: YamlDocument, where: Location) -> Location:
    """Leave out steps that only the reader knows: which of several shapes was meant."""
    *steps, last = where or ("",)
    found: Location = ()
    for step in steps:
        longer = (*found, step)
        found = longer if longer in document.keys or longer in document.values else found
    return (*found, last) if where else ()
