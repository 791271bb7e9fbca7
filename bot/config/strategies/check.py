"""What must hold between the keys of a strategy file, its class, and the rules of the exchanges.

Each check names the keys that it reads and runs only when all of them are sound by themselves, so
one mistake is told once.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Final

from bot.config.field_types import shown
from bot.config.model_check import did_you_mean
from bot.config.problems import OperatorMistake, Problem
from bot.config.strategies.model import SYMBOLS_MAX, StrategyFile
from bot.config.strategies.plugin_check import (
    Parameter,
    RefusedParameters,
    make,
    parameters_of,
)
from bot.config.yaml_file import Location, YamlDocument
from bot.domain.instrument import Exchange, Instrument, Lot, Phase
from bot.domain.order import MARKET_TYPES, OrderType, type_word
from bot.domain.plan import ParameterValue, StrategyPlan
from bot.domain.rulebook import Rulebook
from bot.domain.symbols import SymbolTable
from bot.strategy import Strategy

WORDS: Final[Mapping[str, Phase]] = {
    "ato": Phase.OPEN,
    "continuous": Phase.PROGRESS,
    "atc": Phase.PRE_CLOSED,
    "post": Phase.POST_SESSION,
}
WORD_OF: Final = {phase: word for word, phase in WORDS.items()}
_DAY: Final = timedelta(days=1)
_TYPE_WORDS: Final = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "true or false",
}


@dataclass(frozen=True, slots=True)
class Market:
    """The rules and listings that files are checked against, on one day."""

    rulebook: Rulebook
    symbols: SymbolTable
    on: date

    def instruments(self, plan: StrategyPlan) -> tuple[Instrument, ...]:
        """Return the plan's symbols where they trade; unknown ones are left out."""
        found = (self.symbols.instrument(symbol, self.on) for symbol in plan.symbols)
        return tuple(each for each in found if each is not None)

    def exchanges(self, file: StrategyFile) -> dict[Exchange, list[str]]:
        """Return the known symbols of a file by exchange, in the file's order."""
        found: dict[Exchange, list[str]] = {}
        for symbol in file.symbols:
            instrument = self.symbols.instrument(symbol, self.on)
            if instrument is not None:
                found.setdefault(instrument.exchange, []).append(symbol)
        return found


@dataclass(frozen=True, slots=True)
class Subject:
    """A file under check: as far as it could be read, what was wrong already, and where."""

    document: YamlDocument
    file: StrategyFile | None = None
    factory: type[Strategy] | None = None
    unsound: frozenset[str] = frozenset()
    found: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class _Sound:
    """What a check may rely on."""

    document: YamlDocument
    file: StrategyFile
    market: Market
    factory: type[Strategy] | None = None
    warnings: list[Problem] = field(default_factory=list)

    def at(self, code: str, message: str, *location: str | int) -> Problem:
        return self.document.at_value(code, message, location)


_Check = Callable[[_Sound], Iterator[Problem]]


def contradictions(subject: Subject, market: Market) -> tuple[list[Problem], list[Problem]]:
    """Return problems and warnings."""
    if subject.file is None:
        return [], []
    sound = _Sound(subject.document, subject.file, market, subject.factory)
    problems: list[Problem] = []
    for keys, check in _CHECKS:
        if not subject.unsound.intersection(keys):
            problems += check(sound)
    return problems, sound.warnings


# ----------------------------------------------------------------------------------- the keys alone


def _one_size(sound: _Sound) -> Iterator[Problem]:
    size = sound.file.order.size
    given = [each for each in (size.shares, size.cash, size.percent) if each is not None]
    if len(given) != 1:
        message = "'order.size': wanted exactly one of shares, cash and percent; found "
        yield sound.at("E-CFG-013", message + str(len(given)), "order", "size")


def _price_fits_type(sound: _Sound) -> Iterator[Problem]:
    order = sound.file.order
    market = order.price.market
    if order.type == "LIMIT" and market is not None:
        message = f"'order.price' {market} is a market order: write 'type: MARKET' as well"
        yield sound.at("E-CFG-023", message, "order", "price")
    if order.type == "MARKET" and market is None:
        message = "'order.type: MARKET' needs a market type as 'order.price': MTL, ATO, ATC, …"
        yield sound.at("E-CFG-023", message, "order", "type")


def _symbols_counted(sound: _Sound) -> Iterator[Problem]:
    found = len(sound.file.symbols)
    if not 1 <= found <= SYMBOLS_MAX:
        message = f"'symbols': wanted 1 to {SYMBOLS_MAX}; found {found}"
        yield sound.at("E-CFG-015", message, "symbols")


