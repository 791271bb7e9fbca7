"""Consistency checks between the keys of a strategy file, its class, and the exchanges' rules.

Each check names the keys that it reads and runs only if each of them is valid by itself, so that
one mistake is reported once.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import pairwise
from typing import Final

from bot.config.field_types import shown
from bot.config.model_check import did_you_mean
from bot.config.problems import OperatorMistake, Problem
from bot.config.strategies.model import SYMBOLS_MAX, StrategyFile
from bot.config.strategies.plugin_check import RefusedParameters, make, parameters_of
from bot.config.yaml_file import Location, YamlDocument
from bot.domain.instrument import BOARD_LOT, Exchange, Instrument, Lot, Phase, SymbolTable
from bot.domain.order import MARKET_TYPES, OrderType, type_word
from bot.domain.plan import StrategyPlan
from bot.domain.rulebook import Rulebook
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
    str: "text",
    bool: "true or false",
}


CHEAP_LOT: Final = 500_000
"""VND that a lot costs at a price below which few shares trade: 5,000 VND."""


@dataclass(frozen=True, slots=True)
class Market:
    """The rules and listings of one day, against which files are checked."""

    rulebook: Rulebook
    symbols: SymbolTable
    on: date

    def instruments(self, plan: StrategyPlan) -> tuple[Instrument, ...]:
        """Return the plan's symbols with their exchanges; unknown ones are left out."""
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
    """A file under check. `unsound` keys are invalid by themselves and are left out of `file`."""

    document: YamlDocument
    file: StrategyFile
    market: Market
    factory: type[Strategy] | None
    unsound: frozenset[str]
    warnings: list[Problem] = field(default_factory=list)

    def at(self, code: str, message: str, *location: str | int) -> Problem:
        return self.document.at_value(code, message, location)


Check = Callable[[Subject], Iterator[Problem]]
_CHECKS: Final = list[tuple[tuple[str, ...], Check]]()


def reads(*keys: str) -> Callable[[Check], Check]:
    """Register a check, which runs only if these keys are valid by themselves."""

    def register(check: Check) -> Check:
        _CHECKS.append((keys, check))
        return check

    return register


def contradictions(subject: Subject) -> list[Problem]:
    """Return the problems; warnings are added to the subject's own."""
    checks = [check for keys, check in _CHECKS if not subject.unsound.intersection(keys)]
    return [problem for check in checks for problem in check(subject)]


# ----------------------------------------------------------------------------------- the keys alone


@reads("order")
def size_and_price(subject: Subject) -> Iterator[Problem]:
    order, size, market = (
        subject.file.order,
        subject.file.order.size,
        subject.file.order.price.market,
    )
    given = [each for each in (size.shares, size.cash, size.percent) if each is not None]
    if len(given) != 1:
        message = "'order.size': wanted exactly one of shares, cash and percent; found "
        yield subject.at("E-CFG-013", message + str(len(given)), "order", "size")
    if order.type == "LIMIT" and market is not None:
        message = f"'order.price' {market} is a market order: add 'type: MARKET'"
        yield subject.at("E-CFG-023", message, "order", "price")
    if order.type == "MARKET" and market is None:
        message = "'order.type: MARKET' needs a market type as 'order.price': MTL, ATO, ATC, …"
        yield subject.at("E-CFG-023", message, "order", "type")
    limits = subject.file.limits
    for key, wanted, limit_key, limit in (
        ("shares", size.shares, "max_position", limits.max_position),
        ("cash", size.cash, "max_order_value", limits.max_order_value),
    ):
        is_too_small = wanted is not None and limit is not None and wanted > limit
        if is_too_small and "limits" not in subject.unsound:
            message = (
                f"'limits.{limit_key}' {limit:_} is too small for one order of {wanted:_} {key}"
            )
            yield subject.at("E-CFG-027", message, "limits", limit_key)


@reads("symbols")
def known_symbols(subject: Subject) -> Iterator[Problem]:
    """An unknown symbol is only a warning: the broker's list at start takes precedence over the
    shipped table.
    """
    table, day, symbols = subject.market.symbols, subject.market.on, subject.file.symbols
    if not 1 <= len(symbols) <= SYMBOLS_MAX:
        message = f"'symbols': wanted 1 to {SYMBOLS_MAX}; found {len(symbols)}"
        yield subject.at("E-CFG-015", message, "symbols")
    for index, symbol in enumerate(symbols):
        place = ("symbols", index)
        if symbol in symbols[:index]:
            yield subject.at("E-CFG-024", f"{symbol} is listed twice", *place)
        if table.instrument(symbol, day) is None:
            hint = did_you_mean(symbol, table.symbols(day))
            message = f"{symbol} is not in the shipped table; the broker is asked at start"
            subject.warnings.append(subject.document.at_value("E-CFG-025", message, place, hint))


