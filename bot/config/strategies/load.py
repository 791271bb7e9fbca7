"""Loads strategy files: from text to checked plan, reporting every problem at its place.

`model.py` defines the keys, `check.py` their consistency. What passes here can still be refused by
an exchange's rules of the day.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from bot.clock import SystemClock
from bot.config.model_check import did_you_mean, in_order, problems_in
from bot.config.problems import OperatorMistake, Problem, shown_path
from bot.config.rulebook import load_rulebook, load_symbols, rulebook_of
from bot.config.settings.load import Loaded
from bot.config.strategies.check import WORDS, Market, Subject, contradictions, refused_parameters
from bot.config.strategies.invoke import files_of, invoke
from bot.config.strategies.model import STAND_INS, StrategyFile
from bot.config.strategies.plugin_check import RefusedParameters, make, rehearsal_of
from bot.config.strategies.plugins import find_strategy
from bot.config.strategies.source_files import require_trusted
from bot.config.yaml_file import YamlDocument, parse_yaml, read_text, read_yaml
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.order import OrderType
from bot.domain.plan import OrderPlan, PriceBasis, SizeUnit, StrategyPlan, Wake, When
from bot.engine.settings import Invoke, LoadedStrategy
from bot.strategy import Strategy

UNSAFE: Final = "E-CFG-038"
_MAKE_ONE: Final = "To create one: bot strategy new NAME"
CONTINUOUS: Final = timedelta(hours=3, minutes=45)
"""Continuous trading of a day on HOSE: 09:15 to 11:30 and 13:00 to 14:30."""


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A strategy file that may run. `warnings` are what only the start can tell for certain."""

    plan: StrategyPlan
    factory: type[Strategy]
    document: YamlDocument
    warnings: tuple[Problem, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class BrokenFile:
    """A strategy file that cannot run, and all that is wrong with it. `name` is the strategy's own,
    or its file's where that cannot be read.
    """

    name: str
    use: str
    file: str
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class SortedOut:
    """The strategies of a configuration: those that can run, and those that are broken."""

    strategies: tuple[LoadedStrategy, ...]
    broken: tuple[BrokenFile, ...]


def market_of(on: date | None = None, loaded: Loaded | None = None) -> Market:
    """Return rules and listings of a day; None: today. `loaded`: includes the
    operator's changes.
    """
    day = on or SystemClock().now().astimezone(EXCHANGE_TZ).date()
    rulebook = rulebook_of(loaded) if loaded else load_rulebook()
    return Market(rulebook, load_symbols(), day)


def check_file(path: Path, *, base_dir: Path | None = None, market: Market) -> CheckedFile:
    """Check one strategy file; nothing else needs to be configured.

    `base_dir` None: its Python is looked up in the project that contains the file. Raises
    OperatorMistake with all problems.
    """
    text = read_text(path)
    document = parse_yaml(text, shown_path(path))
    use, factory, warnings = document.data.get("use"), None, list[Problem]()
    own = next((key for key in ("strategies", "state_dir", "broker") if key in document.data), None)
    if own is not None and use is None:
        message = "this is a bot's configuration: name one of its strategy files"
        raise OperatorMistake([document.at_key("E-CFG-012", message, (own,))])
    if use == "rules":
        message = "'use: rules' is not available yet: name a Python strategy"
        raise OperatorMistake([document.at_value("E-CFG-028", message, ("use",))])
    file, unsound, problems = _sound_part(document)
    if "use" not in unsound:
        try:
            factory = find_strategy(str(use), base_dir or path.absolute().parent)
        except OperatorMistake as mistake:
            problems += [
                problem
                if problem.file
                else document.at_value(problem.code, f"'use': {problem.message}", ("use",))
                for problem in mistake.problems
            ]
    if file is not None:
        problems += contradictions(Subject(document, file, market, factory, unsound, warnings))
    if problems or file is None or factory is None:
        raise OperatorMistake(in_order(problems))
    digest = hashlib.sha256(text.encode()).hexdigest()
    plan = replace(_plan(file), source=document.name, source_sha256=digest)
    return CheckedFile(plan, factory, document, tuple(warnings))


def check_files(
    paths: Iterable[Path], *, base_dir: Path | None = None, market: Market
) -> tuple[CheckedFile, ...]:
    """Check several files that run together. Raises OperatorMistake with the problems of all."""
    checked, broken = sort_out(paths, base_dir=base_dir, market=market)
    if broken:
        raise OperatorMistake(problem for each in broken for problem in each.problems)
    return checked


def sort_out(
    paths: Iterable[Path], *, base_dir: Path | None = None, market: Market
) -> tuple[tuple[CheckedFile, ...], tuple[BrokenFile, ...]]:
    """Separate the files that can run together from broken ones.

    If two files have the same name, both count as broken, as either may be meant. Raises
    OperatorMistake for a plug-in that somebody else can write to: then nothing is safe.
    """
    checked: list[CheckedFile] = []
    broken: list[BrokenFile] = []
    for path in paths:
        try:
            checked.append(check_file(path, base_dir=base_dir, market=market))
        except OperatorMistake as mistake:
            if any(problem.code == UNSAFE for problem in mistake.problems):
                raise
            broken.append(BrokenFile(*_named_in(path), shown_path(path), mistake.problems))
    of_name: dict[str, list[CheckedFile]] = {}
    for each in checked:
        of_name.setdefault(each.plan.name, []).append(each)
    for name, same in of_name.items():
        for each in same if len(same) > 1 else ():
            others = ", ".join(other.plan.source for other in same if other is not each)
            message = f"{others} has the name {name!r} too: give each its own"
            problem = each.document.at_value("E-CFG-036", message, ("name",))
            broken.append(BrokenFile(name, each.plan.use, each.plan.source, (problem,)))
    return tuple(each for each in checked if len(of_name[each.plan.name]) == 1), tuple(broken)


def rehearse(checked: Sequence[CheckedFile], call: Invoke = invoke) -> tuple[CheckedFile, ...]:
    """Show each strategy one invented bar, and warn about those that need more bars than a day has,
    use an undefined name, or never return (if `call` interrupts those).

    Only for checks: a run begins with fresh classes. Raises OperatorMistake for an indicator period
    beyond the limit.
    """
    warned: list[CheckedFile] = []
    problems: list[Problem] = []
    for each in checked:
        plan, document, warnings = each.plan, each.document, list(each.warnings)
        try:
            seen = rehearsal_of(make(each.factory, plan.symbols[0], plan.parameters), call)
        except RefusedParameters as error:
            problems.append(refused_parameters(document, error))
            continue
        if seen.mistake is not None:
            message = f"{plan.use} fails on its first bar: {seen.mistake}"
            warnings.append(document.at_value("E-CFG-032", message, ("use",)))
        width = plan.wake.bar
        if width is not None and seen.bars * width > CONTINUOUS:
            message = (
                f"{plan.use} needs {seen.bars:,} bars of {width.total_seconds() / 60:g}m before "
                f"it decides: {seen.bars * width / CONTINUOUS:,.1f} trading days if no history has "
                "them"
            )
            place = ("params",) if plan.parameters else ("use",)
            warnings.append(document.at_value("E-CFG-029", message, place))
        warned.append(replace(each, warnings=tuple(warnings)))
    if problems:
        raise OperatorMistake(problems)
    return tuple(warned)


def load_plans(loaded: Loaded, *, market: Market | None = None) -> tuple[CheckedFile, ...]:
    """Check all strategy files of a configuration. Raises OperatorMistake."""
    files = strategy_files(loaded)
    return check_files(files, base_dir=loaded.base_dir, market=market or market_of(loaded=loaded))


def always_refused(
    loaded: Loaded, plans: Sequence[StrategyPlan], *, market: Market | None = None
) -> Iterator[Problem]:
    """Yield warnings of what the limits in bot.yaml refuse whatever the market does."""
    market, risk, code = market or market_of(loaded=loaded), loaded.settings.risk, "E-CFG-058"
    allowed, table, key = risk.account.symbols, market.symbols, "risk.account.symbols"
    place = f"{key} ({loaded.origin_of(key)})"
    for symbol in allowed or ():
        if table.instrument(symbol, market.on) is None:
            hint = did_you_mean(symbol, table.symbols(market.on))
            text = f"{place} has {symbol}, which is not in the shipped table"
            yield Problem(code, f"{text}{f'; {hint}' if hint else ''}")
    for plan in plans:
        outside = [each for each in plan.symbols if allowed is not None and each not in allowed]
        if outside:
            text = f"{plan.name} trades {', '.join(outside)}, not in {place}"
            yield Problem(code, f"{text}: every buy is refused (UNIVERSE)")
        parts = {"account": risk.account.max_order_value, "limits": risk.limits.max_order_value}
        for part, most in parts.items() if plan.order.size_unit is SizeUnit.CASH else ():
            if most is not None and plan.order.size > most:
                name = f"risk.{part}.max_order_value"
                text = f"{plan.name} orders for {plan.order.size:_} VND, {name} is {most:_}"
                where = loaded.origin_of(name)
                yield Problem(code, f"{text} ({where}): its buys are refused (MAX_ORDER_VALUE)")


def load_strategies(loaded: Loaded, *, market: Market | None = None) -> tuple[LoadedStrategy, ...]:
    """Return the strategies of a configuration, ready for the engine.

    Raises OperatorMistake for any broken one, and whatever `load_sound` raises.
    """
    found = load_sound(loaded, market=market)
    if found.broken:
        raise OperatorMistake(problem for each in found.broken for problem in each.problems)
    return found.strategies


def load_sound(
    loaded: Loaded, *, only: Sequence[str] = (), market: Market | None = None
) -> SortedOut:
    """Return the strategies that can run, ready for the engine, and the broken ones; `only` keeps
    these names.

    Raises OperatorMistake if none can run, if a name in `only` is unknown or broken, and (except in
    the sandbox) if somebody else can write to the files that determine what is traded or to a
    shipped strategy.
    """
    files, market = strategy_files(loaded), market or market_of(loaded=loaded)
    if loaded.settings.mode != "sandbox":
        require_trusted(loaded.path, *files)
    checked, broken = sort_out(files, base_dir=loaded.base_dir, market=market)
    if loaded.settings.mode != "sandbox":
        require_trusted(*(file for each in checked for file in files_of(each.factory)))
    in_the_way = [each for each in broken if not checked or each.name in only]
    if in_the_way:
        raise OperatorMistake(problem for each in in_the_way for problem in each.problems)
    names = [each.plan.name for each in checked]
    if missing := [name for name in only if name not in names]:
        message = f"no strategy is called {missing[0]!r}; available: {', '.join(names)}"
        raise OperatorMistake.of("E-CFG-031", message)
    strategies = tuple(
        LoadedStrategy(each.plan, each.factory, market.instruments(each.plan))
        for each in checked
        if not only or each.plan.name in only
    )
    return SortedOut(strategies, () if only else broken)


def strategy_files(loaded: Loaded) -> tuple[Path, ...]:
    """Return the strategy files of a configuration, sorted. Raises OperatorMistake for none."""
    found = loaded.strategy_files
    if not found:
        shown = ", ".join(shown_path(pattern) for pattern in loaded.strategy_patterns)
        origin = loaded.origin_of("strategies")
        folder = next((each for each in loaded.strategy_patterns if each.is_dir()), None)
        step = f"Name the files in it, like {shown_path(folder)}/*.yaml" if folder else _MAKE_ONE
        message = f"no strategy file matches {shown} ({origin}). {step}"
        raise OperatorMistake.of("E-CFG-037", message)
    return found


class UnknownSymbols(OperatorMistake):
    """The broker knows none of these `symbols`. Each is located in the files of `plans`, as far as
    those can be read again.
    """

    def __init__(self, symbols: Collection[str], plans: Iterable[StrategyPlan] = ()) -> None:
        self.symbols = tuple(symbols)
        wrong, named = "the broker does not know {0}: correct the symbol, or remove it", set[str]()
        problems: list[Problem] = []
        for plan in plans:
            named.update(plan.symbols)
            try:
                document = read_yaml(Path(plan.source))
            except OperatorMistake:
                document = YamlDocument(plan.source, "", {})
            problems += [
                document.at_value("E-SYM-001", wrong.format(symbol), ("symbols", index))
                for index, symbol in enumerate(plan.symbols)
                if symbol in symbols
            ]
        others = [Problem("E-SYM-001", wrong.format(s)) for s in symbols if s not in named]
        super().__init__([*problems, *others])


# ------------------------------------------------------------------------------------- one file


def _named_in(path: Path) -> tuple[str, str]:
    """Return `name` and `use` of a file with any content; the file's name if it has none."""
    try:
        data = read_yaml(path).data
    except OperatorMistake:
        data = {}
    name, use = (str(data.get(key) or "") for key in ("name", "use"))
    return name or path.stem, use


def _sound_part(
    document: YamlDocument,
) -> tuple[StrategyFile | None, frozenset[str], list[Problem]]:
    """Check the keys and leave out wrong ones: the rest is checked further, so that one run reports
    all mistakes. Return the rest, the keys left out, and their problems.
    """
    try:
        return StrategyFile.model_validate(document.data), frozenset(), []
    except ValidationError as error:
        found = problems_in(error, StrategyFile, document)
        details = error.errors(include_url=False)
    unknown = [each["loc"] for each in details if each["type"] == "extra_forbidden"]
    unsound = frozenset(str(each["loc"][0]) for each in details if each["loc"] not in unknown)
    data = {key: value for key, value in document.data.items() if key not in unsound}
    for location in unknown:
        data = _without(data, location)
    try:
        return StrategyFile.model_validate({**STAND_INS, **data}), unsound, found
    except ValidationError:
        return None, unsound, found


def _without(data: Mapping[str, object], location: Sequence[int | str]) -> dict[str, object]:
    """Return the mapping without the key at a place below it."""
    step, rest = str(location[0]), location[1:]
    if not rest:
        return {key: value for key, value in data.items() if key != step}
    inner = data.get(step)
    return {**data, step: _without(inner, rest)} if isinstance(inner, dict) else dict(data)


def _plan(file: StrategyFile) -> StrategyPlan:
    between, wake = file.when.between or (None, None), file.wake
    price = file.order.price
    [(unit, amount)] = file.order.size.model_dump(exclude_none=True).items()
    return StrategyPlan(
        name=file.name,
        use=file.use,
        symbols=file.symbols,
        account="",
        mode=file.mode,
        parameters=dict(file.params),
        wake=Wake(wake.bar, wake.quote, wake.depth, wake.timer, wake.session),
        when=When(frozenset(WORDS[word] for word in file.when.sessions), *between),
        order=OrderPlan(
            size_unit=SizeUnit(unit),
            size=amount,
            order_type=price.market or OrderType.LO,
            basis=price.basis or PriceBasis.LAST,
            ticks=price.ticks,
            expire_after=file.order.expire,
        ),
        limits=file.limits.to_domain(),
        hold_2fa=file.on_2fa,
    )
