"""Reads rulebook and symbols from the package, and an operator's changes from a file."""

import csv
import re
from collections.abc import Mapping
from datetime import date, datetime
from functools import cache
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

import bot.domain
from bot.config.problems import OperatorMistake
from bot.config.settings.load import Loaded
from bot.config.shipped import shipped
from bot.config.yaml_file import Location, read_yaml
from bot.domain.errors import RuleDataError
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.rulebook import Rulebook
from bot.domain.symbols import SymbolTable

_RULES = Path(bot.domain.__file__).parent / "rules"


def load_rulebook(on: date | None = None) -> Rulebook:
    """Return the rules in effect on a day; None: the newest. Raises RuleDataError for no day."""
    return _shipped_rulebook(on)


def on_later_rules(rulebook: Rulebook, at: datetime) -> str:
    """Say so where a market of that time is played by rules that came into effect later.

    Empty where the rules of its day are known.
    """
    day, since = at.astimezone(EXCHANGE_TZ).date(), rulebook.known_since
    if day >= since:
        return ""
    return f"{day} is played by those in effect since {since}; the earlier ones are not known here"


def rulebook_of(loaded: Loaded, on: date | None = None) -> Rulebook:
    """Return the rules of a day with what the operator changes: `market_rules`, the broker's fee.

    The file of changes is described at `Rulebook.with_override`. Raises OperatorMistake with file,
    line and column of what is wrong in it, and as `load_rulebook`.
    """
    settings = loaded.settings
    rulebook = load_rulebook(on)
    if settings.market_rules is not None:
        rulebook = _overridden(rulebook, loaded.base_dir / Path(settings.market_rules).expanduser())
    fee_ppm = settings.risk.fee_ppm
    is_set = loaded.origin_of("risk.fee_ppm") != "default"
    if is_set and fee_ppm != rulebook.fees.broker_ppm:
        rulebook = rulebook.with_override({"broker_fee_ppm": fee_ppm})
    return rulebook


def _overridden(rulebook: Rulebook, file: Path) -> Rulebook:
    document = read_yaml(file)
    try:
        return rulebook.with_override(document.data)
    except RuleDataError as wrong:
        place = location_of(wrong.place)
        raise OperatorMistake([document.at_value("E-CFG-047", str(wrong), place)]) from wrong


def location_of(place: str) -> Location:
    """Return `closed[0].date` as the steps of a YAML document: `("closed", 0, "date")`."""
    steps = re.findall(r"[^.\[\]]+", place)
    return tuple(int(step) if f"[{step}]" in place else step for step in steps)


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