def _symbols_once(sound: _Sound) -> Iterator[Problem]:
    symbols = sound.file.symbols
    for index, symbol in enumerate(symbols):
        if symbol in symbols[:index]:
            yield sound.at("E-CFG-024", f"{symbol} is listed twice", "symbols", index)


def _known_symbols(sound: _Sound) -> Iterator[Problem]:
    """The broker's word at start outranks the shipped table: only a warning."""
    table, day = sound.market.symbols, sound.market.on
    for index, symbol in enumerate(sound.file.symbols):
        if table.instrument(symbol, day) is None:
            hint = did_you_mean(symbol, table.symbols(day))
            message = (
                f"{symbol} is not in the shipped table of symbols; the broker is asked at start"
            )
            place = ("symbols", index)
            sound.warnings.append(sound.document.at_value("E-CFG-025", message, place, hint))
    yield from ()


def _something_wakes(sound: _Sound) -> Iterator[Problem]:
    wake = sound.file.wake
    if not (wake.bar or wake.quote or wake.depth or wake.timer or wake.session):
        message = "'wake' is empty: wanted one of bar, quote, depth, timer and session"
        yield sound.at("E-CFG-026", message, "wake")
    if wake.bar is not None and _DAY % wake.bar:
        message = "'wake.bar': wanted a width that divides a day evenly, like 1m, 5m, 15m or 1h"
        yield sound.at("E-CFG-026", message, "wake", "bar")


def _limits_let_through(sound: _Sound) -> Iterator[Problem]:
    size, limits = sound.file.order.size, sound.file.limits
    pairs = (
        ("shares", size.shares, "max_position", limits.max_position),
        ("cash", size.cash, "max_order_value", limits.max_order_value),
    )
    for key, wanted, limit_key, limit in pairs:
        if wanted is not None and limit is not None and wanted > limit:
            message = f"'limits.{limit_key}' {limit:_} lets no order of {wanted:_} {key} through"
            yield sound.at("E-CFG-027", message, "limits", limit_key)


# ------------------------------------------------------------------------------------ the exchanges


def _lot_exists(sound: _Sound) -> Iterator[Problem]:
    shares = sound.file.order.size.shares
    if shares is None:
        return
    for exchange in sound.market.exchanges(sound.file):
        lot = sound.market.rulebook.lot_of(exchange, shares)
        if lot is None:
            message = _lot_message(sound.market.rulebook, exchange, shares)
            yield sound.at("E-CFG-021", message, "order", "size", "shares")
            return
        if lot is Lot.ODD and sound.file.order.price.market is not None:
            message = (
                f"'order.size.shares' {shares} is an odd lot, which {exchange} takes as LIMIT only"
            )
            yield sound.at("E-CFG-021", message, "order", "size", "shares")
            return


def _lot_message(rulebook: Rulebook, exchange: Exchange, shares: int) -> str:
    most, lots = rulebook.max_quantity(exchange), rulebook.venues[exchange].lots
    if most is not None and shares > most:
        return f"'order.size.shares' is {shares:_}: {exchange} takes at most {most:_} in one order"
    article = "an" if exchange is Exchange.HNX else "a"
    return (
        f"'order.size.shares' is {shares:_}: {article} {exchange} order is a multiple of "
        f"{lots.board_lot}, or an odd lot of {lots.odd_lots[0]} to {lots.odd_lots[-1]} (LIMIT only)"
    )


def _type_exists(sound: _Sound) -> Iterator[Problem]:
    """Whether each exchange takes the type, and in one of the phases that are asked for."""
    order, when = sound.file.order, sound.file.when
    wanted = order.price.market or OrderType.LO
    place = ("order", "price" if "price" in _keys(sound, "order") else "type")
    for exchange, symbols in sound.market.exchanges(sound.file).items():
        phases = _phases_of(sound.market.rulebook, exchange, wanted)
        asked = [WORDS[word] for word in when.sessions] or phases
        if not phases:
            taken = ", ".join(_market_types(sound.market.rulebook, exchange)) or "LIMIT only"
            message = f"{exchange} ({', '.join(symbols)}) does not take {wanted}; it takes {taken}"
            yield sound.at("E-CFG-022", message, *place)
        elif not set(asked) & set(phases):
            then = ", ".join(WORD_OF[phase] for phase in phases)
            name = type_word(wanted)
            message = f"{exchange} ({', '.join(symbols)}) takes {name} in sessions [{then}] only"
            yield sound.at("E-CFG-022", message, "when", "sessions")