@reads("wake")
def wakes(subject: Subject) -> Iterator[Problem]:
    wake = subject.file.wake
    if not (wake.bar or wake.quote or wake.depth or wake.timer or wake.session):
        message = "'wake' is empty: wanted one of bar, quote, depth, timer and session"
        yield subject.at("E-CFG-026", message, "wake")
    if wake.bar is not None and _DAY % wake.bar:
        message = "'wake.bar': wanted a width that divides a day evenly, like 1m, 5m, 15m, 1h or 1d"
        yield subject.at("E-CFG-026", message, "wake", "bar")
    if wake.bar == _DAY and not (wake.quote or wake.depth or wake.timer or wake.session):
        message = (
            "'wake.bar': a daily bar closes at 15:00, when no exchange accepts orders, and nothing "
            "else wakes the strategy: keep its signal in on_bar and order in on_timer, with "
            "wake: {bar: 1d, timer: 09:20}"
        )
        place = ("wake", "bar")
        subject.warnings.append(subject.document.at_value("E-CFG-057", message, place))
    # A class that only waits for bars never decides if only depth is polled.
    factory, widths = subject.factory, wake.model_dump()
    own = [
        key
        for key in (*widths, "start")
        if factory and getattr(factory, f"on_{key}") is not getattr(Strategy, f"on_{key}")
    ]
    hooks = [key for key in own if key in widths]
    if factory is not None and not own:
        names = ", ".join(f"on_{key}" for key in widths)
        message = f"{subject.file.use} never decides: its class has none of {names}"
        subject.warnings.append(subject.document.at_value("E-CFG-035", message, ("use",)))
    is_unwoken = hooks and not any(widths[key] for key in hooks) and any(widths.values())
    if is_unwoken and "use" not in subject.unsound:
        message = f"nothing wakes {subject.file.use}: it needs {' or '.join(hooks)} under 'wake'"
        yield subject.document.at_key("E-CFG-035", message, ("wake",))


@reads("order")
def affordable(subject: Subject) -> Iterator[Problem]:
    """Cash for not even a lot of a cheap share is a warning: it may be meant, or a slip."""
    cash = subject.file.order.size.cash
    if cash is not None and cash < CHEAP_LOT:
        message = (
            f"'order.size.cash' is {cash:_} VND: it buys a lot of {BOARD_LOT} shares only up to "
            f"{cash // BOARD_LOT:,} VND a share, and none of dearer shares"
        )
        place = ("order", "size", "cash")
        subject.warnings.append(subject.document.at_value("E-CFG-055", message, place))
    yield from ()


# ------------------------------------------------------------------------------------ the exchanges


@reads("order", "symbols")
def lots(subject: Subject) -> Iterator[Problem]:
    """Whether each exchange takes orders of that many shares; the first that does not is named."""
    shares, rulebook = subject.file.order.size.shares, subject.market.rulebook
    if shares is None:
        return
    for exchange in subject.market.exchanges(subject.file):
        lots = rulebook.venues[exchange].lots
        lot, most = lots.lot_of(shares), lots.max_quantity
        if lot is None and most is not None and shares > most:
            fault = f"is {shares:_}: {exchange} accepts at most {most:_} in one order"
        elif lot is None:
            article = "an" if exchange is Exchange.HNX else "a"
            fault = (
                f"is {shares:_}: {article} {exchange} order is a multiple of {lots.board_lot}, "
                f"or an odd lot of {lots.odd_lots[0]} to {lots.odd_lots[-1]} (LIMIT only)"
            )
        elif lot is Lot.ODD and subject.file.order.price.market is not None:
            fault = f"{shares} is an odd lot, which {exchange} accepts only as LIMIT"
        else:
            continue
        yield subject.at("E-CFG-021", f"'order.size.shares' {fault}", "order", "size", "shares")
        return


