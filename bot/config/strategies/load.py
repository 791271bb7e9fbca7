"""Loads strategy files: text to checked plan, with everything that is wrong named at its place.

What the keys look like is in `plan_model.py`; here is what only the rest of the world can say: that
the class exists and has these parameters, that the exchange of each symbol takes such an order at
such an hour. Whatever passes here can still be refused by an exchange's rules of the day.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from bot.clock import SystemClock
from bot.config.model_check import problems_in
from bot.config.problems import OperatorMistake, Problem
from bot.config.rulebook import load_rulebook, load_symbols, rulebook_of
from bot.config.settings.load import Loaded
from bot.config.strategies.check import WORDS, Market, Subject, contradictions, refused_parameters
from bot.config.strategies.invoke import files_of
from bot.config.strategies.model import STAND_INS, OrderSection, StrategyFile
from bot.config.strategies.plugin_check import RefusedParameters, Rehearsal, make, rehearsal_of
from bot.config.strategies.plugins import find_strategy
from bot.config.strategies.trust import require_trusted
from bot.config.yaml_file import YamlDocument, parse_yaml, read_text, read_yaml, shown_path
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.order import OrderType
from bot.domain.plan import OrderPlan, PriceBasis, SizeUnit, StrategyPlan, Wake, When
from bot.engine.settings import LoadedStrategy
from bot.strategy import Strategy

CONTINUOUS: Final = timedelta(hours=3, minutes=45)
"""Continuous trading of a day on HOSE: 09:15 to 11:30 and 13:00 to 14:30."""


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A strategy file that may run. `warnings` are what can only be known when it starts."""

    plan: StrategyPlan
    factory: type[Strategy]
    document: YamlDocument
    warnings: tuple[Problem, ...] = field(default=())


def market_of(on: date | None = None, loaded: Loaded | None = None) -> Market:
    """Return rules and listings of a day; None is today. `loaded`: with the operator's changes."""
    day = on or SystemClock().now().astimezone(EXCHANGE_TZ).date()
    rulebook = rulebook_of(loaded) if loaded else load_rulebook()
    return Market(rulebook, load_symbols(), day)


def check_file(path: Path, *, base_dir: Path | None = None, market: Market) -> CheckedFile:
    """Check one strategy file; nothing else needs to be configured.

    `base_dir` None: its Python is looked for in the project that the file lies in. Raises
    OperatorMistake with everything that is wrong.
    """
    text = read_text(path)
    document = parse_yaml(text, shown_path(path))
    subject = _subject(document, base_dir or path.absolute().parent)
    problems, warnings = contradictions(subject, market)
    problems = [*subject.found, *problems]
    if problems or subject.file is None or subject.factory is None:
        raise OperatorMistake(_in_order(problems))
    plan = replace(
        _plan(subject.file),
        source=document.name,
        source_sha256=hashlib.sha256(text.encode()).hexdigest(),
    )
    return CheckedFile(plan, subject.factory, document, tuple(warnings))


def load_plan(
    path: Path, *, base_dir: Path | None = None, market: Market | None = None
) -> StrategyPlan:
    """Return the plan of one strategy file. Raises OperatorMistake."""
    return check_file(path, base_dir=base_dir, market=market or market_of()).plan


def check_files(
    paths: Iterable[Path], *, base_dir: Path | None = None, market: Market
) -> tuple[CheckedFile, ...]:
    """Check several files that run together. Raises OperatorMistake with the problems of all."""
    checked: list[CheckedFile] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            checked.append(check_file(path, base_dir=base_dir, market=market))
        except OperatorMistake as mistake:
            problems += mistake.problems
    problems += _same_names(checked)
    if problems:
        raise OperatorMistake(problems)
    return tuple(checked)


def rehearse(checked: Sequence[CheckedFile]) -> tuple[CheckedFile, ...]:
    """Show each strategy one made-up bar, and warn of those that want more bars than a day has, or
    use a name that nothing has.

    For checks alone: a run begins with classes that have seen nothing. Raises OperatorMistake for
    an average that is longer than can be had.
    """
    warned: list[CheckedFile] = []
    problems: list[Problem] = []
    for each in checked:
        try:
            strategy = make(each.factory, each.plan.symbols[0], each.plan.parameters)
            warnings = [*each.warnings, *_doubts(each, rehearsal_of(strategy))]
        except RefusedParameters as error:
            problems.append(refused_parameters(each.document, error))
        else:
            warned.append(replace(each, warnings=tuple(warnings)))
    if problems:
        raise OperatorMistake(problems)
    return tuple(warned)


