"""Checks a strategy's class before it runs: its parameters, hooks and constructor.

A class that would fail or never be called is refused here with file and line: a misspelt or
asynchronous hook would never run, and a constructor with extra arguments would keep all other
strategies from starting.
"""

import dis
import inspect
import math
import typing
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import CodeType
from typing import ClassVar, Final, NamedTuple, get_origin

from bot.config.field_types import shown
from bot.config.model_check import did_you_mean
from bot.config.problems import OperatorMistake, Problem, shown_path
from bot.config.strategies.invoke import invoke, place_of
from bot.config.yaml_file import Span, read_text, snippet_of
from bot.domain.plan import ParameterValue
from bot.domain.quote import Bar
from bot.engine.settings import Invoke, require_length
from bot.strategy import (
    BARS_MAX,
    BARS_MIN,
    AccountView,
    BarView,
    Context,
    Indicator,
    PositionView,
    Strategy,
)

HOOKS: Final = tuple(name for name in vars(Strategy) if name.startswith("on_"))
_CALLED: Final = (*HOOKS, "check")
"""The methods that a strategy's class may define; they are called as `Strategy` declares them."""

PARAMETER_TYPES: Final = (int, float, str, bool)
FAILURES: Final = (Exception, SystemExit)
"""What a plug-in may raise when it is imported or instantiated; its author has to fix that."""

_BASE_NAMES: Final = frozenset(
    name for name in (*dir(Strategy), *vars(Strategy())) if not name.startswith("_")
)
_CHANGEABLE: Final = (list, dict, set, deque, bytearray)
_VIEWS: Final = (BarView, Indicator, PositionView, AccountView)
"""What a hook is given, which is never None."""

_MIDNIGHT: Final = datetime(2000, 1, 1, tzinfo=UTC)


class Parameter(NamedTuple):
    """A parameter of a strategy. `default` None: the strategy file has to give it."""

    kind: type
    default: ParameterValue | None


class RefusedParameters(ValueError):
    """The strategy's own `check` refused its parameters; the text is its own."""


def require_sound(factory: type[Strategy]) -> None:
    """Raise OperatorMistake with everything in a class that would fail or never be called."""
    problems: list[Problem] = []
    if not _takes(factory, 1):
        what = "wants arguments that nothing passes"
        if _takes(factory, 0):
            what = "lacks the argument that it gets"
        message = (
            f"its __init__ {what}: leave it out, declare parameters as annotated class attributes, "
            "like 'fast: int = 5', and set up state in on_start"
        )
        problems.append(_function_problem(factory, "__init__", message))
    own = factory.__mro__[: factory.__mro__.index(Strategy)]
    names = [name for cls in reversed(own) for name in vars(cls) if not name.startswith("_")]
    for name in dict.fromkeys(names):  # in the order of the file
        if name in _CALLED:
            problems += _hook_problems(factory, name)
        elif inspect.isroutine(getattr(factory, name, None)) and (hint := _hook_hint(name)):
            message = f"{name} is not a hook, so nothing calls it: {hint}"
            problems.append(_function_problem(factory, name, message))
    bars: object = factory.warm_up
    if not isinstance(bars, int) or isinstance(bars, bool) or bars < 0:
        message = f"warm_up is a number of bars, like 20; found {bars!r}"
        problems.append(_class_problem(factory, message))
    try:
        parameters_of(factory)
        problems += _shared_problems(factory)
    except OperatorMistake as mistake:
        problems += mistake.problems
    if problems:
        raise OperatorMistake(problems)