def _phases_of(rulebook: Rulebook, exchange: Exchange, wanted: OrderType) -> list[Phase]:
    wanted = rulebook.canonical(exchange, wanted)
    lots = (Lot.EVEN, Lot.ODD)
    return [
        phase
        for phase in WORDS.values()
        if any(wanted in rulebook.accepted_types(exchange, phase, lot) for lot in lots)
    ]


def _market_types(rulebook: Rulebook, exchange: Exchange) -> list[str]:
    taken = {
        kind
        for phase in WORDS.values()
        for kind in rulebook.accepted_types(exchange, phase, Lot.EVEN)
    }
    return sorted(taken.intersection(MARKET_TYPES))


def _keys(sound: _Sound, section: str) -> Mapping[str, object]:
    found = sound.document.data.get(section)
    return found if isinstance(found, dict) else {}


# ---------------------------------------------------------------------------------------- the class


def _parameters_fit(sound: _Sound) -> Iterator[Problem]:
    if sound.factory is None:
        return
    try:
        known = parameters_of(sound.factory)
    except OperatorMistake as mistake:
        yield from mistake.problems
        return
    for name, value in sound.file.params.items():
        problem = _parameter_problem(sound, known, name, value)
        if problem is not None:
            yield problem
    for name, parameter in known.items():
        if parameter.default is None and name not in sound.file.params:
            message = f"{sound.file.use} needs the parameter {name!r} under 'params'"
            yield sound.at("E-CFG-033", message, "params")


def _parameters_hold(sound: _Sound) -> Iterator[Problem]:
    """Whether the strategy itself takes its parameters."""
    if sound.factory is None or any(_parameters_fit(sound)):
        return
    try:
        make(sound.factory, (*sound.file.symbols, "")[0], sound.file.params)
    except RefusedParameters as error:
        yield refused_parameters(sound.document, error)
    except OperatorMistake as mistake:
        yield from mistake.problems


def refused_parameters(document: YamlDocument, error: RefusedParameters) -> Problem:
    """Point at the parameter that the strategy's own words name, else at all of them."""
    params = document.data.get("params")
    given = params if isinstance(params, dict) else {}
    names = [word for word in re.findall(r"\w+", str(error)) if word in given]
    place: Location = ("params", *names[:1]) if given else ("use",)
    return document.at_value("E-CFG-039", f"{document.data.get('use')}: {error}", place)


def _parameter_problem(
    sound: _Sound, known: Mapping[str, Parameter], name: str, value: ParameterValue
) -> Problem | None:
    place: Location = ("params", name)
    if name not in known:
        hint = did_you_mean(name, list(known)) or f"known: {', '.join(known) or 'none'}"
        message = f"{sound.file.use} has no parameter {name!r}"
        return sound.document.at_key("E-CFG-033", message, place, hint)
    if _fits(known[name].kind, value):
        return None
    wanted = _TYPE_WORDS[known[name].kind]
    message = f"'params.{name}': wanted {wanted}; found {shown(value)}"
    return sound.document.at_value("E-CFG-034", message, place)


def _fits(kind: type, value: ParameterValue) -> bool:
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, kind) or (kind is float and isinstance(value, int))


def _class_is_woken(sound: _Sound) -> Iterator[Problem]:
    """A class that waits for bars alone never decides when only depth is polled."""
    if sound.factory is None:
        return
    hooks = {key: hook for key, hook in _HOOKS.items() if _overrides(sound.factory, hook)}
    wake = sound.file.wake.model_dump()
    if hooks and not any(wake[key] for key in hooks) and any(wake.values()):
        needed = " or ".join(hooks)
        message = f"nothing wakes {sound.file.use}: it waits for {needed} under 'wake'"
        yield sound.document.at_key("E-CFG-035", message, ("wake",))


def _overrides(factory: type[Strategy], hook: str) -> bool:
    return getattr(factory, hook) is not getattr(Strategy, hook)


_HOOKS: Final = {
    "bar": "on_bar",
    "quote": "on_quote",
    "depth": "on_depth",
    "timer": "on_timer",
    "session": "on_session",
}
_CHECKS: Final[tuple[tuple[tuple[str, ...], _Check], ...]] = (
    (("order",), _one_size),
    (("order",), _price_fits_type),
    (("symbols",), _symbols_counted),
    (("symbols",), _symbols_once),
    (("symbols",), _known_symbols),
    (("wake",), _something_wakes),
    (("order", "limits"), _limits_let_through),
    (("order", "symbols"), _lot_exists),
    (("order", "symbols", "when"), _type_exists),
    (("use", "params"), _parameters_fit),
    (("use", "params", "symbols"), _parameters_hold),
    (("use", "wake"), _class_is_woken),
)