def _doubts(checked: CheckedFile, seen: Rehearsal) -> Iterator[Problem]:
    if seen.unknown_name is not None:
        message = f"{checked.plan.use} fails on its first bar: {seen.unknown_name}"
        yield checked.document.at_value("E-CFG-032", message, ("use",))
    width, bars = checked.plan.wake.bar, seen.bars
    if width is not None and bars * width > CONTINUOUS:
        message = (
            f"{checked.plan.use} needs {bars:,} bars of {width.total_seconds() / 60:g}m before it "
            f"decides: {bars * width / CONTINUOUS:,.1f} trading days without a restart"
        )
        place = ("params",) if checked.plan.parameters else ("use",)
        yield checked.document.at_value("E-CFG-029", message, place)


def load_plans(loaded: Loaded, *, market: Market | None = None) -> tuple[CheckedFile, ...]:
    """Check all strategy files of a configuration. Raises OperatorMistake."""
    files = strategy_files(loaded)
    return check_files(files, base_dir=loaded.base_dir, market=market or market_of(loaded=loaded))


def load_strategies(
    loaded: Loaded, *, only: Sequence[str] = (), market: Market | None = None
) -> tuple[LoadedStrategy, ...]:
    """Return the strategies of a configuration, ready for the engine; `only` keeps these names.

    Raises OperatorMistake, but in the sandbox also when somebody else may write to the files that
    say what is traded, or to a shipped strategy.
    """
    if loaded.settings.mode != "sandbox":
        require_trusted(loaded.path, *strategy_files(loaded))
    market = market or market_of(loaded=loaded)
    checked = load_plans(loaded, market=market)
    if loaded.settings.mode != "sandbox":
        require_trusted(*(file for each in checked for file in files_of(each.factory)))
    _require_names(only, [each.plan.name for each in checked])
    return tuple(
        LoadedStrategy(each.plan, each.factory, market.instruments(each.plan))
        for each in checked
        if not only or each.plan.name in only
    )


def strategy_files(loaded: Loaded) -> tuple[Path, ...]:
    """Return the strategy files of a configuration, sorted. Raises OperatorMistake for none."""
    patterns = loaded.strategy_patterns
    found = sorted({file for pattern in patterns for file in _matching(pattern)})
    if not found:
        shown = ", ".join(shown_path(pattern) for pattern in patterns)
        origin = loaded.origin_of("strategies")
        message = f"no strategy file matches {shown} ({origin}). Make one: bot strategy new NAME"
        raise OperatorMistake.of("E-CFG-037", message)
    return tuple(found)


class UnknownSymbols(OperatorMistake):
    """The broker knows none of these `symbols`."""

    def __init__(self, symbols: Collection[str], plans: Iterable[StrategyPlan] = ()) -> None:
        self.symbols = tuple(symbols)
        placed = [problem for plan in plans for problem in _unknown_in(plan, self.symbols)]
        named = {symbol for plan in plans for symbol in plan.symbols}
        others = [Problem("E-SYM-001", _UNKNOWN.format(s)) for s in symbols if s not in named]
        super().__init__([*placed, *others])


_UNKNOWN: Final = "the broker knows no {0}: correct the symbol, or take it out"


def _unknown_in(plan: StrategyPlan, unknown: Collection[str]) -> Iterator[Problem]:
    """Point at each unknown symbol in the strategy's file, as far as that can be read again."""
    try:
        document = read_yaml(Path(plan.source))
    except OperatorMistake:
        document = YamlDocument(plan.source, "", {})
    for index, symbol in enumerate(plan.symbols):
        if symbol in unknown:
            message = _UNKNOWN.format(symbol)
            yield document.at_value("E-SYM-001", message, ("symbols", index))


def _matching(pattern: Path) -> list[Path]:
    relative = pattern.relative_to(pattern.anchor)
    return [file for file in Path(pattern.anchor).glob(str(relative)) if file.is_file()]


# ------------------------------------------------------------------------------------- one file