def parameters_of(factory: type[Strategy]) -> Mapping[str, Parameter]:
    """Return the annotated class attributes, those of base classes first.

    Raises OperatorMistake if an annotation is not int, float, str or bool, if a default is of
    another type, or if a name is one that every strategy has.
    """
    try:
        hints = typing.get_type_hints(factory)
    except FAILURES as error:
        message = f"its annotations cannot be read: {error}"
        raise OperatorMistake((_class_problem(factory, message),)) from error
    of_base = typing.get_type_hints(Strategy)
    own = {
        name: kind
        for name, kind in hints.items()
        if not name.startswith("_")
        and name not in of_base
        and ClassVar not in (kind, get_origin(kind))
    }
    for name, kind in own.items():
        if kind not in PARAMETER_TYPES:
            message = f"a file cannot set {name!r}: annotate it as int, float, str or bool; "
            message += "what changes in a run is set up in on_start"
        elif name in _BASE_NAMES:
            message = f"every strategy already has a {name!r}: rename the parameter"
        elif not _is_of(kind, default := getattr(factory, name, None)):
            message = f"{name!r} is annotated as {kind.__name__}; its default is {shown(default)}"
        else:
            continue
        raise OperatorMistake((_class_problem(factory, message),))
    return {name: Parameter(kind, getattr(factory, name, None)) for name, kind in own.items()}


def _is_of(kind: type, default: object) -> bool:
    """Whether a default is one that a file could give; None is no default."""
    if default is None:
        return True
    if kind is bool or isinstance(default, bool):
        return type(default) is kind
    return isinstance(default, int | float if kind is float else kind)


def hooks_of(factory: type[Strategy]) -> list[str]:
    """Return the hooks that a class implements itself."""
    return [name for name in HOOKS if getattr(factory, name) is not getattr(Strategy, name)]


