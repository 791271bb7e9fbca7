"""Finds the source of a class's `on_bar`, if it is exactly the code that runs.

The file may have changed since, so its definition counts only if it compiles to exactly the code of
the hook.
"""

import ast
import linecache
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Final

from bot.strategy import Strategy

HOOKS_MAX: Final = 100
"""Hooks whose source is cached."""
REQUESTS: Final = frozenset({"buy", "sell", "close", "cancel", "skip"})


@dataclass(frozen=True, slots=True)
class Hook:
    """The source of an `on_bar`. `parameters`: what it looks up on its strategy, in order."""

    body: Sequence[ast.stmt]
    self_name: str
    bar_name: str
    parameters: tuple[str, ...]


def hook_of(factory: type[Strategy]) -> Hook | None:
    """Return the source of a class's hook; None if it is not a plain function in the class's own
    file, or if it calls something on itself that strategies do not have.
    """
    function = factory.on_bar
    is_plain = isinstance(function, FunctionType) and not hasattr(function, "__wrapped__")
    is_usual = factory.__getattribute__ is object.__getattribute__ and all(
        getattr(factory, name) is getattr(Strategy, name) for name in (*REQUESTS, "position")
    )
    if not is_plain or not is_usual or function.__closure__:
        return None
    return _read(function.__code__, function.__code__.co_filename)


@lru_cache(maxsize=HOOKS_MAX)
def _read(code: CodeType, file: str) -> Hook | None:
    """Keep the code and not the function, which would keep all that its module holds: each trial
    of a search has a module of its own.
    """
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
        if code not in _codes_in(compile(tree, file, "exec", dont_inherit=True)):
            return None
    except (OSError, SyntaxError, TypeError, ValueError):
        return None
    definitions = (
        each
        for each in ast.walk(tree)
        if isinstance(each, ast.FunctionDef) and each.name == code.co_name
        if code.co_firstlineno == min([each.lineno, *(one.lineno for one in each.decorator_list)])
    )
    found = next(definitions, None)
    if found is None or found.decorator_list:
        return None
    given = found.args
    names = [each.arg for each in (*given.posonlyargs, *given.args)]
    if len(names) != 2 or given.vararg or given.kwarg or given.kwonlyargs:
        return None
    looked_up = (
        each.attr
        for each in ast.walk(found)
        if isinstance(each, ast.Attribute)
        and isinstance(each.value, ast.Name)
        and each.value.id == names[0]
        and each.attr not in {*REQUESTS, "position"}
    )
    return Hook(found.body, names[0], names[1], tuple(dict.fromkeys(looked_up)))


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes_in(each)