def _subject(document: YamlDocument, base_dir: Path) -> Subject:
    """Check the keys, then see what of the file is sound enough to be looked at further."""
    use = document.data.get("use")
    if use == "rules":
        message = "'use: rules' is not available yet: name a strategy in Python"
        return Subject(document, found=(document.at_value("E-CFG-028", message, ("use",)),))
    file: StrategyFile | None
    found: list[Problem] = []
    unsound: set[str] = set()
    try:
        file = StrategyFile.model_validate(document.data)
    except ValidationError as error:
        found = problems_in(error, StrategyFile, document)
        file, unsound = _what_is_sound(document, error)
    factory = None
    if isinstance(use, str) and "use" not in unsound:
        factory, more = _factory(use, document, base_dir)
        found = [*found, *more]
    return Subject(document, file, factory, frozenset(unsound), tuple(found))


def _what_is_sound(
    document: YamlDocument, error: ValidationError
) -> tuple[StrategyFile | None, set[str]]:
    """Leave out what is wrong and look at the rest, so that one run names all mistakes."""
    details = error.errors(include_url=False)
    unknown = [each["loc"] for each in details if each["type"] == "extra_forbidden"]
    unsound = {str(each["loc"][0]) for each in details if each["loc"] not in unknown}
    data = {key: value for key, value in document.data.items() if key not in unsound}
    for location in unknown:
        data = _without(data, location)
    try:
        return StrategyFile.model_validate({**STAND_INS, **data}), unsound
    except ValidationError:
        return None, unsound


def _without(data: Mapping[str, object], location: Sequence[int | str]) -> dict[str, object]:
    """Return the mapping without the key at a place below it."""
    step, rest = str(location[0]), location[1:]
    if not rest:
        return {key: value for key, value in data.items() if key != step}
    inner = data.get(step)
    return {**data, step: _without(inner, rest)} if isinstance(inner, dict) else dict(data)


def _factory(
    use: str, document: YamlDocument, base_dir: Path
) -> tuple[type[Strategy] | None, list[Problem]]:
    try:
        return find_strategy(use, base_dir), []
    except OperatorMistake as mistake:
        return None, [
            problem
            if problem.file
            else document.at_value(problem.code, f"'use': {problem.message}", ("use",))
            for problem in mistake.problems
        ]


def _plan(file: StrategyFile) -> StrategyPlan:
    between = file.when.between or (None, None)
    wake = file.wake
    return StrategyPlan(
        name=file.name,
        use=file.use,
        symbols=file.symbols,
        account="",
        mode=file.mode,
        parameters=dict(file.params),
        wake=Wake(wake.bar, wake.quote, wake.depth, wake.timer, wake.session),
        when=When(frozenset(WORDS[word] for word in file.when.sessions), *between),
        order=_order_plan(file.order),
        limits=file.limits.to_domain(),
        hold_2fa=file.on_2fa,
    )


def _order_plan(order: OrderSection) -> OrderPlan:
    sizes = {
        SizeUnit.SHARES: order.size.shares,
        SizeUnit.CASH: order.size.cash,
        SizeUnit.PERCENT: order.size.percent,
    }
    unit, size = next((unit, size) for unit, size in sizes.items() if size is not None)
    price = order.price
    return OrderPlan(
        size_unit=unit,
        size=size,
        order_type=price.market or OrderType.LO,
        basis=price.basis or PriceBasis.LAST,
        ticks=price.ticks,
        expire_after=order.expire,
    )


# ---------------------------------------------------------------------------------- several files


def _same_names(checked: Sequence[CheckedFile]) -> list[Problem]:
    first: dict[str, str] = {}
    problems = []
    for plan in (each.plan for each in checked):
        if plan.name in first:
            message = f"the name {plan.name!r} is taken by {first[plan.name]}: give each its own"
            problems.append(Problem("E-CFG-036", message, plan.source, 1, 1))
        first.setdefault(plan.name, plan.source)
    return problems


def _require_names(only: Sequence[str], names: Sequence[str]) -> None:
    missing = [name for name in only if name not in names]
    if missing:
        message = f"no strategy is called {missing[0]!r}; there are: {', '.join(names)}"
        raise OperatorMistake.of("E-CFG-031", message)


def _in_order(problems: Iterable[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda problem: (problem.line or 0, problem.column or 0))