def make(
    factory: type[Strategy], symbol: str, parameters: Mapping[str, ParameterValue]
) -> Strategy:
    """Make an instance as the engine does, after another one has checked the parameters: what its
    `check` sets is not there in a run.

    Raises RefusedParameters, or OperatorMistake if the constructor or `check` itself fails.
    """

    def made() -> Strategy:
        context = Context(symbol, factory.__name__)
        strategy = factory(context)
        if getattr(strategy, "context", None) is not context:
            text = "its __init__ keeps what it gets from Strategy's: leave it out, and set up state"
            raise OperatorMistake((_class_problem(factory, f"{text} in on_start"),))
        for name, value in parameters.items():
            setattr(strategy, name, value)
        return strategy

    doing = "be made"
    try:
        first = made()
        doing = "check itself"
        first.check()
        doing = "be made"
        return made()
    except OperatorMistake:
        raise
    except FAILURES as error:
        if isinstance(error, ValueError) and doing == "check itself":
            raise RefusedParameters(str(error) or "its own check refuses them") from error
        file, line = place_of(error, factory, "check")
        text = f"{factory.__name__} cannot {doing}: {type(error).__name__}: {error}"
        raise OperatorMistake((_at(file, line, text),)) from error


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a strategy's first bar reveals: the bars it needs before it can decide, and what fails
    whatever the bar (None if nothing does).
    """

    bars: int
    mistake: str | None


def rehearsal_of(strategy: Strategy, call: Invoke = invoke) -> Rehearsal:
    """Start it and show it one bar whose indicators have no value yet; ignore what it does.

    What it raises may be the bar's fault, except for an undefined name or an argument that none
    of our methods takes, which is a typo. So is a hook that never returns, if `call` interrupts it.
    Raises RefusedParameters if it uses an indicator period that is none.
    """
    windows, refused = [warm_up := type(strategy).warm_up], list[str]()
    if warm_up > BARS_MAX:
        refused.append(f"warm_up = {warm_up}: wanted {BARS_MIN} to {BARS_MAX} bars")

    def read(name: str, bars: int) -> Indicator:
        try:
            require_length(name, bars)
        except (TypeError, ValueError) as error:
            refused.append(str(error))
        else:
            windows.append(bars)
        return Indicator(math.nan)

    bar = Bar(strategy.symbol, _MIDNIGHT, 60, 10_000, 10_000, 10_000, 10_000, 100)
    faults = (
        call(strategy, "on_start", None),
        call(strategy, "on_bar", BarView(bar, read)),
    )
    if refused:
        raise RefusedParameters(refused[0])
    of_whom = (type(strategy).__name__, *(view.__name__ for view in _VIEWS))
    names = (
        "NameError:",
        *(f"AttributeError: '{name}' object has no" for name in of_whom),
        *(f"TypeError: {name}." for name in (Strategy.__name__, *of_whom)),
    )
    mistakes = (
        fault.error
        for fault in faults
        if fault and (fault.is_stuck or fault.error.startswith(names))
    )
    return Rehearsal(max(windows), next(mistakes, None))


# ------------------------------------------------------------------------------------ the class


def _hook_problems(factory: type[Strategy], name: str) -> Iterator[Problem]:
    call = inspect.unwrap(getattr(factory, name))
    if not callable(call):
        yield _class_problem(factory, f"wanted {name} to be a function; found something else")
        return
    kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    if any(is_kind(call) for is_kind in kinds):
        message = f"{name} is not a plain function, so nothing in it would run. Write 'def {name}'"
        yield _function_problem(factory, name, f"{message}, without async or yield")
        return
    wanted = list(inspect.signature(getattr(Strategy, name)).parameters)
    is_static = isinstance(inspect.getattr_static(factory, name), staticmethod)
    if not _takes(getattr(factory, name), len(wanted) - is_static):
        text = f"wanted def {name}({', '.join(wanted)})"
        yield _function_problem(factory, name, f"{name} has the wrong arguments: {text}")


def _shared_problems(factory: type[Strategy]) -> Iterator[Problem]:
    """Refuse containers of a class that symbols would mix up, unless capitals or ClassVar show that
    they are meant to be shared, or each symbol's `on_start` sets one of its own.
    """
    begins = getattr(factory.on_start, "__code__", None)
    steps = dis.get_instructions(begins) if isinstance(begins, CodeType) else ()
    first = {step.argval: step.opname for step in reversed([*steps]) if "_ATTR" in step.opname}
    set_anew = {name for name, done in first.items() if done == "STORE_ATTR"}  # and no `+=`
    own = factory.__mro__[: factory.__mro__.index(Strategy)]
    hints = typing.get_type_hints(factory)
    names = (name for cls in reversed(own) for name in vars(cls) if name not in set_anew)
    for name in dict.fromkeys(names):
        value = inspect.getattr_static(factory, name)
        is_meant = name.isupper() or ClassVar in (hints.get(name), get_origin(hints.get(name)))
        if isinstance(value, _CHANGEABLE) and not is_meant and not name.startswith("__"):
            text = f"{name!r} is one {type(value).__name__} for all symbols, which would mix them "
            text += f"up: set self.{name} in on_start alone. If it never changes, or they are to "
            yield _class_problem(factory, f"{text}share it, write its name in capitals")


def _hook_hint(name: str) -> str:
    """Return which hook a method name may mean, or what to do; empty for an ordinary method."""
    meant = [hook for hook in HOOKS if hook.replace("_", "") == name.lower().replace("_", "")]
    if meant:
        return f"did you mean {meant[0]!r}?"
    if not name.startswith("on_"):
        return ""
    others = f"hooks are {', '.join(HOOKS)}; no other name may begin with on_"
    return did_you_mean(name, HOOKS) or others


def _takes(call: Callable[..., object], count: int) -> bool:
    """Whether a call with this many positional arguments fits."""
    try:
        inspect.signature(call).bind(*range(count))
    except TypeError:
        return False
    except ValueError:
        return True  # a built-in without a signature
    return True


# ------------------------------------------------------------------------------------- the place


def _function_problem(factory: type[Strategy], name: str, message: str) -> Problem:
    code = getattr(inspect.unwrap(getattr(factory, name)), "__code__", None)
    if code is None:
        return _class_problem(factory, message)
    return _at(Path(code.co_filename), code.co_firstlineno, f"{factory.__name__}: {message}")


def _class_problem(factory: type[Strategy], message: str) -> Problem:
    text = f"{factory.__name__}: {message}"
    try:
        file, line = Path(inspect.getsourcefile(factory) or ""), inspect.getsourcelines(factory)[1]
    except (OSError, TypeError):
        return Problem("E-CFG-032", text)
    return _at(file, line, text)


def _at(file: Path | None, line: int, message: str) -> Problem:
    if file is None:
        return Problem("E-CFG-032", message)
    snippet = snippet_of(read_text(file), Span(line, 1)) if line > 1 and file.is_file() else ""
    return Problem("E-CFG-032", message, shown_path(file), line, 1, snippet)
