"""Finds the bars at which a hook may request something, over whole columns at once.

Most hooks read averages and prices, compare them, and make a request if a condition holds. What
such an `on_bar` does depends only on what it reads at that bar, so its conditions can be evaluated
for all bars of a day at once; at the bars found, the hook itself is called and decides. Only code
that is understood completely is evaluated: statements, names and calls other than those handled
here, or a missing value, leave every bar to the hook.
"""

import ast
import operator
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bot.runtime.history.backtest.hook_source import REQUESTS, Hook, hook_of
from bot.runtime.history.backtest.indicator_columns import IndicatorColumns
from bot.runtime.history.backtest.rows import Series
from bot.strategy import Strategy

KEPT_MAX: Final = 16
"""How many states of a strategy have their results for a day cached."""
EXACT_MAX: Final = 2**53
"""Up to this, whole numbers are compared and added as floats without loss."""

_CLOSES_BY: Final = frozenset({"limit", "market", "why"})
_FIXED: Final = REQUESTS | {"on_bar"}
_PRICES: Final = frozenset({"open", "high", "low", "close", "volume"})
_INDICATORS: Final = frozenset({"sma", "ema", "rsi"})
_CROSSED: Final = frozenset({"crossed_above", "crossed_below"})
_COMPARE: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_REACH: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
_SPEC: Final = re.compile(r"[,_]?(\.\d+)?[feg%]?")
"""Format specifications in a reason that cannot fail for any number."""

Truth = bool | NDArray[np.bool_]


class NotForeseen(Exception):
    """This hook does something that is not understood here."""


class NotYet(Exception):
    """A value is not available for all bars, or a parameter is not a usable number."""


@dataclass(frozen=True, slots=True)
class Column:
    """An indicator at each bar, and one bar earlier."""

    values: NDArray[np.float64]
    previous: NDArray[np.float64]


Number = int | float | NDArray[Any] | Column


class Foreseen:
    """Where on a day the hook of one strategy may request something."""

    def __init__(self, strategy: Strategy, indicators: IndicatorColumns) -> None:
        self._hook = hook_of(type(strategy))
        self._strategy = strategy
        self._indicators = indicators
        self._rows: object = None
        self._arrays: dict[str, NDArray[np.int64]] = {}
        self._columns: dict[tuple[str, int], Column] = {}
        self._found: dict[tuple[object, ...], list[int]] = {}
        self._changes = 0

    def next(self, series: Series, row: int, end: int) -> int | None:
        """Return the first bar from `row` to before `end` at which the hook may request something,
        `end` if there is none; None if that cannot be determined.
        """
        hook, indicators = self._hook, self._indicators
        if hook is None:
            return None
        if self._rows is not series.rows or self._changes != indicators.changes:
            self._rows, self._changes = series.rows, indicators.changes
            for known in (self._found, self._arrays, self._columns):
                known.clear()
        try:
            own, holds = self._parameters(hook), bool(self._strategy.position)
            key = (holds, *own.values())
            found = self._found.get(key)
            if found is None:
                if len(self._found) == KEPT_MAX:
                    self._found.clear()
                acts = _Reading(self, hook, series, own, holds=holds).acts()
                found = self._found[key] = np.flatnonzero(acts).tolist()
        except NotForeseen:
            self._hook = None
            return None
        except NotYet:
            return None
        place = bisect_left(found, row)
        return min(end, found[place]) if place < len(found) else end

    def _parameters(self, hook: Hook) -> dict[str, int | float]:
        own, kind, found = vars(self._strategy), type(self._strategy), dict[str, int | float]()
        if not own.keys().isdisjoint(_FIXED):
            raise NotForeseen  # what it calls is not what its class defines
        for name in hook.parameters:
            value: Any = next(
                (vars(each)[name] for each in kind.__mro__ if name in vars(each)), None
            )
            if value is not None and type(value) not in {int, float, bool}:
                raise NotForeseen  # a property, or a text
            value = own.get(name, value)
            if type(value) not in {int, float, bool} or not abs(value) < EXACT_MAX:
                raise NotYet
            found[name] = value
        return found

    def prices(self, series: Series, name: str) -> NDArray[np.int64]:
        """Return a column of the day's bars."""
        known = self._arrays.get(name)
        if known is None:
            known = self._arrays[name] = np.array(getattr(series.rows, name), dtype=np.int64)
        return known

    def indicator(self, name: str, length: int) -> Column:
        """Return an indicator over the day's bars."""
        ready = self._indicators.ready[name].get(length)
        if ready is None:
            raise NotYet
        known = self._columns.get((name, length))
        if known is None:
            values = np.array(ready[1])
            known = self._columns[name, length] = Column(values[2:], values[1:-1])
        return known


