"""The space of a search: which parameters, over which values.

    fast=3..20  slow=20..100:5  ratio=1.5..4.0  ratio=1.5..4.0:0.5  side=long|short  on=true|false

A range includes both ends; `:5` is its step (default 1 for whole numbers, none for others). Each
value has the type that the strategy's class gives the parameter.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import floor, prod
from typing import Final

from bot.config.market_files.table import shown
from bot.config.model_check import did_you_mean
from bot.config.problems import ExitCode, OperatorMistake, Problem
from bot.config.strategies.plugin_check import Parameter, parameters_of
from bot.domain.plan import ParameterValue
from bot.strategy import Strategy

Values = Mapping[str, ParameterValue]

_RANGE: Final = re.compile(r"(?P<low>[^.|:]+(?:\.\d+)?)\.\.(?P<high>[^|:]+?)(?::(?P<step>.+))?")
_KINDS: Final = {int: "whole numbers", float: "numbers", str: "texts", bool: "true or false"}
_FLAGS: Final = {"true": True, "false": False}
SHAPES: Final = "NAME=LOW..HIGH, NAME=LOW..HIGH:STEP or NAME=A|B|C"
NUMBER_END: Final = 10**15
"""Numbers and steps are below it: floats hold such whole numbers exactly."""
NEAR: Final = 20
"""In a range without a step, a neighbour is a twentieth of the range away."""


@dataclass(frozen=True, slots=True)
class Span:
    """All numbers from `low` to `high`; with a step, `low` plus whole steps."""

    name: str
    low: float
    high: float
    step: float | None
    is_whole: bool

    @property
    def size(self) -> int | None:
        """How many values; None: without a step there is no useful number."""
        return None if self.step is None else floor((self.high - self.low) / self.step + 1e-9) + 1

    @property
    def values(self) -> tuple[ParameterValue, ...]:
        """All of its values; it has a step."""
        assert self.size is not None
        assert self.step is not None
        low, step = Decimal(repr(self.low)), Decimal(repr(self.step))
        found = (float(low + number * step) for number in range(self.size))
        return tuple(round(value) if self.is_whole else value for value in found)

    def neighbours(self, value: ParameterValue) -> tuple[ParameterValue, ...]:
        """Return the values one step below and above, within the range."""
        assert isinstance(value, int | float), "a range holds numbers"
        step = self.step or (self.high - self.low) / NEAR
        at, by = Decimal(repr(value)), Decimal(repr(step))
        near = [float(at - by), float(at + by)]
        slack = step * 1e-9
        found = [each for each in near if self.low - slack <= each <= self.high + slack]
        return tuple(round(each) if self.is_whole else each for each in found)

    def __str__(self) -> str:
        step = "" if self.step is None or (self.is_whole and self.step == 1) else f":{self.step:g}"
        return f"{self.name}={self.low:g}..{self.high:g}{step}"


@dataclass(frozen=True, slots=True)
class Choice:
    """A parameter that is one of these values."""

    name: str
    values: tuple[ParameterValue, ...]

    @property
    def size(self) -> int:
        return len(self.values)

    def neighbours(self, value: ParameterValue) -> tuple[ParameterValue, ...]:
        """Return the values listed before and after it."""
        at = self.values.index(value)
        return (*self.values[max(0, at - 1) : at], *self.values[at + 1 : at + 2])

    def __str__(self) -> str:
        words = (str(each).lower() if isinstance(each, bool) else str(each) for each in self.values)
        return f"{self.name}={'|'.join(words)}"


Dimension = Span | Choice
Space = tuple[Dimension, ...]


def key_of(values: Values) -> tuple[tuple[str, ParameterValue], ...]:
    """Return what two equal sets of values have in common."""
    return tuple(sorted(values.items()))


def size_of(space: Space) -> int | None:
    """Return the number of combinations; None if a range has no step."""
    sizes = [each.size for each in space]
    return None if None in sizes else prod(size for size in sizes if size is not None)


def read_space(words: Iterable[str], factory: type[Strategy], use: str) -> Space:
    """Return the space described by the words, in order. Raises OperatorMistake with all problems:
    a parameter that the strategy does not have, a wrong type, an empty range.
    """
    known = parameters_of(factory)
    found: dict[str, Dimension] = {}
    problems: list[Problem] = []
    for word in words:
        name, _, values = word.partition("=")
        try:
            if name in found:
                raise _wrong(f"{name!r} is named twice: give each parameter once")
            found[name] = _dimension(name, values, known, use)
        except OperatorMistake as mistake:
            problems += mistake.problems
    if problems:
        raise OperatorMistake(problems, ExitCode.USAGE)
    if not found:
        names = ", ".join(known) or "none"
        raise _wrong(f"the space names no parameter: write {SHAPES}; {use} has {names}")
    return tuple(found.values())


def _dimension(name: str, text: str, known: Mapping[str, Parameter], use: str) -> Dimension:
    if name not in known:
        hint = did_you_mean(name, list(known)) or f"it has {', '.join(known) or 'none'}"
        raise _wrong(f"{use} has no parameter {name!r}: {hint}")
    if not text.strip():
        raise _wrong(f"{name!r} has no values: write {SHAPES}")
    kind = known[name].kind
    is_span = _RANGE.fullmatch(text)
    if is_span and kind in {int, float}:
        low, high = (_value(name, is_span[end], kind) for end in ("low", "high"))
        step = float(_value(name, is_span["step"], kind)) if is_span["step"] else None
        low, high = float(low), float(high)
        if low >= high:
            how = (
                "it is one value, nothing to search" if low == high else "name the lower end first"
            )
            raise _wrong(f"{name!r} has no range from {low:g} to {high:g}: {how}")
        if step is not None and not 0 < step <= high - low:
            text = f"{name!r} has a step of {step:g}: wanted one above 0, at most {high - low:g}"
            raise _wrong(text)
        if step is not None and high - low >= step * NUMBER_END:
            text = (
                f"{name!r} has a step of {step:g}, too fine for {low:g} to {high:g}: leave it out"
            )
            raise _wrong(text)
        step = step or (1.0 if kind is int else None)
        if step is not None:  # the range ends at its last whole step
            exact = [Decimal(repr(each)) for each in (low, high, step)]  # floats would miss it
            high = float(exact[0] + (exact[1] - exact[0]) // exact[2] * exact[2])
        return Span(name, low, high, step, kind is int)
    if is_span:
        raise _wrong(f"{name!r} is {_KINDS[kind]}, which have no range: write {name}=A|B")
    values = tuple(_value(name, each, kind) for each in text.split("|"))
    if len(set(values)) < len(values):
        raise _wrong(f"{name!r} has a value twice: {text}")
    return Choice(name, values)


def _value(name: str, word: str, kind: type) -> ParameterValue:
    """Return one value of a parameter, in the parameter's type."""
    word = word.strip()
    try:
        if kind is bool:
            return _FLAGS[word]
        if kind is str and word:
            return word
        value = int(word) if kind is int else float(word)
        if abs(value) < NUMBER_END:
            return value
        if abs(value) >= NUMBER_END:  # no comparison holds of what is not a number
            text = f"{name!r} is {_KINDS[kind]} of at most 15 digits, found {shown(word)}"
            raise _wrong(text)
    except (ValueError, KeyError):
        pass
    raise _wrong(f"{name!r} is {_KINDS[kind]}, found {shown(word)}")


def _wrong(message: str) -> OperatorMistake:
    return OperatorMistake.of("E-OPT-001", message, ExitCode.USAGE)


def words_of(values: Values) -> str:
    """Format values for a person: `fast 5, ratio 2.25`."""
    return ", ".join(
        f"{name} {value:.6g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in values.items()
    )
