"""Scenario files of the sandbox: finds them by name among the shipped ones or by path, reads and
checks them.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from bot.config.field_types import shown
from bot.config.market_files.file import with_recording
from bot.config.model_check import dotted, in_order, problem_of
from bot.config.problems import ExitCode, OperatorMistake, Problem
from bot.config.rulebook import load_rulebook
from bot.config.shipped import find_scenario
from bot.config.yaml_file import Location, YamlDocument, read_yaml
from bot.domain.errors import NoRule
from bot.domain.instrument import InstrumentKind
from bot.domain.rulebook import Rulebook
from bot.sandbox.scenario import Misplaced, Scenario, SymbolScript

_WANTED: Final[Mapping[str, str]] = {
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "date_type": "a day, like 2026-11-19",
    "date_from_datetime_parsing": "a day, like 2026-11-19",
    "decimal_parsing": "a number",
    "decimal_type": "a number",
    "float_parsing": "a number",
    "float_type": "a number",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "{ge:g} or more",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "less_than_equal": "at most {le:,}",
    "string_pattern_mismatch": "a text of the form {pattern}",
    "string_type": "a text",
    "time_parsing": "a time, like 09:15",
    "time_type": "a time, like 09:15",
    "too_long": "at most {max_length}",
    "too_short": "at least {min_length}",
    "union_tag_invalid": "one of {expected_tags} after 'do'",
    "union_tag_not_found": "what it does: do, and its keys",
}
"""What was wanted, by the model's error type."""
_LIKE: Final[Mapping[str, str]] = {
    "symbol": "a symbol in capitals, like HPG",
    "underlying": "a symbol in capitals, like HPG",
    "depository_number": "a number like 120C900001",
    "suffix": "a suffix, like .1",
}
"""What was wanted of a text of a fixed form, by its key."""


def load_scenario(name: str, base_dir: Path) -> Scenario:
    """Return the scenario of a shipped name or a file, with the records that it replays.

    Raises OperatorMistake with every error, including those of its market files, which are checked
    against the shipped rules.
    """
    path = find_scenario(name, base_dir)
    document = read_yaml(path)
    try:
        scenario = Scenario.model_validate(document.data)
    except ValidationError as error:
        details = error.errors(include_url=False)
        places = [each["loc"] for each in details]
        found = [
            _problem(document, each)
            for each in details  # a list is not too short if only its elements are wrong
            if each["type"] != "too_short"
            or not any(place[: len(each["loc"])] == each["loc"] != place for place in places)
        ]
        raise OperatorMistake(in_order(found), ExitCode.CONFIG) from error
    rulebook = load_rulebook()
    if problems := [_at(document, *each) for each in _unplayable(scenario, rulebook)]:
        raise OperatorMistake(problems)
    return with_recording(scenario, rulebook, path.parent)


def _unplayable(scenario: Scenario, rulebook: Rulebook) -> Iterator[tuple[Location, str]]:
    """Yield where a scenario conflicts with the rules of the exchanges, and why.

    The days of a replay are checked with its files.
    """
    calendar, is_replayed = rulebook.calendar, any(each.replay for each in scenario.symbols)
    if scenario.day and not is_replayed and not calendar.covers(scenario.day):
        years = f"{min(calendar.years)} to {max(calendar.years)}"
        yield ("day",), f"wanted a day of the calendar, {years}; found {scenario.day}"
    for number, symbol in enumerate(scenario.symbols):
        try:
            grid = rulebook.ticks_of(symbol.instrument)
            if symbol.kind is not InstrumentKind.CW:
                rulebook.venues[symbol.exchange].band_width(symbol.kind)
        except NoRule as missing:
            yield ("symbols", number), f"{symbol.symbol} cannot be played: {missing}"
            continue
        for place, price in _order_prices(symbol):
            if not grid.is_on_grid(price):
                yield ("symbols", number, *place), f"{price:_} is off tick: no order can have it"
    for number, action in enumerate(scenario.corporate_actions):
        if not calendar.is_trading_day(action.ex_date):
            place = ("corporate_actions", number, "ex_date")
            yield place, f"wanted a trading day, found {action.ex_date:%a} {action.ex_date}"


def _order_prices(symbol: SymbolScript) -> Iterator[tuple[Location, int]]:
    """Yield the prices at which a script orders, and where they are."""
    for number, each in enumerate(symbol.standstills):
        for side, levels in (("bids", each.bids), ("asks", each.asks)):
            for rank, (price, _) in enumerate(levels):
                yield ("standstills", number, side, rank, 0), price
    for number, deal in enumerate(symbol.deals):
        yield ("deals", number, "price"), deal.price


def _problem(document: YamlDocument, detail: ErrorDetails) -> Problem:
    """Describe an error like those of every other file, at its place.

    Steps that only the model knows, such as which of several shapes was meant, are left out.
    """
    where: Location = ()
    for step in detail["loc"][:-1]:
        longer = (*where, step)
        where = longer if longer in document.keys or longer in document.values else where
    where, kind, context = (*where, *detail["loc"][-1:]), detail["type"], detail.get("ctx", {})
    if kind == "value_error":
        mistake = context["error"]
        written = where if where in {*document.values, *document.keys} else where[:-1]
        place = mistake.place if isinstance(mistake, Misplaced) else written
        return _at(document, place, str(mistake))
    if kind == "missing" and isinstance(where[-1], int):
        return _at(document, where[:-1], "wanted a price and its shares, like [27_050, 200]")
    if kind in _WANTED:
        found = context.get("actual_length", detail["input"])
        wanted = _LIKE.get(str(where[-1])) or _WANTED[kind].format_map(context)
        return _at(document, where, f"wanted {wanted}; found {shown(found)}")
    detail["loc"] = where
    return problem_of(detail, Scenario, document)


def _at(document: YamlDocument, where: Location, text: str) -> Problem:
    is_key = where not in document.values and where in document.keys
    message = f"{dotted(where)!r}: {text}" if where else text
    point = document.at_key if is_key else document.at_value
    return point("E-CFG-013", message, where)