class _Reading:
    """One evaluation of a hook for all bars of a day."""

    def __init__(
        self,
        foreseen: Foreseen,
        hook: Hook,
        series: Series,
        own: Mapping[str, int | float],
        *,
        holds: bool,
    ) -> None:
        self._foreseen = foreseen
        self._hook = hook
        self._series = series
        self._own = own
        self._holds = holds
        self._locals: dict[str, Number] = {}
        self._truths: dict[str, Truth] = {}
        self._depth = 0
        bars = len(series.rows)
        self._live = np.ones(bars, dtype=np.bool_)
        self._acts = np.zeros(bars, dtype=np.bool_)

    def acts(self) -> NDArray[np.bool_]:
        """Return for each bar whether the hook may request something there."""
        self._run(self._hook.body)
        return self._acts

    def _run(self, body: Sequence[ast.stmt]) -> None:
        for each in body:
            match each:
                case ast.Pass() | ast.Expr(ast.Constant()):
                    pass
                case ast.Expr(ast.Call() as call):
                    self._request(call)
                case ast.Return(value):
                    if isinstance(value, ast.Call):
                        self._request(value)
                    elif not (value is None or isinstance(value, ast.Constant)):
                        raise NotForeseen
                    self._live = np.zeros_like(self._live)
                case ast.Assign([target], value) if not self._depth:
                    self._assign(target, value)
                case ast.If(test, then, otherwise):
                    self._branch(self._truth(test), then, otherwise)
                case _:
                    raise NotForeseen

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        match target, value:
            case ast.Name(name), ast.Compare() | ast.BoolOp() | ast.UnaryOp(ast.Not()):
                self._truths[self._free(name)] = self._truth(value)
            case ast.Name(name), _:
                self._locals[self._free(name)] = self._number(value)
            case ast.Tuple(names), ast.Tuple(values) if len(names) == len(values):
                made = [self._number(each) for each in values]
                for each, number in zip(names, made, strict=True):
                    if not isinstance(each, ast.Name):
                        raise NotForeseen
                    self._locals[self._free(each.id)] = number
            case _:
                raise NotForeseen

    def _free(self, name: str) -> str:
        """Return a name that is assigned once, so that it means the same wherever it is read."""
        own = {self._hook.self_name, self._hook.bar_name}
        if name in own or name in self._locals or name in self._truths:
            raise NotForeseen
        return name

    def _branch(self, truth: Truth, then: Sequence[ast.stmt], other: Sequence[ast.stmt]) -> None:
        if isinstance(truth, bool):
            self._run(then if truth else other)
            return
        before = self._live
        self._depth += 1
        self._live = before & truth
        self._run(then)
        after, self._live = self._live, before & ~truth
        self._run(other)
        self._live = self._live | after
        self._depth -= 1

    def _request(self, call: ast.Call) -> None:
        match call.func:
            case ast.Attribute(ast.Name(name), what) if (
                name == self._hook.self_name and what in REQUESTS
            ):
                if what != "close" or self._holds or not self._is_harmless(call):
                    self._acts |= self._live
            case _:
                raise NotForeseen

    def _is_harmless(self, call: ast.Call) -> bool:
        """Return whether a `close` without shares can neither fail nor change anything."""
        if call.args or not {each.arg for each in call.keywords} <= _CLOSES_BY:
            return False
        given = [*call.args, *(each.value for each in call.keywords)]
        texts = [each.values if isinstance(each, ast.JoinedStr) else [each] for each in given]
        for each in (part for text in texts for part in text):
            match each:
                case ast.Constant():
                    pass
                case ast.FormattedValue(value, -1, None):
                    self._number(value)
                case ast.FormattedValue(value, -1, ast.JoinedStr([ast.Constant(str(spec))])):
                    is_float = np.asarray(self._plain(value)).dtype.kind == "f"
                    if not _SPEC.fullmatch(spec) or ("." in spec and not is_float):
                        return False
                case _:
                    return False
        return True

    # ------------------------------------------------------------------------------ conditions

    def _truth(self, node: ast.expr) -> Truth:
        match node:
            case ast.BoolOp(ast.And() as how, values) | ast.BoolOp(ast.Or() as how, values):
                return self._joined(values, is_all=isinstance(how, ast.And))
            case ast.UnaryOp(ast.Not(), operand):
                found = self._truth(operand)
                return not found if isinstance(found, bool) else ~found
            case ast.Compare(left, ops, others):
                return self._compared(left, ops, others)
            case ast.Call(ast.Attribute(one, way), [other], []) if way in _CROSSED:
                mine, its = self._number(one), self._number(other)
                if not isinstance(mine, Column):
                    raise NotForeseen
                before, now = (its.previous, its.values) if isinstance(its, Column) else (its, its)
                if way == "crossed_above":
                    return (mine.previous <= before) & (mine.values > now)
                return (mine.previous >= before) & (mine.values < now)
            case ast.Attribute(ast.Name(name), "position") if name == self._hook.self_name:
                return self._holds
            case ast.Name(name) if name in self._truths:
                return self._truths[name]
            case ast.Constant(bool() as known):
                return known
        number = self._number(node)
        if not isinstance(number, int | float):
            raise NotForeseen
        return bool(number)

    def _joined(self, values: Sequence[ast.expr], *, is_all: bool) -> Truth:
        """Return the value of an `and` or an `or`, stopping early as Python does."""
        found: Truth = is_all
        for each in values:
            truth = self._truth(each)
            if isinstance(truth, bool):
                if truth is not is_all:
                    return truth if isinstance(found, bool) else np.full_like(found, truth)
            elif isinstance(found, bool):
                found = truth
            else:
                found = found & truth if is_all else found | truth
        return found

    def _compared(
        self, left: ast.expr, ops: Sequence[ast.cmpop], others: Sequence[ast.expr]
    ) -> Truth:
        found: Truth = True
        one = self._plain(left)
        for how, each in zip(ops, others, strict=True):
            if type(how) not in _COMPARE:
                raise NotForeseen
            other = self._plain(each)
            truth = _COMPARE[type(how)](one, other)
            found, one = found & truth, other
        return found if isinstance(found, np.ndarray) else bool(found)

    # --------------------------------------------------------------------------------- numbers

    def _plain(self, node: ast.expr) -> int | float | NDArray[Any]:
        number = self._number(node)
        return number.values if isinstance(number, Column) else number

    def _number(self, node: ast.expr) -> Number:
        own, bar = self._hook.self_name, self._hook.bar_name
        match node:
            case ast.Name(name) if name in self._locals:
                return self._locals[name]
            case ast.Constant(int() | float() as known) if abs(known) < EXACT_MAX:
                return known
            case ast.Attribute(ast.Name(name), what) if name == own and what in self._own:
                return self._own[what]
            case ast.Attribute(ast.Name(name), what) if name == bar and what in _PRICES:
                return self._foreseen.prices(self._series, what)
            case ast.Attribute(value, "previous"):
                found = self._number(value)
                if isinstance(found, Column):
                    return found.previous
            case ast.Call(ast.Attribute(ast.Name(name), what), [length], []) if (
                name == bar and what in _INDICATORS
            ):
                bars = self._number(length)
                if isinstance(bars, int):
                    return self._foreseen.indicator(what, bars)
            case ast.Call(ast.Attribute(ast.Name(name), "rsi"), [], []) if name == bar:
                return self._foreseen.indicator("rsi", 14)
            case ast.BinOp(left, how, right) if type(how) in _REACH:
                one, other = self._plain(left), self._plain(right)
                # Whole numbers are unbounded in Python but have 64 bits in a column.
                are_single = isinstance(one, int) and isinstance(other, int)
                if are_single or "f" in {np.asarray(each).dtype.kind for each in (one, other)}:
                    return _REACH[type(how)](one, other)  # type: ignore[no-any-return]
        raise NotForeseen
