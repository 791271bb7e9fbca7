"""Reads rulebook and symbols from the package, and an operator's changes from a file.

It is also the one place that decides which of the fee settings applies.
"""

import csv
import re
from collections.abc import Mapping
from datetime import date, datetime
from functools import cache
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

import bot.domain
from bot.clock import SystemClock
from bot.config.problems import OperatorMistake
from bot.config.settings.load import Loaded
from bot.config.settings.model import Settings
from bot.config.settings.places import DEFAULT, expanded
from bot.config.shipped import shipped
from bot.config.yaml_file import Location, read_yaml
from bot.domain.errors import RuleDataError
from bot.domain.instrument import EXCHANGE_TZ, SymbolTable
from bot.domain.local_time import local_date
from bot.domain.rulebook import Rulebook

_RULES = Path(bot.domain.__file__).parent / "rules"


def load_rulebook(on: date | None = None) -> Rulebook:
    """Return the rules in effect on a day. Raises RuleDataError if no rules cover it.

    None: those of today, as a release may hold rules that begin later; by a clock that stands
    before all that are known, the newest.
    """
    if on is not None:
        return _rulebook(on)
    try:
        return _rulebook(local_date(SystemClock().now()))
    except RuleDataError:
        return _rulebook(None)


@cache
def _rulebook(on: date | None) -> Rulebook:
    market, calendar = _read(_RULES / "market.yaml"), _read(_RULES / "calendar.yaml")
    return Rulebook.from_mapping({**market, "calendar": calendar}, on)


@cache
def _read(path: Path) -> Mapping[str, object]:
    try:
        data = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except (YAMLError, ValueError) as error:  # ValueError: a month 13, or invalid UTF-8
        raise RuleDataError(path.name, "YAML", str(error)) from error
    if not isinstance(data, dict):
        raise RuleDataError(path.name, "a mapping", data)
    return data


def on_later_rules(rulebook: Rulebook, at: datetime) -> str:
    """Return a warning if a market of that day is played by rules that came into effect later.

    Empty if the rules of its day are known.
    """
    day, since = at.astimezone(EXCHANGE_TZ).date(), rulebook.known_since
    if day >= since:
        return ""
    return f"{day} is played by those in effect since {since}; the earlier ones are not known here"


def rulebook_of(loaded: Loaded, on: date | None = None) -> Rulebook:
    """Return the rules of a day with the operator's changes: `market_rules`, the broker's fee.

    The file of changes is described at `Rulebook.with_override`. The broker's fee is the first of
    these that is set: `risk.fee_ppm` of bot.yaml, an environment variable or the command line, the
    plain setting that most people want; `broker_fee_ppm` in the `market_rules` file, for a fee that
    changes along with other rules; the shipped rate. Two that differ are not a mistake and cause no
    warning; the first applies. Raises OperatorMistake with file, line and column of errors in the
    file, and what `load_rulebook` raises.
    """
    settings, rulebook = loaded.settings, load_rulebook(on)
    if settings.market_rules is not None:
        document = read_yaml(loaded.base_dir / expanded(settings.market_rules))
        try:
            rulebook = rulebook.with_override(document.data)
        except RuleDataError as wrong:
            place = location_of(wrong.place)
            raise OperatorMistake([document.at_value("E-CFG-047", str(wrong), place)]) from wrong
    fee_ppm, is_set = settings.risk.fee_ppm, loaded.origin_of("risk.fee_ppm") != DEFAULT
    if is_set and fee_ppm != rulebook.fees.broker_ppm:
        rulebook = rulebook.with_override({"broker_fee_ppm": fee_ppm})
    return rulebook


def paper_fee_ppm(settings: Settings) -> int:
    """Return the fee that a paper account is charged: `paper.fee_ppm`, else `risk.fee_ppm`.

    The fee is fixed when the account is opened, so the `market_rules` file does not affect it.
    """
    return settings.risk.fee_ppm if settings.paper.fee_ppm is None else settings.paper.fee_ppm


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
