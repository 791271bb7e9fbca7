"""Reads rulebook and symbols from the package, and an operator's changes from a file."""

import csv
from collections.abc import Mapping
from datetime import date
from functools import cache
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

import bot.domain
from bot.domain.errors import RuleDataError
from bot.domain.rulebook import Rulebook
from bot.domain.symbols import SymbolTable
from bot.runtime.shipped import shipped

_RULES = Path(bot.domain.__file__).parent / "rules"


def load_rulebook(overrides: Path | None = None, on: date | None = None) -> Rulebook:
    """Return the rules in effect on a day (None: the newest), with an operator's changes.

    The file of changes is described at `Rulebook.with_override`. Raises RuleDataError, or OSError
    when the file cannot be read.
    """
    rulebook = _shipped_rulebook(on)
    return rulebook.with_override(_read(overrides)) if overrides else rulebook


def load_symbols(path: Path | None = None) -> SymbolTable:
    """Return the dated table of symbols, from `path` or the shipped `config/symbols.csv`.

    Raises RuleDataError, or OSError when the file cannot be read.
    """
    source = path or shipped("config/symbols.csv")
    with source.open(encoding="utf-8", newline="") as file:
        return SymbolTable.from_rows(csv.DictReader(file))


@cache
def _shipped_rulebook(on: date | None) -> Rulebook:
    return Rulebook.from_mapping(_shipped_rules(), on)


@cache
def _shipped_rules() -> Mapping[str, object]:
    return {**_read(_RULES / "market.yaml"), "calendar": _read(_RULES / "calendar.yaml")}


def _read(path: Path) -> Mapping[str, object]:
    try:
        data = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except (YAMLError, ValueError) as error:  # ValueError: a month 13, or not UTF-8
        raise RuleDataError(path.name, "YAML", str(error)) from error
    if not isinstance(data, dict):
        raise RuleDataError(path.name, "a mapping", data)
    return data