@reads("order", "symbols", "when")
def order_types(subject: Subject) -> Iterator[Problem]:
    """Whether each exchange takes the type in one of the requested phases."""
    wanted, rulebook = subject.file.order.price.market or OrderType.LO, subject.market.rulebook
    written = subject.document.data.get("order")
    key = "price" if isinstance(written, dict) and "price" in written else "type"
    for exchange, symbols in subject.market.exchanges(subject.file).items():
        where = f"{exchange} ({', '.join(symbols)})"
        canonical = rulebook.canonical(exchange, wanted)
        even = {word: rulebook.accepted_types(exchange, WORDS[word], Lot.EVEN) for word in WORDS}
        odd = {word: rulebook.accepted_types(exchange, WORDS[word], Lot.ODD) for word in WORDS}
        sessions = [word for word in WORDS if canonical in even[word] or canonical in odd[word]]
        if not sessions:
            types = sorted(set().union(*even.values()).intersection(MARKET_TYPES))
            message = (
                f"{where} does not accept {wanted}; it accepts {', '.join(types) or 'only LIMIT'}"
            )
            yield subject.at("E-CFG-022", message, "order", key)
        elif not set(subject.file.when.sessions or sessions) & set(sessions):
            message = (
                f"{where} accepts {type_word(wanted)} only in sessions [{', '.join(sessions)}]"
            )
            yield subject.at("E-CFG-022", message, "when", "sessions")


@reads("symbols", "when")
def hours(subject: Subject) -> Iterator[Problem]:
    """Hours without a session are a warning: such a strategy can still sell."""
    when, rulebook = subject.file.when, subject.market.rulebook
    if when.between is None:
        return
    start, end = when.between
    phases = {WORDS[word] for word in when.sessions or WORDS}
    for exchange, symbols in subject.market.exchanges(subject.file).items():
        spans = pairwise(rulebook.venues[exchange].plan.timetable.spans)
        overlaps = (
            any(rulebook.accepted_types(exchange, span.phase, lot) for lot in Lot)
            for span, following in spans
            if span.phase in phases and span.start < end and start < following.start
        )
        if not any(overlaps):
            where = f"{exchange} ({', '.join(symbols)})"
            sessions = f" in its sessions [{', '.join(when.sessions)}]" if when.sessions else ""
            message = (
                f"'when.between' {start:%H:%M} - {end:%H:%M} has no time at which {where} accepts "
                f"orders{sessions}: every buy is blocked"
            )
            place = ("when", "between")
            subject.warnings.append(subject.document.at_value("E-CFG-065", message, place))
    yield from ()


# ---------------------------------------------------------------------------------------- the class


@reads("use", "params")
def parameters(subject: Subject) -> Iterator[Problem]:
    """Whether the class has these parameters, and then whether its own check accepts them."""
    use, params, factory = subject.file.use, subject.file.params, subject.factory
    if factory is None:
        return
    try:
        known = parameters_of(factory)
    except OperatorMistake as mistake:
        yield from mistake.problems
        return
    wrong: list[Problem] = []
    for name, value in params.items():
        if name not in known:
            hint = did_you_mean(name, list(known)) or f"known: {', '.join(known) or 'none'}"
            message, place = f"{use} has no parameter {name!r}", ("params", name)
            wrong.append(subject.document.at_key("E-CFG-033", message, place, hint))
            continue
        kind, is_flag = known[name].kind, isinstance(value, bool)
        kinds = (int, float) if kind is float else (kind,)
        if is_flag != (kind is bool) or not isinstance(value, kinds):
            message = f"'params.{name}': wanted {_TYPE_WORDS[kind]}; found {shown(value)}"
            wrong.append(subject.at("E-CFG-034", message, "params", name))
    for name, parameter in known.items():
        if parameter.default is None and name not in params:
            message = f"{use} needs the parameter {name!r} under 'params'"
            wrong.append(subject.at("E-CFG-033", message, "params"))
    yield from wrong
    if not wrong and "symbols" not in subject.unsound:
        try:
            for symbol in subject.file.symbols or ("",):
                make(factory, symbol, params)
        except RefusedParameters as error:
            yield refused_parameters(subject.document, error)
        except OperatorMistake as mistake:
            yield from mistake.problems


def refused_parameters(document: YamlDocument, error: RefusedParameters) -> Problem:
    """Point at the parameter named in the strategy's own message, else at all of them."""
    params = document.data.get("params")
    given = params if isinstance(params, dict) else {}
    names = [word for word in re.findall(r"\w+", str(error)) if word in given]
    place: Location = ("params", *names[:1]) if given else ("use",)
    return document.at_value("E-CFG-039", f"{document.data.get('use')}: {error}", place)
